import Foundation
import Kafka
import Testbed
import Testing

@Suite("causeway send and causeway-lab broker", .ownThread)
struct SendTests {
    private func command(_ activity: String, timestamp: Int = 1_790_000_000) -> String {
        #"{"app":"x","activity":"\#(activity)","#
            + #""aps":{"event":"update","timestamp":\#(timestamp),"content-state":{"s":"é"}}}"#
    }

    @Test func `Commands arrive byte for byte, with the activity as key`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("causeway.commands", partitions: 1)
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

    @Test func `Registrations, several files, and the topics of a configuration`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("mine", partitions: 1)
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
        try broker.createTopic("t", partitions: 1)
        let before = Int(Date().timeIntervalSince1970)
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
        let after = Int(Date().timeIntervalSince1970)
        #expect(run.output.hasPrefix("25 sent, 25 acknowledged, 0 failed, "))
        let seconds = run.output.split(separator: " ").dropLast().last.flatMap { Double($0) }
        #expect(try #require(seconds) >= 24.0 / 50)
        let records = try TopicReader(broker, topic: "t").read(25)
        #expect(records.map(\.key) == (0..<25).map { $0 % 2 == 0 ? "a" : "b" })
        for record in records {
            let timestamp = try #require(record.value.firstMatch(of: /"timestamp":([0-9]+)/).flatMap { Int($0.1) })
            #expect((before...after).contains(timestamp))
        }
    }

    @Test func `An invalid record is still sent, without a key; a count can be less than the input`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitions: 1)
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

    @Test func `A broker that refuses: failed, with the reason, exit code 1`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitions: 1)
        broker.fail(.produce, with: [Int32](repeating: 87, count: 20))  // INVALID_RECORD
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

    @Test func `No broker: failed after the delivery timeout, exit code 1`() throws {
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

    @Test func `A property that librdkafka does not know, exit code 78; a file that does not exist, exit code 1`()
        throws
    {
        let property = try ProgramRun.run("send", "-b", "127.0.0.1:1", "-X", "no.such=1", input: "")
        #expect(property.exitCode == 78)
        #expect(property.errors.contains("no.such"))
        let file = try ProgramRun.run("send", "-b", "127.0.0.1:1", "/nowhere.json")
        #expect(file.exitCode == 1)
        #expect(file.errors.contains("/nowhere.json: cannot be opened"))
    }

    @Test func `The broker prints its address, serves its topics, and ends on SIGTERM or with its input`() throws {
        let broker = try RunningProgram(ProgramRun.process(["broker", "--topic", "extra:2"], of: .lab))
        let servers = try #require(try broker.readiness()["bootstrapServers"] as? String)
        #expect(servers.hasPrefix("127.0.0.1:"))
        for topic in ["causeway.commands", "extra"] {
            let run = try ProgramRun.run("send", "-b", servers, "-t", topic, input: command("a"))
            #expect(run.output.hasPrefix("1 sent, 1 acknowledged, 0 failed"))
        }
        #expect(broker.terminate() == 0)
        // The helper gives it no input, so it ends at once.
        let child = try RunningProgram(ProgramRun.process(["broker", "--until-input-ends"], of: .lab))
        _ = try child.readiness()
        #expect(child.exitCode() == 0)
    }
}
