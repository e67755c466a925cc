import Glibc

/// A file that a property names: certificates, keys. librdkafka itself says of a missing one only that the system has failed.
public struct KafkaLocationFile {
    private static let suffix = ".location"
    /// The value of `ssl.ca.location` that makes librdkafka look for the authorities.
    private static let probing = "probe"
    /// A certificate and its key: one of them is of no use alone.
    private static let pair: Set<String> = ["ssl.certificate.location", "ssl.key.location"]

    public let path: String

    /// - Returns: nil if the property names no file.
    public init?(_ property: KafkaProperties.Property) {
        guard property.name.hasSuffix(Self.suffix), !property.value.isEmpty, property.value != Self.probing else {
            return nil
        }
        path = property.value
    }

    /// Why it cannot be used; nil if it can be opened. It may be a directory.
    var fault: String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        return "\(path): cannot be opened: \(String(cString: strerror(errno)))"
    }

    /// The properties without those whose files cannot be opened.
    static func usable(_ properties: [KafkaProperties.Property]) -> [KafkaProperties.Property] {
        var away = Set(properties.filter { Self($0)?.fault != nil }.map(\.name))
        if !away.isDisjoint(with: pair) { away.formUnion(pair) }
        return properties.filter { !away.contains($0.name) }
    }
}
