import CRdkafka
import Glibc

/// What librdkafka says of itself.
public enum KafkaLibrary {
    /// The release that is loaded, such as `2.0.2`.
    public static var version: String { String(cString: rd_kafka_version_str()) }

    /// Every error that it knows, by code; the names are those of ``KafkaError/name``.
    public static var errors: [(code: Int32, name: String)] {
        var descriptions: UnsafePointer<rd_kafka_err_desc>?
        var count = 0
        rd_kafka_get_err_descs(&descriptions, &count)
        // The table has holes.
        return UnsafeBufferPointer(start: descriptions, count: count)
            .compactMap { entry in
                entry.name.map { (entry.code.rawValue, String(cString: $0)) }
            }
    }

    /// Whether a client's statistics (`STATISTICS.md`) name a broker whose connection is up.
    public static func hasBrokerUp(statistics json: UnsafeRawBufferPointer) -> Bool {
        let sought: StaticString = "\"state\":\"UP\""
        let count = sought.utf8CodeUnitCount
        // Of the sought bytes the one that is rare in keys and numbers.
        let rare = 9
        var start = rare
        while start < json.count, let base = json.baseAddress,
            let found = memchr(base + start, Int32(UInt8(ascii: "U")), json.count - start)
        {
            let position = found - UnsafeMutableRawPointer(mutating: base)
            let from = position - rare
            if from + count <= json.count, memcmp(base + from, sought.utf8Start, count) == 0 { return true }
            start = position + 1
        }
        return false
    }
}

extension KafkaError {
    /// The client has lost the last of its brokers, or found none yet.
    public var isEveryBrokerAway: Bool { code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN.rawValue }
}
