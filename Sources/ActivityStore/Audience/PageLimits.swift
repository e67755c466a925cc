import LiveActivity

/// The bounds of a segment's pages.
enum PageLimits {
    /// By how much the memory reserved for a page grows, up to the end of each step. The sums are size classes of the allocator,
    /// so nothing is rounded up (jemalloc: every 1,024 bytes from 4 to 8 KiB, every 4,096 bytes from 16 to 32 KiB). The steps get
    /// larger because a longer page costs more to write again.
    static let growthBytes = 2_048
    static let growthEndBytes = 8_192
    static let middleGrowthBytes = 4_096
    static let middleGrowthEndBytes = 16_384
    static let largeGrowthBytes = 8_192
    /// What surrounds a string of this length in its block: its header and the byte after it (`sdshdr16`).
    static let stringOverheadBytes = 6
    /// A longer page is rearranged. Long pages mean fewer keys for a round to find among millions. But splitting one stops the
    /// server for longer: 0.4 ms at this length.
    static let bytesMax = 4 * largeGrowthBytes - stringOverheadBytes
    /// A page is split if it is still longer than this after compaction.
    static func bytesAfterCompaction(of bytesMax: Int) -> Int { bytesMax * 7 / 10 }
    /// A page that is longer than this, because nobody could rearrange it, takes no entries until it was rearranged.
    static let bytesBeforeFull = 6 * largeGrowthBytes
    /// The maximum number of pages of a segment: a directory must fit into one reply.
    static let pagesMax = 16_384
    /// How often the expiry of a page is renewed while members join.
    static let renewalSeconds: Int64 = 3_600
    /// The last renewal may be an hour older than the last join, so pages live for at least 25 hours after the last join.
    static let activityLifetimeMilliseconds = StoreLimits.activityLifetimeMilliseconds + renewalSeconds * 1_000
    static let deviceLifetimeMilliseconds = StoreLimits.deviceLifetimeMilliseconds + renewalSeconds * 1_000
    /// An activity lives for eight hours and stays on the Lock Screen for up to four more (Apple, "ActivityKit"). A token that
    /// was registered longer ago is dead.
    static let activityLifeMilliseconds: Int64 = 12 * 3_600_000
    /// How long an entry of a member that left is kept: longer than any older entry can be on its way.
    static let leavingKeptMilliseconds: Int64 = 3_600_000

    /// How long a page may become in the memory that is reserved for this many bytes.
    static func capacity(for bytes: Int) -> Int {
        let block = bytes + stringOverheadBytes
        let growth =
            block <= growthEndBytes ? growthBytes : block <= middleGrowthEndBytes ? middleGrowthBytes : largeGrowthBytes
        return (block + growth - 1) / growth * growth - stringOverheadBytes
    }
}
