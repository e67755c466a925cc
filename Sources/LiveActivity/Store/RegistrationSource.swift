/// Where an update token that is to be registered comes from.
@frozen
public enum RegistrationSource: UInt8, Sendable, CaseIterable {
    /// From a record of the registrations topic.
    case record
    /// It came with a command. It counts as registered when it was first told, and is `stale` if it is the last that was retired.
    case command
    /// From a record that is read once more, since the store has lost what it wrote. Where no token is known, nothing has been sent since
    /// the loss, and what was sent before may have had timestamps above the commands' own: the next push's is above the present second.
    case readAgain
}
