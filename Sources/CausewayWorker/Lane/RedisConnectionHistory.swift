/// Distinguishes a reconnection to Redis from the first connection.
struct RedisConnectionHistory {
    private var hasBeenReady = false
    private var isLost = false

    /// Notes that the connection is ready. Returns whether this is a reconnection: the connection was ready before, and
    /// was lost.
    mutating func noteReady() -> Bool {
        defer {
            hasBeenReady = true
            isLost = false
        }
        return hasBeenReady && isLost
    }

    mutating func noteLost() { isLost = true }
}
