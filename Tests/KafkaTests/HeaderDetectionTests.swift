import Testbed
import Testing

@testable import Kafka

@Suite(.ownThread) struct HeaderDetectionTests {
    /// Whether the bytes around a record's value prove that the record has no headers. The bytes are in this order: the
    /// key, the length of the value, the value, and the bytes after it.
    private static func certainlyHasNoHeaders(
        keyBytes: Int = 3,
        length: [UInt8],
        valueBytes: Int,
        bytesAfterValue: [UInt8] = [0]
    ) -> Bool {
        let bytes =
            Array(repeating: 7, count: keyBytes) + length + Array(repeating: 9, count: valueBytes) + bytesAfterValue
        return bytes.withUnsafeBytes { bytes in
            let valueStart = keyBytes + length.count
            return HeaderDetection.certainlyHasNoHeaders(
                key: UnsafeRawBufferPointer(rebasing: bytes[..<keyBytes]),
                value: UnsafeRawBufferPointer(rebasing: bytes[valueStart..<(valueStart + valueBytes)])
            )
        }
    }

    @Test(
        arguments: [
            (0, [0x00]), (1, [0x02]), (63, [0x7E]), (64, [0x80, 0x01]), (456, [0x90, 0x07]), (8_191, [0xFE, 0x7F]),
            (8_192, [0x80, 0x80, 0x01]), (1_048_575, [0xFE, 0xFF, 0x7F]),
        ] as [(Int, [UInt8])]
    )
    func `A record without headers is recognized`(valueBytes: Int, length: [UInt8]) {
        #expect(Self.certainlyHasNoHeaders(length: length, valueBytes: valueBytes))
        #expect(Self.certainlyHasNoHeaders(keyBytes: 36, length: length, valueBytes: valueBytes))
        #expect(!Self.certainlyHasNoHeaders(length: length, valueBytes: valueBytes, bytesAfterValue: [2]), "it has one")
    }

    /// None of these lengths proves that a record has no headers. The byte after each value is zero, and must not
    /// be taken for the number of headers.
    @Test(
        arguments: [
            // This length is written as in Kafka's older formats.
            (5, [0, 0, 0, 5]),
            // A length of a mebibyte or more proves nothing.
            (1_048_576, [0x80, 0x80, 0x80, 0x01]),
            // A missing length, and lengths that differ from the value's length.
            (5, []), (5, [0x0C]), (5, [0x0B]), (5, [0x8A]), (5, [0x8A, 0x00, 0x00]), (64, [0x80, 0x02]),
        ] as [(Int, [UInt8])]
    )
    func `A record in another format is not trusted`(valueBytes: Int, length: [UInt8]) {
        #expect(!Self.certainlyHasNoHeaders(length: length, valueBytes: valueBytes))
    }

    @Test func `A key at another address in memory proves nothing`() {
        let (key, record): ([UInt8], [UInt8]) = ([1, 2], [1, 2, 4, 5, 6, 0])
        record.withUnsafeBytes { record in
            let value = UnsafeRawBufferPointer(rebasing: record[3..<5])
            #expect(
                HeaderDetection.certainlyHasNoHeaders(
                    key: UnsafeRawBufferPointer(rebasing: record[..<2]),
                    value: value
                ),
                "beside its value it does"
            )
            key.withUnsafeBytes { #expect(!HeaderDetection.certainlyHasNoHeaders(key: $0, value: value)) }
            let bytesAfterValue = UnsafeRawBufferPointer(rebasing: record[5...])
            #expect(!HeaderDetection.certainlyHasNoHeaders(key: bytesAfterValue, value: value))
        }
    }

    /// Records from librdkafka, compressed and not compressed, some with headers and some without.
    @Test(arguments: ["none", "lz4"])
    func `Records from a broker have the headers that they were written with`(compression: String) async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let producer = try TestProducer(broker, [("compression.type", compression)])
        let topic = try producer.producer.makeTopic("commands")
        let sizes = [0, 1, 63, 64, 456, 8_191, 8_192, 100_000]
        for size in sizes {
            let value = [UInt8](repeating: 0, count: size)
            for hasHeader in [false, true, false] {
                let queueingResult = withBytes(value) { value in
                    withBytes(Array("key".utf8)) { key in
                        guard hasHeader else {
                            return producer.producer.produce(topic: topic, key: key, value: value, tag: 0)
                        }
                        var headers = ProducedHeaders(capacity: 1)
                        withBytes([1]) { headers.append("h", $0) }
                        return producer.producer.produce(
                            topic: topic,
                            key: key,
                            value: value,
                            headers: headers,
                            tag: 0
                        )
                    }
                }
                #expect(queueingResult.isQueued)
            }
        }
        #expect(await producer.awaitReports(3 * sizes.count))
        let reader = try TestConsumer(broker, group: "g", topics: ["commands"])
        #expect(await reader.run { $0.receivedRecords.count == 3 * sizes.count })
        let header = ReceivedRecord.Header(name: "h", value: [1])
        #expect(reader.receivedRecords.map(\.headers) == sizes.flatMap { _ in [[], [header], []] })
        // Two records of each size have no headers, and this must be recognized. Size 0 is an exception:
        // librdkafka has no pointer for an empty value.
        #expect(reader.receivedRecords.filter(\.certainlyHasNoHeaders).count == 2 * (sizes.count - 1))
        #expect(reader.close() == .closed)
        producer.close()
    }
}
