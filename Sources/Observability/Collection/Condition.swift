import Synchronization

/// What is true of the worker as a whole and changes rarely: written by whoever brings it about, read by health and status.
package struct WorkerCondition: Sendable, Equatable {
    /// The worker's place in its consumer group.
    package enum Membership: UInt8, Sendable {
        /// Not in the group: joining, or out of reach of the brokers. → `member`.
        case joining
        /// In the group, with or without partitions. → `joining`, `left`.
        case member
        /// On its way out. Final.
        case left
    }

    package var membership = Membership.joining
    /// Every app's keys were read at the start.
    package var areKeysLoaded = false
    /// By the core's number of the app: a new key file is refused, and the key before it stays in use.
    package var appsWithRejectedKey: Set<Int> = []
    /// A broker was there once: one that is missed since then is away, and not still to be found.
    package var hasMetKafka = false
    /// From the signal to stop.
    package var isDraining = false

    package init() {}
}

/// Where the condition stands.
package final class ConditionBoard: Sendable {
    private let condition = Mutex(WorkerCondition())

    package init() {}

    package var now: WorkerCondition { condition.withLock { $0 } }

    package func change(_ body: (inout WorkerCondition) -> Void) {
        condition.withLock { body(&$0) }
    }
}
