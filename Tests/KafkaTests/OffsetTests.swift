import Kafka
import Testbed
import Testing

@Suite(.ownThread) struct OffsetTests {
    private static let partition = TopicPartition(topic: TopicIdentifier(index: 0), partition: 0)

    /// Returns a broker with a topic whose first partition has numbered records.
    private static func makeBrokerWithRecords(partitionCount: Int = 1, recordCount: Int) async throws -> (
        EmbeddedBroker, TestProducer
    ) {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: partitionCount)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: recordCount)
        return (broker, producer)
    }

    private static func expectTheNextMember(of broker: EmbeddedBroker, toRead numbers: [Int]) async throws {
        let nextConsumer = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await nextConsumer.run { $0.receivedRecords.count == numbers.count })
        #expect(nextConsumer.receivedRecords.numbers == numbers)
        #expect(nextConsumer.close() == .closed)
    }

    @Test func `Only stored offsets are committed`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 100)

        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await firstConsumer.run { $0.receivedRecords.count == 100 })
        #expect(try firstConsumer.consumer.fetchCommittedOffsets(of: [Self.partition]).map { try $0.get() } == [nil])
        #expect(firstConsumer.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 37) == nil)
        #expect(firstConsumer.consumer.commitStoredOffsets() == nil)
        #expect(try firstConsumer.consumer.fetchCommittedOffsets(of: [Self.partition]).map { try $0.get() } == [37])
        // The close also commits an offset that was stored without a commit request.
        #expect(firstConsumer.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 42) == nil)
        #expect(firstConsumer.close() == .closed)
        #expect(firstConsumer.revokedEvents.map(\.partitions) == [[Self.partition]])
        #expect(firstConsumer.revokedEvents.map(\.areLost) == [false])

        try await Self.expectTheNextMember(of: broker, toRead: Array(42..<100))
        producer.close()
    }

    /// A coordinator refuses commits during a rebalance. After a consumer has left its group, it can commit no more. So
    /// it repeats a refused commit before it leaves.
    @Test func `A commit that is refused during a rebalance is repeated before a member leaves`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 10)
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await firstConsumer.run { $0.receivedRecords.count == 10 })
        #expect(firstConsumer.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 7) == nil)
        // Kafka's code for a rebalance that is in progress.
        let rebalanceInProgress: Int32 = 27
        broker.failNextRequests(.offsetCommit, with: [rebalanceInProgress, rebalanceInProgress])
        #expect(firstConsumer.close() == .closed)

        try await Self.expectTheNextMember(of: broker, toRead: [7, 8, 9])
        producer.close()
    }

    /// A coordinator can refuse to give the committed offset of a single partition. The embedded broker does
    /// this in versions 0 and 1 of the request OffsetFetch, and these properties select version 1 or older.
    private static let oldProtocolProperties = [("api.version.request", "false"), ("broker.version.fallback", "0.9.0")]
    /// Kafka's code for a client that is not allowed to read the topic.
    private static let topicAuthorizationFailed: Int32 = 29

    /// Returns a broker, a producer, and the only consumer of a group. The consumer has read 10 records, and has
    /// committed offset 3.
    private static func makeGroupWithReader() async throws -> (EmbeddedBroker, TestProducer, TestConsumer) {
        let (broker, producer) = try await makeBrokerWithRecords(recordCount: 10)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"], oldProtocolProperties)
        #expect(await reader.run { $0.receivedRecords.count == 10 })
        #expect(reader.consumer.storeOffset(topic: partition.topic, partition: 0, nextOffset: 3) == nil)
        #expect(reader.consumer.commitStoredOffsets() == nil)
        return (broker, producer, reader)
    }

    @Test func `A partition that the coordinator refuses does not look like one without an offset`() async throws {
        let (broker, producer, reader) = try await Self.makeGroupWithReader()
        #expect(try reader.consumer.fetchCommittedOffsets(of: [Self.partition]).map { try $0.get() } == [3])
        broker.failNextRequests(.offsetFetch, with: [Self.topicAuthorizationFailed])
        #expect {
            _ = try reader.consumer.fetchCommittedOffsets(of: [Self.partition]).map { try $0.get() }
        } throws: { error in
            let error = error as? KafkaError
            return error?.code == Self.topicAuthorizationFailed && error?.partition == Self.partition
        }
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `The positions of a group are unknown if the coordinator refuses a partition`() async throws {
        let (broker, producer, reader) = try await Self.makeGroupWithReader()
        let positions = try GroupPositionReader(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("group.id", "g")]
                + Self.oldProtocolProperties,
            topic: "commands",
            partitionCount: 1
        )
        #expect(
            try positions.readPositions(timeoutMilliseconds: 10_000) == [.init(committedOffset: 3, logEndOffset: 10)]
        )
        broker.failNextRequests(.offsetFetch, with: [Self.topicAuthorizationFailed])
        #expect {
            _ = try positions.readPositions(timeoutMilliseconds: 10_000)
        } throws: { error in
            (error as? KafkaError)?.code == Self.topicAuthorizationFailed && "\(error)".contains("commands [0]")
        }
        positions.close(timeoutMilliseconds: 5_000)
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `Offset zero can be stored`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 3)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 3 })
        #expect(reader.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 0) == nil)
        #expect(reader.consumer.commitStoredOffsets() == nil)
        #expect(try reader.consumer.fetchCommittedOffsets(of: [Self.partition]).map { try $0.get() } == [0])
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// A worker's metadata says which offsets above the committed one are settled. Here it is 4,096 arbitrary bytes,
    /// the most that a broker accepts by default.
    @Test(arguments: ["cooperative-sticky", "range", "roundrobin"])
    func `Metadata is read back with the offset`(strategy: String) async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(partitionCount: 2, recordCount: 10)
        let metadata = [UInt8](repeating: UInt8(ascii: "o"), count: 4_096)
        let properties = [("auto.offset.reset", "error"), ("partition.assignment.strategy", strategy)]
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        firstConsumer.recorder.onRevoked = { [consumer = firstConsumer.consumer] _ in
            let error = consumer.storeOffset(
                topic: Self.partition.topic,
                partition: 0,
                nextOffset: 3,
                metadata: metadata
            )
            #expect(error == nil)
        }
        #expect(await firstConsumer.run { !$0.assignedEvents.isEmpty })
        #expect(firstConsumer.consumer.committedOffsets.isEmpty)
        #expect(firstConsumer.close() == .closed)

        let secondConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await secondConsumer.run { !$0.assignedEvents.isEmpty })
        let committedOffset = try #require(secondConsumer.consumer.committedOffsets[Self.partition])
        #expect(committedOffset.offset == 3)
        #expect(committedOffset.metadata == metadata)
        #expect(committedOffset.logEndOffset == 10)
        #expect(secondConsumer.close() == .closed)
        producer.close()
    }

    @Test func `An offset is committed again when only its metadata has changed`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 10)
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await firstConsumer.run { $0.receivedRecords.count == 10 })
        for metadata in ["a", "b"] {
            let error = firstConsumer.consumer.storeOffset(
                topic: Self.partition.topic,
                partition: 0,
                nextOffset: 3,
                metadata: Array(metadata.utf8)
            )
            #expect(error == nil)
            #expect(firstConsumer.consumer.commitStoredOffsets() == nil)
        }
        #expect(firstConsumer.close() == .closed)
        let secondConsumer = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await secondConsumer.run { !$0.assignedEvents.isEmpty })
        #expect(secondConsumer.consumer.committedOffsets[Self.partition]?.metadata == Array("b".utf8))
        #expect(secondConsumer.close() == .closed)
        producer.close()
    }

    @Test func `Stored offsets are committed in the background`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 10)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 10 })
        #expect(reader.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 10) == nil)
        try await eventuallyInTask("a commit in the background") {
            #expect(reader.consumer.commitIfDue(nowMilliseconds: monotonicMilliseconds()) == nil)
            return try reader.consumer.fetchCommittedOffsets(of: [Self.partition]).map { try $0.get() } == [10]
        }
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `Storing an offset for a partition of another consumer is an error`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        let earlyError = reader.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 5)
        #expect(earlyError?.partition == Self.partition)
        #expect(await reader.run { !$0.assignedEvents.isEmpty })
        #expect(reader.consumer.storeOffset(topic: Self.partition.topic, partition: 99, nextOffset: 5) != nil)
        #expect(reader.close() == .closed)
    }

    @Test func `The revoked handler may store the final offsets`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 20)
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"])
        firstConsumer.recorder.onRevoked = { [consumer = firstConsumer.consumer] partitions in
            #expect(partitions == [Self.partition])
            #expect(consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 17) == nil)
        }
        #expect(await firstConsumer.run { $0.receivedRecords.count == 20 })
        #expect(firstConsumer.close() == .closed)
        try await Self.expectTheNextMember(of: broker, toRead: [17, 18, 19])
        producer.close()
    }

    @Test func `A missing offset is an error that names the partition`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 5)
        let properties = [("auto.offset.reset", "error"), ("partition.assignment.strategy", "cooperative-sticky")]
        // The coordinator refuses the request of this module. So librdkafka asks too, and finds no offset.
        broker.failNextRequests(.offsetFetch, with: [Self.topicAuthorizationFailed])
        let reader = try TestConsumer(broker, group: "new", topics: ["commands"], properties)
        #expect(await reader.run { reader in reader.errors.contains { $0.partition == Self.partition } })
        let error = try #require(reader.errors.first { $0.partition == Self.partition })
        #expect(error.name == "_AUTO_OFFSET_RESET")
        #expect(error.reason.hasPrefix("commands [0]: "))
        #expect(reader.receivedRecords.isEmpty)
        #expect(reader.consumer.partitionsWithUnknownOffset.isEmpty)

        #expect(reader.consumer.seek(Self.partition, to: .beginning) == nil)
        #expect(await reader.run { $0.receivedRecords.count == 5 })
        #expect(reader.receivedRecords.numbers == [0, 1, 2, 3, 4])
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test(arguments: ["cooperative-sticky", "range", "roundrobin"])
    func `A new group reads from the beginning`(strategy: String) async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 2)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", partition: 0, count: 5)
        try await producer.fill("commands", partition: 1, count: 3)
        let properties = [("auto.offset.reset", "error"), ("partition.assignment.strategy", strategy)]
        let firstConsumer = try TestConsumer(broker, group: "new", topics: ["commands"], properties)
        #expect(await firstConsumer.run { $0.receivedRecords.count == 8 })
        #expect(firstConsumer.errors.isEmpty)
        #expect(firstConsumer.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 2) == nil)
        #expect(firstConsumer.close() == .closed)

        // The commit of the first partition is still valid. The other partition has no commit, so it is read
        // from its beginning.
        let secondConsumer = try TestConsumer(broker, group: "new", topics: ["commands"], properties)
        #expect(await secondConsumer.run { $0.receivedRecords.count == 6 })
        #expect(secondConsumer.receivedRecords.filter { $0.partition == 0 }.map(\.offset) == [2, 3, 4])
        #expect(secondConsumer.receivedRecords.filter { $0.partition == 1 }.map(\.offset) == [0, 1, 2])
        #expect(secondConsumer.errors.isEmpty)
        #expect(secondConsumer.close() == .closed)
        producer.close()
    }

    @Test(arguments: ["cooperative-sticky", "range"], [false, true])
    func `An offset that the broker has dropped is an error`(strategy: String, isOtherPaused: Bool) async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 2)
        let producer = try TestProducer(broker, [("compression.type", "none")])
        try await producer.fill("commands", count: 1)
        let properties = [("auto.offset.reset", "error"), ("partition.assignment.strategy", strategy)]
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"], [properties[1]])
        #expect(await reader.run { $0.receivedRecords.count == 1 })
        #expect(reader.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 1) == nil)
        #expect(reader.close() == .closed)
        // The producer sends eleven batches, each of a tenth of the limit. The broker cannot keep all, so it
        // deletes the oldest records.
        let topic = try producer.producer.makeTopic("commands")
        let tenthOfLimit = [UInt8](repeating: 7, count: EmbeddedBroker.retainedBytesPerPartition / 10)
        for count in 1...11 {
            #expect(producer.send(topic, partition: 0, value: tenthOfLimit).isQueued)
            #expect(await producer.awaitReports(1 + count))
        }
        let lateConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await lateConsumer.run { reader in reader.errors.contains { $0.partition == Self.partition } })
        #expect(lateConsumer.errors.first { $0.partition == Self.partition }?.name == "_AUTO_OFFSET_RESET")
        #expect(lateConsumer.receivedRecords.isEmpty)

        // An operator starts one partition again at a chosen offset. The other partition continues at its
        // position.
        let otherPartition = TopicPartition(topic: Self.partition.topic, partition: 1)
        #expect(lateConsumer.consumer.seek(otherPartition, to: .beginning) == nil)
        try await producer.fill("commands", partition: 1, count: 3)
        #expect(await lateConsumer.run { $0.receivedRecords.count == 3 })
        if isOtherPaused { lateConsumer.consumer.pause([otherPartition]) }
        #expect(lateConsumer.consumer.seek(Self.partition, to: .beginning) == nil)
        #expect(lateConsumer.consumer.pausedPartitions == (isOtherPaused ? [otherPartition] : []))
        try await producer.fill("commands", partition: 1, count: 1, from: 3)
        #expect(await lateConsumer.run { reader in reader.receivedRecords.count { $0.partition == 0 } >= 9 })
        if isOtherPaused {
            #expect(lateConsumer.receivedRecords.count { $0.partition == 1 } == 3, "it stays paused")
            lateConsumer.consumer.resume([otherPartition])
        }
        try await producer.fill("commands", partition: 1, count: 1, from: 4)
        #expect(await lateConsumer.run { reader in reader.receivedRecords.count { $0.partition == 1 } >= 5 })
        #expect(lateConsumer.receivedRecords.filter { $0.partition == 1 }.map(\.offset) == [0, 1, 2, 3, 4])
        #expect(lateConsumer.receivedRecords.count { $0.partition == 0 } == 9, "what the broker still had")
        #expect(lateConsumer.close() == .closed)
        producer.close()
    }

    @Test func `A seek goes back and forth`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 10)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 10 })
        #expect(reader.consumer.seek(Self.partition, to: .offset(6)) == nil)
        #expect(await reader.run { $0.receivedRecords.count == 14 })
        #expect(reader.receivedRecords.suffix(4).map(\.offset) == [6, 7, 8, 9])
        let watermarks = reader.consumer.watermarks(of: Self.partition)
        #expect(watermarks?.logEndOffset == 10)
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// The positions are known from the assignment on, before a record arrives. Partition 1 has no records.
    @Test(arguments: ["cooperative-sticky", "range"])
    func `The positions where reading begins and where logs end are known`(strategy: String) async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(partitionCount: 2, recordCount: 10)
        let properties = [("auto.offset.reset", "error"), ("partition.assignment.strategy", strategy)]
        let firstConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await firstConsumer.run { !$0.assignedEvents.isEmpty })
        let otherPartition = TopicPartition(topic: Self.partition.topic, partition: 1)
        #expect(
            firstConsumer.assignments == [
                .init(startPositions: [Self.partition: .beginning, otherPartition: .beginning], receivedCount: 0)
            ]
        )
        #expect(await firstConsumer.run { $0.receivedRecords.count == 10 })
        #expect(firstConsumer.consumer.storeOffset(topic: Self.partition.topic, partition: 0, nextOffset: 4) == nil)
        #expect(firstConsumer.consumer.commitStoredOffsets() == nil)
        #expect(firstConsumer.close() == .closed)

        let secondConsumer = try TestConsumer(broker, group: "g", topics: ["commands"], properties)
        #expect(await secondConsumer.run { !$0.assignedEvents.isEmpty })
        #expect(
            secondConsumer.assignments == [
                .init(startPositions: [Self.partition: .offset(4), otherPartition: .beginning], receivedCount: 0)
            ]
        )
        #expect(await secondConsumer.run { $0.receivedRecords.count == 6 })
        #expect(secondConsumer.consumer.startPositions == [Self.partition: .offset(4), otherPartition: .beginning])
        // The client does not notice records that come while the partition is paused. So the broker is asked for
        // the log's end.
        secondConsumer.consumer.pause([Self.partition])
        try await producer.fill("commands", count: 5, from: 10)
        #expect(
            try secondConsumer.consumer.fetchLogEndOffsets(
                of: [Self.partition, otherPartition],
                timeoutMilliseconds: 5_000
            ) == [
                Self.partition: 15, otherPartition: 0,
            ]
        )
        #expect(secondConsumer.consumer.watermarks(of: Self.partition)?.logEndOffset == 10)
        #expect(secondConsumer.close() == .closed)
        #expect(secondConsumer.consumer.startPositions.isEmpty)
        producer.close()
    }

    @Test func `The end of a partition is an event`() async throws {
        let (broker, producer) = try await Self.makeBrokerWithRecords(recordCount: 4)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"], [("enable.partition.eof", "true")])
        #expect(await reader.run { !$0.partitionsReadToEnd.isEmpty })
        #expect(reader.receivedRecords.count == 4)
        #expect(reader.partitionsReadToEnd == [Self.partition])
        #expect(reader.reachedEndOffsets == [4])
        #expect(reader.close() == .closed)
        producer.close()
    }
}
