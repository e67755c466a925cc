import Kafka
import Testing

@testable import CausewayWorker

/// A lane asks for records of the fan-out topic again, while older records are still on their way to it.
@Suite struct FanoutRereadingTests {
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
                    rereadRequestCount: $0.rereadRequestCount,
                    topic: Intake.fanoutTopicIndex,
                    partition: Self.partition.partition,
                    bytes: 100
                )
            }
    }

    private func makeRereadRequest(_ assignmentNumber: UInt32) -> LaneReport {
        LaneReport(
            topic: Intake.fanoutTopicIndex,
            partition: Self.partition.partition,
            assignmentNumber: assignmentNumber,
            progress: nil,
            isDrained: false
        )
    }

    /// The lane asks to read the partition again, and later asks once more. It must drop the records from before its
    /// second request, also those that its first request has brought.
    @Test func `Records from before the new reading are dropped`() throws {
        var tests = self
        let firstEntry = try #require(tests.dealRecord())
        #expect(firstEntry.topic == Intake.fanoutTopicIndex && firstEntry.partition == 3)
        var lanePartition = LanePartitions.Entry(
            indexInCore: 0,
            assignmentNumber: firstEntry.assignmentNumber,
            topic: Intake.fanoutTopicIndex,
            partition: 3,
            assumedBehindUntilMilliseconds: 0
        )
        #expect(lanePartition.expects(firstEntry))
        lanePartition.rereadRequestCount &+= 1
        #expect(!lanePartition.expects(firstEntry))
        let isAccepted = tests.table.noteRereadRequest(makeRereadRequest(firstEntry.assignmentNumber))
        #expect(isAccepted)
        let secondEntry = try #require(tests.dealRecord())
        #expect(lanePartition.expects(secondEntry) && !lanePartition.expects(firstEntry))
        lanePartition.rereadRequestCount &+= 1
        #expect(!lanePartition.expects(secondEntry))
        let isAcceptedAgain = tests.table.noteRereadRequest(makeRereadRequest(firstEntry.assignmentNumber))
        let thirdEntry = try #require(tests.dealRecord())
        #expect(isAcceptedAgain && lanePartition.expects(thirdEntry))
    }

    @Test func `A request of an earlier assignment is ignored`() throws {
        var tests = self
        let firstEntry = try #require(tests.dealRecord())
        tests.table.remove(Self.partition)
        _ = tests.table.insert(Self.partition, lane: 0)
        let isAccepted = tests.table.noteRereadRequest(makeRereadRequest(firstEntry.assignmentNumber))
        #expect(!isAccepted)
        #expect(tests.table[Self.partition]?.rereadRequestCount == 0)
    }
}
