import LiveActivity

/// The bounds of a segment's pages.
enum PageLimits {
    /// By how much the memory that is reserved for a page grows, up to the end of each step. Multiples of it are size classes of the allocator
    /// (jemalloc: each 1,024 bytes from 4 through 8 KiB, each 4,096 from 16 through 32), so that nothing is rounded up. The longer a page, the
    /// more it costs to write it again.
    static let growthBytes = 2_048
    static let growthEndBytes = 8_192
    static let middleGrowthBytes = 4_096
    static let middleGrowthEndBytes = 16_384
    static let largeGrowthBytes = 8_192
    /// What a string of this length has around it in one block: its header and the byte behind it (`sdshdr16`).
    static let stringOverheadBytes = 6
    /// A longer page is rearranged. With longer pages a round finds fewer keys among millions, and a split stops the server for longer: 0.4 ms.
    static let bytesMax = 4 * largeGrowthBytes - stringOverheadBytes
    /// A page that is still longer when what does not count has been dropped is split.
    static func bytesAfterCompaction(of bytesMax: Int) -> Int { bytesMax * 7 / 10 }
    /// A page that is longer, since nobody could rearrange it, takes no entry until it has been.
    static let bytesBeforeFull = 6 * largeGrowthBytes
    /// The most pages of a segment: a directory must fit into one reply.
    static let pagesMax = 16_384
    /// How often the expiry of a page is renewed while members join.
    static let renewalSeconds: Int64 = 3_600
    /// At least 25 hours after the last join, since the last renewal is up to an hour older.
    static let activityLifetimeMilliseconds = StoreLimits.activityLifetimeMilliseconds + renewalSeconds * 1_000
    static let deviceLifetimeMilliseconds = StoreLimits.deviceLifetimeMilliseconds + renewalSeconds * 1_000
    /// An activity lives for eight hours and stays on the Lock Screen for up to four more (Apple, "ActivityKit"): a token that was registered
    /// longer ago is dead.
    static let activityLifeMilliseconds: Int64 = 12 * 3_600_000
    /// An entry that a member has left outlives every older entry that is still on its way.
    static let leavingKeptMilliseconds: Int64 = 3_600_000

    /// How long a page may become in the memory that is reserved for this many bytes.
    static func capacity(for bytes: Int) -> Int {
        let block = bytes + stringOverheadBytes
        let growth =
            block <= growthEndBytes ? growthBytes : block <= middleGrowthEndBytes ? middleGrowthBytes : largeGrowthBytes
        return (block + growth - 1) / growth * growth - stringOverheadBytes
    }
}
