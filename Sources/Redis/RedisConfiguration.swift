import Reactor

/// How the servers are organized, and so how the server of a key is found.
public enum RedisTopology: Sendable {
    /// One server, at the URL's first location.
    case single
    /// A primary with replicas. When the primary fails, a replica replaces it, and the Sentinels know the new primary.
    /// In place of a host, ``RedisConfiguration/url`` has the Sentinels' name for the primary.
    ///
    /// - Parameter RedisURL: the Sentinels' addresses, and the credentials to log in to them.
    case sentinel(RedisURL)
    /// Several primaries, each with a part of the keys. The URL names some servers of the cluster. The client asks one
    /// of these for the list of all servers, and can later ask any server of the list.
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
    /// How long the oldest call of a lane's connection may wait for its reply. Then the connection closes, and
    /// reconnects after a pause. While data from the server still arrives, the call may wait up to twice as long.
    ///
    /// On a `CommandConnection` (look-ups, and code outside the lanes), the time begins again with each complete reply.
    public var replyDeadlineMilliseconds: Int64 = 2_000
    /// How many replicas must acknowledge a call's writes before the session gets the reply; 0 for none. Applies only
    /// to calls that were added with `needsReplicas`. If replicas are missing for 10 s, calls no longer wait for them
    /// (``ReplicaWatch``).
    ///
    /// If the primary has more replicas than this, an acknowledged write can still be lost: a replica without the write
    /// may become the next primary.
    public var requiredReplicaCount = 0
    /// How long the connection to a server without hash slots stays open after the last ASK that named this server.
    /// More ASKs may follow while a hash slot moves to the server.
    public var outstandingCallsMax = 4_096
    /// While a hash slot moves to another server, ASK redirects calls to that server. As long as the server has no hash
    /// slots yet, the connection to it stays open for this time after the last ASK, because more such calls may follow.
    var connectionKeptAfterAskMilliseconds: Int64 = 60_000
    /// The maximum number of calls in one command, 1 through 64. In a cluster the client always uses 1, because each
    /// key may be on another server.
    public var callsPerCommandMax = RedisConnection.callsPerCommandMax

    public init(url: RedisURL, topology: RedisTopology = .single, tls: TLSContext? = nil) {
        self.url = url
        self.topology = topology
        self.tls = tls
    }
}
