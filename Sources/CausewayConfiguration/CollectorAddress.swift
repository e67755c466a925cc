import Reactor

/// The base URL of an OpenTelemetry collector, in parts: `http[s]://host[:port][/path]`.
package struct CollectorAddress: Sendable, Equatable {
    /// The port of an `http` URL that names none: the standard port of OTLP over HTTP.
    static let defaultPort: UInt16 = 4_318
    /// The port of an `https` URL that names none: the standard port of HTTPS. With TLS, there is usually a proxy in
    /// front of the collector.
    static let defaultSecurePort: UInt16 = 443

    /// Whether the URL begins with `https`.
    package var isSecure: Bool
    package var server: HostAndPort
    /// The path of the requests that post traces: the path of the base URL, then `/v1/traces`.
    package var path: String

    /// Parses the base URL of a collector. Returns nil if the text is no such URL, has more than 1,024 bytes, or
    /// contains a query, a fragment or credentials. Credentials are refused, because logs would show them.
    package init?(_ text: String) {
        isSecure = text.hasPrefix("https://")
        let scheme = isSecure ? "https://" : "http://"
        let defaultPort = isSecure ? Self.defaultSecurePort : Self.defaultPort
        guard text.hasPrefix(scheme), text.utf8.count <= 1_024, !text.contains(where: { "?#@".contains($0) }),
            let (server, path) = HostAndPort.splitURL(text.dropFirst(scheme.count), defaultPort: defaultPort)
        else { return nil }
        self.server = server
        var base = path
        while base.last == "/" { base.removeLast() }
        self.path = "\(base)/v1/traces"
    }

    /// The URL to which traces are posted, as messages print it.
    package var url: String { "\(isSecure ? "https" : "http")://\(server)\(path)" }
}
