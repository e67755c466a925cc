/// The limits of an audience's record.
enum AudienceRecordLimits {
    /// The maximum number of versions whose rounds are stored: all that a range can have under way, and some
    /// ended ones.
    static let roundsMax = 64
    /// How long later commands must use the number of ranges of an unfinished round. A round that takes
    /// longer than this hour has lost a range.
    static let rangeCountKeptMilliseconds: Int64 = 3_600_000
    /// How long the newest state is stored for members that join: 12 h, the longest life of an activity.
    static let bodyKeptMilliseconds: Int64 = 12 * 3_600_000
}
