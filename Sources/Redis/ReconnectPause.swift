/// How long to wait before the next attempt to connect: between nothing and a bound that doubles with each failure ("full
/// jitter"), so that a fleet which lost its server together does not come back together.
struct ReconnectPause {
    static let baseMilliseconds: Int64 = 100
    static let capMilliseconds: Int64 = 5_000

    private var boundMilliseconds = baseMilliseconds

    mutating func next() -> Int64 {
        let pause = Int64.random(in: 0...boundMilliseconds)
        boundMilliseconds = min(boundMilliseconds * 2, Self.capMilliseconds)
        return pause
    }

    /// The server has done something for us.
    mutating func reset() {
        boundMilliseconds = Self.baseMilliseconds
    }
}
