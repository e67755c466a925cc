/// The delay before the next connection attempt. Without a failure it is 0. After a failure it is half of
/// `baseMilliseconds` plus a random time (jitter, R21). The random time is at most `baseMilliseconds` after the
/// first failure. Each further failure doubles this maximum, up to `jitterMillisecondsMax`.
struct Backoff {
    private let baseMilliseconds: Int64
    private let jitterMillisecondsMax: Int64
    private(set) var failureCount = 0

    init(baseMilliseconds: Int64, jitterMillisecondsMax: Int64) {
        precondition(baseMilliseconds > 0 && jitterMillisecondsMax >= baseMilliseconds)
        self.baseMilliseconds = baseMilliseconds
        self.jitterMillisecondsMax = jitterMillisecondsMax
    }

    mutating func recordSuccess() {
        failureCount = 0
    }

    mutating func recordFailure() {
        failureCount += 1
    }

    /// Returns 0 if there was no failure since the last success. After a failure, the delay is at least half the base:
    /// with delays near 0, many connections would retry at once.
    func delayMilliseconds(using generator: inout some RandomNumberGenerator) -> Int64 {
        guard failureCount > 0 else { return 0 }
        let presentJitterMillisecondsMax = min(
            jitterMillisecondsMax,
            baseMilliseconds << Int64(min(failureCount - 1, 20))
        )
        return baseMilliseconds / 2 + Int64.random(in: 0...presentJitterMillisecondsMax, using: &generator)
    }
}
