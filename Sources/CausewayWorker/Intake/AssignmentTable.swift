import Kafka

/// Which lane each assigned partition went to, and how far it has drained. Found by topic and number without hashing.
struct AssignmentTable {
    struct Entry {
        /// Different for every assignment in the life of the process.
        var number: UInt32
        var lane: Int
        var isDrained = false
        /// What the lane was told; -1: nothing yet.
        var highWatermark: Int64 = -1
        /// Behind the last record that was dealt; -1 before the first.
        var nextOffset: Int64 = -1
        /// The first record that is not known to be settled; -1: none was dealt yet.
        var unsettledOffset: Int64 = -1
    }

    private var rows: [[Entry?]] = [[], []]
    private var nextNumber: UInt32 = 1

    subscript(_ topic: Int32, _ partition: Int32) -> Entry? {
        guard topic >= 0, Int(topic) < rows.count, partition >= 0 else { return nil }
        let row = rows[Int(topic)]
        return Int(partition) < row.count ? row[Int(partition)] : nil
    }

    subscript(_ partition: TopicPartition) -> Entry? { self[partition.topic.index, partition.partition] }

    var all: [TopicPartition] { partitions { _ in true } }
    func partitions(of lane: Int) -> [TopicPartition] { partitions { $0.lane == lane } }

    /// - Returns: the assignment's number.
    mutating func insert(_ partition: TopicPartition, lane: Int) -> UInt32 {
        let topic = Int(partition.topic.index)
        let number = nextNumber
        nextNumber &+= 1
        let missing = Int(partition.partition) + 1 - rows[topic].count
        if missing > 0 { rows[topic].append(contentsOf: repeatElement(nil, count: missing)) }
        rows[topic][Int(partition.partition)] = Entry(number: number, lane: lane)
        return number
    }

    mutating func remove(_ partition: TopicPartition) {
        guard self[partition] != nil else { return }
        rows[Int(partition.topic.index)][Int(partition.partition)] = nil
    }

    mutating func removeAll() { rows = [[], []] }

    /// Takes a lane's report in.
    /// - Returns: false if it is of an assignment that is over.
    mutating func note(_ report: LaneReport) -> Bool {
        guard let entry = self[report.topic, report.partition], entry.number == report.assignment else { return false }
        if report.committableOffset >= 0 {
            rows[Int(report.topic)][Int(report.partition)]?.unsettledOffset = report.committableOffset
        }
        if report.isDrained { rows[Int(report.topic)][Int(report.partition)]?.isDrained = true }
        return true
    }

    /// - Returns: the assignment, if its lane does not know of this high watermark.
    mutating func note(highWatermark: Int64, of partition: TopicPartition) -> Entry? {
        guard let entry = self[partition], entry.highWatermark != highWatermark else { return nil }
        rows[Int(partition.topic.index)][Int(partition.partition)]?.highWatermark = highWatermark
        return entry
    }

    mutating func noteDealt(_ topic: Int32, _ partition: Int32, offset: Int64) {
        guard var entry = self[topic, partition] else { return }
        entry.nextOffset = offset + 1
        if entry.unsettledOffset < 0 { entry.unsettledOffset = offset }
        rows[Int(topic)][Int(partition)] = entry
    }

    /// Records of a topic's partitions that are known to be in the log and have not been dealt.
    func recordsBehind(of topic: Int32) -> Int64 {
        rows[Int(topic)]
            .reduce(0) { sum, entry in
                guard let entry, entry.nextOffset >= 0 else { return sum }
                return sum + max(0, entry.highWatermark - entry.nextOffset)
            }
    }

    /// Partitions of a topic of which more is known to be in the log than was dealt.
    func partitionsBehind(of topic: Int32) -> [TopicPartition] {
        partitions { $0.nextOffset >= 0 && $0.highWatermark > $0.nextOffset }.filter { $0.topic.index == topic }
    }

    private func partitions(where isIncluded: (Entry) -> Bool) -> [TopicPartition] {
        rows.enumerated()
            .flatMap { topic, row in
                row.enumerated()
                    .compactMap { partition, entry in
                        guard let entry, isIncluded(entry) else { return nil }
                        return TopicPartition(topic: TopicIdentifier(index: Int32(topic)), partition: Int32(partition))
                    }
            }
    }
}
