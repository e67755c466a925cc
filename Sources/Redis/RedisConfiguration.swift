import Reactor

/// How the servers are organized. This decides how a key's server is found.
public enum RedisTopology: Sendable {
    /// One server, at the URL's first location.
    case single
    /// A primary with replicas. When the primary fails, a replica replaces it, and the Sentinels know the new
    /// primary. The URL's host is the Sentinels' name for the primary.
    ///
    /// - Parameter RedisURL: the Sentinels' addresses, and the credentials to log in to them.
    case sentinel(RedisURL)
    /// Several primaries, each with a part of the keys. The URL's locations are where the search for all
    /// servers begins.
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
    /// The time limit of a connection to one address, for TCP and TLS together.
    public var connectTimeoutMilliseconds: Int64 = 2_000
    /// How long the oldest outstanding call may wait for its reply. After this time the connection is closed
    /// and replaced.
    public var responseDeadlineMilliseconds: Int64 = 2_000
    /// How many replicas must have acknowledged the writes of a call that requests replicas, before the call
    /// is answered; 0 for none. WAIT counts the replicas that have a write, and the next primary may be
    /// another one. So only the number of all replicas prevents every loss.
    public var replicas = 0
    /// The most calls to one server that may be outstanding.
    public var outstandingCallsMax = 4_096
    /// The most calls in one command, 1 through 64. In a cluster always 1, since each key may be on another
    /// server.
    public var callsPerCommandMax = RedisConnection.callsPerCommandMax

    public init(url: RedisURL, topology: RedisTopology = .single, tls: TLSContext? = nil) {
        self.url = url
        self.topology = topology
        self.tls = tls
    }
}
