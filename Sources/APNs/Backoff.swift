/// How long a pool waits before its next connection attempt. After a success, the delay is 0. After failures, it is
/// half of `baseMilliseconds` plus a random time, so that pools do not connect at the same moment (R21).
///
/// The limit of the random time doubles with each failure, up to `jitterMillisecondsMax`. For example, with a base of
/// 200 ms, the delay is 100 ms plus at most 200 ms after the first failure, and 100 ms plus at most 400 ms after the
/// second.
struct Backoff {
    private let baseMilliseconds: Int64
    private let jitterMillisecondsMax: Int64
    private(set) var failureCount = 0

    init(baseMilliseconds: Int64, jitterMillisecondsMax: Int64) {
        precondition(baseMilliseconds > 0 && jitterMillisecondsMax >= baseMilliseconds)
        self.baseMilliseconds = baseMilliseconds
        self.jitterMillisecondsMax = jitterMillisecondsMax
    }

    mutating func noteSuccess() {
        failureCount = 0
    }

    mutating func noteFailure() {
        failureCount += 1
    }

    /// Returns the delay after the failures so far. Half of `baseMilliseconds` is never random: if delays could be near
    /// 0, many connections would retry at once.
    func delayMilliseconds(using generator: inout some RandomNumberGenerator) -> Int64 {
        guard failureCount > 0 else { return 0 }
        let currentJitterMillisecondsMax = min(
            jitterMillisecondsMax,
            baseMilliseconds << Int64(min(failureCount - 1, 20))
        )
        return baseMilliseconds / 2 + Int64.random(in: 0...currentJitterMillisecondsMax, using: &generator)
    }
}
