/// The records that did not fit a lane's inbox, and whether the lane's partitions are paused because of them.
///
/// - *Flowing*: no record waits. Next: *waiting* when a record finds the inbox full.
/// - *Waiting*: the Kafka thread polls no records. Next: *flowing* when no record is left here; *paused* when records
///   have waited for `pauseAfterMilliseconds`.
/// - *Paused*: the lane's partitions are paused. If the first record of a partition comes only now, it waits here too,
///   and then the partition is paused. Next: *flowing* when no record is left here and the inbox is half empty.
///
/// A record leaves when the inbox has room for it, or when its partition's assignment ends.
struct LaneOverflow {
    /// How long a record may wait for room in the inbox before the lane's partitions are paused. Not every short wait
    /// may cause a pause, because a pause discards fetched records, which must be fetched again.
    static let pauseAfterMilliseconds: Int64 = 1_000
    /// If this many records wait for a paused lane, the Kafka thread stops polling. A lane rarely reaches this number,
    /// because librdkafka returns no records of a paused partition.
    static let entriesMax = 4_096

    var entries: [InboxEntry] = []
    var isPaused = false
    private var waitingSinceMilliseconds: Int64 = 0

    mutating func append(_ entry: InboxEntry, nowMilliseconds: Int64) {
        if entries.isEmpty { waitingSinceMilliseconds = nowMilliseconds }
        entries.append(entry)
    }

    /// Removes the records for which the closure returns true, and returns their memory to librdkafka.
    mutating func discardEntries(where isUnneeded: (InboxEntry) -> Bool) {
        guard !entries.isEmpty else { return }
        var remainingEntries: [InboxEntry] = []
        for entry in entries {
            if isUnneeded(entry) { entry.discard() } else { remainingEntries.append(entry) }
        }
        entries = remainingEntries
    }

    func isPauseDue(nowMilliseconds: Int64) -> Bool {
        !isPaused && !entries.isEmpty && nowMilliseconds - waitingSinceMilliseconds >= Self.pauseAfterMilliseconds
    }
}
