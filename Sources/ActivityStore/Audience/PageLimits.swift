import LiveActivity

/// The bounds of a segment's pages.
enum PageLimits {
    /// By how much the memory that is reserved for a page grows. Multiples of it up to ``bytesMax`` are size classes of the allocator (jemalloc:
    /// each 1,024 bytes from 4 through 8 KiB), so that nothing is rounded up.
    static let growthBytes = 2_048
    /// What a string of this length has around it in one block: its header and the byte behind it (`sdshdr16`).
    static let stringOverheadBytes = 6
    /// A longer page is rearranged.
    static let bytesMax = 4 * growthBytes - stringOverheadBytes
    /// A page that is still longer when what does not count has been dropped is split.
    static let bytesAfterCompaction = bytesMax * 7 / 10
    /// A page that is longer, since nobody could rearrange it, takes no entry until it has been.
    static let bytesBeforeFull = 6 * growthBytes
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
        (bytes + stringOverheadBytes + growthBytes - 1) / growthBytes * growthBytes - stringOverheadBytes
    }
}
