import APNs
import Delivery
import Glibc
import Kafka
public import Logging
import Reactor
import Redis
public import ServiceLifecycle
import Synchronization

/// The whole of a worker process: one consumer, one producer, N lanes.
///
/// `run` returns when a graceful shutdown has drained it, and throws when it cannot go on. Nothing that it needs has to be there when
/// it starts: Kafka, Redis and APNs may come later, and are waited for.
public final class Worker: Service {
    /// After the drain: how long leaving the group and closing the producer may take each.
    static let closeMilliseconds: Int64 = 5_000

    private let plan: WorkerPlan
    private let logger: Logger

    /// - Throws: what is wrong with the configuration's files: a key, a certificate, a property that librdkafka does not know.
    public init(configuration: WorkerConfiguration, logger: Logger) throws {
        self.logger = logger
        plan = try WorkerPlan(configuration: configuration, logger: logger)
    }

    public func run() async throws {
        let signals = IntakeSignals()
        let wakeup = plan.wakeup
        try startThreads(signals: signals)
        logger.info("worker started", metadata: ["lanes": "\(plan.laneCount)"])
        await withGracefulShutdownHandler {
            await signals.waitUntilEnded()
        } onGracefulShutdown: {
            signals.requestStop()
            wakeup.signal()
        }
        if let error = signals.error { throw error }
        logger.info("worker stopped")
    }

    private func startThreads(signals: IntakeSignals) throws {
        let plan = plan
        let logger = logger
        let lanes = try (0..<plan.laneCount).map { number in
            try LoopThread.start(name: "lane-\(number)") { loop in
                Self.runLane(number, loop: loop, plan: plan, signals: signals, logger: logger)
            }
        }
        _ = try LoopThread.start(name: "kafka") { loop in
            Self.runIntake(loop: loop, plan: plan, lanes: lanes, signals: signals, logger: logger)
        }
    }

    private static func runLane(
        _ number: Int, loop: EventLoop, plan: WorkerPlan, signals: IntakeSignals, logger: Logger
    ) {
        do {
            let lane = try Lane(
                number: number, loop: loop, mailbox: plan.mailboxes[number], kafkaWakeup: plan.wakeup, plan: plan.lane)
            lane.start()
            loop.run()
            lane.close()
        } catch {
            logger.critical("a lane could not start", metadata: ["error": "\(error)"])
            signals.fail(error)
            plan.wakeup.signal()
        }
    }

    private static func runIntake(
        loop: EventLoop, plan: WorkerPlan, lanes: [LoopThread], signals: IntakeSignals, logger: Logger
    ) {
        do {
            let intake = try Intake(loop: loop, plan: plan.intake, signals: signals)
            loop.run()
            for lane in lanes { lane.join() }
            intake.close(deadlineMilliseconds: closeMilliseconds)
        } catch {
            logger.critical("the Kafka client could not start", metadata: ["error": "\(error)"])
            signals.fail(error)
            for mailbox in plan.mailboxes {
                _ = mailbox.orders.push(LaneOrder(kind: .stop))
                mailbox.wakeup.signal()
            }
            for lane in lanes { lane.join() }
        }
        signals.noteEnded()
    }
}
