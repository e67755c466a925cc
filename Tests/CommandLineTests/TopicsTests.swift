import Foundation
import Testbed
import Testing

/// Tests against an independent broker (Python, `Tests/Acceptance/topic-broker`), which reads requests by Kafka's own description of them.
@Suite("causeway topics", .timeLimit(.minutes(10)), .ownThread)
struct TopicsTests {
    /// Such a broker, and the requests that it got.
    private final class Broker {
        private let process = Process()
        private let output: URL
        let address: String

        init(_ directory: TemporaryDirectory, topics: [String] = []) throws {
            output = try directory.write("", to: "broker.out")
            process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
            process.arguments =
                ["-B", repository.appendingPathComponent("Tests/Acceptance/topic-broker/broker.py").path] + topics
            process.standardOutput = try FileHandle(forWritingTo: output)
            process.standardInput = FileHandle.nullDevice
            try process.run()
            let end = Date(timeIntervalSinceNow: 120)
            var first: Substring?
            while first == nil {
                try #require(Date() < end && process.isRunning)
                usleep(5_000)
                let text = try String(contentsOf: output, encoding: .utf8)
                if text.contains("\n") { first = text.split(separator: "\n").first }
            }
            address = "127.0.0.1:\(first ?? "")"
        }

        deinit {
            // The process may have inherited a mask that blocks SIGTERM.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }

        /// The topics that it was asked to create, by name.
        func requests() throws -> [String: [String: Any]] {
            var requests: [String: [String: Any]] = [:]
            for line in try String(contentsOf: output, encoding: .utf8).split(separator: "\n").dropFirst() {
                let request = try #require(
                    try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                )
                let name = try #require(request["name"] as? String)
                #expect(requests.updateValue(request, forKey: name) == nil, "asked for twice: \(name)")
            }
            return requests
        }
    }

    @Test("Without --create the topics are printed, and no broker is asked")
    func printed() throws {
        let run = try ProgramRun.run("topics", "--partitions", "4", "--replication-factor", "0")
        #expect(run.exitCode == 0 && run.errors.isEmpty)
        #expect(
            run.outputLines == [
                "causeway.commands partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=delete retention.ms=86400000 segment.ms=3600000",
                "causeway.registrations partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=compact min.compaction.lag.ms=3600000 delete.retention.ms=604800000 segment.ms=21600000",
                "causeway.results partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=delete retention.ms=259200000 segment.ms=10800000",
                "causeway.invalidations partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=delete retention.ms=604800000 segment.ms=25200000",
                "causeway.dead-letters partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=delete retention.ms=1209600000 segment.ms=50400000",
                "causeway.deferred partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=delete retention.ms=86400000 segment.ms=3600000",
                "causeway.fanout partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=delete retention.ms=86400000 segment.ms=3600000",
                "causeway.channels partitions=4 replication-factor=default min.insync.replicas=2 "
                    + "cleanup.policy=compact min.compaction.lag.ms=3600000 delete.retention.ms=604800000 segment.ms=21600000",
            ]
        )
    }

    @Test("Missing topics are created as printed, existing ones stay, and a second run changes nothing")
    func created() throws {
        let directory = try TemporaryDirectory()
        let broker = try Broker(directory, topics: ["causeway.results:4", "other:1"])
        let first = try ProgramRun.run("topics", "--create", "-b", broker.address)
        #expect(first.exitCode == 0, "\(first.errors)")
        #expect(
            first.outputLines == [
                "causeway.commands created, partitions=24", "causeway.registrations created, partitions=24",
                "causeway.results exists, partitions=4, 24 were planned",
                "causeway.invalidations created, partitions=6", "causeway.dead-letters created, partitions=6",
                "causeway.deferred created, partitions=24", "causeway.fanout created, partitions=24",
                "causeway.channels created, partitions=6",
            ]
        )
        let requests = try broker.requests()
        #expect(requests.count == 7)
        for line in try ProgramRun.run("topics").outputLines where !line.hasPrefix("causeway.results ") {
            let words = line.split(separator: " ").map(String.init)
            let request = try #require(requests[words[0]], "\(line)")
            #expect("partitions=\(request["partitions"] ?? "")" == words[1])
            #expect("replication-factor=\(request["replicationFactor"] ?? "")" == words[2])
            let settings = try #require(request["settings"] as? [String: String])
            #expect(Set(settings.map { "\($0.key)=\($0.value)" }) == Set(words[3...]))
            #expect(request["validatesOnly"] as? Bool == false)
        }
        let again = try ProgramRun.run("topics", "--create", "-b", broker.address)
        #expect(again.exitCode == 0)
        #expect(again.outputLines.count { $0.contains(" exists, partitions=") } == 8)
        #expect(try broker.requests().count == 7)
    }

    @Test("A topic that the brokers refuse is named, the others are created: exit code 1")
    func refused() throws {
        let directory = try TemporaryDirectory()
        let broker = try Broker(directory)
        try directory.write(
            """
            kafka: {bootstrapServers: "\(broker.address)", topics: {results: denied.results}}
            redis: {url: "redis://127.0.0.1:1"}
            apps: {match: {bundleId: m, teamId: TEAM123456, keyId: KEY1234567, keyFile: /nowhere.p8}}

            """,
            to: "c.yaml"
        )
        let run = try ProgramRun.run(
            "topics",
            "--create",
            "--config",
            directory.path("c.yaml"),
            "--replication-factor",
            "0"
        )
        #expect(run.exitCode == 1)
        #expect(run.errorLines == ["denied.results: TOPIC_AUTHORIZATION_FAILED: refused here"])
        #expect(run.outputLines.count == 7)
        #expect(try broker.requests().values.count { $0["replicationFactor"] as? Int == -1 } == 8)
    }
}
