/// Where an update token that is registered came from.
@frozen
public enum RegistrationSource: UInt8, Sendable, CaseIterable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If the token is registered already, it keeps its earlier time. If it is the token that
    /// was retired last, the reply is `stale`.
    case command
    /// From a record that is read again because Redis lost data. Redis no longer knows how far it had raised
    /// the timestamps of earlier pushes (R11), and phones ignore lower timestamps. So the next push gets a
    /// timestamp above the present second, even if Redis has a token again when the record is read.
    case reread
}
