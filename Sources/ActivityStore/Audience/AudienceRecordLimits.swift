/// The bounds of what an audience's record holds.
enum AudienceRecordLimits {
    /// The maximum number of versions whose progress is known: more than a range can have under way, and some that have ended.
    static let roundsMax = 64
    /// How long a round may keep later commands at its number of ranges. A round that takes longer has lost a range.
    static let rangeCountKeptMilliseconds: Int64 = 3_600_000
    /// How long a member that joins is sent the newest state: the longest life of an activity.
    static let bodyKeptMilliseconds: Int64 = 12 * 3_600_000
}
