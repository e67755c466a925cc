import Synchronization

/// What the metrics show about lifetimes: how many activities are in the timetables, how many commands the lifetime
/// keeper has produced, and whether it fails. The keeper writes these values. The worker's setup writes
/// ``hasLifetimeLimits``, and the keeper reads it.
package final class LifetimeStatus: Sendable {
    private let atomicHasLifetimeLimits = Atomic<Bool>(false)
    private let atomicIsFailing = Atomic<Bool>(false)
    private let atomicTimetableActivityCount = Atomic<Int>(0)
    private let atomicEndCommandCount = Atomic<Int>(0)
    private let atomicRestartCommandCount = Atomic<Int>(0)

    init() {}

    /// Whether any policy limits the lifetime of activities.
    package var hasLifetimeLimits: Bool {
        get { atomicHasLifetimeLimits.load(ordering: .relaxed) }
        set { atomicHasLifetimeLimits.store(newValue, ordering: .relaxed) }
    }

    /// Whether the keeper's last poll failed, or activities still wait because of an earlier failed poll.
    package var isFailing: Bool {
        get { atomicIsFailing.load(ordering: .relaxed) }
        set { atomicIsFailing.store(newValue, ordering: .relaxed) }
    }

    /// Sets the number of activities in all timetables.
    package func setTimetableActivityCount(_ count: Int) {
        atomicTimetableActivityCount.store(count, ordering: .relaxed)
    }

    /// Adds to the numbers of commands that the keeper produced: to end activities, and to start them again.
    package func countCommands(endCount: Int, restartCount: Int) {
        atomicEndCommandCount.add(endCount, ordering: .relaxed)
        atomicRestartCommandCount.add(restartCount, ordering: .relaxed)
    }

    var timetableActivityCount: Int { atomicTimetableActivityCount.load(ordering: .relaxed) }
    var endCommandCount: Int { atomicEndCommandCount.load(ordering: .relaxed) }
    var restartCommandCount: Int { atomicRestartCommandCount.load(ordering: .relaxed) }
}
