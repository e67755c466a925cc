/// The pause before the next attempt to connect: a random time up to a limit that doubles with each failure
/// ("full jitter"). So workers that lost their server at the same moment do not reconnect at the same moment
/// (R21).
struct ReconnectPause {
    static let baseMilliseconds: Int64 = 100
    static let capMilliseconds: Int64 = 5_000

    private var boundMilliseconds = baseMilliseconds

    mutating func next() -> Int64 {
        let pause = Int64.random(in: 0...boundMilliseconds)
        boundMilliseconds = min(boundMilliseconds * 2, Self.capMilliseconds)
        return pause
    }

    /// Sets the limit to its smallest value again, because the server has answered a call.
    mutating func reset() {
        boundMilliseconds = Self.baseMilliseconds
    }
}
