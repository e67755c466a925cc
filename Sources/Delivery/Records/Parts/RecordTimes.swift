/// When the steps of a record happened, UNIX milliseconds. Each record has the first two times; those of a deferred
/// command are from its first receipt. Only commands have the others; nil: the step has not happened yet.
struct RecordTimes: BitwiseCopyable {
    /// When a lane received the record; -1: its deferred record does not say when.
    let receivedAtWallMilliseconds: Int64
    /// Kafka's timestamp of the record, UNIX milliseconds; -1, as in Kafka: the record has none. Results, deferred
    /// records and the core of audiences get this number unchanged.
    let recordTimestampMilliseconds: Int64
    /// When Redis replied to the admission, or when the core of audiences admitted the command.
    var admittedAtWallMilliseconds: Int64?
    /// When a push of the command was last sent completely.
    var sentAtWallMilliseconds: Int64?
    /// When the last attempt to push ended.
    var responseAtWallMilliseconds: Int64?

    /// The record's own time: when it was written or, if Kafka has no timestamp, when it was received.
    var recordAtWallMilliseconds: Int64 {
        recordTimestampMilliseconds >= 0 ? recordTimestampMilliseconds : receivedAtWallMilliseconds
    }
}
