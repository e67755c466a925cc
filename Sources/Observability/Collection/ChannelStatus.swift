import Synchronization

/// What the metrics and the status page show about broadcast channels: one status for each pool, in the order of
/// ``LabelValues/pools``. The channel keeper's events change these values, except ``PoolStatus/hasConfiguredChannels``,
/// which the worker's setup sets.
package final class ChannelStatus: Sendable {
    package struct PoolStatus: Sendable, Equatable {
        /// The number of channels in the registry when this worker last read it. Channels that are being deleted count
        /// too.
        package var audienceChannelCount: Int64 = 0
        /// The number of channels, including those of other programs, in the newest list that any worker got from APNs.
        /// This worker reads the number from Redis. 0 before the first list.
        package var listedChannelCount: Int64 = 0
        package var creationCount: Int64 = 0
        package var deletionCount: Int64 = 0
        /// The number of deleted orphans: channels that belonged to no audience.
        package var orphanDeletionCount: Int64 = 0
        /// The number of failed attempts of this worker to create a channel.
        package var failedCreationCount: Int64 = 0
        /// Whether the configuration gives a channel in this environment to some of the app's audiences.
        package var hasConfiguredChannels = false
        /// The registry as this worker last read it; nil before the first time.
        package var lastRegistryReading: RegistryReading?
        package var lastFailure: Failure?

        package init() {}
    }

    /// The registry of an app in one environment, as this worker last read it. Times are UNIX milliseconds.
    package struct RegistryReading: Sendable, Equatable {
        package var readAtWallMilliseconds: Int64
        /// When any worker last compared APNs' list with the registry; nil: never.
        package var reconciledAtWallMilliseconds: Int64?
        /// The number of channels that will be deleted or are being deleted. `nextDeletionAtWallMilliseconds` is the
        /// time of the first of these deletions.
        package var plannedDeletionCount = 0
        package var nextDeletionAtWallMilliseconds: Int64?
        /// The number of channels that a worker has begun to create, with no result in Redis yet. Each has an intent in
        /// Redis (R32).
        package var unfinishedCreationCount = 0
        /// The number of channels that are not on the channels topic yet.
        package var unpublishedChannelCount = 0

        package init(readAtWallMilliseconds: Int64) { self.readAtWallMilliseconds = readAtWallMilliseconds }
    }

    /// The last error with channels, and when it happened. `reason` also says what to do, if an operator must act.
    package struct Failure: Sendable, Equatable {
        package var failedAtWallMilliseconds: Int64
        package var reason: String

        package init(failedAtWallMilliseconds: Int64, reason: String) {
            self.failedAtWallMilliseconds = failedAtWallMilliseconds
            self.reason = reason
        }
    }

    private let lockedStatuses: Mutex<[PoolStatus]>

    init(poolCount: Int) {
        lockedStatuses = Mutex(Array(repeating: PoolStatus(), count: poolCount))
    }

    package func change(_ pool: Int, _ body: (inout PoolStatus) -> Void) {
        lockedStatuses.withLock { if $0.indices.contains(pool) { body(&$0[pool]) } }
    }

    /// Changes the status of each pool that has ``PoolStatus/hasConfiguredChannels``.
    package func changePoolsWithConfiguredChannels(_ body: (inout PoolStatus) -> Void) {
        lockedStatuses.withLock { poolStatuses in
            for pool in poolStatuses.indices where poolStatuses[pool].hasConfiguredChannels {
                body(&poolStatuses[pool])
            }
        }
    }

    package var poolStatuses: [PoolStatus] { lockedStatuses.withLock { $0 } }
}
