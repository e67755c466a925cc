import Testbed
import Testing

@testable import Kafka

@Suite(.ownThread) struct CloseTests {
    @Test func `Closing before the first assignment waits for it`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 2)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(reader.close() == .closed)
        #expect(reader.assignedEvents.count == 1)
        #expect(reader.revokedEvents.count == 1)
    }

    @Test func `Closing without a broker ends at the deadline`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        try broker.takeDown()
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        let startMilliseconds = monotonicMilliseconds()
        #expect(reader.close(timeoutMilliseconds: 300) == .unfinished)
        // Without a deadline, the close would wait forever for the assignment.
        #expect((300..<60_000).contains(monotonicMilliseconds() - startMilliseconds))
        #expect(reader.assignedEvents.isEmpty)
        #expect(reader.revokedEvents.isEmpty)
    }

    @Test func `Closing while the assignment is under way does not abort`() async throws {
        // The consumer has joined the group, but the response with its assignment fails. If librdkafka closed such a
        // consumer, its cooperative-sticky assignor would abort the process. So `close` does not close the consumer,
        // and returns `unfinished` at its deadline.
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        broker.failNextRequests(.syncGroup, with: Array(repeating: 14, count: 1_000))
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { !$0.consumer.memberIdentifier.isEmpty })
        #expect(reader.close(timeoutMilliseconds: 200) == .unfinished)
    }

    @Test func `A record that is still held leaves the close unfinished`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 2)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { !$0.receivedRecords.isEmpty })
        guard let heldMessage = await reader.nextMessage() else {
            Issue.record("no second record")
            return
        }
        let startMilliseconds = monotonicMilliseconds()
        #expect(reader.close(timeoutMilliseconds: 500) == .unfinished)
        // Without a deadline, the close would wait forever for the record that the test has not released.
        #expect(monotonicMilliseconds() - startMilliseconds < 60_000)
        #expect(heldMessage.offset == 1)
        producer.close()
    }

    /// The client keeps running after an unfinished close. It must not write to the wake-up descriptor any
    /// more: the number may by then belong to another file.
    @Test func `An unfinished close writes to no descriptor`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        try broker.takeDown()
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(reader.close(timeoutMilliseconds: 0) == .unfinished)
        #expect(await !reader.isWoken(withinMilliseconds: 2_000))
    }

    @Test func `Closing twice is harmless`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(reader.close() == .closed)
        #expect(reader.close() == .closed)
        let producer = try TestProducer(broker)
        producer.close()
        producer.close()
    }

    @Test func `The eager protocol works too`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 3)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", partition: 2, count: 10)
        let properties = [(name: "partition.assignment.strategy", value: "range")]
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await firstConsumer.run { $0.receivedRecords.count == 10 })
        let topic = TopicIdentifier(index: 0)
        #expect(firstConsumer.consumer.storeOffset(topic: topic, partition: 2, nextOffset: 8) == nil)
        #expect(firstConsumer.close() == .closed)
        let allPartitions = Set((0..<3).map { TopicPartition(topic: topic, partition: $0) })
        #expect(firstConsumer.revokedEvents.map { Set($0.partitions) } == [allPartitions])
        let secondConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await secondConsumer.run { $0.receivedRecords.count == 2 })
        #expect(secondConsumer.receivedRecords.numbers == [8, 9])
        #expect(secondConsumer.close() == .closed)
        producer.close()
    }
}
