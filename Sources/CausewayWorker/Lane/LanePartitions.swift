import Delivery

/// The place of each assigned partition in its core. Found by topic and number without hashing.
struct LanePartitions {
    struct Entry {
        /// The partition's place in its core.
        var place: UInt32
        var assignment: UInt32
        var topic: Int32
        var partition: Int32
        /// The progress that the Kafka thread was last told.
        var reportedOffset: Int64 = -1
        var reportedRevision: UInt64 = 0
        /// The end of the partition's log when the Kafka thread last looked; -1: not known yet.
        var highWatermark: Int64 = -1
        /// One above the last record that was given to the core; -1 before the first.
        var nextOffset: Int64 = -1
        /// Until when the partition may still turn out to be far behind. Monotonic milliseconds.
        var assumedBehindUntilMilliseconds: Int64
        var isRevoking = false
        var isReportedDrained = false
        /// How often the lane has asked to read records again.
        var reading: UInt16 = 0

        /// Whether the record belongs to this assignment, and was dealt after the last request to read again.
        func expects(_ entry: InboxEntry) -> Bool { assignment == entry.assignment && reading == entry.reading }

        var isFanout: Bool { topic == Intake.fanoutTopic }
    }

    private(set) var entries: [Entry] = []
    /// By partition, then by topic: the position in `entries`, or -1.
    private var positions: [Int] = []

    private static func place(_ topic: Int32, _ partition: Int32) -> Int {
        Int(partition) * Intake.topicCount + Int(topic)
    }

    func position(topic: Int32, partition: Int32) -> Int? {
        let place = Self.place(topic, partition)
        guard place >= 0, place < positions.count, positions[place] >= 0 else { return nil }
        return positions[place]
    }

    /// How long after its assignment a partition counts as far behind if nothing of it is known.
    static let silenceMilliseconds: Int64 = 2_000
    /// The same once the end of its log is known: if there are records, they come with that.
    static let emptinessMilliseconds: Int64 = 300

    /// The number of records that the lane has not taken yet.
    ///
    /// Right after an assignment nobody knows it: librdkafka learns the end of a log with its first fetch. Until then, for a short time,
    /// the answer is `assumed`. Otherwise a lane with a small backlog in each of many partitions would begin to send before it knows all
    /// of them.
    func recordsBehind(
        at position: Int,
        assumed: Int64,
        nowMilliseconds: Int64
    ) -> (records: Int64, isAssumed: Bool) {
        let entry = entries[position]
        if entry.highWatermark >= 0, entry.nextOffset >= 0 {
            return (max(0, entry.highWatermark - entry.nextOffset), false)
        }
        let isSilent = entry.highWatermark != 0 && nowMilliseconds < entry.assumedBehindUntilMilliseconds
        return (isSilent ? assumed : 0, isSilent)
    }

    subscript(_ position: Int) -> Entry {
        get { entries[position] }
        set { entries[position] = newValue }
    }

    mutating func insert(_ entry: Entry) {
        let place = Self.place(entry.topic, entry.partition)
        if positions.count <= place {
            positions.append(contentsOf: repeatElement(-1, count: place + 1 - positions.count))
        }
        precondition(positions[place] < 0, "a partition was assigned twice")
        positions[place] = entries.count
        entries.append(entry)
    }

    mutating func remove(at position: Int) {
        let entry = entries[position]
        positions[Self.place(entry.topic, entry.partition)] = -1
        let last = entries.removeLast()
        guard position < entries.count else { return }
        entries[position] = last
        positions[Self.place(last.topic, last.partition)] = position
    }
}
