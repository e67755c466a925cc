import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation

/// Loads a configuration for a command. Faults go to standard error, one on each line, and end the program with exit code 78.
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
