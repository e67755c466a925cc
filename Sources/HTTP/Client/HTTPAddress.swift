import Reactor

/// The server and path of an `http` URL.
package struct HTTPAddress: Sendable, Equatable {
    package var server: HostAndPort
    /// The path with its query.
    package var path: String

    package init(host: String, port: UInt16, path: String) {
        self.init(server: HostAndPort(host: host, port: port), path: path)
    }

    package init(server: HostAndPort, path: String) {
        self.server = server
        self.path = path
    }

    /// - Returns: nil if the text is not an `http` URL with a valid host and port, or has a character that is not
    ///   printable ASCII.
    package init?(url: String) {
        let scheme = "http://"
        guard url.lowercased().hasPrefix(scheme),
            let (server, rest) = HostAndPort.splitURL(url.dropFirst(scheme.count), defaultPort: 80)
        else { return nil }
        let target = rest.prefix { $0 != "#" }
        self.init(server: server, path: target.hasPrefix("/") ? String(target) : "/\(target)")
    }
}
