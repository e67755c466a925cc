/// A collector's base URL, taken apart: `http[s]://host[:port][/path]`.
package struct CollectorAddress: Sendable, Equatable {
    /// OTLP's port for HTTP.
    static let portDefault: UInt16 = 4_318
    /// The port of `https`: a collector that is reached by it stands behind a proxy as a rule.
    static let securePortDefault: UInt16 = 443

    /// By TLS.
    package var isSecure: Bool
    /// A name or an address, without brackets.
    package var host: String
    package var port: UInt16
    /// Where traces go on it.
    package var path: String

    /// Nil for what has another form. No credentials, which would stand in logs.
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
        guard ConfigurationRule.host(String(name)) == nil else { return nil }
        host = String(name)
        var base = text[authority.endIndex...]
        while base.last == "/" { base.removeLast() }
        path = "\(base)/v1/traces"
    }

    /// With brackets where it needs them: as a request names it.
    package var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// For people.
    package var url: String { "\(isSecure ? "https" : "http")://\(authority)\(path)" }
}
