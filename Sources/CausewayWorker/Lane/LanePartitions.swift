import Delivery

/// Which place in the core each assigned partition has, found by topic and number without hashing.
struct LanePartitions {
    struct Entry {
        /// In its core.
        var place: UInt32
        var assignment: UInt32
        var topic: Int32
        var partition: Int32
        /// What of its progress the Kafka thread knows.
        var reportedOffset: Int64 = -1
        var reportedRevision: UInt64 = 0
        /// Where the partition's log ended when the Kafka thread last looked; -1: not known yet.
        var highWatermark: Int64 = -1
        /// Behind the last record that the core was given; -1 before the first.
        var nextOffset: Int64 = -1
        /// Until when it may still turn out that the partition is far behind.
        var doubtMilliseconds: Int64
        var isRevoking = false
        var isReportedDrained = false
        /// How often the lane has asked for records again.
        var reading: UInt16 = 0

        /// Whether the record is of this assignment, and dealt since records were last asked for again.
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

    /// How long after its assignment a partition of which nothing has been heard is taken for one that is far behind.
    static let silenceMilliseconds: Int64 = 2_000
    /// How long after the end of its log is known: its records, if there are any, come with that.
    static let emptinessMilliseconds: Int64 = 300

    /// Records that the lane has not taken yet.
    ///
    /// Right after an assignment nobody knows: librdkafka tells of a log's end when it first fetches from it. Until then, for a short time,
    /// the answer is `assumed`, so that a lane with a little of a backlog in each of many partitions begins nothing before it has heard of
    /// them all.
    func recordsBehind(
        at position: Int,
        assumed: Int64,
        nowMilliseconds: Int64
    ) -> (records: Int64, isAssumed: Bool) {
        let entry = entries[position]
        if entry.highWatermark >= 0, entry.nextOffset >= 0 {
            return (max(0, entry.highWatermark - entry.nextOffset), false)
        }
        let isSilent = entry.highWatermark != 0 && nowMilliseconds < entry.doubtMilliseconds
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
