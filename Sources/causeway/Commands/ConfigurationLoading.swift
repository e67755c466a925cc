import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import CausewayWorker
import Foundation

/// Loads a configuration for a command. If it has faults, prints each as a line on standard error, and throws exit code
/// 78, which ends the program.
///
/// Without `requiresFiles`, files that the configuration names may be missing. A command that needs such a file fails
/// when it reads the file.
enum ConfigurationLoading {
    static func makeLoader(requiresFiles: Bool) -> ConfigurationLoader {
        ConfigurationLoader(environment: ProcessInfo.processInfo.environment, requiresFiles: requiresFiles)
    }

    /// Makes a loader that also finds the faults of ``StartupCheck``, for example in the files of keys, certificates
    /// and shapes, and in librdkafka's properties.
    static func makeStartupLoader(requiresFiles: Bool) -> ConfigurationLoader {
        var loader = makeLoader(requiresFiles: requiresFiles)
        loader.additionalCheck = { StartupCheck.findFaults(of: $0, requiresFiles: $1) }
        return loader
    }

    static func load(path: String?, requiresFiles: Bool) throws(ExitCode) -> WorkerConfiguration {
        try load(path: path, with: makeLoader(requiresFiles: requiresFiles))
    }

    /// Returns the Kafka settings of a command: the section `kafka` of the configuration, or the defaults if `path` is
    /// nil. `bootstrapServers`, if given, replaces the brokers.
    static func loadKafkaConfiguration(path: String?, bootstrapServers: String?) throws(ExitCode)
        -> WorkerConfiguration.Kafka
    {
        var kafka = WorkerConfiguration.Kafka()
        if let path { kafka = try load(path: path, requiresFiles: false).kafka }
        if let bootstrapServers { kafka.bootstrapServers = bootstrapServers }
        return kafka
    }

    static func load(path: String?, with loader: ConfigurationLoader) throws(ExitCode) -> WorkerConfiguration {
        do {
            return try loader.load(path: path)
        } catch {
            for fault in error.faults {
                StandardStreams.printError(fault.description)
            }
            throw ExitCode.configurationFault
        }
    }
}
