import Synchronization

/// Rarely changing facts about the worker as a whole. The code that causes a change writes it; health and status read it.
package struct WorkerCondition: Sendable, Equatable {
    /// The worker's place in its consumer group.
    package enum Membership: UInt8, Sendable {
        /// The group has given the worker no partitions yet, or has revoked all to share them again, or no broker can be
        /// reached. A member id does not end this state: brokers hand one out at the first request to join (KIP-394). Only
        /// an assignment does; an empty one counts if the brokers have said that the topic has partitions. → `member`.
        case joining
        /// The worker has its share of the partitions. The share is empty if other workers have them all. → `joining`, `left`.
        case member
        /// The worker is stopping. Final.
        case left
    }

    package var membership = Membership.joining
    /// The partitions that the worker has now.
    package var partitionsAssigned = 0
    /// Whether the group has shared the partitions and this worker got none because a topic that it reads does not exist.
    package var isTopicMissing = false
    /// Whether every app's keys were read at the start.
    package var areKeysLoaded = false
    /// Apps whose new key file is refused, so that their previous key stays in use; by the core's number of the app.
    package var appsWithRejectedKey: Set<Int> = []
    /// By the number of the pool, once APNs has answered: whether the last answer about the provider token refused it (403).
    package var poolsKeyRefused: [Int: Bool] = [:]
    /// Whether a broker was reached once. Only after that an unreachable broker counts as away.
    package var hasReachedKafka = false
    /// Whether no broker can be reached, after one was reached before.
    package var isKafkaAway = false
    /// Whether the signal to stop has come.
    package var isDraining = false

    package init() {}
}

extension WorkerCondition {
    /// Whether APNs refuses every app's provider tokens: at least one pool was refused, and none was accepted.
    func isEveryKeyRefused(of labels: LabelSpace) -> Bool {
        labels.apps.allSatisfy { app in
            let verdicts = labels.pools.indices.filter { labels.pools[$0].app == app }
                .compactMap { poolsKeyRefused[$0] }
            return !verdicts.isEmpty && verdicts.allSatisfy { $0 }
        }
    }
}

/// Stores the condition for its readers.
package final class SharedCondition: Sendable {
    private let condition = Mutex(WorkerCondition())

    package init() {}

    package var now: WorkerCondition { condition.withLock { $0 } }

    package func change(_ body: (inout WorkerCondition) -> Void) {
        condition.withLock { body(&$0) }
    }
}
