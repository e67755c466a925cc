import Kafka
import Testbed
import Testing

@Suite(.ownThread) struct RoundTripTests {
    @Test func `Records come back as they were`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("commands")
        let large = [UInt8]((0...(64 * 1024)).map { UInt8(truncatingIfNeeded: $0) })
        let cases: [(key: [UInt8]?, value: [UInt8]?)] = [
            (Array("a".utf8), Array("value".utf8)),
            (Array("a".utf8), nil),
            (Array("a".utf8), []),
            (nil, Array("no key".utf8)),
            ([], Array("empty key".utf8)),
            (nil, nil),
            ([0xFF, 0x00, 0xFE], [0x00, 0xFF]),
            (Array("large".utf8), large),
        ]
        for (index, record) in cases.enumerated() {
            #expect(producer.send(topic, key: record.key, value: record.value, tag: UInt64(index)).isQueued)
        }
        #expect(await producer.awaitReports(cases.count))
        #expect(
            producer.reports
                == cases.indices.map { DeliveryReport(tag: UInt64($0), error: 0, persistence: .persisted) }
        )

        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        try #require(await reader.run { $0.receivedRecords.count == cases.count })
        for (index, record) in cases.enumerated() {
            #expect(reader.receivedRecords[index].key == record.key)
            #expect(reader.receivedRecords[index].value == record.value)
            #expect(reader.receivedRecords[index].offset == Int64(index))
            #expect(reader.receivedRecords[index].headers.isEmpty)
        }
        #expect(reader.errors.isEmpty)
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `Headers come back in order`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("dead", partitionCount: 1)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("dead")
        let headers: [(name: StaticString, value: [UInt8]?)] = [
            ("error", Array("invalid".utf8)), ("detail", []), ("source", nil), ("error", [0xFF, 0x00]),
        ]
        for value in [Array("body".utf8), nil, []] as [[UInt8]?] {
            let queueingResult = withBytes(value) { value in
                var producedHeaders = ProducedHeaders(capacity: 1)
                for header in headers { withBytes(header.value) { producedHeaders.append(header.name, $0) } }
                return producer.producer.produce(
                    topic: topic,
                    key: nil,
                    value: value,
                    headers: producedHeaders,
                    tag: 7
                )
            }
            #expect(queueingResult.isQueued)
        }
        #expect(await producer.awaitReports(3))
        let reader = try TestConsumer(broker, group: "g", topics: ["dead"])
        #expect(await reader.run { $0.receivedRecords.count == 3 })
        let expected = headers.map { ReceivedRecord.Header(name: "\($0.name)", value: $0.value) }
        #expect(reader.receivedRecords.map(\.headers) == [expected, expected, expected])
        #expect(reader.receivedRecords.map(\.value) == [Array("body".utf8), nil, []])
        // If several headers have the same name, the last one counts; a null header counts as missing.
        #expect(reader.receivedRecords.map(\.lastErrorHeader) == [[0xFF, 0x00], [0xFF, 0x00], [0xFF, 0x00]])
        #expect(reader.receivedRecords.allSatisfy { !$0.hasSourceHeader })
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `Topics are told apart by index`() async throws {
        let broker = try EmbeddedBroker()
        let names = ["first", "second", "third"]
        for name in names { try broker.createTopic(name, partitionCount: 2) }
        let producer = try TestProducer(broker)
        for (index, name) in names.enumerated() {
            try await producer.fill(name, partition: 1, count: 10, from: index * 100)
        }
        let reader = try TestConsumer(broker, group: "g", topics: names)
        #expect(await reader.run { $0.receivedRecords.count == 30 })
        for record in reader.receivedRecords {
            #expect([record].numbers[0] / 100 == Int(record.topic))
            #expect(record.partition == 1)
        }
        #expect(reader.consumer.assignment.count == 6)
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `A message survives being passed as a pointer`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker)
        try await producer.fill("commands", count: 3)
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { !$0.receivedRecords.isEmpty })
        guard let message = await reader.nextMessage() else {
            Issue.record("no second record")
            return
        }
        let returnedMessage = Message(taking: message.releaseOwnership())
        #expect(returnedMessage.offset == 1)
        #expect(returnedMessage.timestampMilliseconds > 1_500_000_000_000)
        #expect(ReceivedRecord(returnedMessage).value == Array("1".utf8))
        _ = consume returnedMessage
        #expect(reader.close() == .closed)
        producer.close()
    }

    @Test func `A key always gets the same partition`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 8)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("commands")
        // Kafka's Java client chooses the partition in the same way: (murmur2(key) & 0x7fffffff) % partitions.
        for key in ["activity-1", "activity-2", "activity-3"] {
            for _ in 0..<5 { producer.send(topic, key: Array(key.utf8), value: [1]) }
        }
        #expect(await producer.awaitReports(15))
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 15 })
        for key in ["activity-1", "activity-2", "activity-3"] {
            let bytes = Array(key.utf8)
            let partitions = Set(reader.receivedRecords.filter { $0.key == bytes }.map(\.partition))
            #expect(partitions == [Int32(bitPattern: murmur2(bytes) & 0x7fff_ffff) % 8])
        }
        #expect(reader.close() == .closed)
        producer.close()
    }

    /// Austin Appleby's MurmurHash2 with Kafka's seed.
    private func murmur2(_ bytes: [UInt8]) -> UInt32 {
        let multiplier: UInt32 = 0x5bd1_e995
        var hash = 0x9747_b28c ^ UInt32(bytes.count)
        var index = 0
        while index + 4 <= bytes.count {
            var word = UInt32(bytes[index]) | UInt32(bytes[index + 1]) << 8
            word |= UInt32(bytes[index + 2]) << 16 | UInt32(bytes[index + 3]) << 24
            word = word &* multiplier
            word = (word ^ (word >> 24)) &* multiplier
            hash = (hash &* multiplier) ^ word
            index += 4
        }
        let rest = bytes[index...]
        for (offset, byte) in rest.enumerated().reversed() { hash ^= UInt32(byte) << (8 * UInt32(offset)) }
        if !rest.isEmpty { hash = hash &* multiplier }
        hash = (hash ^ (hash >> 13)) &* multiplier
        return hash ^ (hash >> 15)
    }
}
