import ArgumentParser
import CausewayConfiguration

/// `causeway configuration`: prints the reference of the configuration keys.
struct ConfigurationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "configuration",
        abstract: "Print every key of the configuration with its meaning, default and range.",
        discussion: """
            yaml prints a file with every key and its default: copy it to begin a configuration. json-schema prints \
            the JSON Schema of such files, with which an editor completes and checks keys. markdown prints a table of \
            all keys. chart-schema prints the part of the Helm chart's JSON Schema for its value config.

            Examples:
              causeway configuration yaml > causeway.yaml
              causeway configuration json-schema > causeway.schema.json

            Exit codes: 0 success; 64 the command line is wrong.
            """
    )

    @Argument(help: "What to print.")
    var page: GeneratedConfigurationText

    func run() { print(page.text, terminator: "") }
}

extension GeneratedConfigurationText: ExpressibleByArgument {}
