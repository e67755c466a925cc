@testable import Kafka

/// A copy of a record for comparison.
struct ReceivedRecord: Equatable {
    var topic: Int32
    var partition: Int32
    var offset: Int64
    var key: [UInt8]?
    var value: [UInt8]?
    var headers: [Header] = []
    /// The value of the last header `error`; nil if there is none, or its value is null.
    var lastErrorHeader: [UInt8]?
    /// Whether the last header `source` has a value.
    var hasSourceHeader: Bool
    /// Whether the record's bytes prove, without a call to librdkafka, that it has no headers.
    var certainlyHasNoHeaders = false

    struct Header: Equatable {
        var name: String
        var value: [UInt8]?
    }

    init(_ message: borrowing Message) {
        topic = message.topic.index
        partition = message.partition
        offset = message.offset
        key = message.key.map { [UInt8]($0) }
        value = message.value.map { [UInt8]($0) }
        var foundHeaders: [Header] = []
        message.headers?
            .forEachHeader { name, value in
                foundHeaders.append(
                    Header(name: String(decoding: name, as: UTF8.self), value: value.map { [UInt8]($0) })
                )
            }
        headers = foundHeaders
        lastErrorHeader = message.headers?.lastValue(named: "error").map { [UInt8]($0) }
        hasSourceHeader = message.headers?.lastValue(named: "source") != nil
        if let key = message.key, let value = message.value {
            certainlyHasNoHeaders = HeaderDetection.certainlyHasNoHeaders(key: key, value: value)
        }
    }
}

extension [ReceivedRecord] {
    /// The records' values as numbers, in the order of arrival.
    var numbers: [Int] { compactMap { $0.value.flatMap { Int(String(decoding: $0, as: UTF8.self)) } } }
}
