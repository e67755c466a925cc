import Kafka
import Testbed
import Testing

@Suite("Reading a partition's tail without a group", .ownThread)
struct PartitionReaderTests {
    private func produce(_ broker: EmbeddedBroker, _ records: [(key: String, value: String)]) throws {
        let producer = try Producer(properties: [("bootstrap.servers", broker.bootstrapServers), ("linger.ms", "0")])
        let topic = try producer.makeTopic("t")
        for record in records {
            var key = record.key
            var value = record.value
            key.withUTF8 { key in
                value.withUTF8 { value in
                    _ = producer.produce(
                        topic: topic,
                        key: UnsafeRawBufferPointer(key),
                        value: UnsafeRawBufferPointer(value),
                        tag: 0
                    )
                }
            }
        }
        var acknowledgedCount = 0
        let isFlushed = producer.flush(timeoutMilliseconds: 60_000) { _, error, _ in
            if error == 0 { acknowledgedCount += 1 }
        }
        #expect(isFlushed && acknowledgedCount == records.count)
        _ = producer.close(timeoutMilliseconds: 5_000)
    }

    private func makeReader(_ broker: EmbeddedBroker, topic: String = "t") throws -> PartitionReader {
        // The reader must ignore the properties of group membership, and override `auto.offset.reset`.
        try PartitionReader(
            properties: [
                ("bootstrap.servers", broker.bootstrapServers), ("group.id", "g"), ("group.instance.id", "i"),
                ("auto.offset.reset", "earliest"), ("fetch.wait.max.ms", "10"),
            ],
            topic: topic
        )
    }

    @Test func `Ranges are read in any order, and the end of the partition ends a range`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: 1)
        try produce(broker, (0..<50).map { (key: "k", value: "v\($0)") })
        let reader = try makeReader(broker)
        defer { _ = reader.close(timeoutMilliseconds: 5_000) }
        #expect(try reader.fetchPartitionCount(timeoutMilliseconds: 60_000) == 1)
        let watermarks = try reader.fetchWatermarks(of: 0, timeoutMilliseconds: 60_000)
        #expect((watermarks.logStartOffset, watermarks.logEndOffset) == (0, 50))
        for range in [Int64(40)..<50, 20..<40, 0..<1, 49..<100, 7..<7] {
            var values: [String] = []
            let isComplete = try reader.read(0, offsets: range, timeoutMilliseconds: 60_000) { message in
                values.append(message.value.map { String(decoding: $0, as: UTF8.self) } ?? "")
            }
            #expect(isComplete)
            #expect(values == range.clamped(to: 0..<50).map { "v\($0)" })
        }
    }

    @Test func `Reading stops when told to, and returns where to continue`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: 1)
        try produce(broker, (0..<10).map { (key: "k", value: "v\($0)") })
        let reader = try makeReader(broker)
        defer { _ = reader.close(timeoutMilliseconds: 5_000) }
        var seenOffsets: [Int64] = []
        #expect(
            try reader.read(0, offsets: 2..<8, until: { seenOffsets.count == 3 }, { seenOffsets.append($0.offset) })
                == 5
        )
        #expect(seenOffsets == [2, 3, 4])
        #expect(try reader.read(0, offsets: 5..<8, until: { false }, { seenOffsets.append($0.offset) }) == nil)
        #expect(seenOffsets == Array(2..<8))
        #expect(try reader.read(0, offsets: 5..<8, until: { true }, { _ in }) == 5)
        // The embedded broker cannot look up offsets by time, so the reader finds none.
        #expect(try reader.fetchOffset(of: 0, atOrAfterWallMilliseconds: 1, timeoutMilliseconds: 60_000) == nil)
    }

    @Test(arguments: [1, 4, 7])
    func `A key is found in the partition that the producer chose`(count: Int) throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: count)
        let keys = (0..<20).map { "activity-\($0)" }
        try produce(broker, keys.map { (key: $0, value: $0) })
        let reader = try makeReader(broker)
        defer { _ = reader.close(timeoutMilliseconds: 5_000) }
        let partitions = try reader.fetchPartitionCount(timeoutMilliseconds: 60_000)
        #expect(partitions == Int32(count))
        var foundCount = 0
        for partition in 0..<partitions {
            let end = try reader.fetchWatermarks(of: partition, timeoutMilliseconds: 60_000).logEndOffset
            _ = try reader.read(partition, offsets: 0..<end, timeoutMilliseconds: 60_000) { message in
                let key = message.key.map { [UInt8]($0) } ?? []
                #expect(reader.partition(of: key, among: partitions, partitioner: nil) == partition)
                foundCount += 1
            }
        }
        #expect(foundCount == keys.count)
        #expect(reader.partition(of: [1], among: partitions, partitioner: "random") == nil)
        #expect(reader.partition(of: [1], among: partitions, partitioner: "consistent").map { $0 < partitions } == true)
    }

    @Test func `An unknown topic, and brokers that do not respond, are errors`() throws {
        let broker = try EmbeddedBroker()
        broker.setMetadataError(topic: "missing", code: 3)
        let reader = try makeReader(broker, topic: "missing")
        #expect {
            _ = try reader.fetchPartitionCount(timeoutMilliseconds: 60_000)
        } throws: {
            "\($0)".contains("missing: ")
        }
        _ = reader.close(timeoutMilliseconds: 5_000)
        let readerWithoutBroker = try PartitionReader(properties: [("bootstrap.servers", "127.0.0.1:1")], topic: "t")
        #expect(throws: KafkaError.self) { try readerWithoutBroker.fetchPartitionCount(timeoutMilliseconds: 300) }
        #expect(throws: KafkaError.self) { try readerWithoutBroker.fetchWatermarks(of: 0, timeoutMilliseconds: 300) }
        _ = readerWithoutBroker.close(timeoutMilliseconds: 5_000)
    }

    @Test func `The time limit ends a reading without a broker`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("t", partitionCount: 1)
        try produce(broker, [(key: "k", value: "v")])
        let reader = try makeReader(broker)
        defer { _ = reader.close(timeoutMilliseconds: 5_000) }
        #expect(try reader.fetchWatermarks(of: 0, timeoutMilliseconds: 60_000).logEndOffset == 1)
        try broker.takeDown()
        let startMilliseconds = monotonicMilliseconds()
        #expect(try reader.read(0, offsets: 0..<1, timeoutMilliseconds: 300) { _ in } == false)
        // Without the time limit the reader would wait for the broker forever.
        #expect((300..<60_000).contains(monotonicMilliseconds() - startMilliseconds))
    }

    @Test func `The error names a property that librdkafka does not know`() {
        #expect {
            _ = try PartitionReader(properties: [("bootstrap.servers", "h:1"), ("no.such", "1")], topic: "t")
        } throws: {
            "\($0)".contains("no.such")
        }
    }
}
