/// The pause before the next attempt to connect, or to look up a cluster's slots. It is a random time up to a
/// maximum, which doubles with each failure until it reaches `pauseMillisecondsMax` ("full jitter"). So workers that
/// lost their server at the same moment do not all reconnect at the same moment (R21).
struct ReconnectPause {
    static let baseMilliseconds: Int64 = 100
    static let pauseMillisecondsMax: Int64 = 5_000

    private var nextPauseMillisecondsMax = baseMilliseconds

    mutating func nextPauseMilliseconds() -> Int64 {
        let pause = Int64.random(in: 0...nextPauseMillisecondsMax)
        nextPauseMillisecondsMax = min(nextPauseMillisecondsMax * 2, Self.pauseMillisecondsMax)
        return pause
    }

    /// Sets the maximum to its smallest value again, because a call has got its reply, or a look-up has succeeded.
    mutating func reset() {
        nextPauseMillisecondsMax = Self.baseMilliseconds
    }
}
