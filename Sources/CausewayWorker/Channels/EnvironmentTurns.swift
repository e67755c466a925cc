/// Lets only a few callers at a time do some work for an app in an environment. The others wait for their turn.
///
/// Only the actor ``ChannelKeeper`` uses this class.
final class EnvironmentTurns {
    private struct Turns {
        var workingCallerCount = 0
        /// The waiting callers, in the order in which they came. Callers are few (R4): the owners of permits
        /// (``ChannelRequestQueues``), the periodic work, and a command of an operator.
        var waitingCallers: [CheckedContinuation<Void, Never>] = []
    }

    /// The maximum number of callers that have a turn at one time, in each app and environment.
    private let callersMax: Int
    private var turnsByEnvironment: [AppEnvironment: Turns] = [:]

    init(callersMax: Int) { self.callersMax = callersMax }

    /// Waits until the caller may work. When its work is done, the caller must call ``release(_:)``.
    func waitForTurn(_ appEnvironment: AppEnvironment, isolation: isolated (any Actor)? = #isolation) async {
        guard turnsByEnvironment[appEnvironment, default: Turns()].workingCallerCount >= callersMax else {
            turnsByEnvironment[appEnvironment, default: Turns()].workingCallerCount += 1
            return
        }
        await withCheckedContinuation { turnsByEnvironment[appEnvironment]?.waitingCallers.append($0) }
    }

    /// Ends the caller's turn. Of the waiting callers, the one that has waited longest may work now.
    func release(_ appEnvironment: AppEnvironment) {
        guard turnsByEnvironment[appEnvironment]?.waitingCallers.isEmpty == false else {
            turnsByEnvironment[appEnvironment]?.workingCallerCount -= 1
            if turnsByEnvironment[appEnvironment]?.workingCallerCount == 0 { turnsByEnvironment[appEnvironment] = nil }
            return
        }
        turnsByEnvironment[appEnvironment]?.waitingCallers.removeFirst().resume()
    }
}
