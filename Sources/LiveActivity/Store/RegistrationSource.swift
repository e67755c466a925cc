/// The source of an update token that is registered.
@frozen
public enum RegistrationSource: UInt8, Sendable, CaseIterable {
    /// From a record of the registrations topic.
    case record
    /// From a command. If the token is registered already, its earlier time stays. The last retired token is
    /// `stale`.
    case command
    /// From a record that is read again because Redis lost data. The next push gets a timestamp above the
    /// present second, even if the app's server has registered the token again before. The reason: pushes
    /// before the loss may have had raised timestamps (R11), and phones ignore older ones.
    case readAgain
}
