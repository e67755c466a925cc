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
        /// All that a reader gets of the log was dealt, up to this offset; -1: that is not known, or more was dealt since. The high
        /// watermark may be beyond: behind the last record there may be markers of transactions, or one that is open.
        var endOffset: Int64 = -1
        /// How often its lane has asked for records again; entries of its inbox say the same.
        var reading: UInt16 = 0
        /// The last time that it was read once more; nil: it was not.
        var rereading: Rereading?
    }

    /// Records that were settled are read once more, since Redis has lost what they wrote.
    struct Rereading {
        /// As the request has it.
        var reader: UInt64
        /// Where those end that were settled. Nothing below it is committed.
        var end: Int64
        var isComplete: Bool
    }

    /// What is taken for an offset: what a broker sends may be any number, and is added to.
    static let offsets: ClosedRange<Int64> = 0...(1 << 62)

    /// By partition, then by topic.
    private var entries: [Entry?] = []
    private var nextNumber: UInt32 = 1

    private static func place(_ topic: Int32, _ partition: Int32) -> Int? {
        guard topic >= 0, topic < Intake.topicCount, partition >= 0 else { return nil }
        return Int(partition) * Intake.topicCount + Int(topic)
    }

    subscript(_ topic: Int32, _ partition: Int32) -> Entry? {
        guard let place = Self.place(topic, partition), place < entries.count else { return nil }
        return entries[place]
    }

    subscript(_ partition: TopicPartition) -> Entry? { self[partition.topic.index, partition.partition] }

    var all: [TopicPartition] { partitions { _ in true } }
    func partitions(of lane: Int) -> [TopicPartition] { partitions { $0.lane == lane } }

    /// - Returns: the assignment's number.
    mutating func insert(_ partition: TopicPartition, lane: Int) -> UInt32 {
        guard let place = Self.place(partition.topic.index, partition.partition) else {
            preconditionFailure("a partition of a topic that nobody asked for was assigned")
        }
        let number = nextNumber
        nextNumber &+= 1
        let missing = place + 1 - entries.count
        if missing > 0 { entries.append(contentsOf: repeatElement(nil, count: missing)) }
        entries[place] = Entry(number: number, lane: lane)
        return number
    }

    mutating func remove(_ partition: TopicPartition) {
        change(partition.topic.index, partition.partition) { $0 = nil }
    }

    mutating func removeAll() { entries = [] }

    private mutating func change(_ topic: Int32, _ partition: Int32, _ body: (inout Entry?) -> Void) {
        guard let place = Self.place(topic, partition), place < entries.count else { return }
        body(&entries[place])
    }

    /// Takes a lane's report in.
    /// - Returns: false if it is of an assignment that is over, or says nothing that may be committed.
    mutating func note(_ report: LaneReport, committableOffset: Int64?) -> Bool {
        guard let entry = self[report.topic, report.partition], entry.number == report.assignment else { return false }
        let settledBelow = committableOffset ?? -1
        let isKnown = settledBelow < entry.rereading?.end ?? 0
        change(report.topic, report.partition) { entry in
            if settledBelow >= 0, !isKnown { entry?.unsettledOffset = settledBelow }
            if report.isDrained { entry?.isDrained = true }
            entry?.completeRereading(settledBelow: settledBelow)
        }
        return settledBelow >= 0 && !isKnown
    }

    /// The lane asks for records again that it has dropped.
    /// - Returns: false if the report is of an assignment that is over.
    mutating func noteReadAgain(_ report: LaneReport) -> Bool {
        guard self[report.topic, report.partition]?.number == report.assignment else { return false }
        change(report.topic, report.partition) { $0?.reading &+= 1 }
        return true
    }

    /// The partition is read once more up to `end`; 0: there is nothing to be read.
    mutating func noteRereading(of partition: TopicPartition, reader: UInt64, end: Int64) {
        change(partition.topic.index, partition.partition) { entry in
            let former = entry?.rereading?.end ?? 0
            entry?.rereading = Rereading(reader: reader, end: max(former, end), isComplete: end == 0)
            if end > 0 { entry?.unsettledOffset = end }
        }
    }

    /// Takes a high watermark in; of a log that was read to its end it is where the last record was.
    /// - Returns: the assignment as its lane is to know it, if it does not.
    mutating func note(highWatermark: Int64, of partition: TopicPartition) -> Entry? {
        guard let entry = self[partition] else { return nil }
        let heard = min(max(0, highWatermark), Self.offsets.upperBound)
        let end = entry.endOffset >= 0 ? max(0, entry.nextOffset) : heard
        guard entry.highWatermark != end else { return nil }
        change(partition.topic.index, partition.partition) { $0?.highWatermark = end }
        return self[partition]
    }

    /// - Parameter offset: where the next record will be, or what follows it; what is no offset is not taken in.
    mutating func noteEnd(of partition: TopicPartition, offset: Int64) {
        guard Self.offsets.contains(offset) else { return }
        change(partition.topic.index, partition.partition) { entry in
            entry?.endOffset = offset
            // Nothing is left of what was to be read.
            if entry?.nextOffset ?? 0 < 0 { entry?.completeRereading(settledBelow: -1) }
        }
    }

    /// - Parameter offset: one of ``offsets``.
    mutating func noteDealt(_ topic: Int32, _ partition: Int32, offset: Int64) {
        change(topic, partition) { entry in
            entry?.nextOffset = offset + 1
            entry?.endOffset = -1
            if let unsettled = entry?.unsettledOffset, unsettled < 0 { entry?.unsettledOffset = offset }
        }
    }

    /// Records of a topic's partitions that are known to be in the log and have not been dealt.
    func recordsBehind(of topic: Int32) -> Int64 {
        stride(from: Int(topic), to: entries.count, by: Intake.topicCount)
            .reduce(0) { sum, place in
                guard let entry = entries[place], entry.nextOffset >= 0 else { return sum }
                let (total, isTooMany) = sum.addingReportingOverflow(max(0, entry.highWatermark - entry.nextOffset))
                return isTooMany ? .max : total
            }
    }

    /// Partitions of a topic of which more is known to be in the log than was dealt.
    func partitionsBehind(of topic: Int32) -> [TopicPartition] {
        partitions { $0.nextOffset >= 0 && $0.highWatermark > $0.nextOffset }.filter { $0.topic.index == topic }
    }

    private func partitions(where isIncluded: (Entry) -> Bool) -> [TopicPartition] {
        entries.enumerated()
            .compactMap { place, entry in
                guard let entry, isIncluded(entry) else { return nil }
                return TopicPartition(
                    topic: TopicIdentifier(index: Int32(place % Intake.topicCount)),
                    partition: Int32(place / Intake.topicCount)
                )
            }
    }
}

extension AssignmentTable.Entry {
    /// All records below are settled, by this worker or before.
    ///
    /// - Parameter beganAt: where reading began. After a rereading has begun that is no longer where it was settled.
    func settledBelow(beganAt: Int64) -> Int64 {
        let known = rereading.map(\.end) ?? 0
        return max(known > 0 ? known : beganAt, unsettledOffset)
    }

    /// - Parameter settledBelow: what the lane has settled of this assignment; -1: nothing.
    fileprivate mutating func completeRereading(settledBelow: Int64) {
        guard let rereading, !rereading.isComplete else { return }
        // The last records may be gone from the log, or be none for a reader.
        let isAtEnd = endOffset >= rereading.end && settledBelow >= nextOffset
        if settledBelow >= rereading.end || isAtEnd { self.rereading?.isComplete = true }
    }
}
