import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation

/// Loads a configuration for a command. Faults go to standard error, one on each line, and end the program with exit code 78.
///
/// Without `requiresFiles`, a file that the configuration names may be missing. A command that needs it reports that when it connects.
enum ConfigurationOption {
    static func loader(requiresFiles: Bool) -> ConfigurationLoader {
        ConfigurationLoader(environment: ProcessInfo.processInfo.environment, requiresFiles: requiresFiles)
    }

    static func load(path: String?, requiresFiles: Bool) throws(ExitCode) -> WorkerConfiguration {
        do {
            return try loader(requiresFiles: requiresFiles).load(path: path)
        } catch {
            for fault in error.faults {
                StandardStreams.printError(fault.description)
            }
            throw ExitCode.configuration
        }
    }
}
