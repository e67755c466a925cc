import CRdkafka

/// An `rd_kafka_conf_t` that is being filled. It is freed exactly once: by librdkafka if `makeClient` succeeds,
/// otherwise by `deinit`.
struct ClientConfiguration: ~Copyable {
    private let handle: OpaquePointer

    init() {
        handle = rd_kafka_conf_new()
    }

    deinit {
        rd_kafka_conf_destroy(handle)
    }

    /// Applies three groups of properties; a later group overrides an earlier one:
    /// 1. `defaults`
    /// 2. `versionDependentDefaults`, without those that the loaded librdkafka does not know
    /// 3. `overrides`
    ///
    /// Then checks that the values follow the `rules`. Throws the first fault.
    borrowing func apply(
        defaults: [KafkaProperties.Property],
        versionDependentDefaults: [KafkaProperties.Property] = [],
        overrides: [KafkaProperties.Property],
        rules: [KafkaProperties.PropertyRule]
    ) throws(KafkaError) {
        let faults = applyAndFindFaults(
            defaults: defaults,
            versionDependentDefaults: versionDependentDefaults,
            overrides: overrides,
            rules: rules
        )
        if let fault = faults.first { throw KafkaError.unusableProperty(fault.name, fault.reason) }
    }

    /// Applies the properties and checks the rules as `apply` does, but returns all faults instead of throwing the
    /// first.
    borrowing func applyAndFindFaults(
        defaults: [KafkaProperties.Property],
        versionDependentDefaults: [KafkaProperties.Property],
        overrides: [KafkaProperties.Property],
        rules: [KafkaProperties.PropertyRule]
    ) -> [KafkaPropertyFault] {
        var faults: [KafkaPropertyFault] = []
        for property in defaults + versionDependentDefaults.filter({ hasProperty($0.name) }) + overrides {
            if let reason = setProperty(property.name, to: property.value) ?? KafkaPropertyFile(property)?.fault {
                faults.append(KafkaPropertyFault(name: property.name, reason: reason))
            }
        }
        for rule in rules where !rule.permits(value(of: rule.name) ?? "") {
            faults.append(KafkaPropertyFault(name: rule.name, reason: rule.reason))
        }
        return faults
    }

    borrowing func hasProperty(_ name: String) -> Bool {
        // The value is not needed, so pass no buffer for it. librdkafka writes the value's size to `size` in any case.
        var size = 0
        return rd_kafka_conf_get(handle, name, nil, &size) == RD_KAFKA_CONF_OK
    }

    /// Returns the value that librdkafka will use; nil if the property is unset or unknown.
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

    /// Throws if the configuration lacks this property. librdkafka does not check this. Without the property, the
    /// client would wait forever, or fail later with another error.
    borrowing func require(_ name: String, reason: String) throws(KafkaError) {
        guard value(of: name)?.isEmpty == false else {
            throw KafkaError.unusableProperty(name, reason)
        }
    }

    /// Lets `body` register callbacks and their context at librdkafka's handle. `apply` cannot set them: they are
    /// pointers, and it takes only texts.
    borrowing func withHandle(_ body: (OpaquePointer) -> Void) {
        body(handle)
    }

    /// Creates the client. If this succeeds, librdkafka frees the configuration, otherwise `deinit` does.
    consuming func makeClient(_ type: rd_kafka_type_t) throws(KafkaError) -> OpaquePointer {
        var text = ErrorTextBuffer()
        guard let client = rd_kafka_new(type, handle, &text.bytes, ErrorTextBuffer.capacity) else {
            let error = creationError(text.string, rd_kafka_last_error())
            _ = consume self
            throw error
        }
        discard self
        return client
    }

    /// Returns the error to throw after `rd_kafka_new` has failed. If librdkafka's text begins with a property, the
    /// error names this property. An example of such a text is `ssl.ca.location failed: error:05800088:x509 certificate
    /// routines::no certificate…`.
    private borrowing func creationError(_ text: String, _ code: rd_kafka_resp_err_t) -> KafkaError {
        guard let separator = text.firstRange(of: " failed: "),
            let refusedValue = value(of: String(text[..<separator.lowerBound])),
            let cause = text[separator.upperBound...].split(separator: ":", omittingEmptySubsequences: true).last
        else { return KafkaError(code, "cannot start the client: \(text)") }
        let property = String(text[..<separator.lowerBound])
        return KafkaError.unusableProperty(property, "\(refusedValue): \(cause.drop { $0 == " " })")
    }

    /// Sets a property. Returns why the value was refused; nil if the property is set now.
    private borrowing func setProperty(_ name: String, to value: String) -> String? {
        guard !name.utf8.contains(0), !value.utf8.contains(0) else { return "contains a NUL byte" }
        var text = ErrorTextBuffer()
        return switch rd_kafka_conf_set(handle, name, value, &text.bytes, ErrorTextBuffer.capacity) {
        case RD_KAFKA_CONF_OK: nil
        case RD_KAFKA_CONF_UNKNOWN: "librdkafka does not know this property"
        default: text.string
        }
    }
}
