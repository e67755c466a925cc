/// The limits of what an audience's hash in Redis keeps: how many versions, and how long their data is used.
enum AudienceHashLimits {
    /// The maximum number of ranges whose progress Redis stores for one audience, summed over all its versions under
    /// way (R4). A version is under way until it is finished, at most for ``rangeCountKeptMillisecondsMax``. Above the
    /// limit, Redis removes the oldest versions, so they get no result over all ranges (K27).
    ///
    /// A new version may come each second, and while APNs is unavailable, one slow range keeps each unfinished for
    /// minutes. A finished range takes about 130 bytes, so one hash can grow to 11 MB.
    static let rangesUnderWayMax = 320 * 256
    /// A version with fewer ranges counts as this many ranges, because each version also needs room in the list of
    /// versions. So at most 81,920 ÷ 80 = 1,024 versions are under way.
    static let countedRangesMin = 80
    /// The maximum number of versions that Redis stores although they are not under way. Finished versions are stored
    /// because a worker may repeat a call after a crash, and must then get the same totals.
    static let otherFanoutsMax = 64
    /// For how long after its admission an unfinished version is under way: 12 hours, because it may wait for APNs as
    /// long as a phone can show its state. An older version will probably never finish: the record of one of its ranges
    /// may be lost.
    ///
    /// A new version gets as many ranges as the newest unfinished version among the last ``otherFanoutsMax``. With
    /// another number, ranges of both would overlap, and two rounds would push to the same members.
    static let rangeCountKeptMillisecondsMax: Int64 = 12 * 3_600_000
    /// The maximum age, counted from its admission, of a state that members get when they join: 12 hours, because no
    /// activity is visible longer.
    static let joinerBodyAgeMillisecondsMax: Int64 = 12 * 3_600_000
}
