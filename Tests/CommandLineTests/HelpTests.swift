import Foundation
import Testbed
import Testing

@Suite("Help and version", .ownThread)
struct HelpTests {
    @Test func `--version is the newest release of the changelog`() throws {
        let run = try ProgramRun.run("--version")
        #expect(run.exitCode == 0)
        let log = try Repository.text("CHANGELOG.md")
        let heading = try #require(
            log.split(separator: "\n").first { $0.hasPrefix("## [") && !$0.hasPrefix("## [Unreleased]") }
        )
        #expect(heading.hasPrefix("## [\(run.output.dropLast())]"))
    }

    @Test func `--help names every command that is for users`() throws {
        let run = try ProgramRun.run("--help")
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
        for command in [
            "worker", "send", "check", "inspect", "results", "health", "topics", "plan", "replay", "configuration",
        ] {
            #expect(run.output.contains("\n  \(command) "), "\(command)")
        }
        #expect(!run.output.contains("metrics-page"))
        let lab = try ProgramRun.run("--help", of: .lab)
        for command in Self.labCommands { #expect(lab.output.contains("\n  \(command) "), "\(command)") }
    }

    private static let labCommands = ["demo", "simulator", "broker", "backlog", "outage", "fanout"]

    @Test(
        arguments: ["worker", "send", "check", "inspect", "results", "topics", "replay", "configuration"]
            .map { (ProgramRun.Program.causeway, $0) }
            + labCommands.map { (.lab, $0) }
    )
    func `Every command explains itself with an example`(program: ProgramRun.Program, name: String) throws {
        let run = try ProgramRun.run(name, "--help", of: program)
        #expect(run.exitCode == 0)
        #expect(run.output.contains("Example"))
        #expect(run.output.contains("  \(program.rawValue) \(name)"))
        #expect(run.output == (try ProgramRun.run("help", name, of: program)).output)
    }

    @Test(arguments: labCommands)
    func `A command that has moved says where to find it`(name: String) throws {
        let run = try ProgramRun.run(name, "--help")
        #expect(run.exitCode == 64)
        #expect(run.errors.contains("causeway-lab \(name)"))
    }

    @Test(arguments: [
        ["nonsense"], ["worker", "--colour"], ["send"], ["send", "-b", "a:1", "--topic", "x", "--registrations"],
        ["send", "-b", "a:1", "--count", "0"], ["send", "-b", "a:1", "--rate", "-1"],
        ["send", "-b", "a:1", "-X", "x"], ["check"],
        ["check", "--commands", "-", "--registrations", "-"],
        ["topics", "--create"], ["topics", "--partitions", "0"], ["topics", "--replication-factor", "1"],
        ["inspect", "--results", "101", "x"], ["inspect", "x", "--device", "y"], ["inspect", ""],
        ["replay", "report"], ["replay", "report", "--from", "soon"],
        ["replay", "report", "--from", "1h", "--memory", "0"],
        ["replay", "report", "--from", "1h", "--offsets", "0:1-2"], ["replay", "report", "--offsets", "0:2-1"],
        ["replay", "report", "--from", "1h", "--execute"], ["replay", "send", "--from", "1h", "--rate", "0"],
        ["replay", "send", "--execute"], ["replay", "rebuild", "--rate", "-1"], ["replay", "rebuild", "--verbose"],
        ["replay", "backwards"], ["configuration"], ["configuration", "xml"],
    ])
    func `A wrong command line ends with 64 and says how it is meant`(arguments: [String]) throws {
        try expectUsage(ProgramRun.process(arguments))
    }

    @Test(arguments: [
        ["nonsense"], ["broker", "--topic", "a:0"], ["broker", "--partitions", "0"],
        ["simulator", "--port", "65536"], ["demo", "--followers", "0"], ["backlog", "--activities", "7"],
        ["outage", "--case", "none"], ["fanout", "--members", "0"], ["fanout", "--overtake-at", "100"],
        ["fanout", "--workers", "2"], ["fanout", "--lanes", "257"], ["fanout", "--h2load-pushes", "-1"],
    ])
    func `So does one of the lab`(arguments: [String]) throws {
        try expectUsage(ProgramRun.process(arguments, of: .lab))
    }

    private func expectUsage(_ process: Process) throws {
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
