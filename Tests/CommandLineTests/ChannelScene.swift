import Foundation
import Kafka
import Testbed
import Testing

/// A broker, a Redis and the simulator, for `causeway channels` and for workers that manage channels.
final class ChannelScene: @unchecked Sendable {  // Nothing changes after `init`.
    typealias Object = [String: Any]

    static let app = "com.example.ride"
    let directory: TemporaryDirectory
    let broker: EmbeddedBroker
    let redis: RedisCommandLine
    private let controlURL: String
    private let programs: [RunningProgram]

    init() throws {
        directory = try TemporaryDirectory()
        broker = try EmbeddedBroker()
        try broker.createTopic("causeway.channels", partitionCount: 2)
        for topic in ["commands", "registrations", "results", "invalidations", "dead-letters", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: 1)
        }
        let (server, port) = try RunningProgram.startRedis(directory: directory)
        redis = RedisCommandLine(port: port)
        let simulator = try RunningProgram(
            ProgramRun.process(
                ["simulator", "--directory", directory.path("apns"), "--environment", "production"]
                    + ["--shapes", Repository.path("Config/examples/ride/shapes.json")],
                of: .lab
            )
        )
        programs = [server, simulator]
        let readiness = try simulator.readReadiness()
        controlURL = "http://127.0.0.1:\(try #require(readiness["controlPort"] as? Int))"
        let (apnsPort, managementPort) = (
            try #require(readiness["apnsPort"] as? Int), try #require(readiness["managementPort"] as? Int)
        )
        try directory.write(
            """
            kafka: {bootstrapServers: "\(broker.bootstrapServers)"}
            redis: {url: "redis://127.0.0.1:\(port)"}
            apns:
              production:
                {host: localhost, port: \(apnsPort), managementHost: localhost, managementPort: \(managementPort)}
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

    // MARK: - Our programs

    func process(_ arguments: [String], environment: [String: String] = [:]) -> Process {
        ProgramRun.process(
            ["channels", arguments[0], "--config", directory.path("causeway.yaml")] + arguments.dropFirst(),
            environment: environment
        )
    }

    func run(_ arguments: String...) throws -> ProgramRun { try ProgramRun.run(process(arguments)) }

    /// Runs `causeway channels create`, and returns the channel that it prints.
    func createChannel(of audience: String) throws -> String {
        let run = try run("create", audience)
        #expect(run.exitCode == 0, "\(run.errors)")
        return String(try #require(run.output.split(separator: " ").dropFirst().first))
    }

    /// Starts a worker whose log is `worker.log`.
    ///
    /// - Parameters:
    ///   - app: the app's keys, each as its environment variable without the prefix `CAUSEWAY_APPS_RIDE_`.
    ///   - environment: environment variables for other keys.
    func startWorker(_ app: [String: String], environment: [String: String] = [:]) throws -> RunningProgram {
        var variables = ["CAUSEWAY_HTTP_PORT": "0"].merging(environment) { $1 }
        for (key, value) in app { variables["CAUSEWAY_APPS_RIDE_\(key)"] = value }
        let process = ProgramRun.process(
            ["worker", "--config", directory.path("causeway.yaml")],
            environment: variables
        )
        process.standardError = try FileHandle(forWritingTo: directory.write("", to: "worker.log"))
        return try RunningProgram(process)
    }

    func send(_ command: Object) throws {
        let text = String(decoding: try JSONSerialization.data(withJSONObject: command), as: UTF8.self)
        let run = try ProgramRun.run("send", "--config", directory.path("causeway.yaml"), "-", input: text)
        #expect(run.exitCode == 0, "\(run.errors)")
    }

    /// Repeats the body until its value is not nil, and returns this value. Throws after a time limit.
    @discardableResult
    func await<Value>(_ what: String, _ body: () throws -> Value?) throws -> Value {
        try pollUntilPresent("\(what)\n\(log)", body)
    }

    /// The worker's log.
    var log: String {
        (try? String(contentsOf: directory.url.appendingPathComponent("worker.log"), encoding: .utf8)) ?? ""
    }

    // MARK: - APNs, through the simulator's control interface

    struct Channel: Equatable {
        var identifier: String
        var broadcasts: Int
    }

    /// Returns the channels that APNs has, oldest first.
    func listedChannels() throws -> [Channel] {
        let text = try curl("\(controlURL)/channels?app=\(Self.app)")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? Object)
        return try #require(object["channels"] as? [Object])
            .filter { $0["deletedAt"] == nil }
            .map {
                Channel(identifier: $0["channel"] as? String ?? "", broadcasts: $0["broadcasts"] as? Int ?? 0)
            }
    }

    func channelIdentifiers() throws -> [String] { try listedChannels().map(\.identifier) }

    /// Creates a channel as another program would.
    func createForeignChannel() throws -> String {
        let text = try curl("--data", #"{"app":"\#(Self.app)","storage":"none"}"#, "\(controlURL)/channels")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? Object)
        return try #require(object["channel"] as? String)
    }

    /// Deletes a channel as another program would.
    func deleteChannelAsOtherProgram(_ channel: String) throws {
        _ = try curl("--data", #"{"app":"\#(Self.app)","channel":"\#(channel)"}"#, "\(controlURL)/channels/delete")
    }

    func setBroadcastCapability(_ isEnabled: Bool) throws {
        _ = try curl("--data", #"{"app":"\#(Self.app)","enabled":\#(isEnabled)}"#, "\(controlURL)/broadcasts")
    }

    /// Lets channel management carry out each request at once, but respond only after the given time.
    func delayResponses(milliseconds: Int) throws {
        let faults = #"{"lateShare":1,"lateMilliseconds":\#(milliseconds)}"#
        _ = try curl("-X", "PUT", "--data", faults, "\(controlURL)/management/faults")
    }

    func stopDelayingResponses() throws { _ = try curl("-X", "DELETE", "\(controlURL)/management/faults") }
}
