/// How much an audience's record in Redis keeps: unfinished versions, and the state for members that join.
enum AudienceRecordLimits {
    /// The maximum number of versions of an audience whose progress Redis stores (R4). If there are more, Redis drops
    /// the oldest. Normally every range has finished that one, because a round has at most 32 versions at a time
    /// (`versionsPerRoundMax`).
    static let fanOutsMax = 64
    /// While a version is unfinished, later commands keep its number of ranges, because other ranges would overlap with
    /// its ranges. They keep the number for at most an hour. After this time the version will probably never finish:
    /// the record of one of its ranges may be lost.
    static let rangeCountKeptMillisecondsMax: Int64 = 3_600_000
    /// The maximum age, counted from the admission, of a state that members get when they join: 12 hours, the longest
    /// time for which an activity is visible.
    static let joinerBodyAgeMillisecondsMax: Int64 = 12 * 3_600_000
}
