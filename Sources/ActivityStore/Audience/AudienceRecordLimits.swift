/// The limits of an audience's record.
enum AudienceRecordLimits {
    /// The maximum number of versions whose rounds are stored. It is more than a range can have under way, so
    /// only finished rounds are dropped.
    static let roundsMax = 64
    /// How long an unfinished round fixes the number of ranges for later commands. A round that takes longer
    /// than this hour will never finish, because one of its ranges is lost.
    static let rangeCountKeptMilliseconds: Int64 = 3_600_000
    /// How long the newest state is stored for members that join: 12 h, the longest life of an activity.
    static let bodyKeptMilliseconds: Int64 = 12 * 3_600_000
}
