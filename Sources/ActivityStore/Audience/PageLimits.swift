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
    /// The maximum length of a page, in bytes. A longer page is rearranged. With a higher limit, a round would have
    /// fewer pages to read. But splitting a page of this length already stops the server for 0.4 ms.
    static let bytesMax = 4 * largeGrowthBytes - stringOverheadBytes
    /// Returns the length above which a page is split, measured after outdated entries were dropped.
    static func bytesAfterCompaction(of bytesMax: Int) -> Int { bytesMax * 7 / 10 }
    /// The length above which a page takes no more entries until it is rearranged. A page becomes this long
    /// only if no worker could rearrange it earlier.
    static let bytesBeforeFull = 6 * largeGrowthBytes
    /// The maximum number of pages of a segment: a directory must fit into one reply.
    static let pagesMax = 16_384
    /// If the expiry of a page was last renewed this long ago, the next join renews it.
    static let renewalSeconds: Int64 = 3_600
    /// How long a page lives after a renewal: without devices, and with devices. The last renewal may be an hour
    /// older than the last join. So a page lives for at least 25 hours or 90 days after the last join.
    static let activityLifetimeMilliseconds = StoreLimits.activityLifetimeMilliseconds + renewalSeconds * 1_000
    static let deviceLifetimeMilliseconds = StoreLimits.deviceLifetimeMilliseconds + renewalSeconds * 1_000
    /// How long an entry of an activity is kept after the registration of its token. An activity lives for eight
    /// hours and stays on the Lock Screen for up to four more (Apple, "ActivityKit"). So an older token is dead.
    static let activityEntryAgeMaxMilliseconds: Int64 = 12 * 3_600_000
    /// How long an entry that says that a member left is kept. By then every older entry of the member has arrived.
    static let leavingKeptMilliseconds: Int64 = 3_600_000

    /// Returns how long a page of this many bytes may become before the memory reserved for it grows.
    static func capacity(for bytes: Int) -> Int {
        let block = bytes + stringOverheadBytes
        let growth =
            block <= growthEndBytes ? growthBytes : block <= middleGrowthEndBytes ? middleGrowthBytes : largeGrowthBytes
        return (block + growth - 1) / growth * growth - stringOverheadBytes
    }
}
