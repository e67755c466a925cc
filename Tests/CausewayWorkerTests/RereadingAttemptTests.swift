import Delivery
import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// The Kafka thread asks the brokers where rereadings begin. Some brokers may be unavailable. (R24)
@Suite(.ownThread) struct RereadingAttemptTests {
    private static let partitions = (0..<2)
        .map { TopicPartition(topic: TopicIdentifier(index: Intake.commandsTopicIndex), partition: Int32($0)) }

    private static func requestRereadings(
        of intake: Intake,
        _ partitions: [TopicPartition] = Self.partitions,
        firstMissingOffset: Int64? = nil
    ) throws {
        let requests = try partitions.map { partition in
            RereadingRequest(
                topic: partition.topic.index,
                partition: partition.partition,
                assignmentNumber: try #require(intake.assignments[partition]).assignmentNumber,
                firstMissingOffset: firstMissingOffset,
                rereadingIdentifier: 9,
                isPrimaryEmptied: true
            )
        }
        intake.setup.storeWatchMailbox.request(requests)
    }

    private static func runLoop(of intake: Intake, until event: String, _ isMet: () -> Bool) throws {
        try eventually(event, every: .milliseconds(1)) {
            intake.loop.runIteration(waitMilliseconds: 10)
            return isMet()
        }
    }

    /// The partitions have no records, so each rereading is complete as soon as the brokers have responded.
    @Test func `A partition without a leader does not delay the rereading of another partition`() throws {
        let broker = try EmbeddedBroker()
        for topic in ["commands", "registrations", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: Self.partitions.count)
        }
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, _, _ in
            func isRereadingComplete(of partition: TopicPartition) -> Bool {
                intake.assignments[partition]?.rereading?.isComplete == true
            }
            try Self.runLoop(of: intake, until: "an assignment") {
                intake.isAnyBrokerUp == true && Self.partitions.allSatisfy { intake.assignments[$0] != nil }
            }
            try broker.setLeader(ofTopic: "causeway.commands", partition: 1, to: nil)
            try Self.requestRereadings(of: intake)
            try Self.runLoop(of: intake, until: "the rereading of the partition with a leader") {
                isRereadingComplete(of: Self.partitions[0])
            }
            #expect(intake.assignments[Self.partitions[1]]?.rereading == nil)
            #expect(intake.rereadingPartitionCount == 1)
            try broker.setLeader(ofTopic: "causeway.commands", partition: 1, to: 1)
            try Self.runLoop(of: intake, until: "the rereading of the other partition") {
                isRereadingComplete(of: Self.partitions[1])
            }
        }
    }

    /// The embedded broker finds no record by its time, like a broker that keeps no times. Offset 501 is from a mark of
    /// an earlier log of the topic.
    @Test(arguments: [(nil, 0), (1, 1), (501, 0)] as [(Int64?, Int)])
    func `A partition is read again even if the broker names no offset for a time`(
        firstMissingOffset: Int64?,
        firstReadOffset: Int
    ) throws {
        let partition = Self.partitions[0]
        try Self.runWithSettledCommands(settledEndOffset: 3) { intake, mailbox in
            try Self.requestRereadings(of: intake, [partition], firstMissingOffset: firstMissingOffset)
            try Self.runLoop(of: intake, until: "the end of the log, in the rereading") {
                let entry = intake.assignments[partition]
                return entry?.rereading != nil && entry?.nextOffset == 3
            }
            #expect(intake.assignments[partition]?.rereading?.isComplete == false)
            #expect(mailbox.inbox.count == 3 - firstReadOffset)
        }
    }

    /// The topic was deleted and created again, or Kafka has lost its last records, after the group had committed
    /// offset 501. So the partition has stopped, until an operator sets another offset. If it were read again, its new
    /// commands would count as settled. If its rereading counted as complete, the commands below the operator's offset
    /// would never be read again.
    @Test(arguments: [501, 300, nil] as [Int64?])
    func `A partition whose committed offset is above the log's end waits for its rereading`(
        firstMissingOffset: Int64?
    ) throws {
        let partition = Self.partitions[0]
        try Self.runWithSettledCommands(settledEndOffset: 501) { intake, mailbox in
            try Self.requestRereadings(of: intake, [partition], firstMissingOffset: firstMissingOffset)
            try Self.runLoop(of: intake, until: "the decision") {
                intake.rereading.settledOffsetsAboveLogEnd[partition] == 501
            }
            #expect(intake.assignments[partition]?.rereading?.isComplete != true)
            #expect(intake.rereadingPartitionCount == 1)
            #expect(mailbox.inbox.count == 0)
            try Self.reportSettled(3, to: intake, mailbox)
            try Self.runLoop(of: intake, until: "the end of the log, in the rereading") {
                let entry = intake.assignments[partition]
                return entry?.rereading != nil && entry?.nextOffset == 3
            }
            #expect(mailbox.inbox.count == 3)
        }
    }

    /// The partition has stopped, because the topic was created again. Then the new log grows beyond the settled
    /// offset.
    @Test func `A stopped partition stays stopped when its new log has grown`() throws {
        let partition = Self.partitions[0]
        try Self.runWithSettledCommands(settledEndOffset: 2) { intake, mailbox in
            intake.unfetchedPartitions.partitionsWithOffsetOutOfRange.insert(partition)
            try Self.requestRereadings(of: intake, [partition], firstMissingOffset: nil)
            try Self.runLoop(of: intake, until: "the decision") {
                intake.rereading.settledOffsetsAboveLogEnd[partition] == 2
            }
            #expect(intake.assignments[partition]?.rereading?.isComplete != true)
            #expect(mailbox.inbox.count == 0)
        }
    }

    /// Runs `body` with a partition of three commands. No lane runs, so this method reports what a lane would report:
    /// all records below `settledEndOffset` are settled.
    private static func runWithSettledCommands(
        settledEndOffset: Int64,
        _ body: (Intake, LaneMailbox) throws -> Void
    ) throws {
        let broker = try EmbeddedBroker()
        try LaneOverflowTests.makeTopics(of: broker, recordCount: 3)
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, setup, _ in
            defer { LaneOverflowTests.discardRecords(of: intake) }
            let mailbox = setup.mailboxes[0]
            try runLoop(of: intake, until: "the commands") {
                intake.isAnyBrokerUp == true && mailbox.inbox.count == 3
            }
            LaneOverflowTests.discardRecords(of: intake)
            try reportSettled(settledEndOffset, to: intake, mailbox)
            try body(intake, mailbox)
        }
    }

    private static func reportSettled(_ settledEndOffset: Int64, to intake: Intake, _ mailbox: LaneMailbox) throws {
        let partition = partitions[0]
        let progress = PartitionProgress(committableOffset: settledEndOffset, metadata: [])
        let isPushed = mailbox.partitionReports.push(
            PartitionReport(
                topic: partition.topic.index,
                partition: partition.partition,
                assignmentNumber: try #require(intake.assignments[partition]).assignmentNumber,
                progress: RingBox.passRetained(progress),
                isDrained: true
            )
        )
        #expect(isPushed)
        intake.takePartitionReports()
    }

    /// No broker responds, so the first attempt takes its whole timeout.
    @Test func `After a failed attempt the Kafka thread does not wait for the brokers again at once`() throws {
        try withIntake { intake, _, _ in
            intake.partitionsAssigned(Self.partitions)
            intake.isAnyBrokerUp = true
            try Self.requestRereadings(of: intake)
            intake.rereadPartitions()
            #expect(intake.rereadingPartitionCount == Self.partitions.count)
            let beganAtMilliseconds = EventLoop.monotonicMilliseconds
            intake.rereadPartitions()
            #expect(
                EventLoop.monotonicMilliseconds - beganAtMilliseconds < Int64(Consumer.requestTimeoutMilliseconds) / 2
            )
        }
    }
}
