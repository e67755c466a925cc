/// Where a registered update token came from.
@frozen
public enum RegistrationSource: Hashable, Sendable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If Redis already has this token, the token keeps its earlier registration time. If this token is
    /// the last one that was retired, the reply is `stale`.
    case command
    /// From a record that is read again because Redis lost data. The next push then gets a timestamp above the present
    /// second, even if the activity already has a token again. The reason: Redis no longer knows how far it had raised
    /// earlier timestamps (R11), and phones ignore lower ones.
    ///
    /// The registration has probably released every alert up to this time before the loss, UNIX milliseconds. If Redis
    /// holds such an alert again, because it was restored from an old copy, no later command gets it (R25).
    case reread(alertsReleasedUntilMilliseconds: Int64)
}
