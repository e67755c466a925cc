/// Lets only one channel at a time be created for each app in each environment. The client of APNs' channel management
/// carries out the requests of an app in an environment one after the other anyway. A creation takes its lease when its
/// turn comes, so that the lease does not expire while requests wait in the client. (R32)
///
/// Only the actor ``ChannelKeeper`` uses this class.
final class ChannelCreationTurns {
    /// The waiting callers, the first one first. Nil: nobody has the turn. Callers are few (R4): the owners of permits
    /// (``ChannelRequestQueues``), the periodic work, and a command of an operator.
    private var waitingCallers: [AppEnvironment: [CheckedContinuation<Void, Never>]] = [:]

    /// Waits until it is the caller's turn. The caller must release the turn.
    func take(_ appEnvironment: AppEnvironment, isolation: isolated (any Actor)? = #isolation) async {
        guard waitingCallers[appEnvironment] != nil else {
            waitingCallers[appEnvironment] = []
            return
        }
        await withCheckedContinuation { waitingCallers[appEnvironment]?.append($0) }
    }

    /// Gives the turn to the caller that has waited longest.
    func release(_ appEnvironment: AppEnvironment) {
        guard waitingCallers[appEnvironment]?.isEmpty == false else {
            waitingCallers[appEnvironment] = nil
            return
        }
        waitingCallers[appEnvironment]?.removeFirst().resume()
    }
}
