import Foundation
import Kafka
import Testbed
import Testing

/// `causeway channels` with real programs: a broker, a Redis and the simulator.
@Suite(.ownThread) struct ChannelsCommandTests {
    private typealias Object = [String: Any]

    private final class Scene: @unchecked Sendable {  // Nothing changes after `init`.
        static let app = "com.example.ride"
        let directory: TemporaryDirectory
        let broker: EmbeddedBroker
        let redis: RedisCommandLine
        let control: String
        private let programs: [RunningProgram]

        init() throws {
            directory = try TemporaryDirectory()
            broker = try EmbeddedBroker()
            try broker.createTopic("causeway.channels", partitions: 2)
            let (server, port) = try RunningProgram.redis(directory: directory)
            redis = RedisCommandLine(port: port)
            let simulator = try RunningProgram(
                ProgramRun.process(
                    ["simulator", "--directory", directory.path("apns"), "--environment", "production"]
                        + ["--shapes", repository.appendingPathComponent("Config/examples/ride/shapes.json").path],
                    of: .lab
                )
            )
            programs = [server, simulator]
            let place = try simulator.readiness()
            control = "http://127.0.0.1:\(try #require(place["controlPort"] as? Int))"
            let (pushes, management) = (
                try #require(place["apnsPort"] as? Int), try #require(place["managementPort"] as? Int)
            )
            try directory.write(
                """
                kafka: {bootstrapServers: "\(broker.bootstrapServers)"}
                redis: {url: "redis://127.0.0.1:\(port)"}
                apns:
                  production:
                    {host: localhost, port: \(pushes), managementHost: localhost, managementPort: \(management)}
                  caFile: \(directory.path("apns/ca.pem"))
                  connectTimeoutMilliseconds: 500
                  requestTimeoutMilliseconds: 1500
                apps:
                  ride:
                    bundleId: \(Self.app)
                    teamId: SIMULATION
                    keyId: SIMULATION
                    keyFile: \(directory.path("apns/AuthKey_SIMULATION.p8"))
                    environments: [production]

                """,
                to: "causeway.yaml"
            )
        }

        func process(_ arguments: [String]) -> Process {
            ProgramRun.process(
                ["channels", arguments[0], "--config", directory.path("causeway.yaml")] + arguments.dropFirst()
            )
        }

        func run(_ arguments: String...) throws -> ProgramRun { try ProgramRun.run(process(arguments)) }

        /// The channels that APNs has, from the simulator.
        func channels() throws -> [String] {
            let text = try curl("\(control)/channels?app=\(Self.app)")
            let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? Object)
            return try #require(object["channels"] as? [Object])
                .filter { $0["deletedAt"] == nil }.compactMap { $0["channel"] as? String }
        }
    }

    private func channel(of run: ProgramRun) throws -> String {
        #expect(run.exitCode == 0, "\(run.errors)")
        return String(try #require(run.output.split(separator: " ").dropFirst().first))
    }

    @Test("An audience's channel is created once, listed, shown, published, and deleted")
    func life() throws {
        let scene = try Scene()
        let channel = try channel(of: scene.run("create", "final"))
        #expect(try self.channel(of: scene.run("create", "final")) == channel)
        #expect(try scene.channels() == [channel])
        let list = try scene.run("list")
        #expect(list.outputLines.count == 2 && list.outputLines[0].hasPrefix("final \(channel) storage=newest active"))
        #expect(list.outputLines[1] == "com.example.ride has 1 of at most 10000 channels in production")
        #expect(try scene.run("show", "final").outputLines.last == "APNs has it")
        #expect(try scene.run("show", "none").exitCode == 1)
        let topic = try TopicReader(scene.broker, topic: "causeway.channels")
        let record = try topic.read(1)[0]
        #expect(
            record.key == "com.example.ride/production/final" && record.value.contains("\"channel\":\"\(channel)\"")
        )
        #expect(try scene.run("list", "--json").outputLines == [record.value])

        #expect(try scene.run("delete", "final").exitCode == 0)
        #expect(try scene.channels().isEmpty)
        #expect(try scene.run("delete", "final").exitCode == 1)
        #expect(try scene.run("list").outputLines.count == 1)
        #expect(try topic.read(2).map { $0.value.isEmpty } == [false, true])
    }

    /// The process dies after APNs has created the channel and before anybody knows of it.
    @Test("A reconciliation deletes a channel that a kill left without an owner, and no other program's channel")
    func killed() throws {
        let scene = try Scene()
        let foreign = try curl("--data", #"{"app":"\#(Scene.app)","storage":"none"}"#, "\(scene.control)/channels")
        let own = try channel(of: scene.run("create", "semifinal"))
        _ = try curl(
            "-X",
            "PUT",
            "--data",
            #"{"lateShare":1,"lateMilliseconds":1400}"#,
            "\(scene.control)/management/faults"
        )
        let creation = try RunningProgram(scene.process(["create", "final"]))
        let deadline = Date(timeIntervalSinceNow: 60)
        while try scene.channels().count < 3 { try #require(Date() < deadline, "no channel was created") }
        creation.killAtOnce()
        _ = try curl("-X", "DELETE", "\(scene.control)/management/faults")
        let orphan = try #require(try scene.channels().last)
        #expect(try !scene.run("list").output.contains(orphan))
        // Until the attempt must have ended, nobody can know that it died.
        var run = try scene.run("reconcile")
        #expect(run.exitCode == 1 && run.errors.contains("being created"))
        while run.exitCode != 0 {
            try #require(Date() < deadline, "the attempt is never over")
            run = try scene.run("reconcile")
        }
        #expect(run.output.contains("deleted without an owner: 1,") && run.output.contains("of others: 1"))
        let left = try scene.channels()
        #expect(left.count == 2 && left.contains(own) && !left.contains(orphan))
        #expect(foreign.contains(left.first { $0 != own } ?? "none"))
        let again = try scene.run("reconcile")
        #expect(again.exitCode == 0 && again.output.contains("deleted without an owner: 0,"))
        #expect(try scene.run("create", "final").exitCode == 0)
    }

    @Test("A worker that starts with an empty Redis restores the channels of the topic")
    func restored() throws {
        let scene = try Scene()
        for topic in ["commands", "registrations", "results", "invalidations", "dead-letters", "deferred", "fanout"] {
            try scene.broker.createTopic("causeway.\(topic)", partitions: 1)
        }
        let kept = try channel(of: scene.run("create", "final"))
        _ = try channel(of: scene.run("create", "semifinal"))
        #expect(try scene.run("delete", "semifinal").exitCode == 0)
        #expect(try scene.redis.ask("FLUSHALL").hasPrefix("OK"))
        #expect(try scene.run("list").outputLines.count == 1)
        let process = ProgramRun.process(
            ["worker", "--config", scene.directory.path("causeway.yaml")],
            environment: ["CAUSEWAY_APPS_RIDE_CHANNELS_AUDIENCES": "final,semi*", "CAUSEWAY_HTTP_PORT": "0"]
        )
        process.standardError = try FileHandle(forWritingTo: scene.directory.write("", to: "worker.log"))
        let worker = try RunningProgram(process)
        let deadline = Date(timeIntervalSinceNow: 60)
        var list = try scene.run("list")
        while list.outputLines.count != 2 {
            try #require(Date() < deadline, "the worker writes nothing")
            list = try scene.run("list")
        }
        #expect(list.outputLines[0].hasPrefix("final \(kept) storage=newest active"))
        #expect(worker.terminate() == 0)
        // The restoring created and deleted no channel.
        #expect(try scene.channels() == [kept])
    }

    @Test("A channel that somebody else deleted is shown as missing; a refusal of APNs says what to do")
    func refusals() throws {
        let scene = try Scene()
        let channel = try channel(of: scene.run("create", "final"))
        _ = try curl("--data", #"{"app":"\#(Scene.app)","channel":"\#(channel)"}"#, "\(scene.control)/channels/delete")
        let shown = try scene.run("show", "final")
        #expect(shown.exitCode == 1 && shown.output.contains("APNs does not have it"))
        _ = try curl("--data", #"{"app":"\#(Scene.app)","enabled":false}"#, "\(scene.control)/broadcasts")
        let refused = try scene.run("create", "other")
        #expect(refused.exitCode == 1)
        #expect(refused.errors.contains("FeatureNotEnabled") && refused.errors.contains("developer.apple.com"))
        #expect(try scene.run("create", "--environment", "sandbox", "x").exitCode == 64)
    }
}
