import LiveActivity

/// The limits of a segment's pages.
enum PageLimits {
    /// The steps in which the memory reserved for a page grows, and the length up to which each step applies.
    /// All resulting sizes are size classes of the allocator, so it rounds nothing up. (jemalloc has a class
    /// every 1,024 bytes from 4 to 8 KiB, and every 4,096 bytes from 16 to 32 KiB.) Longer pages have larger
    /// steps because they cost more to write again.
    static let growthBytes = 2_048
    static let growthEndBytes = 8_192
    static let middleGrowthBytes = 4_096
    static let middleGrowthEndBytes = 16_384
    static let largeGrowthBytes = 8_192
    /// The bytes that Redis adds to a string of this length: its header (`sdshdr16`) and the zero byte after
    /// it.
    static let stringOverheadBytes = 6
    /// The maximum length of a page, in bytes. A longer page is rearranged. A higher limit would mean fewer
    /// pages to look up in a round. But splitting a page of this length already stops the server for 0.4 ms.
    static let bytesMax = 4 * largeGrowthBytes - stringOverheadBytes
    /// Returns the length above which a page is split, measured after outdated entries were dropped.
    static func bytesAfterCompaction(of bytesMax: Int) -> Int { bytesMax * 7 / 10 }
    /// The length above which a page takes no more entries until it is rearranged. A page becomes this long
    /// only if no worker could rearrange it earlier.
    static let bytesBeforeFull = 6 * largeGrowthBytes
    /// The maximum number of pages of a segment: a directory must fit into one reply.
    static let pagesMax = 16_384
    /// How often the expiry of a page is renewed while members join.
    static let renewalSeconds: Int64 = 3_600
    /// The last renewal may be an hour older than the last join, so pages live for at least 25 hours after
    /// the last join.
    static let activityLifetimeMilliseconds = StoreLimits.activityLifetimeMilliseconds + renewalSeconds * 1_000
    static let deviceLifetimeMilliseconds = StoreLimits.deviceLifetimeMilliseconds + renewalSeconds * 1_000
    /// An activity lives for eight hours and stays on the Lock Screen for up to four more (Apple,
    /// "ActivityKit"). A token that was registered longer ago is dead.
    static let activityLifeMilliseconds: Int64 = 12 * 3_600_000
    /// How long an entry of a member that left is kept. By then every older entry of the member has arrived.
    static let leavingKeptMilliseconds: Int64 = 3_600_000

    /// Returns how long a page of this many bytes may become before the memory reserved for it grows.
    static func capacity(for bytes: Int) -> Int {
        let block = bytes + stringOverheadBytes
        let growth =
            block <= growthEndBytes ? growthBytes : block <= middleGrowthEndBytes ? middleGrowthBytes : largeGrowthBytes
        return (block + growth - 1) / growth * growth - stringOverheadBytes
    }
}
