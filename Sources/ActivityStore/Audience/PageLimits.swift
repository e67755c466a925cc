import LiveActivity

/// The limits of a segment's pages.
enum PageLimits {
    /// The memory that is reserved for a page grows in steps: up to 8 KiB by 2 KiB, up to 16 KiB by 4 KiB, then by 8
    /// KiB. Each step writes the page again, which costs more for a longer page, so its steps are larger. All these
    /// sizes are size classes of Redis' allocator (jemalloc), so that no memory is wasted.
    static let smallPageGrowthBytes = 2_048
    static let smallPageBytesMax = 8_192
    static let mediumPageGrowthBytes = 4_096
    static let mediumPageBytesMax = 16_384
    static let largePageGrowthBytes = 8_192
    /// How many bytes Redis adds to a string of a page's length: a header (`sdshdr16`) and a zero byte at the end.
    static let stringOverheadBytes = 6
    /// The length above which a page is rearranged, in bytes. With a higher limit, a split would stop the server for
    /// too long: splitting a page of this length already takes 0.4 ms. With a lower limit, a round would have to read
    /// more pages.
    static let unarrangedPageBytesMax = 4 * largePageGrowthBytes - stringOverheadBytes
    /// Returns the length above which a page is split, if it is still longer after its outdated entries were removed. A
    /// page that is not split has room to grow: this length is 30 % below the length at which it is rearranged again.
    ///
    /// - Parameter unarrangedBytesMax: the length above which a page is rearranged.
    static func unsplitPageBytesMax(of unarrangedBytesMax: Int) -> Int { unarrangedBytesMax * 7 / 10 }
    /// The length above which a page accepts no more entries until it is rearranged, in bytes (R4). A page becomes this
    /// long only if no worker could rearrange it earlier, or if it cannot be split.
    static let appendablePageBytesMax = 6 * largePageGrowthBytes
    /// The maximum number of pages of a segment. A directory of so many pages (64 KiB) still fits into one reply.
    static let pagesMax = 16_384
    /// How old the last renewal of a page's expiry must be before a new entry renews it again. Without this interval,
    /// every entry would cost a further script call.
    static let renewalIntervalSeconds: Int64 = 3_600
    /// How long Redis stores a page without devices after a renewal of the page's expiry: as long as an activity, plus
    /// the time in which new entries do not renew it.
    static let activityExpiryMilliseconds = StoreLimits.activityExpiryMilliseconds + renewalIntervalSeconds * 1_000
    /// How long Redis stores a page with devices after a renewal of the page's expiry: as long as a device, plus the
    /// time in which new entries do not renew it.
    static let deviceExpiryMilliseconds = StoreLimits.deviceExpiryMilliseconds + renewalIntervalSeconds * 1_000
    /// The age above which `arrange` removes an activity's entry from a page that is too long, counted from the
    /// registration of the token. An activity lives for eight hours and stays on the Lock Screen for up to four more
    /// (Apple, "ActivityKit"). So an older token is dead.
    static let activityEntryAgeMillisecondsMax: Int64 = 12 * 3_600_000
    /// The age above which `arrange` removes an entry that says that a member left, counted from the entry's time. The
    /// entry must stay until no older entry can arrive any more, because that one would list the member again.
    static let leavingEntryAgeMillisecondsMax: Int64 = 3_600_000

    /// Returns the length up to which a page that has `pageBytes` bytes can grow before Redis must reserve more memory.
    static func capacityBytes(forPageBytes pageBytes: Int) -> Int {
        let blockBytes = pageBytes + stringOverheadBytes
        let growthBytes =
            blockBytes <= smallPageBytesMax
            ? smallPageGrowthBytes : blockBytes <= mediumPageBytesMax ? mediumPageGrowthBytes : largePageGrowthBytes
        return (blockBytes + growthBytes - 1) / growthBytes * growthBytes - stringOverheadBytes
    }
}
