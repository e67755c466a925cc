import Reactor

/// How the servers are organized, and so how a key's server is found.
public enum RedisTopology: Sendable {
    /// One server, at the URL's first location.
    case single
    /// A primary with replicas. When the primary fails a replica replaces it, and the Sentinels know which. The URL's
    /// host is the Sentinels' name for the primary.
    ///
    /// - Parameter RedisURL: the Sentinels' addresses, and the credentials to log in to them.
    case sentinel(RedisURL)
    /// Several primaries, each with a part of the keys. The URL's locations are where the search for all servers begins.
    case cluster
}

/// How to reach Redis, and the limits of each connection.
public struct RedisConfiguration: Sendable {
    public var url: RedisURL
    public var topology: RedisTopology
    /// Required if a URL asks for TLS. Used for all servers and Sentinels.
    public var tls: TLSContext?
    /// The name in CLIENT LIST: printable, without spaces.
    public var clientName = "causeway"
    /// The limit for TCP and TLS together, for one address.
    public var connectTimeoutMilliseconds: Int64 = 2_000
    /// How long the oldest outstanding call may wait for its reply. After that the connection is given up.
    public var responseDeadlineMilliseconds: Int64 = 2_000
    /// How many replicas must have the writes of a call that requests replicas, before it is answered; 0 for none. WAIT tells
    /// how many replicas have a write, but not which of them takes over. To lose nothing, ask for as many as there are.
    public var replicas = 0
    /// The most calls to one server that may be outstanding.
    public var outstandingCallsMax = 4_096
    /// The most calls in one command, 1 through 64. In a cluster always 1, since each key may be on another server.
    public var callsPerCommandMax = RedisConnection.callsPerCommandMax

    public init(url: RedisURL, topology: RedisTopology = .single, tls: TLSContext? = nil) {
        self.url = url
        self.topology = topology
        self.tls = tls
    }
}
