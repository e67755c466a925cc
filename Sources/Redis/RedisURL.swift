import Numbers
import Reactor

/// The user name and the password to log in with. `description`, `debugDescription` and `customMirror` show neither.
public struct RedisCredentials: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Nil for the server's default user.
    public let username: String?
    let password: String

    public init(username: String?, password: String) {
        self.username = username
        self.password = password
    }

    public var description: String { "(credentials)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}

/// The addresses of Redis servers, and the credentials to log in with. A URL has one of these forms. User, password and
/// path are percent-encoded where needed:
///
/// - `redis://[[user]:password@]host[:port][,host[:port]…][/database]`
/// - `rediss://…`, the same over TLS
/// - `unix://[[user]:password@]/path[?db=database]`
///
/// After `user@` without a colon, the password is in the file that the configuration key `redis.passwordFile` names
/// (for Sentinels `redis.sentinelPasswordFile`), or the user has none.
///
/// Several hosts are Sentinels, or some servers of a cluster. The default port is 6379, for Sentinels 26379. The
/// default database is 0. An IPv6 address must be in brackets.
public struct RedisURL: Sendable, CustomStringConvertible {
    public enum Location: Sendable, Hashable {
        case host(String, port: UInt16)
        case unix(path: String)
    }

    public static let defaultPort: UInt16 = 6379
    public static let defaultSentinelPort: UInt16 = 26_379
    /// The maximum number of hosts in one URL.
    public static let locationsMax = 64
    /// The largest database number that a URL may have. A server has 16 databases by default, and its configuration can
    /// allow more.
    public static let databaseMax = 1_048_575

    /// The servers' locations: at least one, at most ``locationsMax``.
    public private(set) var locations: [Location]
    public var usesTLS: Bool
    public var database: Int
    public var credentials: RedisCredentials?

    /// Where a single server is (``RedisTopology/single``): the first location of the URL.
    public var firstLocation: Location { locations[0] }

    /// The locations and the database, without the credentials.
    public var description: String {
        switch firstLocation {
        case .host:
            "\(usesTLS ? "rediss" : "redis")://\(locations.map(\.description).joined(separator: ","))/\(database)"
        case .unix(let path):
            "unix://\(path)?db=\(database)"
        }
    }

    /// Returns this URL with only this location.
    func replacingLocations(with location: Location) -> RedisURL {
        var url = self
        url.locations = [location]
        return url
    }

    /// Parses a URL.
    ///
    /// - Parameter defaultPort: the port of each host without a port.
    public init(_ text: String, defaultPort: UInt16 = RedisURL.defaultPort) throws(RedisURLError) {
        var remainingText = text[...]
        let scheme = try Self.removeScheme(from: &remainingText)
        if remainingText.contains("#") { throw .fragment }
        usesTLS = scheme == .rediss
        credentials = try Self.removeCredentials(from: &remainingText)
        (locations, database) =
            switch scheme {
            case .redis, .rediss: try Self.parseHostsAndDatabase(remainingText, defaultPort)
            case .unix: try Self.parsePathAndDatabase(remainingText)
            }
    }

    private enum Scheme: String { case redis, rediss, unix }

    private static func removeScheme(from text: inout Substring) throws(RedisURLError) -> Scheme {
        guard let end = text.firstRange(of: "://"), let scheme = Scheme(rawValue: String(text[..<end.lowerBound]))
        else { throw .scheme }
        text = text[end.upperBound...]
        return scheme
    }

    /// Removes the credentials from the beginning of the text, and returns them; nil if there are none. They end at the
    /// last `@` before the first slash.
    private static func removeCredentials(from text: inout Substring) throws(RedisURLError) -> RedisCredentials? {
        let beforeSlash = text[..<(text.firstIndex(of: "/") ?? text.endIndex)]
        guard let atSign = beforeSlash.lastIndex(of: "@") else { return nil }
        let credentials = try parseCredentials(text[..<atSign])
        text = text[text.index(after: atSign)...]
        return credentials
    }

    private static func parseHostsAndDatabase(
        _ text: Substring,
        _ defaultPort: UInt16
    ) throws(RedisURLError) -> ([Location], Int) {
        if text.contains("?") { throw .query }
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let hosts = parts[0].split(separator: ",", omittingEmptySubsequences: false)
        guard hosts.count <= locationsMax else { throw .host }
        var locations: [Location] = []
        for host in hosts { locations.append(try parseHostAndPort(host, defaultPort)) }
        let database = try parts.count == 1 || parts[1].isEmpty ? 0 : parseDatabase(parts[1])
        return (locations, database)
    }

    private static func parsePathAndDatabase(_ text: Substring) throws(RedisURLError) -> ([Location], Int) {
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = parts[0].percentDecoded, path.hasPrefix("/"), SocketAddress.unix(path: path) != nil else {
            throw .path
        }
        let database = try parts.count == 1 ? 0 : parseDatabaseQuery(parts[1])
        return ([.unix(path: path)], database)
    }

    private static func parseCredentials(_ text: Substring) throws(RedisURLError) -> RedisCredentials {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 1, let username = parts[0].percentDecoded, !username.isEmpty {
            return RedisCredentials(username: username, password: "")
        }
        guard parts.count == 2, let username = parts[0].percentDecoded, let password = parts[1].percentDecoded,
            !password.isEmpty
        else { throw .credentials }
        return RedisCredentials(username: username.isEmpty ? nil : username, password: password)
    }

    private static func parseHostAndPort(_ text: Substring, _ defaultPort: UInt16) throws(RedisURLError) -> Location {
        do {
            let server = try HostAndPort(text, defaultPort: defaultPort)
            return .host(server.host, port: server.port)
        } catch {
            switch error {
            case .invalidHost: throw .host
            case .invalidPort: throw .port
            }
        }
    }

    private static func parseDatabaseQuery(_ text: Substring) throws(RedisURLError) -> Int {
        guard text.hasPrefix("db=") else { throw .query }
        return try parseDatabase(text.dropFirst(3))
    }

    private static func parseDatabase(_ text: Substring) throws(RedisURLError) -> Int {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text), number <= databaseMax else {
            throw .database
        }
        return number
    }
}

/// Which part of a Redis URL is wrong. The message names this part but does not repeat its text, because the text may
/// be secret.
public enum RedisURLError: Error, Sendable, Hashable, CustomStringConvertible {
    case scheme, credentials, host, port, database, path, query, fragment

    public var description: String {
        switch self {
        case .scheme: "Redis URL: must begin with redis://, rediss:// or unix://"
        case .credentials: "Redis URL: credentials must be user:password, :password or user, percent-encoded"
        case .host:
            """
            Redis URL: a host is empty or wrong (an IPv6 address needs brackets), or there are more than \
            \(RedisURL.locationsMax)
            """
        case .port: "Redis URL: port must be 1 through 65535"
        case .database: "Redis URL: database must be 0 through \(RedisURL.databaseMax)"
        case .path: "Redis URL: a Unix socket needs an absolute path of at most \(SocketAddress.unixPathBytesMax) bytes"
        case .query: "Redis URL: the only query is db=, and only after the path of a Unix socket"
        case .fragment: "Redis URL: # must be percent-encoded"
        }
    }
}

extension Substring {
    /// The decoded text. Nil if the encoding is invalid, or if the text has a zero byte. Neither a server nor a path
    /// accepts a zero byte.
    fileprivate var percentDecoded: String? {
        PercentEncoding.decode(self).flatMap { $0.utf8.contains(0) ? nil : $0 }
    }
}
