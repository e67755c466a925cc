import CRdkafka

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
}

extension KafkaError {
    /// Whether the client has no broker: it lost the last one, or has not found any yet.
    public var areAllBrokersDown: Bool { code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN.rawValue }
}
