/// Compares the times of registrations and unregistrations of one member.
public enum RegistrationTime {
    /// How far a stored time may be ahead of the clock, in milliseconds. A stored time that is further ahead counts as
    /// unknown: former releases stored times of clocks that were days ahead, and all present registrations would be
    /// older.
    ///
    /// This is twice as far as a worker lets a registration be ahead of its record
    /// (``Registration/limitTimes(ofRecordWrittenAtMilliseconds:)``), because the clocks of Kafka and Redis differ.
    public static let leadMillisecondsMax: Int64 = 2 * Limits.timestampLeadSecondsMax * 1_000

    /// Whether a registration at `milliseconds` is older than the stored one, and so changes nothing. A stored time
    /// that is too far ahead (``leadMillisecondsMax``) counts only if `milliseconds` is too far ahead too.
    public static func isOlder(
        _ milliseconds: Int64,
        than storedMilliseconds: Int64,
        nowMilliseconds: Int64
    ) -> Bool {
        guard milliseconds < storedMilliseconds else { return false }
        let latestMilliseconds = nowMilliseconds + leadMillisecondsMax
        return storedMilliseconds <= latestMilliseconds || milliseconds > latestMilliseconds
    }

    /// Whether a token was registered at `invalidAtMilliseconds` or later. APNs then perhaps found it dead before it
    /// knew this registration, so the token stays. (R17)
    public static func isRegistered(
        _ milliseconds: Int64,
        sinceInvalidAt invalidAtMilliseconds: Int64,
        nowMilliseconds: Int64
    ) -> Bool {
        milliseconds == invalidAtMilliseconds
            || isOlder(invalidAtMilliseconds, than: milliseconds, nowMilliseconds: nowMilliseconds)
    }
}
