import Audiences
import Delivery
import Kafka
import LiveActivity

/// The lane and the offsets of each assigned partition. An entry is found by topic and partition number, without
/// hashing, because the Kafka thread looks one up for each record.
struct AssignmentTable {
    /// What the Kafka thread knows about one assignment of a partition.
    struct Entry {
        /// A number that no other assignment of this process has. Orders and reports between the Kafka thread and a
        /// lane name the assignment by this number. (The cores have a number of their own, `assignmentEpoch`.)
        var assignmentNumber: UInt32
        /// The lane that gets the partition's records. Nil if the lane's core already has its maximum of partitions:
        /// the records are then discarded unsettled, and are read again after the next assignment.
        var lane: Int?
        /// Whether the lane has reported the partition as drained: it has settled or dropped all records that it had.
        var isDrained = false
        /// The log's end that the Kafka thread last reported to the lane; -1: none yet.
        var reportedLogEndOffset: Int64 = -1
        /// One above the offset of the last record that was dealt to the lane; -1: no record yet.
        var nextOffset: Int64 = -1
        /// The first offset that is not known to be settled; -1 until the first record is dealt or a rereading begins.
        var firstUnsettledOffset: Int64 = -1
        /// All records of this assignment below this offset are settled, as the lane last reported; -1: no report yet.
        /// During a rereading, this may be below the rereading's end, unlike `firstUnsettledOffset`.
        fileprivate var reportedSettledEndOffset: Int64 = -1
        /// The offset at which reading has reached the log's end. -1 before reading has reached the end, and again
        /// after another record is dealt.
        ///
        /// The log's end that brokers report may be higher: with `read_committed`, no reader gets the transaction
        /// markers or the open transaction after the last record.
        var logEndReachedAtOffset: Int64 = -1
        /// The last log end that reading has reached while all dealt records were settled; -1: none yet. The Kafka
        /// thread commits this offset itself, because the lane does not know the transaction markers after the last
        /// record. When Kafka deletes them, a committed offset before them would be out of range.
        var settledLogEndOffset: Int64 = -1
        /// How many rewinds of the partition the lane has requested. Each record that is dealt gets the present count.
        /// If the lane has requested more rewinds since, it discards the record, because the record will be read again.
        var rewindRequestCount: UInt16 = 0
        /// The last rereading of the partition after Redis lost writes; nil: there was none.
        var rereading: Rereading?
    }

    /// One rereading of a partition: settled records are read again, because Redis has lost what they wrote.
    struct Rereading {
        /// The random number of the request (`RereadingRequest`) that began this rereading.
        var identifier: UInt64
        /// Where the rereading ends: all records below this offset were settled before the rereading began. In this
        /// assignment, no lower offset is committed, because the commit would move the group's position back.
        var endOffset: Int64
        /// Whether all records that had to be read again are settled.
        var isComplete: Bool
    }

    /// The offsets that are accepted from a broker.
    static var validOffsets: ClosedRange<Int64> { 0...Limits.offsetMax }

    /// One of a lane's two cores. Each core has a limited number of partitions.
    private struct LaneCore: Hashable {
        var lane: Int
        var isForAudiences: Bool

        init(of topic: TopicIdentifier, lane: Int) {
            self.lane = lane
            isForAudiences = topic.index == Intake.fanoutTopicIndex
        }

        var partitionsMax: Int { isForAudiences ? Audiences.partitionsMax : Delivery.partitionsMax }
    }

    /// The entry of each partition, ordered by partition, then by topic; nil: not assigned.
    private var entries: [Entry?] = []
    private var nextAssignmentNumber: UInt32 = 1
    private var partitionCounts: [LaneCore: Int] = [:]

    private static func entryIndex(_ topic: Int32, _ partition: Int32) -> Int? {
        guard topic >= 0, topic < Intake.topicCount, partition >= 0 else { return nil }
        return Int(partition) * Intake.topicCount + Int(topic)
    }

    subscript(_ topic: Int32, _ partition: Int32) -> Entry? {
        guard let index = Self.entryIndex(topic, partition), index < entries.count else { return nil }
        return entries[index]
    }

    subscript(_ partition: TopicPartition) -> Entry? { self[partition.topic.index, partition.partition] }

    var assignedPartitions: [TopicPartition] { partitions { _ in true } }
    func partitions(of lane: Int) -> [TopicPartition] { partitions { $0.lane == lane } }

    /// The partitions of a lane from which at least one record has been dealt. Only these are paused when the lane is
    /// full. For a partition without a dealt record, librdkafka may still be looking up the first offset, and could
    /// lose the pause.
    func findPartitionsWithDealtRecords(of lane: Int) -> [TopicPartition] {
        partitions { $0.lane == lane && $0.nextOffset >= 0 }
    }

    /// Begins an assignment of a partition, and ends its former one.
    ///
    /// - Returns: the new entry. Its `lane` is nil if the lane has no room for another partition.
    @discardableResult
    mutating func insert(_ partition: TopicPartition, lane: Int) -> Entry {
        guard let index = Self.entryIndex(partition.topic.index, partition.partition) else {
            preconditionFailure("the group assigned a partition of a topic that the consumer did not subscribe to")
        }
        remove(partition)
        let core = LaneCore(of: partition.topic, lane: lane)
        let hasRoom = partitionCounts[core, default: 0] < core.partitionsMax
        if hasRoom { partitionCounts[core, default: 0] += 1 }
        let entry = Entry(assignmentNumber: nextAssignmentNumber, lane: hasRoom ? lane : nil)
        nextAssignmentNumber &+= 1
        let missingCount = index + 1 - entries.count
        if missingCount > 0 { entries.append(contentsOf: repeatElement(nil, count: missingCount)) }
        entries[index] = entry
        return entry
    }

    mutating func remove(_ partition: TopicPartition) {
        if let lane = self[partition]?.lane { partitionCounts[LaneCore(of: partition.topic, lane: lane)]? -= 1 }
        updateEntry(partition.topic.index, partition.partition) { $0 = nil }
    }

    mutating func removeAll() { (entries, partitionCounts) = ([], [:]) }

    private mutating func updateEntry(_ topic: Int32, _ partition: Int32, _ body: (inout Entry?) -> Void) {
        guard let index = Self.entryIndex(topic, partition), index < entries.count else { return }
        body(&entries[index])
    }

    /// Applies a lane's report to the partition's entry, unless the report's assignment has ended.
    ///
    /// - Parameter progress: the progress in the report; nil: the lane reported none.
    /// - Returns: whether `progress` may be committed.
    mutating func applyAndPermitCommit(_ report: PartitionReport, of progress: PartitionProgress?) -> Bool {
        guard let entry = self[report.topic, report.partition], entry.assignmentNumber == report.assignmentNumber else {
            return false
        }
        let settledEndOffset = progress?.committableOffset
        let rereadingEndOffset = entry.rereading?.endOffset ?? 0
        let mayCommit = settledEndOffset.map { $0 >= rereadingEndOffset } ?? false
        updateEntry(report.topic, report.partition) { entry in
            if let settledEndOffset { entry?.reportedSettledEndOffset = settledEndOffset }
            if mayCommit, let settledEndOffset { entry?.firstUnsettledOffset = settledEndOffset }
            if report.isDrained { entry?.isDrained = true }
            entry?.completeRereadingIfReached(progress)
            entry?.noteLogEndIfSettled()
        }
        return mayCommit
    }

    /// Notes the lane's request for a rewind. The lane discards the records that were dealt before this call.
    ///
    /// - Returns: false, without a change, if the report belongs to an assignment that has ended.
    mutating func noteRewindRequest(_ report: PartitionReport) -> Bool {
        guard self[report.topic, report.partition]?.assignmentNumber == report.assignmentNumber else { return false }
        updateEntry(report.topic, report.partition) { $0?.rewindRequestCount &+= 1 }
        return true
    }

    /// Begins a rereading of the records below `endOffset`, and of settled records above it. If there are none, the
    /// rereading is complete at once. No offset below `endOffset` may be committed, because the group's position would
    /// move back. So a higher end of the previous rereading stays.
    ///
    /// - Parameter hasSettledRecordsAboveEnd: whether records above `endOffset` were settled.
    mutating func beginRereading(
        of partition: TopicPartition,
        identifier: UInt64,
        endOffset: Int64,
        hasSettledRecordsAboveEnd: Bool
    ) {
        guard endOffset > 0 || hasSettledRecordsAboveEnd else {
            return markRereadingUnneeded(of: partition, identifier: identifier)
        }
        updateEntry(partition.topic.index, partition.partition) { entry in
            let previousEndOffset = entry?.rereading?.endOffset ?? 0
            entry?.rereading = Rereading(
                identifier: identifier,
                endOffset: max(previousEndOffset, endOffset),
                isComplete: false
            )
            entry?.firstUnsettledOffset = endOffset
        }
    }

    /// Marks a rereading as complete at once, because no record needs to be read again. The end of the previous
    /// rereading stays, because no offset below it may be committed.
    mutating func markRereadingUnneeded(of partition: TopicPartition, identifier: UInt64) {
        updateEntry(partition.topic.index, partition.partition) { entry in
            let previousEndOffset = entry?.rereading?.endOffset ?? 0
            entry?.rereading = Rereading(identifier: identifier, endOffset: previousEndOffset, isComplete: true)
        }
    }

    /// Notes where the records of a partition's log end, so that the lane can compute its backlog. The end that brokers
    /// report may be higher: it counts transaction markers and an open transaction, which no reader gets. So once
    /// reading has reached the log's end, this notes the offset after the last dealt record instead.
    ///
    /// - Parameter logEndOffset: the log's end that the brokers reported.
    /// - Returns: the entry if its lane does not know the noted end yet. Nil if the lane knows this end, or if the
    ///   partition is not assigned.
    mutating func noteLogEndToReport(_ logEndOffset: Int64, of partition: TopicPartition) -> Entry? {
        guard let entry = self[partition] else { return nil }
        let validLogEndOffset = min(max(0, logEndOffset), Self.validOffsets.upperBound)
        let endOffset = entry.logEndReachedAtOffset >= 0 ? max(0, entry.nextOffset) : validLogEndOffset
        guard entry.reportedLogEndOffset != endOffset else { return nil }
        updateEntry(partition.topic.index, partition.partition) { $0?.reportedLogEndOffset = endOffset }
        return self[partition]
    }

    /// Notes that reading has reached the end of a partition's log.
    ///
    /// - Parameter offset: the position of the next record or transaction marker. Offsets outside ``validOffsets`` are
    ///   ignored.
    mutating func noteReachedLogEnd(of partition: TopicPartition, offset: Int64) {
        guard Self.validOffsets.contains(offset) else { return }
        updateEntry(partition.topic.index, partition.partition) { entry in
            entry?.logEndReachedAtOffset = offset
            // The lane may send no report that completes the rereading: perhaps no record was left to read again, or
            // the lane has reported the last one as settled before reading reached the log's end.
            entry?.completeRereadingIfReached(nil)
            entry?.noteLogEndIfSettled()
        }
    }

    /// Notes that a record was dealt to its lane.
    ///
    /// - Parameter offset: the record's offset, within ``validOffsets``.
    mutating func noteDealtRecord(_ topic: Int32, _ partition: Int32, offset: Int64) {
        updateEntry(topic, partition) { entry in
            entry?.nextOffset = offset + 1
            entry?.logEndReachedAtOffset = -1
            if let unsettledOffset = entry?.firstUnsettledOffset, unsettledOffset < 0 {
                entry?.firstUnsettledOffset = offset
            }
        }
    }

    /// Returns how many records of a topic's assigned partitions wait in the logs: they are not dealt to a lane yet. A
    /// partition counts only after its first dealt record, because its `nextOffset` is unknown before.
    func countRecordsToDeal(of topic: Int32) -> Int64 {
        stride(from: Int(topic), to: entries.count, by: Intake.topicCount)
            .reduce(0) { sum, index in
                guard let entry = entries[index], entry.nextOffset >= 0 else { return sum }
                let recordToDealCount = max(0, entry.reportedLogEndOffset - entry.nextOffset)
                let (total, hasOverflowed) = sum.addingReportingOverflow(recordToDealCount)
                return hasOverflowed ? .max : total
            }
    }

    /// Returns the partitions of a topic whose log has records that are not dealt to a lane yet. A partition counts
    /// only after its first dealt record, because its `nextOffset` is unknown before.
    func findPartitionsWithRecordsToDeal(of topic: Int32) -> [TopicPartition] {
        partitions { $0.nextOffset >= 0 && $0.reportedLogEndOffset > $0.nextOffset }.filter { $0.topic.index == topic }
    }

    private func partitions(where isIncluded: (Entry) -> Bool) -> [TopicPartition] {
        entries.enumerated()
            .compactMap { index, entry in
                guard let entry, isIncluded(entry) else { return nil }
                return TopicPartition(
                    topic: TopicIdentifier(index: Int32(index % Intake.topicCount)),
                    partition: Int32(index / Intake.topicCount)
                )
            }
    }
}

extension AssignmentTable.Entry {
    /// Returns the offset below which all records are settled, by this worker or a previous owner.
    ///
    /// - Parameter startOffset: where this assignment, or its last rereading, began to read. Has no effect if that
    ///   rereading has an `endOffset` above 0: all records below `endOffset` were settled before.
    func computeSettledEndOffset(startOffset: Int64) -> Int64 {
        let rereadingEnd = rereading.map(\.endOffset) ?? 0
        return max(rereadingEnd > 0 ? rereadingEnd : startOffset, firstUnsettledOffset, settledLogEndOffset)
    }

    /// Notes the log's end as settled (`settledLogEndOffset`) if reading has reached this end, all dealt records are
    /// settled, and no rereading is under way. Does nothing for a partition without a lane, whose records are read but
    /// never settled.
    fileprivate mutating func noteLogEndIfSettled() {
        guard lane != nil, firstUnsettledOffset >= nextOffset, rereading?.isComplete != false,
            logEndReachedAtOffset >= rereading?.endOffset ?? 0
        else { return }
        settledLogEndOffset = max(settledLogEndOffset, logEndReachedAtOffset)
    }

    /// Returns an offset above all records that may have written to Redis. It may be above
    /// ``computeSettledEndOffset(startOffset:)``: dealt records may have written already, and this lane or a previous
    /// owner may have settled single records.
    ///
    /// - Parameters:
    ///   - startOffset: where this assignment, or its last rereading, began to read.
    ///   - progress: the last known progress (`Intake.findKnownProgress`). Its metadata names settled records.
    func computeWrittenEndOffset(startOffset: Int64, progress: PartitionProgress?) -> Int64 {
        let settledRanges = progress.flatMap { progress in
            progress.metadata.withUnsafeBytes {
                SettledOffsetsText.decode($0, committedOffset: progress.committableOffset)
            }
        }
        let settledRangesEnd = settledRanges?.last?.upperBound ?? 0
        return max(computeSettledEndOffset(startOffset: startOffset), nextOffset, settledRangesEnd)
    }

    /// Marks the rereading as complete if all its records are settled, also those above its end that were settled
    /// before.
    ///
    /// - Parameter progress: what the lane reports now; nil: it reports nothing.
    fileprivate mutating func completeRereadingIfReached(_ progress: PartitionProgress?) {
        guard let rereading, !rereading.isComplete else { return }
        // Reading may reach the log's end without a settled record at the rereading's end: the last offsets may belong
        // to deleted records or transaction markers, which no reader gets. Then the rereading is complete when all
        // dealt records are settled.
        let areDealtRecordsSettled = reportedSettledEndOffset >= nextOffset
        let isAtEnd = logEndReachedAtOffset >= rereading.endOffset && areDealtRecordsSettled
        let isEndSettled = progress.map {
            $0.committableOffset >= rereading.endOffset && $0.areRereadRecordsSettled
        }
        if isEndSettled ?? false || isAtEnd { self.rereading?.isComplete = true }
    }
}
