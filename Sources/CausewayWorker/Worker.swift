import APNs
import CausewayConfiguration
import Delivery
import Glibc
import Kafka
import Logging
import Observability
import Reactor
import Redis
import ServiceLifecycle
import Synchronization

/// A complete worker process: one or more lanes, one consumer, and one producer that all lanes share.
///
/// ``run()`` returns when the worker has stopped on request, and throws if the worker cannot start or cannot continue.
/// Kafka, Redis and APNs may be down at the start: the worker waits for them.
package final class Worker: Service {
    /// The longest time that closing the producer may take if the worker could not start.
    static let closeTimeoutMilliseconds: Int64 = 5_000

    let setup: WorkerSetup
    private var log: SharedLimitedLog { setup.log }
    private let signals: IntakeSignals
    let configurationReloader: ConfigurationReloader?

    /// The worker's metrics and state, for an ``ObservabilityService``.
    package var metricRegistry: MetricRegistry { setup.metricRegistry }

    /// - Parameters:
    ///   - source: where the configuration came from; nil: the configuration is never read again.
    ///   - events: summarizes the log lines for /statusz; `logger` counts its lost lines there.
    ///   - version: the worker's version, which its metrics and /statusz show.
    /// - Throws: a fault in the configuration or in a file that it names, for example a key, a certificate or shapes.
    ///   Faults of librdkafka's properties show only in ``run()``.
    package init(
        configuration: WorkerConfiguration,
        source: ConfigurationSource? = nil,
        logger: Logger,
        events: RecentEvents = RecentEvents(),
        version: String
    ) throws {
        let signals = IntakeSignals()
        self.signals = signals
        let setup = try WorkerSetup(configuration: configuration, logger: logger, events: events, version: version)
        self.setup = setup
        configurationReloader = source.map { source in
            ConfigurationReloader(
                source,
                running: configuration,
                contracts: setup.initialContracts,
                log: setup.log,
                condition: setup.metricRegistry.condition
            ) { configuration, contracts in
                setup.offerSettings(of: configuration, contracts: contracts)
                signals.offerSettings()
                setup.kafkaWakeup.signal()
            }
        }
        setup.metricRegistry.condition.change { $0.areSigningKeysLoaded = true }
    }

    /// Reads the configuration again and applies the keys that a running worker can change. If the configuration has a
    /// fault, logs the fault and applies nothing. Does nothing if the worker has no `source`.
    package func reload() async { await configurationReloader?.reload() }

    /// Ends a graceful shutdown early: does not wait any longer for records in flight. The offsets of settled records
    /// are committed. The partitions' next owners read all other records again.
    ///
    /// The Kafka clients are still closed, one after the other. Each closing step that has not begun gets half a
    /// second. Call this only after the graceful shutdown has begun.
    package func stopAtOnce() {
        signals.requestStopAtOnce()
        setup.traceExporter?.cancelRequests()
        setup.kafkaWakeup.signal()
    }

    /// Runs the worker until it has stopped on request, or cannot continue. When this call returns or throws, all tasks
    /// of the worker have ended. (R5)
    package func run() async throws {
        let signals = signals
        let kafkaWakeup = setup.kafkaWakeup
        let providerTokenSharer = try setup.makeProviderTokenSharer()
        let channelKeeper = try setup.makeChannelKeeper()
        let lifetimeKeeper = try setup.makeLifetimeKeeper()
        let clockWatch = try setup.makeClockWatch()
        await clockWatch.awaitFirstReading()
        await providerTokenSharer?.awaitFirstTokens()
        let storeWatch = try setup.makeStoreWatch(channelKeeper) { fault in
            signals.fail(fault)
            kafkaWakeup.signal()
        }
        try startThreads(signals: signals)
        log(.workerStarted, ["lanes": "\(setup.laneCount)", "memory": "\(setup.memoryBudget)"])
        let setup = setup
        let storeWatchTask = Task { await storeWatch.run() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                var watch = setup.keyFileWatcher
                await watch.run()
            }
            if let configurationReloader { group.addTask { await configurationReloader.run() } }
            if let exporter = setup.traceExporter { group.addTask { await exporter.run() } }
            if let providerTokenSharer { group.addTask { await providerTokenSharer.run() } }
            group.addTask { await clockWatch.run() }
            group.addTask { await lifetimeKeeper.run() }
            if let channelKeeper {
                group.addTask {
                    await channelKeeper.run(setup.channelRequests.stream) { setup.passToLanes($1, to: $0) }
                }
            }
            await withGracefulShutdownHandler {
                await signals.waitUntilStopped()
            } onGracefulShutdown: {
                // Cancel the task of `StoreWatch`, because it may be waiting for a Redis that does not reply. If Redis
                // loses data from now on, the next owners of the partitions notice the loss.
                storeWatchTask.cancel()
                setup.metricRegistry.condition.change { $0.isDraining = true }
                signals.requestStop()
                kafkaWakeup.signal()
            }
            group.cancelAll()
        }
        storeWatchTask.cancel()
        await storeWatchTask.value
        if signals.isStoppingAtOnce {
            await setup.traceExporter?.dropRemainingTraces()
        } else {
            await setup.traceExporter?.exportRemainingTraces()
        }
        if let failure = signals.failure { throw failure }
        log(.workerStopped)
    }

    /// Starts the lanes' threads, and then the Kafka thread. After an error, none of these threads runs any more.
    private func startThreads(signals: IntakeSignals) throws {
        let producer = try setup.makeProducer()
        var lanes: [LoopThread] = []
        do {
            let setup = setup
            let laneSetup = try setup.makeLaneSetup(producer)
            for number in 0..<setup.laneCount {
                let thread = try LoopThread.start(name: "lane-\(number)") { loop in
                    Self.runLane(number, loop: loop, setup: setup, laneSetup: laneSetup, signals: signals)
                }
                lanes.append(thread)
            }
            let (intakeSetup, laneThreads) = (try setup.makeIntakeSetup(producer), lanes)
            _ = try LoopThread.start(name: "kafka") { loop in
                Self.runIntake(loop: loop, setup: setup, intakeSetup: intakeSetup, lanes: laneThreads, signals: signals)
            }
        } catch {
            setup.stopLanes()
            for lane in lanes { lane.join() }
            _ = producer.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
            throw error
        }
    }

    private static func runLane(
        _ number: Int,
        loop: EventLoop,
        setup: WorkerSetup,
        laneSetup: LaneSetup,
        signals: IntakeSignals
    ) {
        loop.wallClock = setup.wallClock
        do {
            let lane = try Lane(
                number: number,
                loop: loop,
                mailbox: setup.mailboxes[number],
                kafkaWakeup: setup.kafkaWakeup,
                setup: laneSetup
            )
            lane.start()
            loop.run()
            lane.close()
        } catch {
            setup.log(.workerFailed, ["error": "\(error)", "lane": "\(number)"])
            signals.fail(error)
            setup.kafkaWakeup.signal()
        }
    }

    /// Runs the Kafka thread. Closes the Kafka clients only after the lanes have ended, because no lane may read or
    /// produce a record while the clients close.
    private static func runIntake(
        loop: EventLoop,
        setup: WorkerSetup,
        intakeSetup: IntakeSetup,
        lanes: [LoopThread],
        signals: IntakeSignals
    ) {
        loop.wallClock = setup.wallClock
        do {
            let intake = try Intake(loop: loop, setup: intakeSetup, signals: signals)
            loop.run()
            for lane in lanes { lane.join() }
            intake.close()
        } catch {
            setup.log(.workerFailed, ["error": "\(error)"])
            signals.fail(error)
            setup.stopLanes()
            for lane in lanes { lane.join() }
            _ = intakeSetup.producer.close(timeoutMilliseconds: closeTimeoutMilliseconds)
        }
        signals.noteStopped()
    }
}
