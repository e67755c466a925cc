import Kafka
import Testbed
import Testing

/// A broker's crash can leave a partition without a leader for hours. Requests about other partitions must not fail.
@Suite(.ownThread) struct LeaderTests {
    private static let partitions = (0..<2)
        .map { TopicPartition(topic: TopicIdentifier(index: 0), partition: Int32($0)) }

    @Test func `A partition without a leader hides no offset of another partition`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 2)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 3)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 3 })
        try broker.setLeader(ofTopic: "commands", partition: 1, to: nil)
        let beganAtMilliseconds = monotonicMilliseconds()
        let timeoutMilliseconds: Int32 = 60_000
        #expect(
            try reader.consumer.fetchLogEndOffsets(of: Self.partitions, timeoutMilliseconds: timeoutMilliseconds)
                == [Self.partitions[0]: 3]
        )
        #expect(monotonicMilliseconds() - beganAtMilliseconds < Int64(timeoutMilliseconds))
        let logOffsets = try reader.consumer.fetchLogOffsets(of: Self.partitions)
        #expect(logOffsets[Self.partitions[0]] == .success(0..<3))
        #expect(throws: KafkaError.self) { try logOffsets[Self.partitions[1]]?.get() }
        let offsets = try reader.consumer.fetchOffsets(of: Self.partitions, atOrAfterWallMilliseconds: 0)
        // The embedded broker finds no record by its time.
        #expect(offsets[Self.partitions[0]] == .success(nil))
        guard case .failure(let error)? = offsets[Self.partitions[1]] else {
            Issue.record("a partition without a leader has an offset")
            return
        }
        #expect(error.name == "LEADER_NOT_AVAILABLE" && error.partition == Self.partitions[1])

        try broker.setLeader(ofTopic: "commands", partition: 1, to: 1)
        #expect(
            try reader.consumer.fetchOffsets(of: Self.partitions, atOrAfterWallMilliseconds: 0)
                == [Self.partitions[0]: .success(nil), Self.partitions[1]: .success(nil)]
        )
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// The group's coordinator has the committed offsets. Only the ends of the logs need the partitions' leaders.
    @Test func `The committed offsets of a group are known without a leader`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 2)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 3)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 3 })
        #expect(reader.consumer.storeOffset(topic: TopicIdentifier(index: 0), partition: 0, nextOffset: 2) == nil)
        #expect(reader.consumer.commitStoredOffsets() == nil)
        try broker.setLeader(ofTopic: "commands", partition: 1, to: nil)
        let positions = try GroupPositionReader(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("group.id", "g")],
            topic: "commands",
            partitionCount: 2
        )
        #expect(try positions.readCommittedOffsets(timeoutMilliseconds: 60_000) == [2, nil])
        #expect {
            _ = try positions.readPositions(timeoutMilliseconds: 1_000)
        } throws: { error in
            "\(error)".contains("commands [1]")
        }
        positions.close(timeoutMilliseconds: 5_000)
        let partitionReader = try PartitionReader(
            properties: [("bootstrap.servers", broker.bootstrapServers)],
            topic: "commands"
        )
        #expect(try partitionReader.fetchPartitionsWithoutLeader(timeoutMilliseconds: 60_000) == [1])
        #expect(partitionReader.close(timeoutMilliseconds: 5_000) == .closed)
        try broker.setLeader(ofTopic: "commands", partition: 1, to: 1)
        #expect(reader.close() == .closed)
        producer.close()
    }
}
