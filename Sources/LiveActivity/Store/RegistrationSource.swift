/// Where a registered update token came from.
@frozen
public enum RegistrationSource: Hashable, Sendable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If Redis already has this token, the token keeps its earlier registration time. If this token is
    /// the last one that Redis retired, Redis does not store it: the reply is `stale`.
    case command
    /// From a record that is read again because Redis lost data. The next push then gets a timestamp above the present
    /// second, even if the activity already has a token again. The reason: Redis no longer knows how far it had raised
    /// earlier timestamps (R11), and phones ignore lower ones.
    ///
    /// - Parameters:
    ///   - alertsReleasedUntilMilliseconds: UNIX milliseconds. Before the loss, the registration has probably released
    ///     every alert up to this time. If a Redis that was restored from an old copy holds such an alert again, no
    ///     later command gets it (R25).
    ///   - writtenAtMilliseconds: when the record was written, UNIX milliseconds. Redis takes this time as the
    ///     beginning of the activity's life, unless it knows a life that began later, or knows a life and has this
    ///     token.
    case reread(alertsReleasedUntilMilliseconds: Int64, writtenAtMilliseconds: Int64)
}
