import Kafka
import Testbed
import Testing

@Suite(.ownThread) struct PauseTests {
    private static let partition = TopicPartition(topic: TopicIdentifier(index: 0), partition: 0)

    @Test func `A pause repeats no record, and skips none`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker, [("batch.num.messages", "50")])
        try await producer.fill("commands", count: 2_000)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        var expectedCount = 0
        while expectedCount < 2_000 {
            expectedCount = min(2_000, expectedCount + 97)
            #expect(await reader.run { $0.receivedRecords.count >= expectedCount })
            // Resuming a partition that is not paused, and pausing one twice, change nothing.
            reader.consumer.resume([Self.partition])
            reader.consumer.pause([Self.partition])
            reader.consumer.pause([Self.partition, Self.partition])
            #expect(reader.consumer.pausedPartitions == [Self.partition])
            #expect(!reader.step())
            reader.consumer.resume([Self.partition])
            reader.consumer.resume([Self.partition])
            #expect(reader.consumer.pausedPartitions.isEmpty)
            expectedCount = reader.receivedRecords.count
        }
        #expect(reader.receivedRecords.numbers == Array(0..<2_000))
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// The queue is so small that fetching stops again and again. The test wakes the fetch at many moments: within a
    /// batch, when no record is left, during a fetch, and while the partition is paused.
    @Test func `A woken fetch repeats no record, and skips none`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker, [("batch.num.messages", "50")])
        try await producer.fill("commands", count: 3_000)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"], [("queued.min.messages", "60")])
        reader.consumer.wakeFetching(of: [Self.partition])
        var expectedCount = 0
        while expectedCount < 3_000 {
            expectedCount = min(3_000, expectedCount + 37)
            #expect(await reader.run { $0.receivedRecords.count >= expectedCount })
            reader.consumer.wakeFetching(of: [Self.partition])
            while reader.step() {}
            reader.consumer.wakeFetching(of: [Self.partition])
            expectedCount = reader.receivedRecords.count
        }
        #expect(reader.receivedRecords.numbers == Array(0..<3_000))
        reader.consumer.wakeFetching(of: [])
        reader.consumer.wakeFetching(of: [TopicPartition(topic: TopicIdentifier(index: 0), partition: 9)])
        reader.consumer.pause([Self.partition])
        reader.consumer.wakeFetching(of: [Self.partition])
        #expect(reader.consumer.pausedPartitions == [Self.partition], "what is paused stays so")
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `A paused partition stops while others continue`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 2)
        let producer = try TestProducer(broker)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        // librdkafka forgets a pause that comes while it still assigns the partition.
        try await producer.fill("commands", partition: 0, count: 1)
        #expect(await reader.run { $0.receivedRecords.count == 1 })
        reader.consumer.pause([Self.partition])
        try await producer.fill("commands", partition: 0, count: 10)
        try await producer.fill("commands", partition: 1, count: 10, from: 100)
        #expect(await reader.run { $0.receivedRecords.count >= 11 })
        #expect(reader.receivedRecords.dropFirst().allSatisfy { $0.partition == 1 })
        reader.consumer.resume([Self.partition])
        #expect(await reader.run { $0.receivedRecords.count == 21 })
        #expect(reader.receivedRecords.suffix(10).map(\.partition) == Array(repeating: 0, count: 10))
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// A caller gives records back with `pause(_:rewindingTo:)`. It may give the same records back several times,
    /// even before it has read them again.
    @Test func `Records that a caller gives back are handed out again`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker, [("batch.num.messages", "50")])
        try await producer.fill("commands", count: 200)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        var expectedNumbers: [Int] = []
        for last in [0, 0, 70, 99, 100] {
            expectedNumbers += Array((expectedNumbers.last ?? 0)...last)
            #expect(await reader.run { $0.receivedRecords.count == expectedNumbers.count })
            reader.consumer.pause(Self.partition, rewindingTo: Int64(last))
            #expect(!reader.step(), "nothing more of a paused partition")
            reader.consumer.resume([Self.partition])
            reader.consumer.pause([Self.partition])
            reader.consumer.resume([Self.partition])
        }
        #expect(await reader.run { $0.receivedRecords.last?.offset == 199 })
        #expect(reader.receivedRecords.numbers == expectedNumbers + Array(100..<200))
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// A caller had no room for one record, and has read later records since then. It gives this record and all
    /// later ones back.
    @Test func `Records that were handed out long ago are handed out again`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker, [("batch.num.messages", "50")])
        try await producer.fill("commands", count: 200)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 200 })
        reader.consumer.pause(Self.partition, rewindingTo: 17)
        #expect(!reader.step(), "nothing more of a paused partition")
        reader.consumer.resume([Self.partition])
        #expect(await reader.run { $0.receivedRecords.count == 383 })
        #expect(reader.receivedRecords.numbers == Array(0..<200) + Array(17..<200))
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `Records of a partition that is already paused can be given back too`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 3)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.last?.offset == 2 })
        reader.consumer.pause([Self.partition])
        reader.consumer.pause(Self.partition, rewindingTo: 2)
        reader.consumer.resume([Self.partition])
        #expect(await reader.run { $0.receivedRecords.count == 4 })
        #expect(reader.receivedRecords.numbers == [0, 1, 2, 2])
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `A partition that is not assigned is not paused`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        reader.consumer.pause([Self.partition])
        #expect(reader.consumer.pausedPartitions.isEmpty)
        #expect(await reader.run { !$0.assignedEvents.isEmpty })
        reader.consumer.pause([TopicPartition(topic: TopicIdentifier(index: 0), partition: 9)])
        reader.consumer.pause(TopicPartition(topic: TopicIdentifier(index: 0), partition: 9), rewindingTo: 0)
        #expect(reader.consumer.pausedPartitions.isEmpty)
        #expect(reader.close() == .closed)
    }

    @Test func `A partition that was lost while it was paused is read again when it comes back`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 10)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"], [("auto.commit.interval.ms", "60000")])
        #expect(await reader.run { $0.receivedRecords.count == 10 })
        #expect(reader.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 5) == nil)
        #expect(reader.consumer.commitStoredOffsets() == nil)
        #expect(reader.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 9) == nil)
        reader.consumer.pause([Self.partition])
        // Error 25 means unknown member: the group no longer knows this consumer, which has therefore lost its
        // partitions.
        broker.failNextRequests(.heartbeat, with: [25])
        #expect(await reader.run { $0.revokedEvents.count == 1 })
        #expect(reader.revokedEvents.first?.areLost == true)
        #expect(reader.consumer.pausedPartitions.isEmpty)
        #expect(reader.consumer.assignment.isEmpty)
        #expect(await reader.run { $0.assignedEvents.count == 2 })
        // Offset 9 was stored but not committed when the partition was lost. So reading begins at the committed offset.
        #expect(await reader.run { $0.receivedRecords.count >= 15 })
        #expect(reader.receivedRecords.suffix(5).map(\.offset) == [5, 6, 7, 8, 9])
        #expect(reader.close() == .closed)
        producer.close()
    }
}
