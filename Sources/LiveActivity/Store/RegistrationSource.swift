/// Where a registered update token came from.
@frozen
public enum RegistrationSource: UInt8, Sendable, CaseIterable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If Redis already has this token, the token keeps its earlier registration time. If this token is
    /// the last one that was retired, the reply is `stale`.
    case command
    /// From a record that is read again because Redis lost data. The next push then gets a timestamp above the present
    /// second, even if the activity already has a token again. The reason: Redis no longer knows how far it had raised
    /// earlier timestamps (R11), and phones ignore lower ones.
    case reread
}
