/// A random pause before the next attempt to connect, or to look up a cluster's hash slots. It is random, so that
/// workers that lost their server together do not all return at the same moment (R21). Its maximum is 0.1 s at first.
/// Each failure doubles the maximum, up to 5 s.
struct RetryPause {
    static let firstPauseMillisecondsMax: Int64 = 100
    static let pauseMillisecondsMax: Int64 = 5_000

    private var nextPauseMillisecondsMax = firstPauseMillisecondsMax

    mutating func nextPauseMilliseconds() -> Int64 {
        let pause = Int64.random(in: 0...nextPauseMillisecondsMax)
        nextPauseMillisecondsMax = min(nextPauseMillisecondsMax * 2, Self.pauseMillisecondsMax)
        return pause
    }

    /// Sets the maximum to 0.1 s again. The caller does this when a call has got its reply, or a look-up has succeeded.
    mutating func reset() {
        nextPauseMillisecondsMax = Self.firstPauseMillisecondsMax
    }
}
