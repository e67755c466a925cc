/// The pause before the next attempt to connect, or to look up a cluster's hash slots. It is a random time from 0 to a
/// maximum, so that workers that lost their server together do not all reconnect at the same moment (R21). The maximum
/// is 0.1 s at first. Each failure doubles it, up to 5 s.
struct ReconnectPause {
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
