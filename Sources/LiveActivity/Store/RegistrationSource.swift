/// Where a registered update token came from.
@frozen
public enum RegistrationSource: Hashable, Sendable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If Redis already has this token, the token keeps its earlier registration time. If this token is
    /// the last one that was retired, the reply is `stale`.
    case command
    /// From a record that is read again because Redis lost data. The next push then gets a timestamp above the present
    /// second: Redis no longer knows how far it had raised earlier timestamps (R11), and phones ignore lower ones. The
    /// next push gets such a timestamp even if the activity already has a token again.
    ///
    /// - Parameters:
    ///   - alertsReleasedUntilMilliseconds: UNIX milliseconds. Before the loss, the registration has probably released
    ///     every alert up to this time. If a Redis that was restored from an old copy holds such an alert again, no
    ///     later command gets it (R25).
    ///   - writtenAtMilliseconds: when the record was written, UNIX milliseconds. If Redis knows no life of the
    ///     activity, it takes this time as the beginning of the life. It also does so if it has no token or a different
    ///     one, because the record may belong to a later life; but a known life that began later counts.
    case reread(alertsReleasedUntilMilliseconds: Int64, writtenAtMilliseconds: Int64)
}
