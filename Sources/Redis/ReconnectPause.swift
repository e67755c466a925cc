/// The pause before the next attempt to connect, or to look up a cluster's slots. It is a random time up to a bound,
/// which doubles with each failure until it reaches its cap ("full jitter"). So workers that lost their server at the
/// same moment do not all reconnect at the same moment (R21).
struct ReconnectPause {
    static let baseMilliseconds: Int64 = 100
    static let capMilliseconds: Int64 = 5_000

    private var boundMilliseconds = baseMilliseconds

    mutating func nextPauseMilliseconds() -> Int64 {
        let pause = Int64.random(in: 0...boundMilliseconds)
        boundMilliseconds = min(boundMilliseconds * 2, Self.capMilliseconds)
        return pause
    }

    /// Sets the bound to its smallest value again, because a call has got its reply, or a look-up has succeeded.
    mutating func reset() {
        boundMilliseconds = Self.baseMilliseconds
    }
}
