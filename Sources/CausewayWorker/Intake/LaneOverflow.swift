/// Entries that did not fit a lane's inbox, and whether the lane's partitions are paused for them.
///
/// - *Flowing*: nothing waits. → *waiting* when a record finds the inbox full.
/// - *Waiting*: nothing is polled. → *paused* when the lane has taken nothing for `patienceMilliseconds`.
/// - *Paused*: the lane's partitions are paused. Entries that librdkafka still hands out wait here. → *flowing* when all entries are
///   placed and the inbox is half empty.
struct LaneOverflow {
    /// How long to wait for a full inbox before the lane's partitions are paused. Pausing discards what was fetched.
    static let patienceMilliseconds: Int64 = 1_000
    /// Most entries that wait here. librdkafka hands out nothing of a paused partition, so only records that raced with the pause come.
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
