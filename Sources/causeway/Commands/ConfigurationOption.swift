import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation

/// Loading a configuration for a command: faults go to standard error, one a line, and end the program with 78.
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
