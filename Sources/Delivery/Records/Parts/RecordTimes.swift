/// When the steps of a record happened, UNIX milliseconds. Each record has the first two times. For a deferred command,
/// they are those of its first reading. Only commands have the other times; nil: the step has not happened yet.
struct RecordTimes: BitwiseCopyable {
    /// When a lane received the record. -1 for a deferred command whose deferred record does not say this time.
    let receivedAtWallMilliseconds: Int64
    /// Kafka's timestamp of the record; -1, as in Kafka: none. Results, deferred records and the core of audiences get
    /// this number unchanged.
    let recordTimestampMilliseconds: Int64
    /// When Redis replied to the admission, or when the core of audiences admitted the command.
    var admittedAtWallMilliseconds: Int64?
    /// When a push of the command was last sent completely.
    var sentAtWallMilliseconds: Int64?
    /// When the last attempt to push ended.
    var responseAtWallMilliseconds: Int64?
}
