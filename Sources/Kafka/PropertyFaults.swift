import CRdkafka

/// A property that a client cannot use, and the reason: librdkafka or Causeway refuses it, its file cannot be opened,
/// or it is required and missing.
public struct KafkaPropertyFault: Sendable, Hashable {
    /// The property's name; empty if librdkafka's text names no property.
    public var name: String
    public var reason: String

    public init(name: String, reason: String) {
        self.name = name
        self.reason = reason
    }
}

extension Consumer {
    /// Returns all faults of the properties; `init` throws only the first one. Connects to no server.
    public static func findFaults(of properties: [KafkaProperties.Property]) -> [KafkaPropertyFault] {
        PropertyCheck(
            type: RD_KAFKA_CONSUMER,
            defaults: KafkaProperties.consumerDefaults,
            versionDependentDefaults: KafkaProperties.versionDependentConsumerDefaults,
            rules: KafkaProperties.consumerRules,
            requiredNames: ["bootstrap.servers", "group.id"]
        )
        .findFaults(of: properties)
    }
}

extension Producer {
    /// Returns all faults of the properties; `init` throws only the first one. Connects to no server.
    public static func findFaults(of properties: [KafkaProperties.Property]) -> [KafkaPropertyFault] {
        PropertyCheck(
            type: RD_KAFKA_PRODUCER,
            defaults: KafkaProperties.producerDefaults,
            versionDependentDefaults: [],
            rules: KafkaProperties.producerRules,
            requiredNames: ["bootstrap.servers"]
        )
        .findFaults(of: properties)
    }
}

/// Finds the faults of properties in two steps:
/// 1. Sets the properties one by one. Files that cannot be opened are faults too.
/// 2. Makes a client without servers, because librdkafka reports some faults only then: for example wrong certificates
///    or keys, and properties that exclude each other. Properties whose files cannot be opened are left out. If another
///    property already has a fault, there is no step 2.
private struct PropertyCheck {
    let type: rd_kafka_type_t
    let defaults: [KafkaProperties.Property]
    let versionDependentDefaults: [KafkaProperties.Property]
    let rules: [KafkaProperties.PropertyRule]
    let requiredNames: [String]

    private static let serverPropertyNames: Set<String> = ["bootstrap.servers", "metadata.broker.list"]
    private static let protocolPropertyName = "security.protocol"
    /// The SASL mechanisms with which a new client at once asks a server for a ticket or token.
    private static let mechanismsThatContactServer: Set<String> = ["GSSAPI", "OAUTHBEARER"]
    private static let closeTimeoutMilliseconds: Int64 = 5_000

    func findFaults(of properties: [KafkaProperties.Property]) -> [KafkaPropertyFault] {
        let faults = applyAndFindFaults(ClientConfiguration(), properties, requiredNames)
        // Step 2 leaves out the properties whose files cannot be opened. Otherwise these faults would hide others,
        // because librdkafka reports only one fault when it makes a client.
        let usableProperties = KafkaPropertyFile.usableProperties(of: properties)
        guard applyAndFindFaults(ClientConfiguration(), usableProperties, requiredNames).isEmpty else { return faults }
        let configuration = ClientConfiguration()
        _ = applyAndFindFaults(
            configuration,
            usableProperties.filter { !Self.serverPropertyNames.contains($0.name) } + protocolWithoutSASL(properties),
            []
        )
        do throws(KafkaError) {
            let client = try configuration.makeClient(type)
            rd_kafka_set_log_queue(client, nil)
            _ = destroy(client, until: Deadline(afterMilliseconds: Self.closeTimeoutMilliseconds))
            return faults
        } catch {
            // librdkafka's text may contain the name of the faulty property. If it contains several names, take the
            // longest, because one name may contain another.
            guard
                let namedProperty = usableProperties.map(\.name).filter({ error.reason.contains($0) })
                    .max(by: { $0.count < $1.count })
            else { return faults + [KafkaPropertyFault(name: "", reason: error.reason)] }
            let prefix = "property \(namedProperty): "
            let reason = error.reason.hasPrefix(prefix) ? String(error.reason.dropFirst(prefix.count)) : error.reason
            return faults + [KafkaPropertyFault(name: namedProperty, reason: reason)]
        }
    }

    private func applyAndFindFaults(
        _ configuration: borrowing ClientConfiguration,
        _ properties: [KafkaProperties.Property],
        _ requiredNames: [String]
    ) -> [KafkaPropertyFault] {
        configuration.applyAndFindFaults(
            defaults: defaults,
            versionDependentDefaults: versionDependentDefaults,
            overrides: properties,
            rules: rules
        )
            + requiredNames.filter { configuration.value(of: $0)?.isEmpty ?? true }
            .map { KafkaPropertyFault(name: $0, reason: "is required") }
    }

    /// Returns `security.protocol` without SASL, such as `ssl` instead of `sasl_ssl`, if the client of step 2 would at
    /// once ask a server for a ticket or token (`mechanismsThatContactServer`). Otherwise returns no property, so that
    /// the user's protocol stays.
    private func protocolWithoutSASL(_ properties: [KafkaProperties.Property]) -> [KafkaProperties.Property] {
        let mechanism = properties.last { ["sasl.mechanism", "sasl.mechanisms"].contains($0.name) }?.value ?? "GSSAPI"
        guard Self.mechanismsThatContactServer.contains(mechanism.uppercased()) else { return [] }
        switch properties.last(where: { $0.name == Self.protocolPropertyName })?.value.lowercased() {
        case "sasl_ssl": return [(Self.protocolPropertyName, "ssl")]
        case "sasl_plaintext": return [(Self.protocolPropertyName, "plaintext")]
        default: return []
        }
    }
}
