import CRdkafka
import Glibc

/// The headers of a record that was read; valid while its message is, and so are the names and values.
public struct MessageHeaders {
    let list: OpaquePointer

    /// Passes each header in order; a nil value is Kafka's null.
    public func visit(_ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer?) -> Void) {
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

    /// The value of the last header of this name; nil if there is none, or its value is Kafka's null.
    public func last(_ name: StaticString) -> UnsafeRawBufferPointer? {
        var value: UnsafeRawPointer?
        var count = 0
        let code = name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) {
            rd_kafka_header_get_last(list, $0, &value, &count)
        }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let value else { return nil }
        return UnsafeRawBufferPointer(start: value, count: count)
    }
}

/// The headers of a record that is to be produced.
public struct ProducedHeaders: ~Copyable {
    let list: OpaquePointer

    /// - Parameter capacity: as many as will be appended, to begin with.
    public init(capacity: Int) {
        list = rd_kafka_headers_new(capacity)
    }

    deinit {
        rd_kafka_headers_destroy(list)
    }

    /// Appends a copy; a nil value is Kafka's null.
    public mutating func append(_ name: StaticString, _ value: UnsafeRawBufferPointer?) {
        name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
            // An empty value is not null, though its buffer may have no start.
            let start = value.map { $0.baseAddress ?? UnsafeRawPointer(name) }
            // Nothing but a list that a record has taken over refuses a header.
            precondition(rd_kafka_header_add(list, name, -1, start, value?.count ?? 0) == RD_KAFKA_RESP_ERR_NO_ERROR)
        }
    }

    /// A record has taken the list over.
    consuming func leave() { discard self }
}
