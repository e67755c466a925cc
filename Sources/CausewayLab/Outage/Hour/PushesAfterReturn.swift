/// Records the pushes to each activity of the affected app after the app's APNs host has returned.
struct PushesAfterReturn {
    private enum HostPhase {
        case beforeOutage
        case unreachable
        case returned
    }

    private var hostPhase = HostPhase.beforeOutage
    private var outageBeganAtSeconds: Int64 = 0
    /// The activities that got pushes after the host had returned. For each push: whether it had the activity's
    /// newest state.
    private(set) var newestStateFlagsByActivity: [String: [Bool]] = [:]

    mutating func noteHostOutage(atSeconds seconds: Int64) {
        (hostPhase, outageBeganAtSeconds) = (.unreachable, seconds)
    }

    mutating func noteHostReturn() { hostPhase = .returned }

    /// Records a push that the host has accepted. Ignores two kinds of pushes:
    ///
    /// - pushes before the host's return
    /// - pushes with an `aps.timestamp` up to the beginning of the outage. The worker may have written them to its
    ///   connections before the outage. When the host returns, it reads them from its sockets.
    mutating func add(_ push: OutageHistory.Push, isNewest: Bool) {
        guard hostPhase == .returned, push.timestamp > outageBeganAtSeconds else { return }
        newestStateFlagsByActivity[push.activity, default: []].append(isNewest)
    }
}
