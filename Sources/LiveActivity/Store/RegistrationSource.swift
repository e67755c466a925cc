/// Where an update token comes from that is registered.
@frozen
public enum RegistrationSource: UInt8, Sendable, CaseIterable {
    /// From a record of the registrations topic.
    case record
    /// From a command. The token counts as registered when it was first told. It is `stale` if it is the last retired token.
    case command
    /// From a record that is read again because the store lost what it wrote. The next push gets a timestamp above the present
    /// second: pushes before the loss may have had timestamps above their commands' own, and phones ignore older ones. This also
    /// holds if the app's server registered the token again first.
    case readAgain
}
