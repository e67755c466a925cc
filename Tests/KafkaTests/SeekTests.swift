import Kafka
import Testbed
import Testing

/// With the eager protocol, the seek of a stopped partition assigns all partitions again. The others must then continue
/// where they are, although librdkafka does not know a position before the next record is polled.
@Suite(.ownThread) struct SeekTests {
    private static func partition(_ number: Int32) -> TopicPartition {
        TopicPartition(topic: TopicIdentifier(index: 0), partition: number)
    }

    private static let stoppedPartitions = [partition(1), partition(2)]

    /// Returns a consumer that has read partition 0 from `committedOffset` to its end, offset 10. Partitions 1 and 2
    /// are stopped, because their logs do not have their committed offsets.
    private static func makeReader(
        of broker: EmbeddedBroker,
        _ producer: TestProducer,
        committedOffset: Int64,
        strategy: String
    ) async throws -> TestConsumer {
        try broker.createTopic("commands", partitionCount: 3)
        try await producer.fill("commands", count: 10)
        let properties = [("partition.assignment.strategy", strategy), ("enable.partition.eof", "true")]
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await firstConsumer.run { !$0.assignedEvents.isEmpty })
        for (number, offset) in [(0, committedOffset), (1, 5), (2, 5)] as [(Int32, Int64)] {
            let error = firstConsumer.consumer.storeOffset(
                topic: partition(number).topic,
                partition: number,
                nextOffset: offset
            )
            #expect(error == nil)
        }
        #expect(firstConsumer.close() == .closed)

        let reader = try TestConsumer(
            broker,
            group: "g",
            topics: ["commands"],
            properties + [("auto.offset.reset", "error")]
        )
        let isReady = await reader.run { reader in
            reader.partitionsReadToEnd.contains(Self.partition(0))
                && stoppedPartitions.allSatisfy { stopped in reader.errors.contains { $0.partition == stopped } }
        }
        #expect(isReady && reader.receivedRecords.map(\.offset) == Array(committedOffset..<10))
        return reader
    }

    /// librdkafka may still be stopping the partition because of an earlier seek. The seek is then tried again.
    private static func restart(_ partition: TopicPartition, of reader: TestConsumer) async throws {
        try await eventuallyInTask("a seek of a stopped partition") {
            reader.consumer.seek(partition, to: .beginning) == nil
        }
    }

    /// Without its seek, partition 0 would continue at its committed offset.
    @Test(arguments: ["range", "cooperative-sticky"])
    func `The restart of a stopped partition keeps the seek of another partition`(strategy: String) async throws {
        let broker = try EmbeddedBroker()
        let producer = try TestProducer(broker)
        let reader = try await Self.makeReader(of: broker, producer, committedOffset: 10, strategy: strategy)
        #expect(reader.consumer.seek(Self.partition(0), to: .offset(2)) == nil)
        try await Self.restart(Self.stoppedPartitions[0], of: reader)
        #expect(await reader.run { $0.receivedRecords.count >= 8 })
        #expect(reader.receivedRecords.map(\.offset) == Array(2..<10))
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test(arguments: ["range", "cooperative-sticky"])
    func `The restart of two stopped partitions repeats no record of another partition`(
        strategy: String
    ) async throws {
        let broker = try EmbeddedBroker()
        let producer = try TestProducer(broker)
        let reader = try await Self.makeReader(of: broker, producer, committedOffset: 3, strategy: strategy)
        for partition in Self.stoppedPartitions { try await Self.restart(partition, of: reader) }
        try await producer.fill("commands", count: 1, from: 10)
        #expect(await reader.run { $0.receivedRecords.last?.offset == 10 })
        #expect(reader.receivedRecords.map(\.offset) == Array(3..<11))
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// A resume seeks, so that librdkafka does not know the position of the resumed partition either.
    @Test func `The restart of a stopped partition repeats no record of a resumed partition`() async throws {
        let broker = try EmbeddedBroker()
        let producer = try TestProducer(broker)
        let reader = try await Self.makeReader(of: broker, producer, committedOffset: 3, strategy: "range")
        reader.consumer.pause([Self.partition(0)])
        reader.consumer.resume([Self.partition(0)])
        try await Self.restart(Self.stoppedPartitions[0], of: reader)
        try await producer.fill("commands", count: 1, from: 10)
        #expect(await reader.run { $0.receivedRecords.last?.offset == 10 })
        #expect(reader.receivedRecords.map(\.offset) == Array(3..<11))
        #expect(reader.close() == .closed)
        producer.close()
    }
}
