import Synchronization

/// Facts about the whole worker that rarely change. The code that causes a change writes the fact; the health checks
/// and the status page read it.
package struct WorkerCondition: Sendable, Equatable {
    /// The worker's place in its consumer group.
    package enum ConsumerGroupState: UInt8, Sendable {
        /// The worker waits for its first assignment, or for the next one after partitions were revoked or lost. With
        /// the cooperative protocol, it may still have other partitions.
        ///
        /// An assignment with partitions makes the worker a `member` at once. After one without partitions, it becomes
        /// a member as soon as the brokers say that the commands topic has partitions. The member id is no proof of an
        /// assignment: a broker sends the id earlier, in its response to the first join request (KIP-394).
        case joining
        /// The group has assigned the worker its partitions: none if other workers have all of them.
        case member
        /// The worker has left the group, because it is stopping. This is the final state.
        case left
    }

    package var consumerGroupState = ConsumerGroupState.joining
    /// The number of partitions that the worker has now.
    package var assignedPartitionCount = 0
    /// Whether the worker got no partitions because the commands topic does not exist, or because the worker is not
    /// allowed to see the topic.
    package var isCommandsTopicMissing = false
    /// Whether the signing keys of all apps were read at the start.
    package var areSigningKeysLoaded = false
    /// The indices of apps with a new key file that cannot be used, or with a new key that APNs refuses. The previous
    /// key of such an app stays in use.
    package var appIndicesWithRejectedKey: Set<Int> = []
    /// For each pool, by its index: whether APNs refuses the provider token (403), its topic, or all requests. A
    /// refusal such as ExpiredProviderToken does not count, because the key's next token ends it.
    ///
    /// Each lane with traffic writes its value at each change, and again every 10 s (`ProviderStatus`); the last write
    /// counts. A pool is missing until a lane has written about it.
    package var isProviderRefusedByPoolIndex: [Int: Bool] = [:]
    /// Whether any broker was ever reached. Until then, `isKafkaUnreachable` is false.
    package var hasReachedKafka = false
    /// Whether no broker is reachable, although one was reached before.
    package var isKafkaUnreachable = false
    /// Whether the last reload of the configuration was rejected. The previous configuration stays in use.
    package var isConfigurationRejected = false
    /// How far Redis' clock is ahead of the machine's clock; negative: behind; 0 until Redis' clock was read.
    package var clockDifferenceMilliseconds: Int64 = 0
    /// Whether the worker corrects its own clock, because Redis' clock differs.
    package var isClockCorrected = false
    /// Whether Redis' clock was set back, so that the worker does not use its time.
    package var isRedisClockSetBack = false
    /// Whether the stop signal has come.
    package var isDraining = false

    package init() {}
}

extension WorkerCondition {
    /// Whether APNs refuses the provider of every app: its token, its topic, or all requests. An app is refused if APNs
    /// has refused it in at least one pool and has accepted it in none.
    func isEveryAppRefused(labels: LabelValues) -> Bool {
        labels.apps.allSatisfy { app in
            let refusals = labels.pools.indices.filter { labels.pools[$0].app == app }
                .compactMap { isProviderRefusedByPoolIndex[$0] }
            return !refusals.isEmpty && refusals.allSatisfy { $0 }
        }
    }
}

/// The worker's condition behind a lock, so that all threads can read and change it.
package final class SharedWorkerCondition: Sendable {
    private let condition = Mutex(WorkerCondition())

    package init() {}

    package var current: WorkerCondition { condition.withLock { $0 } }

    package func change(_ body: (inout WorkerCondition) -> Void) {
        condition.withLock { body(&$0) }
    }
}
