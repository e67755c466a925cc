import ArgumentParser
import CausewayConfiguration

/// The option of a command that reads a worker's configuration.
struct ConfigurationFileOption: ParsableArguments {
    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("A worker's configuration. Environment variables override it.", valueName: "file")
    )
    var config: String?

    func load(requiresFiles: Bool) throws(ExitCode) -> WorkerConfiguration {
        try ConfigurationLoading.load(path: config, requiresFiles: requiresFiles)
    }
}
