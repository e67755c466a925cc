/// Where the record was first read; for a deferred command, before its first deferral. All records have a source from
/// their receipt on, and it does not change. Results and default ids name the source, so that a deferral does not
/// change them.
struct RecordSource: BitwiseCopyable {
    let offset: Int64
    /// The number of the partition in `topic`.
    let partition: Int32
    /// The topic of the first reading; `deferred` if the headers of a deferred record do not name an earlier topic.
    let topic: RecordTopic
}

/// A topic whose records this core processes.
public enum RecordTopic: UInt8, Sendable, BitwiseCopyable {
    case commands
    case registrations
    /// Commands that could not be sent soon. Each was first read from the commands or registrations topic.
    case deferred
}
