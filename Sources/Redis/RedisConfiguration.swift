import Reactor

/// How the servers are organized, and so how the server of a key is found.
public enum RedisTopology: Sendable {
    /// One server, at the URL's first location.
    case single
    /// A primary with replicas. When the primary fails, a replica replaces it, and the Sentinels know the new
    /// primary. The URL's host is the Sentinels' name for the primary.
    ///
    /// - Parameter RedisURL: the Sentinels' addresses, and the credentials to log in to them.
    case sentinel(RedisURL)
    /// Several primaries, each with a part of the keys. The client asks the URL's locations for all servers, and later
    /// also the servers that it has found.
    case cluster
}

/// How to reach Redis, and the limits of each connection.
public struct RedisConfiguration: Sendable {
    public var url: RedisURL
    public var topology: RedisTopology
    /// The TLS context for all servers and Sentinels. Required if a URL asks for TLS.
    public var tls: TLSContext?
    /// The connection's name in the server's CLIENT LIST: printable characters without spaces.
    public var clientName = "causeway"
    /// The time limit for connecting to one address, for TCP and TLS together.
    public var connectTimeoutMilliseconds: Int64 = 2_000
    /// How long a lane's oldest call may wait for its reply. After this time the connection closes, and reconnects
    /// after a pause. While data from the server still arrives, the call may wait up to twice as long. For connections
    /// outside the lanes, the time counts from the server's last complete reply.
    public var replyDeadlineMilliseconds: Int64 = 2_000
    /// How many replicas must acknowledge a call's writes before the call gets its reply; 0 for none. Applies only to
    /// calls that need replicas (``RedisConnection/appendCall(isWritten:needsReplicas:)``). After replicas have been
    /// missing for 10 seconds, calls no longer wait (``ReplicaWatch``).
    ///
    /// If the primary has more replicas than this number, a replica that lacks an acknowledged write may become the
    /// next primary. The write is then lost.
    public var requiredReplicaCount = 0
    /// The maximum number of calls to one server that may wait for their reply.
    public var outstandingCallsMax = 4_096
    /// How long the connection to a server without hash slots stays open after an ASK has named the server. Further
    /// ASKs may follow, because a hash slot is moving to this server.
    var keepAfterAskMilliseconds: Int64 = 60_000
    /// The maximum number of calls in one command, 1 through 64. In a cluster the client always uses 1, because each
    /// key may be on another server.
    public var callsPerCommandMax = RedisConnection.callsPerCommandMax

    public init(url: RedisURL, topology: RedisTopology = .single, tls: TLSContext? = nil) {
        self.url = url
        self.topology = topology
        self.tls = tls
    }
}
