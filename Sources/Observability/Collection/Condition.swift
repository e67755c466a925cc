import Synchronization

/// What is true of the worker as a whole and changes rarely: written where it is brought about, read by health and status.
package struct WorkerCondition: Sendable, Equatable {
    /// The worker's place in its consumer group.
    package enum Membership: UInt8, Sendable {
        /// The group has given this worker nothing yet, or has taken all back to share it again; or the brokers are out of reach. A
        /// member id says nothing: brokers hand one out at the first request to join (KIP-394). → `member`.
        case joining
        /// It has its share of the partitions, which is none where others have them all. → `joining`, `left`.
        case member
        /// On its way out. Final.
        case left
    }

    package var membership = Membership.joining
    /// What it was given, and has not given up.
    package var partitionsAssigned = 0
    /// The group has shared, and this worker got nothing because a topic that it reads is not there.
    package var isTopicMissing = false
    /// Every app's keys were read at the start.
    package var areKeysLoaded = false
    /// By the core's number of the app: a new key file is refused, and the key before it stays in use.
    package var appsWithRejectedKey: Set<Int> = []
    /// By the number of the pool, once APNs has answered it: whether the last answer that says so refused the provider token (403).
    package var poolsKeyRefused: [Int: Bool] = [:]
    /// A broker was there once: one that is missed since then is away, and not still to be found.
    package var hasMetKafka = false
    /// Every broker is out of reach, after one was met.
    package var isKafkaAway = false
    /// From the signal to stop.
    package var isDraining = false

    package init() {}
}

extension WorkerCondition {
    /// Whether APNs refuses the provider tokens of every app: one of its pools is refused, and none is taken.
    func isEveryKeyRefused(of labels: LabelSpace) -> Bool {
        labels.apps.allSatisfy { app in
            let verdicts = labels.pools.indices.filter { labels.pools[$0].app == app }
                .compactMap { poolsKeyRefused[$0] }
            return !verdicts.isEmpty && verdicts.allSatisfy { $0 }
        }
    }
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
