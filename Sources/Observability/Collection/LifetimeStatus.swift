import Synchronization

/// The numbers of activities in the timetables, and of the commands that the lifetime keeper has produced. The keeper
/// writes these numbers, and the metrics read them. The worker's setup writes ``isNeeded``, and the
/// lifetime keeper reads it.
package final class LifetimeStatus: Sendable {
    private let isAnyNeeded = Atomic<Bool>(false)
    private let waitingActivityCount = Atomic<Int>(0)
    private let endCommandCount = Atomic<Int>(0)
    private let restartCommandCount = Atomic<Int>(0)

    init() {}

    /// Whether any policy limits the lifetime of activities.
    package var isNeeded: Bool {
        get { isAnyNeeded.load(ordering: .relaxed) }
        set { isAnyNeeded.store(newValue, ordering: .relaxed) }
    }

    /// - Parameter activities: the number of activities in all timetables.
    package func setWaitingActivities(_ activities: Int) { waitingActivityCount.store(activities, ordering: .relaxed) }

    /// Counts the produced commands that end activities, and those that start them again.
    package func addCommands(ends: Int, restarts: Int) {
        endCommandCount.add(ends, ordering: .relaxed)
        restartCommandCount.add(restarts, ordering: .relaxed)
    }

    var waitingActivities: Int { waitingActivityCount.load(ordering: .relaxed) }
    var endCommands: Int { endCommandCount.load(ordering: .relaxed) }
    var restartCommands: Int { restartCommandCount.load(ordering: .relaxed) }
}
