/// Records the pushes to each activity of the affected app after the app's APNs host has returned.
struct PushesAfterReturn {
    private enum Host {
        case there
        case away
        case back
    }

    private var host = Host.there
    private var wentAwayAtSeconds: Int64 = 0
    /// The activities that got pushes after the return. For each push: whether it had the activity's newest
    /// state.
    private(set) var newestFlags: [String: [Bool]] = [:]

    mutating func hostWentAway(atSeconds seconds: Int64) { (host, wentAwayAtSeconds) = (.away, seconds) }

    mutating func hostReturned() { host = .back }

    /// Records a push that the host has accepted.
    ///
    /// Ignores pushes before the return, and pushes whose `aps.timestamp` is not after the freeze. The worker may have
    /// written those before the freeze: the host reads them from its sockets when it returns, and a worker cannot
    /// withdraw them.
    mutating func add(_ push: OutageHistory.Push, isNewest: Bool) {
        guard host == .back, push.timestamp > wentAwayAtSeconds else { return }
        newestFlags[push.activity, default: []].append(isNewest)
    }
}
