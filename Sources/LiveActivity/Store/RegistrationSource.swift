/// Where a registered update token came from.
@frozen
public enum RegistrationSource: UInt8, Sendable, CaseIterable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If this token is already registered, Redis keeps its earlier registration time. If this token is
    /// the last one that was retired, the reply is `stale`.
    case command
    /// From a record that is read again because Redis lost data. Redis no longer knows how far it had raised the
    /// timestamps of earlier pushes (R11), and phones ignore lower timestamps. So the next push gets a timestamp above
    /// the present second, even if the activity already has a token again.
    case reread
}
