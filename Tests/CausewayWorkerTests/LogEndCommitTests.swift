import Delivery
import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// A producer's transaction ends with a marker, which no lane gets. The group's position must pass the marker.
/// Otherwise it is no longer in the log when Kafka has deleted all old records, and the next owner cannot begin there.
/// (R10)
@Suite(.ownThread) struct LogEndCommitTests {
    private static let partition = TopicPartition(
        topic: TopicIdentifier(index: Intake.commandsTopicIndex),
        partition: 5
    )

    /// The last command has offset 99, and the marker offset 100.
    private static let logEndOffset: Int64 = 101

    private func withAssignedPartition(_ body: (Intake) throws -> Void) throws {
        try withIntake { intake, _, _ in
            intake.partitionsAssigned([Self.partition])
            try body(intake)
        }
    }

    private func deal(_ offset: Int64, _ intake: Intake, of partition: TopicPartition = Self.partition) {
        intake.assignments.noteDealtRecord(partition.topic.index, partition.partition, offset: offset)
    }

    private func reachLogEnd(_ intake: Intake) {
        intake.noteReachedLogEnd(of: Self.partition, offset: Self.logEndOffset)
    }

    /// Reports that all records below the offset are settled.
    private func reportSettled(
        _ offset: Int64,
        _ intake: Intake,
        of partition: TopicPartition = Self.partition
    ) throws {
        let assignment = try #require(intake.assignments[partition])
        let isPushed = intake.setup.mailboxes[0].partitionReports
            .push(
                PartitionReport(
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignmentNumber: assignment.assignmentNumber,
                    progress: RingBox.passRetained(PartitionProgress(committableOffset: offset, metadata: [])),
                    isDrained: false
                )
            )
        #expect(isPushed)
        intake.takePartitionReports()
    }

    /// The offset that is committed next; nil: none.
    private func offsetToCommit(_ intake: Intake) -> Int64? {
        intake.rereading.storedProgress[Self.partition]?.committableOffset
    }

    @Test func `A log's end is committed when all records before it are settled`() throws {
        try withAssignedPartition { intake in
            deal(99, intake)
            try reportSettled(100, intake)
            #expect(offsetToCommit(intake) == 100)
            reachLogEnd(intake)
            #expect(offsetToCommit(intake) == Self.logEndOffset)
            #expect(intake.assignments[Self.partition]?.computeSettledEndOffset(startOffset: 90) == Self.logEndOffset)
            try reportSettled(100, intake)
            #expect(offsetToCommit(intake) == Self.logEndOffset, "the group's position does not go back")
            deal(101, intake)
            try reportSettled(102, intake)
            #expect(offsetToCommit(intake) == 102)
        }
    }

    @Test func `A log's end is not committed while a record before it is unsettled`() throws {
        try withAssignedPartition { intake in
            for offset in [98, 99] as [Int64] { deal(offset, intake) }
            try reportSettled(99, intake)
            reachLogEnd(intake)
            #expect(offsetToCommit(intake) == 99)
            try reportSettled(100, intake)
            #expect(offsetToCommit(intake) == Self.logEndOffset, "the last record is settled after the end was reached")
        }
    }

    /// Only the marker is left, or Kafka has deleted all records of a partition before the group committed an offset.
    @Test func `A log's end before which no record remains is committed`() throws {
        try withAssignedPartition { intake in
            reachLogEnd(intake)
            #expect(offsetToCommit(intake) == Self.logEndOffset)
        }
    }

    @Test func `The end of an empty log is not committed`() throws {
        try withAssignedPartition { intake in
            intake.noteReachedLogEnd(of: Self.partition, offset: 0)
            #expect(offsetToCommit(intake) == nil)
        }
    }

    @Test func `A log's end is not committed before a rereading is complete`() {
        var table = AssignmentTable()
        let number = table.insert(Self.partition, lane: 0).assignmentNumber
        table.beginRereading(
            of: Self.partition,
            identifier: 9,
            endOffset: Self.logEndOffset,
            hasSettledRecordsAboveEnd: false
        )
        table.noteDealtRecord(Self.partition.topic.index, Self.partition.partition, offset: 99)
        table.noteReachedLogEnd(of: Self.partition, offset: Self.logEndOffset)
        #expect(table[Self.partition]?.settledLogEndOffset == -1)
        let report = PartitionReport(
            topic: Self.partition.topic.index,
            partition: Self.partition.partition,
            assignmentNumber: number,
            progress: nil,
            isDrained: false
        )
        _ = table.applyAndPermitCommit(report, of: PartitionProgress(committableOffset: 100, metadata: []))
        #expect(table[Self.partition]?.rereading?.isComplete == true)
        #expect(table[Self.partition]?.settledLogEndOffset == Self.logEndOffset)
    }

    /// The committed offset passes the marker. If the lane did not know this, it would conclude that another worker has
    /// settled a record, and would give up the pushes of new members. (K24)
    @Test func `A release tells the lane that a log is settled up to its end`() throws {
        let partition = TopicPartition(topic: TopicIdentifier(index: Intake.registrationsTopicIndex), partition: 5)
        try withIntake { intake, _, _ in
            intake.partitionsAssigned([partition])
            deal(9, intake, of: partition)
            intake.noteReachedLogEnd(of: partition, offset: 11)
            try reportSettled(10, intake, of: partition)
            intake.partitionsRevoked([partition], areLost: true)
            var settledEndOffset: Int64?
            while let order = intake.setup.mailboxes[0].orders.pop() {
                if order.kind == .release { settledEndOffset = order.settledEndOffset }
            }
            #expect(settledEndOffset == 11)
        }
    }

    /// The records of such a partition are read, but stay unsettled.
    @Test func `A log's end is not committed if the lane has no room for the partition`() {
        var table = AssignmentTable()
        for number in 0..<Delivery.partitionsMax {
            _ = table.insert(
                TopicPartition(topic: TopicIdentifier(index: Intake.registrationsTopicIndex), partition: Int32(number)),
                lane: 0
            )
        }
        let entry = table.insert(Self.partition, lane: 0)
        #expect(entry.lane == nil)
        table.noteReachedLogEnd(of: Self.partition, offset: Self.logEndOffset)
        #expect(table[Self.partition]?.settledLogEndOffset == -1)
    }
}
