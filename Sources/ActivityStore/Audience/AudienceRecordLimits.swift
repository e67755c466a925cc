/// The bounds of what is kept of an audience beside its members.
enum AudienceRecordLimits {
    /// Versions of which it is known what their ranges have been through: more than a range has under way, and some that are over.
    static let roundsMax = 64
    /// How long a round may hold the number of ranges as it is: one that takes longer has lost a range.
    static let rangeCountKeptMilliseconds: Int64 = 3_600_000
    /// How long a member that joins is sent the newest state: the longest life of an activity.
    static let bodyKeptMilliseconds: Int64 = 12 * 3_600_000
}
