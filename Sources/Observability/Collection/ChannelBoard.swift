import Synchronization

/// The numbers of broadcast channels, by the number of the pool. The channel keeper writes them; they are read with the metrics.
package final class ChannelBoard: Sendable {
    package struct Counts: Sendable, Equatable {
        /// Channels of audiences.
        package var known: Int64 = 0
        /// Channels that APNs lists, no matter who created them; 0 before the first look.
        package var listed: Int64 = 0
        package var created: Int64 = 0
        package var deleted: Int64 = 0
        /// Channels that were deleted because they had no owner.
        package var orphans: Int64 = 0
        /// Failed attempts to create a channel.
        package var refused: Int64 = 0

        package init() {}
    }

    private let counts: Mutex<[Counts]>

    init(poolCount: Int) {
        counts = Mutex(Array(repeating: Counts(), count: poolCount))
    }

    package func change(_ pool: Int, _ body: (inout Counts) -> Void) {
        counts.withLock { if $0.indices.contains(pool) { body(&$0[pool]) } }
    }

    package var now: [Counts] { counts.withLock { $0 } }
}
