import Delivery
import Kafka
import Testing

@testable import CausewayWorker

/// While a partition is read again: which offsets may be committed, and when the rereading is complete.
@Suite struct RereadingTests {
    private let topicPartition = TopicPartition(topic: TopicIdentifier(index: 0), partition: 5)

    private func makeTable(end: Int64, hasSettledRecordsAboveEnd: Bool = false) -> (AssignmentTable, number: UInt32) {
        var table = AssignmentTable()
        let number = table.insert(topicPartition, lane: 0).assignmentNumber
        table.beginRereading(
            of: topicPartition,
            identifier: 9,
            endOffset: end,
            hasSettledRecordsAboveEnd: hasSettledRecordsAboveEnd
        )
        return (table, number)
    }

    /// Reports that all records below the offset are settled. Returns whether the offset may be committed.
    private func reportSettled(
        _ table: inout AssignmentTable,
        _ number: UInt32,
        _ offset: Int64,
        areRereadRecordsSettled: Bool = true
    ) -> Bool {
        let report = PartitionReport(topic: 0, partition: 5, assignmentNumber: number, progress: nil, isDrained: false)
        let progress = PartitionProgress(
            committableOffset: offset,
            metadata: [],
            areRereadRecordsSettled: areRereadRecordsSettled
        )
        return table.applyAndPermitCommit(report, of: progress)
    }

    /// The metadata named settled records above the end. If the rereading were complete before they are read again, no
    /// later owner would read them again.
    @Test(arguments: [0, 100] as [Int64])
    func `A rereading lasts until the settled records above its end are settled again`(end: Int64) {
        var (table, number) = makeTable(end: end, hasSettledRecordsAboveEnd: true)
        #expect(table[topicPartition]?.rereading?.isComplete == false)
        for offset in 0..<120 as Range<Int64> { table.noteDealtRecord(0, 5, offset: offset) }
        let isCommittable = reportSettled(&table, number, 110, areRereadRecordsSettled: false)
        #expect(isCommittable)
        #expect(table[topicPartition]?.rereading?.isComplete == false)
        let isLaterCommittable = reportSettled(&table, number, 110)
        #expect(isLaterCommittable)
        #expect(table[topicPartition]?.rereading?.isComplete == true)
    }

    @Test func `Nothing below the settled offset is committed again`() {
        var (table, number) = makeTable(end: 100)
        for offset in 20..<100 as Range<Int64> { table.noteDealtRecord(0, 5, offset: offset) }
        let isCommittable60 = reportSettled(&table, number, 60)
        #expect(!isCommittable60)
        #expect(
            table[topicPartition]?.firstUnsettledOffset == 100 && table[topicPartition]?.rereading?.isComplete == false
        )
        let isCommittable100 = reportSettled(&table, number, 100)
        #expect(isCommittable100)
        #expect(table[topicPartition]?.rereading?.isComplete == true)
        let isCommittable101 = reportSettled(&table, number, 101)
        #expect(isCommittable101 && table[topicPartition]?.firstUnsettledOffset == 101)
    }

    /// No reader gets the last records: for example, Kafka has deleted them, or they are transaction markers.
    @Test func `A rereading whose last records do not exist is complete at the log's end`() {
        var (table, number) = makeTable(end: 100)
        table.noteDealtRecord(0, 5, offset: 95)
        let isCommittable96 = reportSettled(&table, number, 96)
        #expect(!isCommittable96)
        #expect(table[topicPartition]?.rereading?.isComplete == false)
        // The lane does not report 96 again.
        table.noteReachedLogEnd(of: topicPartition, offset: 100)
        #expect(table[topicPartition]?.rereading?.isComplete == true)
        #expect(table[topicPartition]?.firstUnsettledOffset == 100)
    }

    /// Before a worker reads a new partition, the committed offset tells it which records are settled. If the worker
    /// then reads from an earlier offset, it must still know these records. Otherwise alerts would ring again.
    @Test func `Records committed before the assignment count as settled`() {
        var table = AssignmentTable()
        _ = table.insert(topicPartition, lane: 0)
        #expect(table[topicPartition]?.computeSettledEndOffset(startOffset: 500) == 500)
        table.beginRereading(
            of: topicPartition,
            identifier: 9,
            endOffset: 500,
            hasSettledRecordsAboveEnd: false
        )
        // The partition is read from offset 20 on.
        #expect(table[topicPartition]?.computeSettledEndOffset(startOffset: 20) == 500)
        // The settled offset must stay 500, although no record needs to be read again.
        _ = table.insert(topicPartition, lane: 0)
        table.markRereadingUnneeded(of: topicPartition, identifier: 9)
        #expect(table[topicPartition]?.computeSettledEndOffset(startOffset: 500) == 500)
    }

    /// The new owner has read nothing yet. Redis has lost what records 1,400 to 1,499 wrote, so the partition must be
    /// read again, although the committed offset is lower.
    @Test func `Records that a previous owner settled above the committed offset may have written to Redis`() throws {
        var table = AssignmentTable()
        let entry = table.insert(topicPartition, lane: 0)
        let metadata = SettledOffsetsText.encode([1_001..<1_500], above: 1_000)
        let progress = PartitionProgress(committableOffset: 1_000, metadata: metadata)
        #expect(entry.computeWrittenEndOffset(startOffset: 1_000, progress: progress) == 1_500)
        #expect(entry.computeWrittenEndOffset(startOffset: 1_000, progress: nil) == 1_000)
        table.noteDealtRecord(0, 5, offset: 1_600)
        let entryWithDealtRecord = try #require(table[topicPartition])
        #expect(entryWithDealtRecord.computeWrittenEndOffset(startOffset: 1_000, progress: progress) == 1_601)
    }

    /// All records below offset 100 are settled. A rereading that would begin above 100 must begin at 100 instead.
    @Test func `No unsettled record is skipped`() {
        #expect(SeekPosition.offset(120).limited(to: 100) == .offset(100))
        #expect(SeekPosition.offset(90).limited(to: 100) == .offset(90))
        #expect(SeekPosition.beginning.limited(to: 100) == .beginning)
    }

    @Test func `A rereading of a log without remaining records is complete at once`() {
        var (table, _) = makeTable(end: 100)
        table.noteReachedLogEnd(of: topicPartition, offset: 100)
        #expect(table[topicPartition]?.rereading?.isComplete == true)
        let (tableOfEmptyLog, _) = self.makeTable(end: 0)
        #expect(
            tableOfEmptyLog[topicPartition]?.rereading?.isComplete == true
                && tableOfEmptyLog[topicPartition]?.firstUnsettledOffset == -1
        )
    }
}
