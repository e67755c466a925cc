import Kafka
import Testing

@testable import CausewayWorker

/// A lane requests a rewind of the fan-out topic, while older records are still on their way to the lane.
@Suite struct FanoutRewindTests {
    private static let partition = TopicPartition(topic: TopicIdentifier(index: Intake.fanoutTopicIndex), partition: 3)

    private var table: AssignmentTable

    init() {
        table = AssignmentTable()
        _ = table.insert(Self.partition, lane: 0)
    }

    /// Returns the entry with which the Kafka thread would now give a record to the lane.
    private func dealRecord() -> InboxEntry? {
        table[Self.partition]
            .map {
                InboxEntry(
                    messageAddress: 0,
                    assignmentNumber: $0.assignmentNumber,
                    rewindRequestCount: $0.rewindRequestCount,
                    topic: Intake.fanoutTopicIndex,
                    partition: Self.partition.partition,
                    recordByteCount: 100
                )
            }
    }

    private func makeRewindRequest(_ assignmentNumber: UInt32) -> PartitionReport {
        PartitionReport(
            topic: Intake.fanoutTopicIndex,
            partition: Self.partition.partition,
            assignmentNumber: assignmentNumber,
            progress: nil,
            isDrained: false
        )
    }

    /// The lane requests a rewind, and later a second one. It must discard all records that were dealt before the
    /// second request, also those that it got because of the first request.
    @Test func `Records from before the rewind are discarded`() throws {
        var tests = self
        let firstEntry = try #require(tests.dealRecord())
        #expect(firstEntry.topic == Intake.fanoutTopicIndex && firstEntry.partition == 3)
        var lanePartition = LanePartitions.Entry(
            indexInCore: 0,
            assignmentNumber: firstEntry.assignmentNumber,
            topic: Intake.fanoutTopicIndex,
            partition: 3,
            behindAssumptionEndMilliseconds: 0
        )
        #expect(lanePartition.expects(firstEntry))
        lanePartition.rewindRequestCount &+= 1
        #expect(!lanePartition.expects(firstEntry))
        let isAccepted = tests.table.noteRewindRequest(makeRewindRequest(firstEntry.assignmentNumber))
        #expect(isAccepted)
        let secondEntry = try #require(tests.dealRecord())
        #expect(lanePartition.expects(secondEntry) && !lanePartition.expects(firstEntry))
        lanePartition.rewindRequestCount &+= 1
        #expect(!lanePartition.expects(secondEntry))
        let isAcceptedAgain = tests.table.noteRewindRequest(makeRewindRequest(firstEntry.assignmentNumber))
        let thirdEntry = try #require(tests.dealRecord())
        #expect(isAcceptedAgain && lanePartition.expects(thirdEntry))
    }

    @Test func `A request of an earlier assignment is ignored`() throws {
        var tests = self
        let firstEntry = try #require(tests.dealRecord())
        tests.table.remove(Self.partition)
        _ = tests.table.insert(Self.partition, lane: 0)
        let isAccepted = tests.table.noteRewindRequest(makeRewindRequest(firstEntry.assignmentNumber))
        #expect(!isAccepted)
        #expect(tests.table[Self.partition]?.rewindRequestCount == 0)
    }
}
