import Synchronization

/// The numbers of broadcast channels, by the number of the pool. The channel keeper writes them; they are read with the metrics.
package final class ChannelStatus: Sendable {
    package struct Counts: Sendable, Equatable {
        /// Channels of audiences.
        package var known: Int64 = 0
        /// Channels that APNs lists, no matter who created them; 0 before the first poll.
        package var listed: Int64 = 0
        package var created: Int64 = 0
        package var deleted: Int64 = 0
        /// Channels that were deleted because they had no owner.
        package var orphans: Int64 = 0
        /// Failed attempts to create a channel.
        package var refused: Int64 = 0
        /// Some audiences of the app get a channel here by the configuration.
        package var isDeclared = false
        /// Nil before this worker's first poll.
        package var outlook: Snapshot?
        package var trouble: Trouble?

        package init() {}
    }

    /// What a worker has seen of an app's channels at its last poll. Moments are UNIX milliseconds.
    package struct Snapshot: Sendable, Equatable {
        package var atMilliseconds: Int64
        /// When a worker has last held APNs' list against what is known; nil: none has.
        package var reconciledAtMilliseconds: Int64?
        /// Channels of audiences that have ended, and when the first of them is due.
        package var deletionsPlanned = 0
        package var nextDeletionMilliseconds: Int64?
        /// Creations that have begun, and are not known to have ended.
        package var creationsOpen = 0
        /// Channels that the topic does not have yet.
        package var unpublished = 0

        package init(atMilliseconds: Int64) { self.atMilliseconds = atMilliseconds }
    }

    /// What went wrong last, in words that say what to do.
    package struct Trouble: Sendable, Equatable {
        package var atMilliseconds: Int64
        package var text: String

        package init(atMilliseconds: Int64, text: String) {
            self.atMilliseconds = atMilliseconds
            self.text = text
        }
    }

    private let counts: Mutex<[Counts]>

    init(poolCount: Int) {
        counts = Mutex(Array(repeating: Counts(), count: poolCount))
    }

    package func change(_ pool: Int, _ body: (inout Counts) -> Void) {
        counts.withLock { if $0.indices.contains(pool) { body(&$0[pool]) } }
    }

    /// Changes the counts of all places where audiences get channels by the configuration.
    package func changeDeclared(_ body: (inout Counts) -> Void) {
        counts.withLock { counts in
            for pool in counts.indices where counts[pool].isDeclared { body(&counts[pool]) }
        }
    }

    package var now: [Counts] { counts.withLock { $0 } }
}
