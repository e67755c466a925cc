/// A collector's base URL, taken apart: `http://host[:port][/path]`.
struct CollectorAddress: Sendable, Equatable {
    /// OTLP's port for HTTP.
    static let portDefault: UInt16 = 4_318

    /// A name or an address, without brackets.
    var host: String
    var port: UInt16
    /// Where traces go on it.
    var path: String

    /// Nil for what has another form. No credentials, which would stand in logs.
    init?(_ text: String) {
        let scheme = "http://"
        guard text.hasPrefix(scheme), text.utf8.count <= 1_024, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            !text.contains(where: { "?#@".contains($0) })
        else { return nil }
        let authority = text.dropFirst(scheme.count).prefix { $0 != "/" }
        var name = authority
        port = Self.portDefault
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
}
