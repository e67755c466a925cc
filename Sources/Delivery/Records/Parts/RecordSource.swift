/// Where the record was first read; for a deferred command, before its first deferral. All records have a source from
/// their receipt on, and it does not change. Results and default ids name the source, so they stay the same after a
/// deferral.
struct RecordSource: BitwiseCopyable {
    let offset: Int64
    /// The number of the partition in `topic`.
    let partition: Int32
    /// The topic from which the record was first read. It is `deferred` if the headers of a deferred record name no
    /// earlier topic.
    let topic: RecordTopic
}

/// A topic whose records this core processes.
public enum RecordTopic: UInt8, Sendable, BitwiseCopyable {
    case commands
    case registrations
    /// Commands that could not be sent soon. Each was first read from the commands topic, or released by a
    /// registration.
    case deferred
}
