import CRdkafka

/// An `rd_kafka_conf_t` under construction. It is freed exactly once, whatever fails: by librdkafka after `makeClient`, or by `deinit`.
struct ClientConfiguration: ~Copyable {
    private let handle: OpaquePointer

    init() {
        handle = rd_kafka_conf_new()
    }

    deinit {
        rd_kafka_conf_destroy(handle)
    }

    /// Applies `defaults`, then those of `defaultsWhereKnown` that librdkafka knows, then `overrides` in order. Then checks `promises`.
    borrowing func apply(
        defaults: [KafkaProperties.Property],
        defaultsWhereKnown: [KafkaProperties.Property] = [],
        overrides: [KafkaProperties.Property],
        promises: [KafkaProperties.Promise]
    ) throws(KafkaError) {
        for property in defaults {
            try set(property.name, property.value)
        }
        for property in defaultsWhereKnown where hasProperty(property.name) {
            try set(property.name, property.value)
        }
        for property in overrides {
            try set(property.name, property.value)
        }
        for promise in promises where !promise.isKept(value(of: promise.name) ?? "") {
            throw KafkaError.property(promise.name, promise.reason)
        }
    }

    borrowing func hasProperty(_ name: String) -> Bool {
        // librdkafka always writes the size of the text, so `size` must be given.
        var size = 0
        return rd_kafka_conf_get(handle, name, nil, &size) == RD_KAFKA_CONF_OK
    }

    /// The value in force; nil if the property is unset or unknown.
    borrowing func value(of name: String) -> String? {
        var size = 0
        guard rd_kafka_conf_get(handle, name, nil, &size) == RD_KAFKA_CONF_OK, size > 0 else { return nil }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: size) { text in
            guard rd_kafka_conf_get(handle, name, text.baseAddress, &size) == RD_KAFKA_CONF_OK,
                let start = text.baseAddress
            else { return nil }
            return String(cString: start)
        }
    }

    /// Refuses a configuration without this property. librdkafka itself would wait forever, or fail later with another error.
    borrowing func require(_ name: String, reason: String) throws(KafkaError) {
        guard let value = value(of: name), !value.isEmpty else {
            throw KafkaError.property(name, reason)
        }
    }

    /// Gives access to the handle, to set what is not a string: callbacks and their context.
    borrowing func withHandle(_ body: (OpaquePointer) -> Void) {
        body(handle)
    }

    /// Creates the client. librdkafka takes the configuration over if, and only if, it succeeds.
    consuming func makeClient(_ type: rd_kafka_type_t) throws(KafkaError) -> OpaquePointer {
        var text = ErrorText()
        guard let client = rd_kafka_new(type, handle, &text.bytes, ErrorText.capacity) else {
            let code = rd_kafka_last_error()
            _ = consume self
            throw KafkaError(code, "cannot start the client: \(text.string)")
        }
        discard self
        return client
    }

    private borrowing func set(_ name: String, _ value: String) throws(KafkaError) {
        guard !name.utf8.contains(0), !value.utf8.contains(0) else {
            throw KafkaError.property(name, "contains a NUL byte")
        }
        var text = ErrorText()
        switch rd_kafka_conf_set(handle, name, value, &text.bytes, ErrorText.capacity) {
        case RD_KAFKA_CONF_OK: return
        case RD_KAFKA_CONF_UNKNOWN: throw KafkaError.property(name, "librdkafka does not know this property")
        default: throw KafkaError.property(name, text.string)
        }
    }
}
