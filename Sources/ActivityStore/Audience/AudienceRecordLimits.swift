/// The limits of an audience's record.
enum AudienceRecordLimits {
    /// The maximum number of versions whose progress is stored. A range normally has fewer versions under way, so
    /// Redis drops the progress only of finished versions.
    static let fanOutsMax = 64
    /// How long a version that is not finished fixes the number of ranges for later commands: an hour. A version that
    /// takes longer is assumed never to finish, because the record of one of its ranges may be lost.
    static let rangeCountFixedMilliseconds: Int64 = 3_600_000
    /// The maximum age, counted from the admission, of a state that members get when they join: 12 hours, the longest
    /// time for which an activity is visible.
    static let bodyKeptMilliseconds: Int64 = 12 * 3_600_000
}
