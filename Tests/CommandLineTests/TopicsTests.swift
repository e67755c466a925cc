import Foundation
import Testbed
import Testing

/// `causeway topics` with a broker in Python (`Tests/Acceptance/tools/topic-broker`). The broker is independent of
/// librdkafka: it reads requests by Kafka's description of the protocol.
@Suite("causeway topics", .timeLimit(.minutes(10)), .ownThread)
struct TopicsTests {
    /// Runs the broker in Python until this object is released, and reads the requests that the broker got.
    private final class PythonBroker {
        private let process = Process()
        private let output: URL
        let address: String

        init(_ directory: TemporaryDirectory, topics: [String] = []) throws {
            output = try directory.write("", to: "broker.out")
            process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
            process.arguments =
                ["-B", Repository.path("Tests/Acceptance/tools/topic-broker/broker.py")] + topics
            process.standardOutput = try FileHandle(forWritingTo: output)
            process.standardInput = FileHandle.nullDevice
            try process.start()
            let (process, output) = (process, output)
            let port = try pollUntilPresent("the broker's port") {
                try #require(process.isRunning)
                let text = try String(contentsOf: output, encoding: .utf8)
                return text.contains("\n") ? text.split(separator: "\n").first : nil
            }
            address = "127.0.0.1:\(port)"
        }

        deinit {
            // The process may have inherited a mask that blocks SIGTERM, so SIGKILL ends it.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }

        /// Returns the topics that clients asked the broker to create, by name.
        func topicCreationRequests() throws -> [String: [String: Any]] {
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

    @Test func `Without --create the topics are printed, and no broker is asked`() throws {
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

    @Test func `The option --topic gives one topic its own sizes`() throws {
        let run = try ProgramRun.run(
            "topics",
            "--topic",
            "commands:partitions=48,retention-hours=12",
            "--topic",
            "deadLetters:retention-hours=1",
            "--topic",
            "channels:partitions=3"
        )
        #expect(run.exitCode == 0 && run.errors.isEmpty)
        let usualLines = try ProgramRun.run("topics").outputLines
        #expect(run.outputLines.count == 8)
        for (line, usualLine) in zip(run.outputLines, usualLines) {
            switch line.prefix(while: { $0 != " " }) {
            case "causeway.commands":
                #expect(line.contains(" partitions=48 ") && line.contains(" retention.ms=43200000 segment.ms=1800000"))
            case "causeway.dead-letters":
                #expect(line.contains(" partitions=6 ") && line.contains(" retention.ms=3600000 segment.ms=600000"))
            case "causeway.channels":
                #expect(line.contains(" partitions=3 ") && line.contains("cleanup.policy=compact"))
            default:
                #expect(line == usualLine)
            }
        }
    }

    @Test(arguments: [
        ("command:partitions=4", "command is not a topic; the topics are commands, registrations"),
        ("commands", "commands: add partitions=NUMBER"), ("commands:", "commands: add partitions=NUMBER"),
        ("commands:partitions=0", "commands: partitions must be 1 to 10000"),
        ("results:retention-hours=x", "results: retention-hours must be 1 to 8784"),
        ("results:hours=3", "results: hours is neither"), ("results:partitions=3,", "results:  is neither"),
        ("registrations:retention-hours=3", "registrations: retention-hours: the topic is compacted"),
    ])
    func `Wrong values of --topic are refused, and the message names the topic`(text: String, message: String) throws {
        let run = try ProgramRun.run("topics", "--topic", text)
        #expect(run.exitCode == 64 && run.output.isEmpty)
        #expect(run.errors.contains(message), "\(run.errors)")
    }

    @Test func `Missing topics are created as printed, existing ones stay, and a second run changes nothing`() throws {
        let directory = try TemporaryDirectory()
        let broker = try PythonBroker(directory, topics: ["causeway.results:4", "other:1"])
        let firstRun = try ProgramRun.run("topics", "--create", "-b", broker.address)
        #expect(firstRun.exitCode == 0, "\(firstRun.errors)")
        #expect(
            firstRun.outputLines == [
                "causeway.commands created, partitions=24", "causeway.registrations created, partitions=24",
                "causeway.results exists, partitions=4, expected 24",
                "causeway.invalidations created, partitions=6", "causeway.dead-letters created, partitions=6",
                "causeway.deferred created, partitions=24", "causeway.fanout created, partitions=24",
                "causeway.channels created, partitions=6",
            ]
        )
        let requests = try broker.topicCreationRequests()
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
        let secondRun = try ProgramRun.run("topics", "--create", "-b", broker.address)
        #expect(secondRun.exitCode == 0)
        #expect(secondRun.outputLines.count { $0.contains(" exists, partitions=") } == 8)
        #expect(try broker.topicCreationRequests().count == 7)
    }

    @Test func `If the brokers refuse a topic, it is named, the others are created, and the exit code is 1`() throws {
        let directory = try TemporaryDirectory()
        let broker = try PythonBroker(directory)
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
        // In a request, -1 stands for the broker's default.
        #expect(try broker.topicCreationRequests().values.count { $0["replicationFactor"] as? Int == -1 } == 8)
    }
}
