import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import CausewayWorker
import Logging
import Observability
import ServiceLifecycle
import UnixSignals

/// `causeway worker`: runs the worker.
struct WorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker",
        abstract: "Run a worker: send commands from Kafka to APNs until SIGTERM or SIGINT.",
        discussion: """
            causeway configuration yaml explains every key of the configuration. An environment variable overrides a \
            key: CAUSEWAY_WORKER_LANES overrides worker.lanes. If the configuration has errors, the worker reports \
            them with their positions, and does not start.

            SIGTERM and SIGINT stop the worker gracefully: it stops reading, waits for pushes in flight (at most \
            worker.drainMilliseconds), commits, and leaves the group. A second signal ends the wait at once: the next \
            worker reads the uncommitted records again. SIGKILL loses no command either, but a few pushes may be sent \
            twice. The phone shows the same state, and an alert may ring twice.

            While it runs, http://HOST:9464 serves /metrics for Prometheus, /livez and /readyz for Kubernetes, and \
            /statusz, which shows the throughput, what waits, and what is wrong (http.host and http.port in the \
            configuration).

            After SIGHUP, or a change of the file or of a file of shapes, the worker reads these files again. It \
            applies the keys that causeway configuration yaml marks with "Reloadable.", and logs which other changed \
            keys need a restart. If a file has an error or is missing, the worker applies nothing.

            Examples:
              causeway worker --config /etc/causeway/causeway.yaml
              CAUSEWAY_LOG_LEVEL=debug causeway worker --config causeway.yaml

            Exit codes: 0 stopped by a signal; 64 the command line is wrong; 70 an internal error; 78 the \
            configuration is wrong.
            """
    )

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The YAML file. Default: only the environment.", valueName: "file")
    )
    var config: String?

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let configuration = try ConfigurationLoading.load(
            path: config,
            with: ConfigurationLoading.makeStartupLoader(requiresFiles: true)
        )
        let threshold = LogThreshold(configuration.log.level)
        let events = RecentEvents()
        let logger = Logger(
            label: "causeway.worker",
            format: configuration.log.format,
            threshold: threshold,
            events: events
        )
        let source = ConfigurationSource(
            loader: ConfigurationLoading.makeLoader(requiresFiles: true),
            path: config,
            logThreshold: threshold
        )
        let worker: Worker
        let services: [ServiceGroupConfiguration.ServiceConfiguration]
        do {
            worker = try Worker(
                configuration: configuration,
                source: source,
                logger: logger,
                events: events,
                version: Release.version
            )
            // Services stop in reverse order: first the worker, then the HTTP endpoint. So the endpoint still responds
            // while the worker stops.
            services =
                try Self.observabilityServices(of: worker, configuration.http, logger: logger) + [
                    .init(service: worker)
                ]
        } catch {
            logger.critical("The worker cannot start with this configuration.", metadata: ["error": "\(error)"])
            throw ExitCode.configurationFault
        }
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: services,
                logger: logger
            )
        )
        do {
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { await Self.handleSignals(signals, group: group, worker: worker, logger: logger) }
                try await group.run()
                tasks.cancelAll()
            }
        } catch let fault as ConfigurationFault {
            logger.critical("The worker cannot continue with this configuration.", metadata: ["error": "\(fault)"])
            throw ExitCode.configurationFault
        } catch {
            logger.critical("The worker stopped because of an error.", metadata: ["error": "\(error)"])
            throw ExitCode.internalError
        }
    }

    private static func observabilityServices(
        of worker: Worker,
        _ http: WorkerConfiguration.HTTP,
        logger: Logger
    ) throws -> [ServiceGroupConfiguration.ServiceConfiguration] {
        guard let port = UInt16(exactly: http.port), port > 0 else { return [] }
        let service = try ObservabilityService(
            host: http.host,
            port: port,
            metricRegistry: worker.metricRegistry,
            logger: logger
        )
        // If the HTTP endpoint fails, stop the worker too. The port may belong to an older worker that still runs, and
        // health checks of this worker would reach the older one.
        return [.init(service: service, failureTerminationBehavior: .gracefullyShutdownGroup)]
    }

    /// Handles signals until the caller cancels this task. SIGHUP reloads the configuration. The first other signal
    /// stops the worker gracefully, and the second one stops it at once.
    private static func handleSignals(
        _ signals: UnixSignalsSequence,
        group: ServiceGroup,
        worker: Worker,
        logger: Logger
    ) async {
        var isStopping = false
        for await signal in signals {
            if signal == .sighup {
                await worker.reload()
                continue
            }
            logger.info("stop requested", metadata: ["signal": "\(signal)", "again": "\(isStopping)"])
            if isStopping { worker.stopAtOnce() } else { await group.triggerGracefulShutdown() }
            isStopping = true
        }
    }
}
