import Delivery

/// The partitions of a lane, each with its index in its core. An entry is found by topic and partition number, without
/// hashing, because the lane looks one up for each record.
struct LanePartitions {
    /// What the lane knows about one assigned partition.
    struct Entry {
        var indexInCore: UInt32
        var assignmentNumber: UInt32
        var topic: Int32
        var partition: Int32
        /// The committable offset that the lane last reported to the Kafka thread; -1: none yet.
        var reportedCommittableOffset: Int64 = -1
        /// The revision of the settled offsets (`progressRevision`) that the lane last reported to the Kafka thread.
        var reportedProgressRevision: UInt64 = 0
        /// The end of the partition's log, as the Kafka thread last reported; -1: not known yet.
        var logEndOffset: Int64 = -1
        /// One above the offset of the last record that was given to the core; -1: no record yet.
        var nextOffset: Int64 = -1
        /// Until this time (monotonic milliseconds), the lane assumes that the partition is far behind if its backlog
        /// is unknown.
        var behindAssumptionEndMilliseconds: Int64
        /// Whether the Kafka thread has ordered that the lane drains the partition.
        var isBeingRevoked = false
        var isReportedDrained = false
        var rewindRequestCount: UInt16 = 0

        /// Whether the record belongs to this assignment, and was dealt after the lane's last request for a rewind.
        func expects(_ entry: InboxEntry) -> Bool {
            assignmentNumber == entry.assignmentNumber && rewindRequestCount == entry.rewindRequestCount
        }

        var isFanout: Bool { topic == Intake.fanoutTopicIndex }
    }

    /// How long a partition is paused before it is read again from a record for which its ledger had no room. The core
    /// for audiences uses the same time for the fan-out topic (`rewindIntervalMillisecondsMin`).
    static let ledgerPauseMilliseconds: Int64 = 5_000
    /// How long the oldest record of a full ledger may stay unsettled before the lane requests a rewind. Until then all
    /// other records of the lane wait, so the time is short. Tests shorten it.
    var ledgerWaitMillisecondsMax: Int64 = 1_000

    private(set) var entries: [Entry] = []
    var isAnyDeliveryPartitionBeingRevoked: Bool { entries.contains { $0.isBeingRevoked && !$0.isFanout } }
    /// The position of each partition in `entries`, ordered by partition number, then by topic; -1: not a partition of
    /// the lane.
    private var entryIndices: [Int] = []

    private static func lookupIndex(_ topic: Int32, _ partition: Int32) -> Int {
        Int(partition) * Intake.topicCount + Int(topic)
    }

    func entryIndex(topic: Int32, partition: Int32) -> Int? {
        let index = Self.lookupIndex(topic, partition)
        guard index >= 0, index < entryIndices.count, entryIndices[index] >= 0 else { return nil }
        return entryIndices[index]
    }

    /// How long after its assignment a partition counts as far behind while the end of its log is not known.
    static let assumedBehindMilliseconds: Int64 = 2_000
    /// How long a partition still counts as far behind after the first report of its log's end, unless a record
    /// arrives. The time is short, because the fetch that brought the log's end also brings records, if there are any.
    static let assumedBehindWithLogEndMilliseconds: Int64 = 300

    /// Returns how many records of the partition the lane has not taken yet.
    ///
    /// Right after an assignment the number is unknown, because librdkafka learns a log's end with its first fetch.
    /// Then this method returns `assumedRecordCount` for a short time, and after that 0. With 0 at once, a lane with a
    /// small backlog in each of many partitions would begin to send before it knows all these backlogs.
    ///
    /// - Returns: the number, and whether it is only `assumedRecordCount`.
    func countUntakenRecords(
        at entryIndex: Int,
        assumedRecordCount: Int64,
        nowMilliseconds: Int64
    ) -> (recordCount: Int64, isGuess: Bool) {
        let entry = entries[entryIndex]
        if entry.logEndOffset >= 0, entry.nextOffset >= 0 {
            return (max(0, entry.logEndOffset - entry.nextOffset), false)
        }
        let isAssumedBehind = entry.logEndOffset != 0 && nowMilliseconds < entry.behindAssumptionEndMilliseconds
        return (isAssumedBehind ? assumedRecordCount : 0, isAssumedBehind)
    }

    subscript(_ entryIndex: Int) -> Entry {
        get { entries[entryIndex] }
        set { entries[entryIndex] = newValue }
    }

    mutating func insert(_ entry: Entry) {
        let index = Self.lookupIndex(entry.topic, entry.partition)
        if entryIndices.count <= index {
            entryIndices.append(contentsOf: repeatElement(-1, count: index + 1 - entryIndices.count))
        }
        precondition(entryIndices[index] < 0, "a partition was assigned twice")
        entryIndices[index] = entries.count
        entries.append(entry)
    }

    mutating func remove(at entryIndex: Int) {
        let entry = entries[entryIndex]
        entryIndices[Self.lookupIndex(entry.topic, entry.partition)] = -1
        let lastEntry = entries.removeLast()
        guard entryIndex < entries.count else { return }
        entries[entryIndex] = lastEntry
        entryIndices[Self.lookupIndex(lastEntry.topic, lastEntry.partition)] = entryIndex
    }
}
