import Synchronization

/// The numbers of limited lifetimes. The keeper of lifetimes writes them; they are read with the metrics.
package final class LifetimeStatus: Sendable {
    private let needed = Atomic<Bool>(false)
    private let waitingCount = Atomic<Int>(0)
    private let endedCount = Atomic<Int>(0)
    private let restartedCount = Atomic<Int>(0)

    init() {}

    /// Whether a policy limits the lifetime of activities.
    package var isNeeded: Bool {
        get { needed.load(ordering: .relaxed) }
        set { needed.store(newValue, ordering: .relaxed) }
    }

    /// - Parameter waiting: the activities in all timetables.
    package func note(waiting: Int) { waitingCount.store(waiting, ordering: .relaxed) }

    /// Notes the commands that were produced.
    package func note(ended: Int, restarted: Int) {
        endedCount.add(ended, ordering: .relaxed)
        restartedCount.add(restarted, ordering: .relaxed)
    }

    var waiting: Int { waitingCount.load(ordering: .relaxed) }
    var ended: Int { endedCount.load(ordering: .relaxed) }
    var restarted: Int { restartedCount.load(ordering: .relaxed) }
}
