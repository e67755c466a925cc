/// When the steps of a record happened, UNIX milliseconds. All records have the first two times from their receipt on; a
/// deferred command has those of its first reading. The other times are nil until the step has happened, and only
/// commands have them.
struct RecordTimes: BitwiseCopyable {
    /// -1 only if the deferred record does not say it.
    let receivedAtMilliseconds: Int64
    /// Kafka's timestamp of the record; -1, as in Kafka: none. Results, deferred records and the core of audiences get
    /// it as it is.
    let recordTimestampMilliseconds: Int64
    /// When Redis replied to the admission, or when the core of audiences admitted the command.
    var admittedAtMilliseconds: Int64?
    /// When the last push that was sent completely was sent.
    var sentAtMilliseconds: Int64?
    /// When the last attempt to push ended.
    var responseAtMilliseconds: Int64?
}
