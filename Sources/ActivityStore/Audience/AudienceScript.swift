import LiveActivity

/// The scripts that perform the calls about audiences.
enum AudienceScript: Int, CaseIterable {
    /// Adds entries to pages.
    case append
    /// Makes, shortens and splits pages, and renews their expiry.
    case arrange
    /// Reads and changes an audience's hash.
    case audience

    /// The texts of the scripts, by the scripts' raw values. They are made once, because putting in all constants takes
    /// milliseconds.
    static let luaSources = allCases.map(\.luaSource)

    /// The script's text, with values in place of its named constants.
    var luaSource: String {
        let parts =
            switch self {
            case .append: [PackageResources.append_lua]
            case .arrange: [PackageResources.arrange_lua]
            case .audience: [PackageResources.versions_lua, PackageResources.audience_lua]
            }
        return StoreScript.luaSource(of: parts, Self.constants)
    }

    private static let constants: [(name: String, value: Int64)] = [
        // Pages (`PageLimits`): their lengths and expiries, the steps in which they grow, the bytes of their header.
        ("PAGE_BYTES_BEFORE_ARRANGING", Int64(PageLimits.unarrangedPageBytesMax)),
        ("PAGE_BYTES_BEFORE_SPLIT", Int64(PageLimits.unsplitPageBytesMax(of: PageLimits.unarrangedPageBytesMax))),
        ("PAGE_BYTES_BEFORE_FULL", Int64(PageLimits.appendablePageBytesMax)),
        ("PAGE_RENEWAL_SECONDS", PageLimits.renewalIntervalSeconds),
        ("PAGE_ACTIVITY_EXPIRY_MILLISECONDS", PageLimits.activityExpiryMilliseconds),
        ("PAGE_DEVICE_EXPIRY_MILLISECONDS", PageLimits.deviceExpiryMilliseconds),
        ("PAGE_HEADER_BYTES", Int64(MemberPage.Header.byteCount)),
        ("PAGE_IS_FULL", Int64(MemberPage.Flag.fullBit)),
        ("PAGES_MAX", Int64(PageLimits.pagesMax)),
        ("SMALL_GROWTH_BYTES", Int64(PageLimits.smallPageGrowthBytes)),
        ("SMALL_PAGE_BYTES_MAX", Int64(PageLimits.smallPageBytesMax)),
        ("MEDIUM_GROWTH_BYTES", Int64(PageLimits.mediumPageGrowthBytes)),
        ("MEDIUM_PAGE_BYTES_MAX", Int64(PageLimits.mediumPageBytesMax)),
        ("LARGE_GROWTH_BYTES", Int64(PageLimits.largePageGrowthBytes)),
        ("STRING_OVERHEAD_BYTES", Int64(PageLimits.stringOverheadBytes)),
        // Members' entries in pages: their sizes; the bit that marks a device's entry; the ages above which `arrange`
        // removes an entry. (A script tests a bit with its modulus: see `StoreScript`.)
        ("ENTRY_BYTES_MIN", Int64(MemberEntryFormat.bytesMin)),
        ("ENTRY_FIXED_BYTES", Int64(MemberEntryFormat.fixedPartBytes)),
        ("ENTRY_IS_DEVICE", Int64(MemberEntryFormat.Flag.deviceBit)),
        ("ENTRY_IS_DEVICE_MODULUS", 2 * Int64(MemberEntryFormat.Flag.deviceBit)),
        ("LEAVING_ENTRY_AGE_MAX", PageLimits.leavingEntryAgeMillisecondsMax),
        ("ACTIVITY_ENTRY_AGE_MAX", PageLimits.activityEntryAgeMillisecondsMax),
        ("DEVICE_ENTRY_AGE_MAX", StoreLimits.deviceExpiryMilliseconds),
        ("REGISTRATION_LEAD_MAX", RegistrationTime.leadMillisecondsMax),
        // The audience's hash, which the script `audience` describes: its expiry and its limits.
        ("ACTIVITY_EXPIRY_MILLISECONDS", StoreLimits.activityExpiryMilliseconds),
        ("TIMESTAMP_MAX", Limits.timestampMax),
        ("RANGES_UNDER_WAY_MAX", Int64(AudienceHashLimits.rangesUnderWayMax)),
        ("COUNTED_RANGES_MIN", Int64(AudienceHashLimits.countedRangesMin)),
        ("RANGES_MAX", Int64(MemberLocation.segmentCount)),
        ("OTHER_FANOUTS_MAX", Int64(AudienceHashLimits.otherFanoutsMax)),
        ("RANGE_COUNT_KEPT_MILLISECONDS_MAX", AudienceHashLimits.rangeCountKeptMillisecondsMax),
        ("JOINER_BODY_AGE_MILLISECONDS_MAX", AudienceHashLimits.joinerBodyAgeMillisecondsMax),
        // Bits of a command to an audience and of its admission. Each has a modulus, with which the scripts test it
        // (see the top of admit.lua). A number modulo KIND_MODULUS keeps only the bits IS_END and IS_START.
        ("IS_END", Int64(AudienceRequestBits.isEndBit)),
        ("IS_END_MODULUS", 2 * Int64(AudienceRequestBits.isEndBit)),
        ("IS_START", Int64(AudienceRequestBits.isStartBit)),
        ("IS_START_MODULUS", 2 * Int64(AudienceRequestBits.isStartBit)),
        ("KIND_MODULUS", 2 * Int64(AudienceRequestBits.isStartBit)),
        ("REQUESTS_HIGH_PRIORITY", Int64(AudienceRequestBits.requestsHighPriorityBit)),
        ("REQUESTS_HIGH_PRIORITY_MODULUS", 2 * Int64(AudienceRequestBits.requestsHighPriorityBit)),
        ("MAY_USE_RESERVE", Int64(AudienceRequestBits.mayUseReserveBit)),
        ("IS_DEMOTED", Int64(StoredAdmissionBits.isDemotedBit)),
        // The two priorities that a budget can grant.
        ("LOW_PRIORITY", Int64(PushPriority.low)), ("HIGH_PRIORITY", Int64(PushPriority.high)),
        // The parts of byte 22 of a fan-out in the hash: a bit, and the factor of a number (`StoredFanout`).
        ("IS_FINISHED", Int64(StoredFanout.isFinishedBit)),
        ("IS_FINISHED_MODULUS", 2 * Int64(StoredFanout.isFinishedBit)),
        ("BROADCAST_COUNT_FACTOR", StoredFanout.broadcastCountFactor),
    ]
}
