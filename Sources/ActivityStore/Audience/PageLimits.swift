import LiveActivity

/// The limits of a segment's pages.
enum PageLimits {
    /// The memory that is reserved for a page grows in steps: up to 8 KiB in steps of 2 KiB, up to 16 KiB in steps of 4
    /// KiB, then in steps of 8 KiB. Each step writes the page again. A longer page costs more to write, so its steps
    /// are larger.
    ///
    /// Each resulting size is a size class of Redis' allocator (jemalloc), so the allocator reserves no more than that.
    static let smallPageGrowthBytes = 2_048
    static let smallPageBytesMax = 8_192
    static let mediumPageGrowthBytes = 4_096
    static let mediumPageBytesMax = 16_384
    static let largePageGrowthBytes = 8_192
    /// The bytes that Redis adds to a string of a page's length: its header (`sdshdr16`) and the zero byte after
    /// it.
    static let stringOverheadBytes = 6
    /// The length above which a page is rearranged, in bytes. The limit is not higher, because splitting a page of this
    /// length already stops the server for 0.4 ms. It is not lower, so that a round has fewer pages to read.
    static let unarrangedPageBytesMax = 4 * largePageGrowthBytes - stringOverheadBytes
    /// Returns the length above which a page is split, measured after outdated entries were removed. It is well below
    /// `unarrangedPageBytesMax`: otherwise a page that was not split would soon be too long again.
    ///
    /// - Parameter unarrangedBytesMax: the length above which a page is rearranged.
    static func unsplitPageBytesMax(of unarrangedBytesMax: Int) -> Int { unarrangedBytesMax * 7 / 10 }
    /// The length above which a page takes no more entries until it is rearranged, in bytes (R4). A page becomes this
    /// long only if no worker could rearrange it earlier, or if it cannot be split.
    static let appendablePageBytesMax = 6 * largePageGrowthBytes
    /// The maximum number of pages of a segment: a directory must fit into one reply.
    static let pagesMax = 16_384
    /// A new entry renews the expiry of its page only if the last renewal was at least this long ago, because a renewal
    /// costs a further script call.
    static let renewalIntervalSeconds: Int64 = 3_600
    /// How long Redis stores a page without devices after a renewal of the page's expiry. Each entry must stay at least
    /// for an activity's expiry. But an entry that comes less than `renewalIntervalSeconds` after a renewal does not
    /// renew the page's expiry, so this interval is added. (If a worker dies before it can renew the page's expiry,
    /// entries may be lost earlier.)
    static let activityExpiryMilliseconds = StoreLimits.activityExpiryMilliseconds + renewalIntervalSeconds * 1_000
    /// How long Redis stores a page with devices after a renewal of the page's expiry: a device's expiry, plus the
    /// interval for the same reason.
    static let deviceExpiryMilliseconds = StoreLimits.deviceExpiryMilliseconds + renewalIntervalSeconds * 1_000
    /// The age, counted from the registration of the token, above which `arrange` removes an activity's entry from a
    /// page that is too long. An activity lives for eight hours and stays on the Lock Screen for up to four more
    /// (Apple, "ActivityKit"). So an older token is dead.
    static let activityEntryAgeMillisecondsMax: Int64 = 12 * 3_600_000
    /// The age, counted from the entry's time, above which `arrange` removes an entry that says that a member left.
    /// After this time, every older entry of the member should have arrived.
    static let leavingEntryAgeMillisecondsMax: Int64 = 3_600_000

    /// Returns the capacity of a page of this length: how long the page may become in the memory that is reserved for
    /// it.
    static func capacity(for bytes: Int) -> Int {
        let blockBytes = bytes + stringOverheadBytes
        let growthBytes =
            blockBytes <= smallPageBytesMax
            ? smallPageGrowthBytes : blockBytes <= mediumPageBytesMax ? mediumPageGrowthBytes : largePageGrowthBytes
        return (blockBytes + growthBytes - 1) / growthBytes * growthBytes - stringOverheadBytes
    }
}
