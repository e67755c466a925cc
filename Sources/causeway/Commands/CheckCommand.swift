import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation
import LiveActivity

/// `causeway check`: reports faults in configurations and records, and changes nothing.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check a configuration, commands and registrations, without sending anything.",
        discussion: """
            This command applies the same rules as the worker, so producers can run it in their builds. It reads the \
            keys and certificates that the configuration names, if these files exist on this machine, and creates \
            librdkafka's clients without connecting them. It prints each error as one line on standard output: \
            file:line: message. With a configuration, the apps and policies of records must be in it, and commands \
            must fit the shapes of their apps, if the files of shapes exist. Standard error gets warnings about values \
            that are allowed but rarely intended, and the fields that a policy drops from a body that is too large.

            Examples:
              causeway check --config causeway.yaml
              causeway check --commands goal.json --commands updates.jsonl --registrations tokens.jsonl
              producer --dry-run | causeway check --commands -

            Exit codes: 0 no errors; 1 errors; 64 the command line is wrong.
            """
    )

    @OptionGroup var configurationFile: ConfigurationFileOption

    @Flag(help: "Require that the files named in the configuration exist on this machine.")
    var files = false

    @Option(help: ArgumentHelp("Commands, or - for standard input. Repeatable.", valueName: "file"))
    var commands: [String] = []

    @Option(help: ArgumentHelp("Registrations, or - for standard input. Repeatable.", valueName: "file"))
    var registrations: [String] = []

    func validate() throws {
        guard configurationFile.config != nil || !commands.isEmpty || !registrations.isEmpty else {
            throw ValidationError("nothing to check: add --config, --commands or --registrations")
        }
        guard (commands + registrations).count(where: { $0 == "-" }) <= 1 else {
            throw ValidationError("standard input can be named only once")
        }
    }

    func run() throws {
        var configurationFaultCount = 0
        var configuredNames: RecordCheck.ConfiguredNames?
        var contracts: [String: ContractRule] = [:]
        if let config = configurationFile.config {
            let loader = ConfigurationLoading.makeStartupLoader(requiresFiles: files)
            do {
                let configuration = try loader.load(path: config)
                for warning in ConfigurationWarning.findAll(in: configuration) {
                    StandardStreams.printError("\(config): warning: \(warning)")
                }
                configuredNames = RecordCheck.ConfiguredNames(
                    policyNamesByApp: Dictionary(configuration.apps.map { ($0.bundleId, $0.policy) }) { first, _ in
                        first
                    },
                    droppedFieldsByPolicy: Dictionary(
                        configuration.policies.map { ($0.name, OversizeFields($0.oversize)) }
                    ) {
                        first,
                        _ in
                        first
                    }
                )
                for app in configuration.apps {
                    // Ignore a file of shapes that cannot be read. With `--files`, the loader has already reported it;
                    // without, the file may be missing.
                    if let rule = try? app.readContractRule() { contracts[app.bundleId] = rule }
                }
            } catch {
                for fault in error.faults { StandardStreams.printOutput(fault.description) }
                configurationFaultCount = error.faults.count
            }
        }
        var inputFaultCount = 0
        var recordCheck = RecordCheck(configuredNames: configuredNames, contracts: contracts)
        do {
            for path in commands {
                try recordCheck.check(InputFile(path: path), kind: .command, report: StandardStreams.printOutput)
            }
            for path in registrations {
                try recordCheck.check(InputFile(path: path), kind: .registration, report: StandardStreams.printOutput)
            }
        } catch {
            StandardStreams.printOutput("\(error)")
            inputFaultCount = 1
        }
        for remark in recordCheck.droppedFieldsRemarks { StandardStreams.printError(remark) }
        let recordFaultCount = recordCheck.faultCount + inputFaultCount
        if configurationFile.config != nil {
            StandardStreams.printError("configuration: \(Self.faultCountText(configurationFaultCount))")
        }
        if !commands.isEmpty || !registrations.isEmpty {
            StandardStreams.printError("records checked: \(recordCheck.recordCount), errors: \(recordFaultCount)")
        }
        if configurationFaultCount + recordFaultCount > 0 { throw ExitCode.failure }
    }

    private static func faultCountText(_ faultCount: Int) -> String {
        switch faultCount {
        case 0: "no errors"
        case 1: "1 error"
        default: "\(faultCount) errors"
        }
    }
}
