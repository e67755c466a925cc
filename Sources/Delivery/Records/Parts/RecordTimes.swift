/// When the steps of a record happened, UNIX milliseconds. All records have the first two times from their receipt on;
/// a deferred command has those of its first reading. The other times are nil until the step has happened, and only
/// commands have them.
struct RecordTimes: BitwiseCopyable {
    /// When a lane received the record. -1 for a deferred command whose deferred record does not say this time.
    let receivedAtMilliseconds: Int64
    /// Kafka's timestamp of the record; -1, as in Kafka: none. Results, deferred records and the core of audiences get
    /// it as it is.
    let recordTimestampMilliseconds: Int64
    /// When Redis replied to the admission, or when the core of audiences admitted the command.
    var admittedAtMilliseconds: Int64?
    /// When a push of the command was last sent completely. A later attempt that is not sent completely does not change
    /// this time.
    var sentAtMilliseconds: Int64?
    /// When the last attempt to push ended.
    var responseAtMilliseconds: Int64?
}
