import LiveActivity

/// The scripts that perform the calls about audiences.
enum AudienceScript: Int, CaseIterable {
    /// Adds entries to pages.
    case append
    /// Makes, compacts and splits pages, and renews their expiry.
    case arrange
    /// Reads and changes an audience's record.
    case audience

    /// The scripts by their raw values. Made once, because substituting the constants takes milliseconds.
    static let bodies = allCases.map(\.body)

    /// The script with its named constants replaced by their values.
    var body: String {
        let resource =
            switch self {
            case .append: PackageResources.append_lua
            case .arrange: PackageResources.arrange_lua
            case .audience: PackageResources.audience_lua
            }
        return StoreScript.text(of: resource, Self.constants)
    }

    private static let constants: [(name: String, value: Int64)] = [
        // Pages.
        ("PAGE_BYTES_MAX", Int64(PageLimits.bytesMax)),
        ("PAGE_BYTES_AFTER_COMPACTION", Int64(PageLimits.bytesAfterCompaction(of: PageLimits.bytesMax))),
        ("PAGE_BYTES_BEFORE_FULL", Int64(PageLimits.bytesBeforeFull)),
        ("PAGE_RENEWAL_SECONDS", PageLimits.renewalSeconds),
        ("PAGE_ACTIVITY_LIFETIME", PageLimits.activityLifetimeMilliseconds),
        ("PAGE_DEVICE_LIFETIME", PageLimits.deviceLifetimeMilliseconds),
        ("PAGE_HEADER_BYTES", Int64(MemberPage.Header.byteCount)),
        ("PAGE_IS_FULL", Int64(MemberPage.Flag.isFull)),
        ("PAGES_MAX", Int64(PageLimits.pagesMax)),
        ("GROWTH_BYTES", Int64(PageLimits.growthBytes)), ("GROWTH_END", Int64(PageLimits.growthEndBytes)),
        ("MIDDLE_GROWTH_BYTES", Int64(PageLimits.middleGrowthBytes)),
        ("MIDDLE_GROWTH_END", Int64(PageLimits.middleGrowthEndBytes)),
        ("LARGE_GROWTH_BYTES", Int64(PageLimits.largeGrowthBytes)),
        ("STRING_OVERHEAD", Int64(PageLimits.stringOverheadBytes)),
        // Entries.
        ("ENTRY_BYTES_LEAST", Int64(StoredMember.bytesMin)),
        ("ENTRY_FIXED_BYTES", Int64(StoredMember.fixedBytes)),
        ("ENTRY_IS_DEVICE", Int64(StoredMember.Flag.device)),
        ("LEAVING_KEPT", PageLimits.leavingKeptMilliseconds),
        ("ACTIVITY_LIFE", PageLimits.activityEntryAgeMillisecondsMax),
        ("DEVICE_LIFE", StoreLimits.deviceLifetimeMilliseconds),
        // The record.
        ("ACTIVITY_LIFETIME_MILLISECONDS", StoreLimits.activityLifetimeMilliseconds),
        ("TIMESTAMP_MAX", Limits.timestampMax),
        ("FANOUTS_MAX", Int64(AudienceRecordLimits.fanOutsMax)),
        ("RANGE_COUNT_KEPT", AudienceRecordLimits.rangeCountKeptMilliseconds),
        ("BODY_KEPT", AudienceRecordLimits.bodyKeptMilliseconds),
    ]
}
