import CRdkafka
import Glibc

/// The headers of a received record. The headers, their names and their values are valid as long as the `Message`
/// exists.
public struct MessageHeaders {
    let list: OpaquePointer

    /// Calls `body` with each header, in order. The value is nil if the header has Kafka's null.
    public func forEachHeader(_ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer?) -> Void) {
        var index = 0
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var count = 0
        while rd_kafka_header_get_all(list, index, &name, &value, &count) == RD_KAFKA_RESP_ERR_NO_ERROR {
            index += 1
            guard let name else { continue }
            body(
                UnsafeRawBufferPointer(start: name, count: strlen(name)),
                value.map { UnsafeRawBufferPointer(start: $0, count: count) }
            )
        }
    }

    /// Returns the value of the last header with this name; nil if there is none, or its value is Kafka's null.
    public func lastValue(named name: StaticString) -> UnsafeRawBufferPointer? {
        var value: UnsafeRawPointer?
        var count = 0
        let code = name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) {
            rd_kafka_header_get_last(list, $0, &value, &count)
        }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let value else { return nil }
        return UnsafeRawBufferPointer(start: value, count: count)
    }
}

/// The headers of a record to be produced.
public struct ProducedHeaders: ~Copyable {
    let list: OpaquePointer

    /// - Parameter capacity: the number of headers for which librdkafka reserves memory. More may be appended.
    public init(capacity: Int) {
        list = rd_kafka_headers_new(capacity)
    }

    deinit {
        rd_kafka_headers_destroy(list)
    }

    /// Appends a copy of a header. A nil value becomes Kafka's null.
    public mutating func append(_ name: StaticString, _ value: UnsafeRawBufferPointer?) {
        name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
            // For librdkafka, a nil pointer means null. An empty value is not null, but its base address may be nil. So
            // pass the pointer of the name instead: librdkafka reads no byte of an empty value.
            let start = value.map { $0.baseAddress ?? UnsafeRawPointer(name) }
            // This cannot fail: librdkafka refuses a header only if a record already owns the list.
            precondition(rd_kafka_header_add(list, name, -1, start, value?.count ?? 0) == RD_KAFKA_RESP_ERR_NO_ERROR)
        }
    }

    /// Ends this value without freeing the list, which a record owns now.
    consuming func releaseOwnership() { discard self }
}
