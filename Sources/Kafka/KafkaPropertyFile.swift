import Glibc

/// A file that a property names, such as a certificate or a key. This module checks that the file can be opened,
/// because librdkafka's error does not say that the file is missing.
public struct KafkaPropertyFile {
    /// The value of `ssl.ca.location` that names no file: librdkafka then searches the usual paths for certificate
    /// authorities.
    private static let nameSuffix = ".location"
    /// The value of `ssl.ca.location` that names no file. With this value, librdkafka searches the usual paths for
    /// certificate authorities.
    private static let probeValue = "probe"
    /// The properties of a certificate and its key. A client needs both or neither.
    private static let certificatePropertyNames: Set<String> = ["ssl.certificate.location", "ssl.key.location"]

    public let path: String

    /// - Returns: nil if the property does not name a file.
    public init?(_ property: KafkaProperties.Property) {
        guard property.name.hasSuffix(Self.nameSuffix), !property.value.isEmpty, property.value != Self.probeValue
        else { return nil }
        path = property.value
    }

    /// Why the file cannot be opened; nil if it can. A directory is no fault, because `ssl.ca.location` may name one.
    var fault: String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        return "\(path): cannot be opened: \(String(cString: strerror(errno)))"
    }

    /// Returns the properties without those whose files cannot be opened. If the certificate or its key cannot be
    /// opened, both are left out.
    static func usableProperties(of properties: [KafkaProperties.Property]) -> [KafkaProperties.Property] {
        var unusableNames = Set(properties.filter { Self($0)?.fault != nil }.map(\.name))
        if !unusableNames.isDisjoint(with: certificatePropertyNames) {
            unusableNames.formUnion(certificatePropertyNames)
        }
        return properties.filter { !unusableNames.contains($0.name) }
    }
}
