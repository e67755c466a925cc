import LiveActivity

/// How the core of audiences ended its work on a command to an audience or channel.
public enum HandoverResult: Sendable, Equatable, BitwiseCopyable {
    /// The command has an outcome, never `invalid`: a faulty record is rejected when it is read. The command gets a
    /// result, with two exceptions:
    /// - It is reread, and its first result stays valid (`OutcomeEffects.noResultIfReread`).
    /// - It is a duplicate, and the assignment in which it was read has ended. The record is then dropped.
    case outcome(Outcome)
    /// The fan-out topic has a record for each range and each broadcast of the command. The core of audiences writes
    /// the command's result when the last of them is done.
    case fannedOut
    /// The core of audiences decided nothing, because the command's partition is revoked. The next owner reads the
    /// command again.
    case dropped
}
