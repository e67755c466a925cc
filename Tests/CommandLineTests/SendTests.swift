import Foundation
import Kafka
import LiveActivity
import Testbed
import Testing

@testable import CausewayCommandLine
@testable import causeway

@Suite("causeway send and causeway-lab broker", .ownThread)
struct SendTests {
    private func command(_ activity: String, timestamp: Int = 1_790_000_000) -> String {
        #"{"app":"x","activity":"\#(activity)","#
            + #""aps":{"event":"update","timestamp":\#(timestamp),"content-state":{"s":"é"}}}"#
    }

    @Test func `Commands arrive byte for byte, with the activity as key`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let lines = ["a", "b", "c"].map { command($0) }
        let run = try ProgramRun.run(
            "send",
            "--bootstrap-servers",
            broker.bootstrapServers,
            input: lines.joined(separator: "\n")
        )
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
        #expect(run.output.hasPrefix("3 sent, 3 acknowledged, 0 failed, "))
        let records = try TopicReader(broker, topic: "causeway.commands").read(3)
        #expect(records.map(\.value) == lines)
        #expect(records.map(\.key) == ["a", "b", "c"])
    }

    @Test func `Registrations from several files are sent to the configured topic`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("mine", partitionCount: 1)
        let directory = try TemporaryDirectory()
        try directory.write(
            """
            kafka:
              bootstrapServers: "\(broker.bootstrapServers)"
              topics: {registrations: mine}
              producer: {linger.ms: 0}
            redis: {url: "redis://h"}
            apps: {match: {bundleId: m, teamId: TEAM123456, keyId: KEY1234567, keyFile: k}}
            """,
            to: "c.yaml"
        )
        try directory.write(#"{"device":"phone","token":"00"}"#, to: "1.json")
        try directory.write("{\n  \"activity\": \"a\"\n}\n", to: "2.json")
        let run = try ProgramRun.run(
            "send",
            "--config",
            directory.path("c.yaml"),
            "--registrations",
            directory.path("1.json"),
            directory.path("2.json")
        )
        #expect(run.exitCode == 0, "\(run.errors)")
        let records = try TopicReader(broker, topic: "mine").read(2)
        #expect(records.map(\.key) == ["phone", "a"])
        #expect(records[1].value == "{\n  \"activity\": \"a\"\n}")
    }

    @Test func `A count repeats the input, a rate spreads it, --now sets the time`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: 1)
        let secondsBefore = Int(Date().timeIntervalSince1970)
        let run = try ProgramRun.run(
            "send",
            "-b",
            broker.bootstrapServers,
            "--topic",
            "t",
            "--count",
            "25",
            "--rate",
            "50",
            "--now",
            "-",
            input: command("a") + command("b")
        )
        let secondsAfter = Int(Date().timeIntervalSince1970)
        #expect(run.output.hasPrefix("25 sent, 25 acknowledged, 0 failed, "))
        let seconds = run.output.split(separator: " ").dropLast().last.flatMap { Double($0) }
        #expect(try #require(seconds) >= 24.0 / 50)
        let records = try TopicReader(broker, topic: "t").read(25)
        #expect(records.map(\.key) == (0..<25).map { $0 % 2 == 0 ? "a" : "b" })
        for record in records {
            let timestamp = try #require(record.value.firstMatch(of: /"timestamp":([0-9]+)/).flatMap { Int($0.1) })
            #expect((secondsBefore...secondsAfter).contains(timestamp))
        }
    }

    @Test func `An invalid record is still sent, without a key; a count can be less than the input`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: 1)
        let run = try ProgramRun.run(
            "send",
            "-b",
            broker.bootstrapServers,
            "-t",
            "t",
            "-n",
            "1",
            input: "nonsense\n" + command("a")
        )
        #expect(run.output.hasPrefix("1 sent, 1 acknowledged"))
        let records = try TopicReader(broker, topic: "t").read(1)
        #expect(records.map(\.value) == ["nonsense"])
        #expect(records.map(\.key) == [nil])
    }

    @Test(arguments: ["commands", "registrations"])
    func `Invalid records are counted, and the message says how to find their faults`(kind: String) throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.\(kind)", partitionCount: 1)
        let process = ProgramRun.process(
            ["send", "-b", broker.bootstrapServers] + (kind == "registrations" ? ["--registrations"] : [])
        )
        let run = try ProgramRun.run(process, input: "nonsense\n{\"app\":\"x\"}")
        #expect(run.exitCode == 0 && run.output.hasPrefix("2 sent, 2 acknowledged"))
        #expect(
            run.errorLines == [
                "causeway send: 2 of the records are not valid \(kind); causeway check --\(kind) FILE prints their errors"
            ]
        )
    }

    @Test func `One invalid record is counted in the singular`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let process = ProgramRun.process(["send", "-b", broker.bootstrapServers])
        let run = try ProgramRun.run(process, input: "nonsense")
        #expect(
            run.errorLines == [
                "causeway send: 1 of the records is not a valid command; causeway check --commands FILE prints its errors"
            ]
        )
    }

    @Test func `If the broker refuses a record, the command prints the reason and exits with 1`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: 1)
        broker.failNextRequests(.produce, with: [Int32](repeating: 87, count: 20))  // 87: INVALID_RECORD
        let run = try ProgramRun.run(
            "send",
            "-b",
            broker.bootstrapServers,
            "-t",
            "t",
            "-X",
            "delivery.timeout.ms=2000",
            input: command("a")
        )
        #expect(run.exitCode == 1)
        #expect(run.output.hasPrefix("1 sent, 0 acknowledged, 1 failed, "))
        #expect(run.errorLines.count == 1)
        #expect(run.errors.hasPrefix("causeway send: "))
    }

    @Test func `A command that is sent twice with --now is newer each time, also within a second`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitionCount: 1)
        let directory = try TemporaryDirectory()
        try directory.write(command("a"), to: "update.json")
        let file = directory.path("update.json")
        for _ in 0..<2 {
            let run = try ProgramRun.run("send", "-b", broker.bootstrapServers, "--now", file, file)
            #expect(run.output.hasPrefix("2 sent, 2 acknowledged"))
        }
        let versions = try TopicReader(broker, topic: "causeway.commands").read(4)
            .map { record in try Array(record.value.utf8).withUnsafeBytes { try Command.decode($0).version } }
        for (earlier, later) in zip(versions, versions.dropFirst()) { #expect(earlier < later) }
    }

    @Test func `The updater makes each command newer than the last, also one with a sequence of its own`() throws {
        var timestampUpdater = TimestampUpdater()
        let second: Int64 = 1_795_000_000
        func updatedVersion(_ text: String, _ microseconds: Int64) throws -> Version {
            let record = timestampUpdater.withCurrentTimestamp(Array(text.utf8), unixMicroseconds: microseconds)
            return try record.withUnsafeBytes { try Command.decode($0).version }
        }
        let commandWithoutSequence = command("a")
        #expect(
            try updatedVersion(commandWithoutSequence, second * 1_000_000 + 999_999)
                == Version(timestamp: second, sequence: 999_999)
        )
        #expect(
            try updatedVersion(commandWithoutSequence, second * 1_000_000 + 999_999)
                == Version(timestamp: second + 1, sequence: 0)
        )
        #expect(
            try updatedVersion(commandWithoutSequence, second * 1_000_000)
                == Version(timestamp: second + 1, sequence: 1)
        )
        let commandWithSequence = "{\"sequence\":7," + commandWithoutSequence.dropFirst()
        #expect(
            try updatedVersion(commandWithSequence, second * 1_000_000 + 2_000_000)
                == Version(timestamp: second + 2, sequence: 0)
        )
        #expect(timestampUpdater.withCurrentTimestamp(Array("{}".utf8), unixMicroseconds: 0) == Array("{}".utf8))
    }

    @Test func `Without a broker, the command soon says where it looks and why, and at last that nobody responded`()
        throws
    {
        let run = try ProgramRun.run("send", "-b", "127.0.0.1:1", "-X", "delivery.timeout.ms=4000", input: command("a"))
        #expect(run.exitCode == 1)
        #expect(
            run.errorLines.first
                == "causeway send: no Kafka broker responds at 127.0.0.1:1 (Connection refused); still trying"
        )
        #expect(run.errorLines.count == 2)
        #expect(
            run.errorLines.last?
                .wholeMatch(
                    of: /causeway send: no Kafka broker responded at 127.0.0.1:1 within [0-9]+ s \(Connection refused\)/
                ) != nil,
            "\(run.errors)"
        )
    }

    @Test(arguments: [
        (
            "h:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
            "Connection refused"
        ),
        (
            "h:1/bootstrap: Failed to resolve 'h:1': Name or service not known (after 3ms in state CONNECT)",
            "Name or service not known"
        ),
        (
            "ssl://h:1/bootstrap: SSL handshake failed: certificate verify failed (after 2ms in state CONNECT)",
            "SSL handshake failed: certificate verify failed"
        ),
        ("Local: Broker transport failure", "Broker transport failure"),
    ])
    func `The cause is taken from librdkafka's text`(reason: String, cause: String) {
        #expect(BrokerMonitor.extractCause(from: reason) == cause)
    }

    @Test func `Without a broker, the command fails after the delivery timeout, with exit code 1`() throws {
        let run = try ProgramRun.run(
            "send",
            "-b",
            "127.0.0.1:1",
            "-X",
            "delivery.timeout.ms=500",
            input: command("a")
        )
        #expect(run.exitCode == 1)
        #expect(run.output.hasPrefix("1 sent, 0 acknowledged, 1 failed, "))
    }

    @Test func `An unknown property of Kafka ends the command with 78, and a missing file with 1`() throws {
        let runWithUnknownProperty = try ProgramRun.run("send", "-b", "127.0.0.1:1", "-X", "no.such=1", input: "")
        #expect(runWithUnknownProperty.exitCode == 78)
        #expect(runWithUnknownProperty.errors.contains("no.such"))
        let runWithMissingFile = try ProgramRun.run("send", "-b", "127.0.0.1:1", "/nowhere.json")
        #expect(runWithMissingFile.exitCode == 1)
        #expect(runWithMissingFile.errors.contains("/nowhere.json: cannot be opened"))
    }

    @Test func `The broker prints its address, serves its topics, and ends on SIGTERM or with its input`() throws {
        let broker = try RunningProgram(ProgramRun.process(["broker", "--topic", "extra:2"], of: .lab))
        let servers = try #require(try broker.readReadiness()["bootstrapServers"] as? String)
        #expect(servers.hasPrefix("127.0.0.1:"))
        for topic in ["causeway.commands", "extra"] {
            let run = try ProgramRun.run("send", "-b", servers, "-t", topic, input: command("a"))
            #expect(run.output.hasPrefix("1 sent, 1 acknowledged, 0 failed"))
        }
        #expect(broker.terminate() == 0)
        // The program's input is empty, so the program ends at once.
        let brokerUntilInputEnds = try RunningProgram(ProgramRun.process(["broker", "--until-input-ends"], of: .lab))
        _ = try brokerUntilInputEnds.readReadiness()
        #expect(brokerUntilInputEnds.awaitExitCode() == 0)
    }
}
