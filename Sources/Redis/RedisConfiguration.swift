import Reactor

/// Which servers there are, and how the one for a key is found.
public enum RedisTopology: Sendable {
    /// One, at the URL's first location.
    case single
    /// A primary with replicas, one of which takes its place when it fails: the Sentinels know which. The URL's host is the name that they
    /// know the primary by.
    ///
    /// - Parameter RedisURL: where the Sentinels are, and as whom to log in to them.
    case sentinel(RedisURL)
    /// Several primaries, each with a part of the keys. The URL's locations are servers to begin with: those that answer tell of all.
    case cluster
}

/// How to reach Redis, and the limits of a connection to a server.
public struct RedisConfiguration: Sendable {
    public var url: RedisURL
    public var topology: RedisTopology
    /// Needed if a URL asks for TLS; for all servers, Sentinels too.
    public var tls: TLSContext?
    /// What CLIENT LIST shows: printable, no spaces.
    public var clientName = "causeway"
    /// For TCP and TLS together, of one address.
    public var connectTimeoutMilliseconds: Int64 = 2_000
    /// How long the oldest outstanding call may wait for its reply before the connection is given up.
    public var responseDeadlineMilliseconds: Int64 = 2_000
    /// How many replicas must have what a call wrote that asks for it, before the call is answered; 0: none.
    public var replicas = 0
    /// Calls to one server that may be without a reply at a time.
    public var outstandingCallsMax = 4_096
    /// Calls that may leave as one command: 1 through 64. In a cluster, where each key may be elsewhere, it is always 1.
    public var callsPerCommandMax = RedisConnection.callsPerCommandMax

    public init(url: RedisURL, topology: RedisTopology = .single, tls: TLSContext? = nil) {
        self.url = url
        self.topology = topology
        self.tls = tls
    }
}
