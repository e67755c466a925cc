import CRdkafka
import Glibc

/// The version and the errors of the loaded librdkafka.
public enum KafkaLibrary {
    /// The version of the loaded library, such as `2.0.2`.
    public static var version: String { String(cString: rd_kafka_version_str()) }

    /// The errors that the loaded library knows by a name (``KafkaError/name``).
    public static var errors: [(code: Int32, name: String)] {
        var descriptions: UnsafePointer<rd_kafka_err_desc>?
        var count = 0
        rd_kafka_get_err_descs(&descriptions, &count)
        // Some entries of librdkafka's table have no name. They are left out.
        return UnsafeBufferPointer(start: descriptions, count: count)
            .compactMap { entry in
                entry.name.map { (entry.code.rawValue, String(cString: $0)) }
            }
    }

    /// Whether a client's statistics (`STATISTICS.md`) name a broker whose connection is up. Only the statistics show
    /// that a broker is back: librdkafka reports an error when the client loses its last broker, but reports nothing
    /// when a broker is back.
    public static func hasBrokerUp(statistics json: UnsafeRawBufferPointer) -> Bool {
        let pattern: StaticString = "\"state\":\"UP\""
        let count = pattern.utf8CodeUnitCount
        // The index of `U` in the pattern. `memchr` looks for this letter, because it is rare in the statistics.
        let rareLetterIndex = 9
        var start = rareLetterIndex
        while start < json.count, let base = json.baseAddress,
            let found = memchr(base + start, Int32(UInt8(ascii: "U")), json.count - start)
        {
            let position = found - UnsafeMutableRawPointer(mutating: base)
            let patternStart = position - rareLetterIndex
            if patternStart + count <= json.count, memcmp(base + patternStart, pattern.utf8Start, count) == 0 {
                return true
            }
            start = position + 1
        }
        return false
    }
}

extension KafkaError {
    /// Whether the client has no broker: it lost the last one, or has not found any yet.
    public var areAllBrokersDown: Bool { code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN.rawValue }
}
