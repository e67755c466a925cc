/// What each afflicted activity is sent once its host is back.
struct PushesAfterReturn {
    private enum Host {
        case there
        case away
        case back
    }

    private var host = Host.there
    private var leftAtSeconds: Int64 = 0
    /// Of each activity that got any: whether each was its newest state.
    private(set) var areNewest: [String: [Bool]] = [:]

    mutating func hostLeaves(atSeconds seconds: Int64) { (host, leftAtSeconds) = (.away, seconds) }

    mutating func hostReturns() { host = .back }

    /// A push that the host has accepted. What the worker had written before the host froze, the host reads from its sockets when it
    /// returns; no worker can take such a push back, so it does not count.
    mutating func note(_ push: OutageHistory.Push, isNewest: Bool) {
        guard host == .back, push.timestamp > leftAtSeconds else { return }
        areNewest[push.activity, default: []].append(isNewest)
    }
}
