/// The limits of what an audience's hash in Redis keeps: how many versions, and how long their data is used.
enum AudienceHashLimits {
    /// The maximum number of ranges, of all versions under way together, whose progress Redis stores (R4). A version is
    /// under way while it is unfinished, and was admitted within ``rangeCountKeptMillisecondsMax``. For example, there
    /// is room for 320 versions of 256 ranges, or for 1,024 versions of at most 80. Above the limit, Redis removes the
    /// oldest versions, so they get no result over all ranges (K27).
    ///
    /// One slow range is enough to keep many versions unfinished. For example, while APNs is unavailable, an alert may
    /// wait in a range for 300 s (the default of `expiration.alertSeconds`), and a new version may come each second.
    /// The counts of a finished range take about 130 bytes, so one hash can grow to 11 MB.
    static let rangesUnderWayMax = 320 * 256
    /// A version with fewer ranges counts as this many ranges, because each version also needs room in the list of
    /// versions. So at most 81,920 ÷ 80 = 1,024 versions are under way.
    static let countedRangesMin = 80
    /// The maximum number of versions that Redis stores although they are not under way. It keeps finished versions
    /// because a worker may repeat a call after a crash, and must then get the same totals.
    static let otherFanoutsMax = 64
    /// For how long after its admission an unfinished version is under way: 12 hours. A version may wait for APNs as
    /// long as a phone can show its state: an update for 8 hours, an end for 12. An older version will probably never
    /// finish, because the record of one of its ranges may be lost.
    ///
    /// While an unfinished version is one of the last ``otherFanoutsMax``, newer versions get its number of ranges.
    /// With another number, ranges of two versions would overlap, and two rounds would push to the same members.
    static let rangeCountKeptMillisecondsMax: Int64 = 12 * 3_600_000
    /// The maximum age, counted from its admission, of a state that members get when they join: 12 hours, because no
    /// activity is visible longer.
    static let joinerBodyAgeMillisecondsMax: Int64 = 12 * 3_600_000
}
