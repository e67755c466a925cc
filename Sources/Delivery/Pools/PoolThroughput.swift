/// Decides from the recent rate of a pool's responses whether the pool is blocked: too slow to send its waiting pushes
/// soon. Does no I/O; time is an argument.
///
/// A pool is blocked if it would need more than `sendingMillisecondsMax` at that rate to send the waiting pushes. For
/// example, with 30 s and 3,000 waiting pushes, it is blocked below 100 responses a second. The block ends when
/// responses come fast enough again. It also ends when no push waits any longer and responses came during the current
/// measurement or the previous one.
///
/// One measurement of the rate lasts at least `measuredMillisecondsMin`. It begins while pushes wait, because a pool
/// without work gets no responses although it is not slow.
struct PoolThroughput: BitwiseCopyable {
    private(set) var isBlocked = false
    /// When the current measurement of the rate began; `.max`: the rate is not being measured.
    private var measurementBeganAtMilliseconds: Int64 = .max
    /// The number of responses during the current measurement that count (`isCountedInRate` of
    /// `PoolTable.noteResponse`).
    private var responseCount: Int64 = 0
    /// The number of responses during the previous measurement.
    private var previousResponseCount: Int64 = 0

    /// Begins to measure the rate, unless it is already being measured. Called when a push or an activity begins to
    /// wait for the pool.
    mutating func beginMeasurementIfNeeded(now: Moment) {
        guard measurementBeganAtMilliseconds == .max else { return }
        beginMeasurement(now: now)
    }

    @inline(__always) mutating func countResponse() { responseCount &+= 1 }

    /// Ends the block of a pool if responses come fast enough. Called after each counted response of a blocked pool.
    mutating func unblockIfFastEnough(waitingPushCount: Int, sendingMillisecondsMax: Int64, now: Moment) {
        guard isBlocked, !isTooSlow(for: waitingPushCount, sendingMillisecondsMax: sendingMillisecondsMax, now: now)
        else { return }
        isBlocked = false
        beginMeasurement(now: now)
    }

    /// Decides whether the pool is blocked: whether sending its waiting pushes would take too long. Then begins the
    /// next measurement, if it is needed. Does nothing until the measurement has lasted `measuredMillisecondsMin`.
    mutating func evaluateThroughput(
        waitingPushCount: Int,
        measuredMillisecondsMin: Int64,
        sendingMillisecondsMax: Int64,
        now: Moment
    ) {
        guard measurementBeganAtMilliseconds != .max,
            now.monotonicMilliseconds - measurementBeganAtMilliseconds >= measuredMillisecondsMin
        else {
            return
        }
        if waitingPushCount > 0 {
            isBlocked = isTooSlow(for: waitingPushCount, sendingMillisecondsMax: sendingMillisecondsMax, now: now)
        } else if responseCount > 0 {
            isBlocked = false
        }
        beginMeasurement(now: now)
        if waitingPushCount == 0, !isBlocked { measurementBeganAtMilliseconds = .max }
    }

    /// Unblocks the pool and ends the measurement, if responses came during the current measurement or the previous
    /// one. Called when no push waits. The previous measurement counts too, because the current one may have begun just
    /// before the last push left.
    mutating func unblockIfResponsesCame() {
        guard responseCount > 0 || previousResponseCount > 0 else { return }
        isBlocked = false
        measurementBeganAtMilliseconds = .max
    }

    /// Begins a new measurement and leaves `isBlocked` unchanged. Called while Redis is silent: the pushes then wait
    /// for Redis, so the current measurement says nothing about the pool.
    mutating func restartMeasurement(now: Moment) {
        if measurementBeganAtMilliseconds != .max { beginMeasurement(now: now) }
    }

    /// Whether sending the waiting pushes at the measured rate would take longer than `sendingMillisecondsMax`.
    private func isTooSlow(for waitingPushCount: Int, sendingMillisecondsMax: Int64, now: Moment) -> Bool {
        let measuredMilliseconds = max(1, now.monotonicMilliseconds - measurementBeganAtMilliseconds)
        return Double(responseCount) * Double(sendingMillisecondsMax) < Double(waitingPushCount)
            * Double(measuredMilliseconds)
    }

    private mutating func beginMeasurement(now: Moment) {
        measurementBeganAtMilliseconds = now.monotonicMilliseconds
        (previousResponseCount, responseCount) = (responseCount, 0)
    }
}
