/// Compares the times of registrations and unregistrations of one member.
public enum RegistrationTime {
    /// How far a stored time may be ahead of the clock, in milliseconds: twice as far as a worker lets a registration
    /// be ahead of its record (``Registration/limitTimes(ofRecordWrittenAtMilliseconds:)``), because the clocks of
    /// Kafka and Redis differ.
    ///
    /// Former releases also stored the times of clocks that are days ahead. A stored time that is further ahead counts
    /// as unknown. Otherwise each registration of the present would be older than the stored one.
    public static let leadMillisecondsMax: Int64 = 2 * Limits.timestampLeadSecondsMax * 1_000

    /// Whether a registration at `milliseconds` is older than the stored one, and so changes nothing. If both times are
    /// too far ahead, they are still compared, so that a repeated registration changes nothing.
    public static func isOlder(
        _ milliseconds: Int64,
        than storedMilliseconds: Int64,
        nowMilliseconds: Int64
    ) -> Bool {
        guard milliseconds < storedMilliseconds else { return false }
        let latestMilliseconds = nowMilliseconds + leadMillisecondsMax
        return storedMilliseconds <= latestMilliseconds || milliseconds > latestMilliseconds
    }

    /// Whether a token was registered at or after `invalidAtMilliseconds`, the time since which APNs knows that it is
    /// dead. APNs perhaps does not know this registration yet, so the token stays. (R17)
    public static func isRegistered(
        _ milliseconds: Int64,
        sinceInvalidAt invalidAtMilliseconds: Int64,
        nowMilliseconds: Int64
    ) -> Bool {
        milliseconds == invalidAtMilliseconds
            || isOlder(invalidAtMilliseconds, than: milliseconds, nowMilliseconds: nowMilliseconds)
    }
}
