import Foundation
import Testbed
import Testing

@Suite("Help and version", .ownThread)
struct HelpTests {
    @Test("--version is the newest release of the change log")
    func version() throws {
        let run = try ProgramRun.run("--version")
        #expect(run.exitCode == 0)
        let log = try String(contentsOf: repository.appendingPathComponent("CHANGELOG.md"), encoding: .utf8)
        let heading = try #require(
            log.split(separator: "\n").first { $0.hasPrefix("## [") && !$0.hasPrefix("## [Unreleased]") }
        )
        #expect(heading.hasPrefix("## [\(run.output.dropLast())]"))
    }

    @Test("--help names every command that is for users")
    func overview() throws {
        let run = try ProgramRun.run("--help")
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
        for command in ["worker", "simulator", "demo", "send", "check", "inspect", "results", "topics"] {
            #expect(run.output.contains("\n  \(command) "), "\(command)")
        }
        #expect(!run.output.contains("broker "))
    }

    @Test(
        "Every command explains itself with an example",
        arguments: [
            "worker", "simulator", "demo", "send", "check", "inspect", "results", "topics", "broker", "backlog",
        ]
    )
    func commands(name: String) throws {
        let run = try ProgramRun.run(name, "--help")
        #expect(run.exitCode == 0)
        #expect(run.output.contains("Example"))
        #expect(run.output.contains("  causeway \(name)"))
        #expect(run.output == (try ProgramRun.run("help", name)).output)
    }

    @Test(
        "A wrong command line ends with 64 and says how it is meant",
        arguments: [
            ["nonsense"], ["worker", "--colour"], ["send"], ["send", "-b", "a:1", "--topic", "x", "--registrations"],
            ["send", "-b", "a:1", "--count", "0"], ["send", "-b", "a:1", "--rate", "-1"],
            ["send", "-b", "a:1", "-X", "x"], ["check"],
            ["check", "--commands", "-", "--registrations", "-"], ["broker", "--topic", "a:0"],
            ["broker", "--partitions", "0"],
            ["simulator", "--port", "65536"],
            ["topics", "--create"], ["topics", "--partitions", "0"], ["topics", "--replication-factor", "1"],
            ["inspect", "--results", "101", "x"], ["inspect", "x", "--device", "y"], ["inspect", ""],
        ]
    )
    func usage(arguments: [String]) throws {
        let process = ProgramRun.process(arguments)
        let errors = Pipe()
        process.standardError = errors
        process.standardOutput = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 64)
        #expect(text.contains("Error: ") && text.contains("Usage: "))
    }
}
