/// The records that did not fit a lane's inbox, and whether the lane's partitions are paused because of them.
///
/// - *Flowing*: no record waits. → *waiting* when a record finds the inbox full.
/// - *Waiting*: the Kafka thread polls no records. → *paused* when the lane has taken none for
///   `patienceMilliseconds`.
/// - *Paused*: the lane's partitions are paused. Records that librdkafka still returns wait here. → *flowing*
///   when all records are in the inbox and the inbox is half empty.
struct LaneOverflow {
    /// How long a full inbox may take no record before the lane's partitions are paused. A short wait is
    /// better than a pause, because a pause discards fetched records.
    static let patienceMilliseconds: Int64 = 1_000
    /// The most records that wait here. librdkafka returns no records of a paused partition, except those
    /// that it returned while the pause was set.
    static let entriesMax = 4_096

    var entries: [InboxEntry] = []
    var isPaused = false
    private var sinceMilliseconds: Int64 = 0

    mutating func append(_ entry: InboxEntry, nowMilliseconds: Int64) {
        if entries.isEmpty { sinceMilliseconds = nowMilliseconds }
        entries.append(entry)
    }

    func isDue(nowMilliseconds: Int64) -> Bool {
        !isPaused && !entries.isEmpty && nowMilliseconds - sinceMilliseconds >= Self.patienceMilliseconds
    }
}
