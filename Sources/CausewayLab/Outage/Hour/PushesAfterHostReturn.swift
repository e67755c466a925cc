/// The pushes to each activity of the affected app after the return of its APNs host.
struct PushesAfterHostReturn {
    private enum HostPhase {
        case beforeOutage
        case unreachable
        case returned
    }

    private var hostPhase = HostPhase.beforeOutage
    private var outageBeganAtSeconds: Int64 = 0
    /// By activity: for each push after the host's return, whether the push had the activity's newest state.
    private(set) var newestStateFlagsByActivity: [String: [Bool]] = [:]

    mutating func noteHostOutage(atSeconds seconds: Int64) {
        (hostPhase, outageBeganAtSeconds) = (.unreachable, seconds)
    }

    mutating func noteHostReturn() { hostPhase = .returned }

    /// Records a push that the host has accepted since its return. Ignores earlier pushes. Also ignores a push with an
    /// `aps.timestamp` up to the beginning of the outage: the worker may have written this push before the outage, and
    /// the returned host may have read it from its socket.
    mutating func add(_ push: OutageHistory.Push, hasNewestState: Bool) {
        guard hostPhase == .returned, push.timestamp > outageBeganAtSeconds else { return }
        newestStateFlagsByActivity[push.activity, default: []].append(hasNewestState)
    }
}
