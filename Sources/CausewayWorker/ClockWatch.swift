import Delivery
import Logging
import Observability
import Reactor
import Redis

/// Compares the machine's clock with Redis' clock, and sets the ``WallClock`` of the worker's threads.
/// ``ClockCorrection`` decides; this actor calls Redis.
///
/// Until Redis has replied once, the machine's clock is used (K23). While Redis is away, the worker's time continues
/// with the time since the machine's boot. So it stays right if somebody sets the machine's clock back. If the clock is
/// set forward, ``ClockCorrection`` decides whether the worker follows it.
actor ClockWatch {
    static let pollInterval = Duration.seconds(5)
    /// How long the start of the worker waits at most for the first reading of Redis' clock. The lanes begin only after
    /// this wait: a lane with a wrong clock would refuse its first commands for good.
    static let firstReadingWaitMax = Duration.seconds(3)
    /// How many polls the start of the worker makes at most for its first reading of Redis' clock. One poll may not be
    /// enough: a slow reading does not count (``ClockCorrection``), and the first poll also connects to Redis.
    private static let firstReadingPollsMax = 3

    private let executor = BlockingExecutor(label: "clock watch")
    private let queries: RedisQueries
    private let wallClock: WallClock
    private let readSystemMilliseconds: @Sendable () -> Int64
    private let condition: SharedWorkerCondition
    private let log: SharedLimitedLog
    private var correction = ClockCorrection()

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// - Parameter readSystemMilliseconds: reads the machine's clock. Only tests replace the function.
    init(
        redis: RedisConfiguration,
        wallClock: WallClock,
        condition: SharedWorkerCondition,
        log: SharedLimitedLog,
        readSystemMilliseconds: @escaping @Sendable () -> Int64 = { WallClock.systemMilliseconds }
    ) throws(RedisError) {
        queries = try RedisQueries(configuration: redis)
        self.wallClock = wallClock
        self.condition = condition
        self.log = log
        self.readSystemMilliseconds = readSystemMilliseconds
    }

    /// Waits until one reading of Redis' clock counts. Gives up if Redis does not reply to a poll, after
    /// ``firstReadingPollsMax`` polls, and at the latest after `firstReadingWaitMax`.
    nonisolated func awaitFirstReading() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.readFirst() }
            group.addTask { _ = try? await Task.sleep(for: Self.firstReadingWaitMax) }
            _ = await group.next()
            // A reading that still waits for Redis ends when its task is cancelled.
            group.cancelAll()
        }
    }

    private func readFirst() {
        for _ in 0..<Self.firstReadingPollsMax {
            guard poll(), !correction.hasReading else { return }
        }
    }

    /// Compares the clocks once every `pollInterval`, until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            // Poll at fixed intervals, because no event says that a clock was changed.
            try? await Task.sleep(for: Self.pollInterval)
            if !Task.isCancelled { poll() }
        }
    }

    /// Compares the clocks once, and sets the worker's wall clock. Blocks for a round trip.
    ///
    /// - Returns: whether any primary replied.
    @discardableResult
    func poll() -> Bool {
        var (systemMilliseconds, bootMilliseconds) = (readSystemMilliseconds(), WallClock.bootMilliseconds)
        let beganAtMilliseconds = EventLoop.monotonicMilliseconds
        let serverMilliseconds = (try? queries.readPrimaryWallMilliseconds()) ?? []
        if serverMilliseconds.isEmpty {
            // The call may have waited for long, and the machine's clock may have been set since.
            (systemMilliseconds, bootMilliseconds) = (readSystemMilliseconds(), WallClock.bootMilliseconds)
        }
        let wasClockWrong = correction.isClockWrong
        correction.update(
            ClockCorrection.Reading(
                systemMilliseconds: systemMilliseconds,
                bootMilliseconds: bootMilliseconds,
                durationMilliseconds: EventLoop.monotonicMilliseconds - beganAtMilliseconds,
                serverMilliseconds: serverMilliseconds
            )
        )
        wallClock.bootOffsetMilliseconds = correction.bootOffsetMilliseconds
        guard !serverMilliseconds.isEmpty else { return false }
        let (differenceMilliseconds, isCorrected) = (
            correction.differenceMilliseconds, correction.addedMilliseconds != 0
        )
        let isRedisClockSetBack = correction.isServerClockSetBack
        condition.change {
            $0.clockDifferenceMilliseconds = differenceMilliseconds
            $0.isClockCorrected = isCorrected
            $0.isRedisClockSetBack = isRedisClockSetBack
        }
        if correction.isClockWrong != wasClockWrong {
            log(
                wasClockWrong ? .clockRightAgain : .clockWrong,
                [
                    "redisAheadSeconds": "\(differenceMilliseconds / 1_000)",
                    "correctionSeconds": "\(correction.addedMilliseconds / 1_000)",
                ]
            )
        }
        return true
    }
}
