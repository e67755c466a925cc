import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// The group's coordinator refuses to name committed offsets at an assignment. librdkafka does not ask again.
@Suite(.ownThread) struct UnknownOffsetTests {
    private static let partition = TopicPartition(
        topic: TopicIdentifier(index: Intake.commandsTopicIndex),
        partition: 0
    )
    /// Kafka's code for a client that is not allowed to read the topic.
    private static let topicAuthorizationFailed: Int32 = 29

    private final class RebalanceIgnorer: ConsumerHandler {
        func partitionsAssigned(_ partitions: [TopicPartition]) {}
        func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
    }

    /// Commits an offset of the partition for the worker's group.
    private static func commit(_ offset: Int64, on broker: EmbeddedBroker) throws {
        let handler = RebalanceIgnorer()
        let consumer = try Consumer(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("group.id", "causeway")],
            topics: ["causeway.commands"],
            handler: handler
        )
        defer { _ = consumer.close(timeoutMilliseconds: 0) }
        try eventually("an assignment") {
            _ = consumer.poll()
            return consumer.assignment.contains(partition)
        }
        #expect(consumer.storeOffset(topic: partition.topic, partition: 0, nextOffset: offset) == nil)
        #expect(consumer.commitStoredOffsets() == nil)
        #expect(consumer.close(timeoutMilliseconds: 10_000) == .closed)
    }

    private static func runLoop(of intake: Intake, until event: String, _ isMet: () -> Bool) throws {
        try eventually(event, every: .milliseconds(1)) {
            intake.loop.runIteration(waitMilliseconds: 10)
            return isMet()
        }
    }

    /// The coordinator refuses the worker's request and that of librdkafka. Of three commands, one is settled.
    @Test func `A partition whose offset was refused at its assignment is read later`() throws {
        let broker = try EmbeddedBroker()
        try LaneOverflowTests.makeTopics(of: broker, recordCount: 3)
        try Self.commit(1, on: broker)
        broker.failNextRequests(.offsetFetch, with: [Self.topicAuthorizationFailed, Self.topicAuthorizationFailed])
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, setup, _ in
            defer { LaneOverflowTests.discardRecords(of: intake) }
            let mailbox = setup.mailboxes[0]
            try Self.runLoop(of: intake, until: "an assignment") { intake.assignments[Self.partition] != nil }
            #expect(intake.partitionsAwaitingPosition.contains(Self.partition), "counted as stuck")
            try Self.runLoop(of: intake, until: "the commands") { mailbox.inbox.count == 2 }
            #expect(intake.consumer.startPositions[Self.partition] == .offset(1))
            #expect(!intake.partitionsAwaitingPosition.contains(Self.partition))
            #expect(intake.unfetchedPartitions.partitionsWithOffsetOutOfRange.isEmpty)
        }
    }
}
