import ArgumentParser
import CausewayCommandLine
import Foundation
import Testbed
import Testing

@testable import CausewayLab
@testable import causeway

@Suite("Help and version", .ownThread)
struct HelpTests {
    @Test func `The option --version is the newest release of the changelog`() throws {
        let run = try ProgramRun.run("--version")
        #expect(run.exitCode == 0)
        let log = try Repository.text("CHANGELOG.md")
        let heading = try #require(
            log.split(separator: "\n").first { $0.hasPrefix("## [") && !$0.hasPrefix("## [Unreleased]") }
        )
        #expect(heading.hasPrefix("## [\(run.output.dropLast())]"))
    }

    @Test func `The option --help names every command that is for users`() throws {
        let run = try ProgramRun.run("--help")
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
        for command in SiblingProgram.causeway.commands {
            #expect(run.output.contains("\n  \(command) "), "\(command)")
        }
        #expect(!run.output.contains("metrics-page"))
        let lab = try ProgramRun.run("--help", of: .lab)
        for command in Self.labCommands { #expect(lab.output.contains("\n  \(command) "), "\(command)") }
    }

    private static let labCommands = SiblingProgram.lab.commands

    @Test(
        arguments: SiblingProgram.causeway.commands.map { (ProgramRun.Program.causeway, $0) }
            + labCommands.map { (.lab, $0) }
    )
    func `Every command explains itself with an example`(program: ProgramRun.Program, name: String) throws {
        let run = try ProgramRun.run(name, "--help", of: program)
        #expect(run.exitCode == 0)
        #expect(run.output.contains("Example"))
        #expect(run.output.contains("  \(program.rawValue) \(name)"))
        #expect(run.output == (try ProgramRun.run("help", name, of: program)).output)
    }

    @Test func `The plan says that it rounds the commands for each push`() throws {
        #expect(try ProgramRun.run("plan", "--help").output.contains("rounded to hundredths"))
        let loadArguments = ["--updates-per-minute", "600000", "--activities", "2000000"]
        let plans = try ["1.234", "1.23"]
            .map {
                try ProgramRun.run(ProgramRun.process(["plan"] + loadArguments + ["--commands-per-push", $0])).output
            }
        #expect(plans[0].contains(#/commands for a push +1\.23\n/#))
        #expect(plans[0] == plans[1])
    }

    /// The plan does not read the configuration, so it cannot know whether broadcasts have pools of their own.
    @Test(arguments: ["--activities", "--audience-members"])
    func `The plan says how many pools it counts, and which pairs count twice`(loadOption: String) throws {
        let arguments = ["plan", "--updates-per-minute", "6", loadOption, "2000", "--pools", "4"]
        let output = try ProgramRun.run(ProgramRun.process(arguments)).output
        #expect(output.contains("Pools of connections in each lane: 4 (--pools)"), "\(output)")
        #expect(output.contains("count it twice"))
        #expect(try ProgramRun.run("plan", "--help").output.contains("broadcastPort"))
    }

    @Test func `The plan counts the memory for pushes in flight`() throws {
        let loadArguments = ["--updates-per-minute", "600000", "--activities", "2000000", "--pools", "100"]
        let memories = try ["1000", "4096"]
            .map { limit in
                let arguments = ["plan"] + loadArguments + ["--in-flight-per-connection", limit]
                let output = try ProgramRun.run(ProgramRun.process(arguments)).output
                let match = try #require(output.firstMatch(of: #/memory a pod +([0-9,]+) MiB/#), "\(output)")
                return try #require(Int(match.1.replacing(",", with: "")))
            }
        #expect(memories[1] > memories[0] + 900)
    }

    @Test(arguments: [("1e20", "1e+20"), ("0.001", "0"), ("nan", "nan")])
    func `The plan refuses a number of commands outside its range, and prints the number`(number: String, shown: String)
        throws
    {
        let loadArguments = ["--updates-per-minute", "600000", "--activities", "2000000"]
        let run = try ProgramRun.run(ProgramRun.process(["plan"] + loadArguments + ["--commands-per-push", number]))
        #expect(run.exitCode == 64)
        #expect(run.errors.contains("--commands-per-push: is \(shown), must be 1 to 1000"))
    }

    @Test(arguments: labCommands)
    func `For a command of the lab, causeway names causeway-lab`(name: String) throws {
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
    func `A wrong command line of the lab ends with 64 and says how it is meant`(arguments: [String]) throws {
        try expectUsage(ProgramRun.process(arguments, of: .lab))
    }

    @Test(arguments: [
        (["wroker", "--config", "c.yaml"], ProgramRun.Program.causeway, "causeway worker?"),
        (["wroker", "--help"], .causeway, "causeway worker?"), (["help", "sned"], .causeway, "causeway send?"),
        (["channels", "lst"], .causeway, "causeway channels list?"),
        (["help", "replay", "repot"], .causeway, "causeway replay report?"),
        (["brocker"], .causeway, "causeway-lab broker?"),
        (["help", "simulater"], .lab, "causeway-lab simulator?"), (["woker"], .lab, "causeway worker?"),
    ])
    func `A misspelled command ends with 64 and names the nearest one, also as a help topic and before options`(
        arguments: [String],
        program: ProgramRun.Program,
        suggestion: String
    ) throws {
        let run = try ProgramRun.run(ProgramRun.process(arguments, of: program))
        #expect(run.exitCode == 64)
        #expect(run.output.isEmpty)
        #expect(run.errorLines.first?.hasSuffix("did you mean \(suggestion)") == true, "\(run.errors)")
    }

    /// Each command that has subcommands, with the names of the subcommands that the help shows. The programs
    /// themselves are such commands, with an empty path.
    private static let commandsWithSubcommands: [(program: ProgramRun.Program, path: [String], names: [String])] = {
        func findCommandsWithSubcommands(_ command: any ParsableCommand.Type, _ path: [String]) -> [(
            path: [String], names: [String]
        )] {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty else { return [] }
            let names = commands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
            return [(path: path, names: names)]
                + commands.flatMap { findCommandsWithSubcommands($0, path + [$0._commandName]) }
        }
        let commandsOfCauseway = findCommandsWithSubcommands(Causeway.self, [])
        let commandsOfLab = findCommandsWithSubcommands(CausewayLab.self, [])
        return commandsOfCauseway.map { (program: ProgramRun.Program.causeway, path: $0.path, names: $0.names) }
            + commandsOfLab.map { (program: ProgramRun.Program.lab, path: $0.path, names: $0.names) }
    }()

    @Test(arguments: commandsWithSubcommands)
    func `The error about a wrong command suggests a command, and names the usage and the help of its parent`(
        program: ProgramRun.Program,
        path: [String],
        names: [String]
    ) throws {
        let parentCommand = ([program.rawValue] + path).joined(separator: " ")
        let usage = ["Usage: \(parentCommand) <subcommand>", "  See '\(parentCommand) --help' for more information."]
        for name in names {
            // A name with one letter too many is closest to the name itself.
            for arguments in [path + [name + "x"], ["help"] + path + [name + "x"], path + [name + "x", "--help"]] {
                let run = try ProgramRun.run(ProgramRun.process(arguments, of: program))
                #expect(run.exitCode == 64 && run.output.isEmpty)
                let error = "Error: \(parentCommand) has no command \(name)x; did you mean \(parentCommand) \(name)?"
                #expect(run.errorLines == [error] + usage, "\(arguments)")
            }
        }
        let run = try ProgramRun.run(ProgramRun.process(path + ["12345678"], of: program))
        let error = "Error: \(parentCommand) has no command 12345678; its commands are \(names.joined(separator: ", "))"
        #expect(run.exitCode == 64 && run.errorLines == [error] + usage)
    }

    @Test func `The error about a command that resembles no other lists all commands`() throws {
        let run = try ProgramRun.run("channels", "frobnicate")
        #expect(run.exitCode == 64)
        #expect(
            run.errorLines.first
                == "Error: causeway channels has no command frobnicate; its commands are list, show, create, delete, reconcile"
        )
    }

    @Test func `The help of causeway names the parts of the lab that a first try needs`() throws {
        let help = try ProgramRun.run("--help").output
        for command in ["demo", "broker", "simulator"] {
            #expect(help.contains("  causeway-lab \(command)"), "\(command)")
        }
    }

    @Test func `Each program knows all commands of the other`() {
        func names(_ commands: [any ParsableCommand.Type]) -> [String] {
            commands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }.sorted()
        }
        #expect(SiblingProgram.causeway.commands.sorted() == names(Causeway.configuration.subcommands))
        #expect(SiblingProgram.lab.commands.sorted() == names(CausewayLab.configuration.subcommands))
    }

    /// Expects that the program ends with 64, and prints an error and the usage.
    private func expectUsage(_ process: Process) throws {
        let errors = Pipe()
        process.standardError = errors
        process.standardOutput = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.start()
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 64)
        #expect(text.contains("Error: ") && text.contains("Usage: "))
    }
}
