/// The limits of an audience's record.
enum AudienceRecordLimits {
    /// The maximum number of versions of an audience whose progress Redis stores (R4). If there are more, Redis drops
    /// the oldest. Normally the oldest is finished, because a range has fewer versions than this under way.
    static let fanOutsMax = 64
    /// While a version is unfinished, later commands keep its number of ranges, because other ranges would overlap with
    /// its ranges. They keep it at most for this time, an hour. A version that takes longer is assumed never to finish:
    /// the record of one of its ranges may be lost.
    static let rangeCountKeptMillisecondsMax: Int64 = 3_600_000
    /// The maximum age, counted from the admission, of a state that members get when they join: 12 hours, the longest
    /// time for which an activity is visible.
    static let joinerBodyAgeMillisecondsMax: Int64 = 12 * 3_600_000
}
