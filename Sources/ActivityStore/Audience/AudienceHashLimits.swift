/// The limits of what an audience's hash in Redis keeps: how many versions, and how long their data is used.
enum AudienceHashLimits {
    /// Redis stores the progress of at most this many versions of an audience (R4). If there are more, Redis removes
    /// the oldest version. Normally all ranges have finished that version by then, because a round has fewer versions
    /// under way (`versionsPerRoundMax`).
    static let fanoutsMax = 64
    /// For this time after its admission, an unfinished version decides how many ranges later versions get: the same
    /// number. With another number, ranges of the two versions would overlap. A version that is still unfinished after
    /// this time will probably never finish: the record of one of its ranges may be lost.
    static let rangeCountKeptMillisecondsMax: Int64 = 3_600_000
    /// The maximum age, counted from its admission, of a state that members get when they join: 12 hours, because no
    /// activity is visible longer.
    static let joinerBodyAgeMillisecondsMax: Int64 = 12 * 3_600_000
}
