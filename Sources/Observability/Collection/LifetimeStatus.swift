import Synchronization

/// Counts limited lifetimes. The lifetime keeper writes the counts, and the metrics read them.
package final class LifetimeStatus: Sendable {
    private let needed = Atomic<Bool>(false)
    private let waitingCount = Atomic<Int>(0)
    private let endedCount = Atomic<Int>(0)
    private let restartedCount = Atomic<Int>(0)

    init() {}

    /// Whether any policy limits the lifetime of activities.
    package var isNeeded: Bool {
        get { needed.load(ordering: .relaxed) }
        set { needed.store(newValue, ordering: .relaxed) }
    }

    /// - Parameter waiting: the number of activities in all timetables.
    package func note(waiting: Int) { waitingCount.store(waiting, ordering: .relaxed) }

    /// Counts the produced commands that end activities, and those that start them again.
    package func note(ended: Int, restarted: Int) {
        endedCount.add(ended, ordering: .relaxed)
        restartedCount.add(restarted, ordering: .relaxed)
    }

    var waiting: Int { waitingCount.load(ordering: .relaxed) }
    var ended: Int { endedCount.load(ordering: .relaxed) }
    var restarted: Int { restartedCount.load(ordering: .relaxed) }
}
