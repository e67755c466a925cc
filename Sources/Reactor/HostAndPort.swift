/// The host and the port in a URL (RFC 3986, section 3.2): `example.com`, `192.0.2.1:80` or `[2001:db8::1]:80`.
public struct HostAndPort: Sendable, Hashable, CustomStringConvertible {
    public enum Fault: Error, Sendable {
        /// The host is empty, is longer than 255 bytes, or is neither a name of letters, digits, `.`, `-` and `_` nor
        /// an address (IPv6 in brackets).
        case invalidHost
        /// The port is not a number from 1 to 65535. An IPv6 address needs brackets: otherwise the text after its last
        /// colon counts as the port.
        case invalidPort
    }

    /// The maximum length of a host's name, in bytes (RFC 1123, section 2.1). DNS itself takes at most 253.
    public static let hostBytesMax = 255

    /// A name or an address, without brackets.
    public var host: String
    public var port: UInt16

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `host` or `host:port`.
    ///
    /// - Parameter defaultPort: the port if the text has none.
    public init(_ text: Substring, defaultPort: UInt16) throws(Fault) {
        var name = text
        port = defaultPort
        if let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") {
            let digits = text[text.index(after: colon)...]
            // `UInt16` also reads a plus sign, which no port in a URL has.
            guard digits.first != "+", let number = UInt16(digits), number > 0 else { throw .invalidPort }
            port = number
            name = text[..<colon]
        }
        if name.hasPrefix("["), name.hasSuffix("]") {
            name = name.dropFirst().dropLast()
            guard SocketAddress(numeric: String(name), port: port) != nil else { throw .invalidHost }
        } else if !name.utf8.allSatisfy(Self.isNameByte) {
            throw .invalidHost
        }
        guard (1...Self.hostBytesMax).contains(name.utf8.count) else { throw .invalidHost }
        host = String(name)
    }

    /// Splits a URL without its scheme, such as `example.com:80/path`, into the server and the rest. The rest is empty
    /// or begins with `/`, `?` or `#`.
    ///
    /// - Returns: nil if the server is not a host with an optional port, or if the URL has a space or another character
    ///   that is not printable ASCII.
    public static func splitURL(_ url: Substring, defaultPort: UInt16) -> (server: HostAndPort, rest: Substring)? {
        guard url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        let authority = url.prefix { !"/?#".contains($0) }
        return (try? HostAndPort(authority, defaultPort: defaultPort)).map { ($0, url[authority.endIndex...]) }
    }

    /// The form for URLs and `Host` fields: `host:port`, with an IPv6 address in brackets.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
