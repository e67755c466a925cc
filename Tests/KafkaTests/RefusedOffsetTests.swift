import Kafka
import Testbed
import Testing

/// At an assignment, the group's coordinator may refuse to name the committed offsets.
@Suite(.ownThread) struct RefusedOffsetTests {
    private static let partition = TopicPartition(topic: TopicIdentifier(index: 0), partition: 0)
    /// Kafka's code for a client that is not allowed to read the topic.
    private static let topicAuthorizationFailed: Int32 = 29

    private static func properties(strategy: String) -> [(name: String, value: String)] {
        [("auto.offset.reset", "error"), ("partition.assignment.strategy", strategy)]
    }

    /// Returns a broker with a topic of 10 records, of which the group has committed 3.
    private static func makeBrokerWithCommit(strategy: String) async throws -> EmbeddedBroker {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 10)
        let firstConsumer = try TestConsumer(
            broker,
            group: "g",
            topics: ["commands"],
            properties(strategy: strategy)
        )
        #expect(await firstConsumer.run { !$0.assignedEvents.isEmpty })
        #expect(firstConsumer.consumer.storeOffset(topic: partition.topic, partition: 0, nextOffset: 3) == nil)
        #expect(firstConsumer.close() == .closed)
        producer.close()
        return broker
    }

    /// 0 is a response without an error. 16 is Kafka's code for a broker that is not the group's coordinator any more,
    /// 29 for a client that is not allowed to read the topic. librdkafka does not repeat a request of its own that the
    /// coordinator refuses.
    @Test(
        arguments: [
            ([0, 16], "range"), ([16, 16], "range"), ([0, 29], "range"), ([0, 16], "cooperative-sticky"),
        ] as [([Int32], String)]
    )
    func `A partition is read although the coordinator refuses to name its offset`(
        errors: [Int32],
        strategy: String
    ) async throws {
        let broker = try await Self.makeBrokerWithCommit(strategy: strategy)
        broker.failNextRequests(.offsetFetch, with: errors)
        let reader = try TestConsumer(
            broker,
            group: "g",
            topics: ["commands"],
            Self.properties(strategy: strategy)
        )
        #expect(await reader.run { $0.receivedRecords.count == 7 })
        #expect(reader.receivedRecords.numbers == Array(3..<10))
        #expect(reader.consumer.committedOffsets[Self.partition]?.offset == 3)
        #expect(reader.consumer.partitionsWithUnknownOffset.isEmpty)
        #expect(reader.close() == .closed)
    }

    /// The right to read the topic comes only after the assignment.
    @Test(arguments: ["cooperative-sticky", "range"])
    func `A partition whose offset stays unknown begins with a seek`(strategy: String) async throws {
        let broker = try await Self.makeBrokerWithCommit(strategy: strategy)
        broker.failNextRequests(.offsetFetch, with: [Self.topicAuthorizationFailed, Self.topicAuthorizationFailed])
        let reader = try TestConsumer(
            broker,
            group: "g",
            topics: ["commands"],
            Self.properties(strategy: strategy)
        )
        #expect(await reader.run { reader in reader.errors.contains { $0.partition == Self.partition } })
        #expect(reader.errors.allSatisfy { $0.code == Self.topicAuthorizationFailed })
        #expect(reader.consumer.partitionsWithUnknownOffset == [Self.partition])
        #expect(reader.consumer.startPositions.isEmpty)
        #expect(reader.consumer.seek(Self.partition, to: .offset(3)) == nil)
        #expect(await reader.run { $0.receivedRecords.count == 7 })
        #expect(reader.receivedRecords.numbers == Array(3..<10))
        #expect(reader.consumer.partitionsWithUnknownOffset.isEmpty)
        #expect(reader.close() == .closed)
    }
}
