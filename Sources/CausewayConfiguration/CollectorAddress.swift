/// A collector's base URL, in parts: `http[s]://host[:port][/path]`.
package struct CollectorAddress: Sendable, Equatable {
    /// The port of OTLP over HTTP.
    static let portDefault: UInt16 = 4_318
    /// The port of `https`: a collector with TLS is usually behind a proxy.
    static let securePortDefault: UInt16 = 443

    /// Whether TLS is used.
    package var isSecure: Bool
    /// A host name or an address, without brackets.
    package var host: String
    package var port: UInt16
    /// The path that traces are posted to.
    package var path: String

    /// Nil if the text has another form. Credentials are refused, since logs would show them.
    package init?(_ text: String) {
        isSecure = text.hasPrefix("https://")
        let scheme = isSecure ? "https://" : "http://"
        guard text.hasPrefix(scheme), text.utf8.count <= 1_024, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            !text.contains(where: { "?#@".contains($0) })
        else { return nil }
        let authority = text.dropFirst(scheme.count).prefix { $0 != "/" }
        var name = authority
        port = isSecure ? Self.securePortDefault : Self.portDefault
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else { return nil }
            port = number
            name = authority[..<colon]
        }
        if name.hasPrefix("["), name.hasSuffix("]") {
            name = name.dropFirst().dropLast()
        } else if name.contains(":") {
            return nil
        }
        guard ConfigurationRule.host.fault(String(name)) == nil else { return nil }
        host = String(name)
        var base = text[authority.endIndex...]
        while base.last == "/" { base.removeLast() }
        path = "\(base)/v1/traces"
    }

    /// Host and port as a request names them: an IPv6 address in brackets.
    package var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The URL, for people.
    package var url: String { "\(isSecure ? "https" : "http")://\(authority)\(path)" }
}
