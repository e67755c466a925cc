import Synchronization

/// The numbers of activities in the timetables, and of the commands that the lifetime keeper has produced. The keeper
/// writes these numbers, and the metrics read them. The worker's setup writes ``hasLifetimeLimits``, and the
/// lifetime keeper reads it.
package final class LifetimeStatus: Sendable {
    private let lifetimeLimitsFlag = Atomic<Bool>(false)
    private let waitingActivityCount = Atomic<Int>(0)
    private let endCommandCount = Atomic<Int>(0)
    private let restartCommandCount = Atomic<Int>(0)

    init() {}

    /// Whether any policy limits the lifetime of activities.
    package var hasLifetimeLimits: Bool {
        get { lifetimeLimitsFlag.load(ordering: .relaxed) }
        set { lifetimeLimitsFlag.store(newValue, ordering: .relaxed) }
    }

    /// - Parameter count: the number of activities in all timetables.
    package func setWaitingActivities(_ count: Int) { waitingActivityCount.store(count, ordering: .relaxed) }

    /// Counts the produced commands that end activities, and those that start them again.
    package func countCommands(ends: Int, restarts: Int) {
        endCommandCount.add(ends, ordering: .relaxed)
        restartCommandCount.add(restarts, ordering: .relaxed)
    }

    var waitingActivities: Int { waitingActivityCount.load(ordering: .relaxed) }
    var endCommands: Int { endCommandCount.load(ordering: .relaxed) }
    var restartCommands: Int { restartCommandCount.load(ordering: .relaxed) }
}
