/// The delay before the next connection attempt. It is 0 if no attempt has failed since the last success. Otherwise it
/// is half of `baseMilliseconds`, plus a random time (jitter, R21).
///
/// For example, with a base of 200 ms and a `jitterMillisecondsMax` of 30,000: 100 ms plus 0 to 200 ms after the first
/// failure, plus 0 to 400 ms after the second, plus 0 to 800 ms after the third, and so on, up to plus 0 to 30 s.
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

    /// Returns the delay after the failures so far. After a failure it is at least half of `baseMilliseconds`: with
    /// delays near 0, many connections would retry at once.
    func delayMilliseconds(using generator: inout some RandomNumberGenerator) -> Int64 {
        guard failureCount > 0 else { return 0 }
        let presentJitterMillisecondsMax = min(
            jitterMillisecondsMax,
            baseMilliseconds << Int64(min(failureCount - 1, 20))
        )
        return baseMilliseconds / 2 + Int64.random(in: 0...presentJitterMillisecondsMax, using: &generator)
    }
}
