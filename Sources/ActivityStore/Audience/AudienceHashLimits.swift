/// The limits of what an audience's hash in Redis keeps: how many versions, and how long their data is used.
enum AudienceHashLimits {
    /// Redis stores the progress of at most this many versions of an audience (R4). If there are more, Redis removes
    /// the oldest version. Normally all ranges have finished that version by then, because a round has fewer versions
    /// under way (`versionsPerRoundMax`).
    static let fanoutsMax = 64
    /// For how long after its admission an unfinished version sets the number of ranges of later versions. With another
    /// number, ranges of two versions would overlap, and two rounds would push to the same members. A version may wait
    /// for APNs as long as its state can be visible: an update for 8 hours, an end for 12. After 12 hours the version
    /// will probably never finish: the record of one of its ranges may be lost.
    static let rangeCountKeptMillisecondsMax: Int64 = 12 * 3_600_000
    /// The maximum age, counted from its admission, of a state that members get when they join: 12 hours, because no
    /// activity is visible longer.
    static let joinerBodyAgeMillisecondsMax: Int64 = 12 * 3_600_000
}
