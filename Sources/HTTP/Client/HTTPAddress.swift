import Reactor

/// The address of a page.
package struct HTTPAddress: Sendable, Equatable {
    /// A host name or an address, without brackets.
    package var host: String
    package var port: UInt16
    /// The path with its query.
    package var path: String

    package init(host: String, port: UInt16, path: String) {
        self.host = host
        self.port = port
        self.path = path
    }

    /// - Returns: nil if the text is no `http` URL with a host.
    package init?(url: String) {
        let scheme = "http://"
        guard url.lowercased().hasPrefix(scheme), url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        let rest = url.dropFirst(scheme.count).prefix { $0 != "#" }
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        var host = authority
        port = 80
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else { return nil }
            port = number
            host = authority[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        let isName = !host.isEmpty && host.utf8.allSatisfy(Self.isOfName)
        guard isName || SocketAddress(numeric: String(host), port: port) != nil else { return nil }
        self.host = String(host)
        let target = rest[authority.endIndex...]
        path = target.hasPrefix("/") ? String(target) : "/\(target)"
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// Host and port as a request names them: an IPv6 address in brackets.
    package var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
