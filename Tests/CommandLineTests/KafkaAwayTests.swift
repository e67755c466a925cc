import Foundation
import Testbed
import Testing

/// If no Kafka broker responds, `causeway topics`, `results` and `replay` name the address and the cause, and give up
/// in time. ``SendTests`` tests `causeway send`, and ``ChannelsCommandTests`` tests `causeway channels`.
@Suite("No Kafka", .ownThread)
struct KafkaAwayTests {
    /// A command gives up after 30 s. The other 4 s are for a slow machine.
    private static let timeLimit = Duration.seconds(34)

    private func configuration(_ directory: borrowing TemporaryDirectory, redisPort: UInt16 = 1) throws -> String {
        try directory.write(
            """
            kafka: {bootstrapServers: "127.0.0.1:1"}
            redis: {url: "redis://127.0.0.1:\(redisPort)"}
            apps: {ride: {bundleId: com.example.ride, teamId: TEAM123456, keyId: KEY1234567, keyFile: k}}

            """,
            to: "c.yaml"
        )
        return directory.path("c.yaml")
    }

    /// Expects the message with which a command gives up. It names the seconds that the command has waited.
    private func expectMessage(_ line: String?, of command: String, seconds: ClosedRange<Int>) throws {
        let foundLine = try #require(line)
        let pattern =
            /(causeway [a-z ]+): no Kafka broker responded at 127\.0\.0\.1:1 within ([0-9]+) s \(Connection refused\)/
        let match = try #require(foundLine.wholeMatch(of: pattern), "\(foundLine)")
        #expect(match.1 == command && seconds.contains(Int(match.2) ?? 0), "\(foundLine)")
    }

    @Test func `The command topics names the address and the cause`() throws {
        let run = try ProgramRun.run("topics", "--create", "-b", "127.0.0.1:1")
        #expect(run.exitCode == 1 && run.output.isEmpty)
        #expect(
            run.errorLines.first
                == "causeway topics: no Kafka broker responds at 127.0.0.1:1 (Connection refused); still trying"
        )
        try expectMessage(run.errorLines.last, of: "causeway topics", seconds: 29...34)
    }

    @Test func `The command results names the address and the cause, and ends in time`() throws {
        let clock = ContinuousClock()
        var run: ProgramRun?
        let duration = try clock.measure { run = try ProgramRun.run("results", "-b", "127.0.0.1:1") }
        let finishedRun = try #require(run)
        #expect(finishedRun.exitCode == 1 && finishedRun.output.isEmpty)
        try expectMessage(finishedRun.errorLines.last, of: "causeway results", seconds: 29...32)
        #expect(duration < Self.timeLimit, "\(duration)")
    }

    @Test(arguments: [
        ["rebuild", "--execute"], ["rebuild"], ["send", "--from", "1h", "--execute"], ["report", "--from", "1h"],
    ])
    func `The command replay names the address and the cause, and reports no counts of what it has not read`(
        _ arguments: [String]
    )
        throws
    {
        let directory = try TemporaryDirectory()
        let (server, port) = try RunningProgram.startRedis(directory: directory)
        let path = try configuration(directory, redisPort: UInt16(port))
        let run = try ProgramRun.run(ProgramRun.process(["replay", arguments[0], "-c", path] + arguments.dropFirst()))
        #expect(run.exitCode == 1 && run.output.isEmpty, "\(run.output)")
        #expect(run.errorLines.count == 2, "\(run.errors)")
        try expectMessage(run.errorLines.last, of: "causeway replay \(arguments[0])", seconds: 29...34)
        withExtendedLifetime(server) {}
    }
}
