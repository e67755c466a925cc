import ArgumentParser
import CausewayWorker
import Logging
import ServiceLifecycle
import UnixSignals

/// `causeway worker`: the service itself.
struct WorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker",
        abstract: "Carry commands from Kafka to APNs until told to stop.",
        discussion: """
            Every key of the configuration is explained in Config/causeway.yaml, and can be an environment variable \
            instead: worker.lanes is CAUSEWAY_WORKER_LANES. Anything wrong is reported with its place before anything \
            starts.

            SIGTERM and SIGINT end it in order: it stops reading, waits for what is on its way \
            (worker.drainMilliseconds), commits, and leaves the group. Being killed loses nothing either; a few pushes \
            may be sent twice then, which phones ignore.

            Examples:
              causeway worker --config /etc/causeway/causeway.yaml
              CAUSEWAY_LOG_LEVEL=debug causeway worker --config causeway.yaml

            Exit codes: 0 stopped when told to; 64 the command line is wrong; 70 an internal error; 78 the \
            configuration is wrong.
            """
    )

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The YAML file; left out, the environment says everything.", valueName: "file")
    )
    var config: String?

    func run() async throws {
        let configuration = try ConfigurationOption.load(path: config, requiresFiles: true)
        let logger = Logger(label: "causeway.worker", configuration: configuration.log)
        let worker: Worker
        do {
            worker = try Worker(configuration: configuration, logger: logger)
        } catch {
            logger.critical("The worker cannot be made from this configuration.", metadata: ["error": "\(error)"])
            throw ExitCode.configuration
        }
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [ServiceGroupConfiguration.ServiceConfiguration(service: worker)],
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger
            )
        )
        do {
            try await group.run()
        } catch {
            logger.critical("The worker stopped on its own.", metadata: ["error": "\(error)"])
            throw ExitCode.internalError
        }
    }
}
