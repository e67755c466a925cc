import Glibc

/// A file that a property names, such as a certificate or a key. It is checked here, because librdkafka
/// reports a missing file only as a failure of the system.
public struct KafkaLocationFile {
    private static let suffix = ".location"
    /// The value of `ssl.ca.location` that makes librdkafka search the usual paths for certificate
    /// authorities.
    private static let probing = "probe"
    /// The properties of a certificate and its key. One of them alone is useless.
    private static let pair: Set<String> = ["ssl.certificate.location", "ssl.key.location"]

    public let path: String

    /// - Returns: nil if the property names no file.
    public init?(_ property: KafkaProperties.Property) {
        guard property.name.hasSuffix(Self.suffix), !property.value.isEmpty, property.value != Self.probing else {
            return nil
        }
        path = property.value
    }

    /// Why the file cannot be opened; nil if it can. The path may be a directory.
    var fault: String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        return "\(path): cannot be opened: \(String(cString: strerror(errno)))"
    }

    /// Returns the properties without those whose files cannot be opened. A certificate and its key are left
    /// out together.
    static func usable(_ properties: [KafkaProperties.Property]) -> [KafkaProperties.Property] {
        var away = Set(properties.filter { Self($0)?.fault != nil }.map(\.name))
        if !away.isDisjoint(with: pair) { away.formUnion(pair) }
        return properties.filter { !away.contains($0.name) }
    }
}
