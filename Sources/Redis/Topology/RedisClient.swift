import Reactor

/// A lane's access to Redis: to one server, to a primary that Sentinels watch, or to a cluster. Returns the
/// connection for a key.
///
/// Used only on the lane's thread. Returning a connection allocates nothing. The connections report their
/// events directly to the handler.
public final class RedisClient {
    private enum Kind {
        case single(RedisConnection)
        case sentinel(RedisConnection, SentinelOwner)
        case cluster(Cluster)
    }

    private let kind: Kind

    /// - Parameters:
    ///   - handler: held weakly.
    ///   - makeSession: called once for each server, with its connection's configuration. All calls to the server go
    ///     through this session.
    public init(
        loop: EventLoop,
        configuration: RedisConfiguration,
        handler: any RedisHandler,
        makeSession: @escaping (RedisConfiguration) -> any RedisSession
    ) {
        switch configuration.topology {
        case .single:
            let session = makeSession(configuration)
            kind = .single(
                RedisConnection(loop: loop, configuration: configuration, session: session, handler: handler)
            )
        case .sentinel(let sentinels):
            let lookup = SentinelLookup(loop: loop, configuration: configuration, sentinels: sentinels)
            let owner = SentinelOwner(lookup)
            let connection = RedisConnection(
                loop: loop,
                configuration: configuration,
                session: makeSession(configuration),
                handler: handler,
                owner: owner
            )
            kind = .sentinel(connection, owner)
        case .cluster:
            kind = .cluster(
                Cluster(loop: loop, configuration: configuration, handler: handler, makeSession: makeSession)
            )
        }
    }

    /// Connects, and stays connected until `close`. Call it once.
    public func connect() {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.connect()
        case .cluster(let cluster): cluster.connect()
        }
    }

    /// Ends all connections. Outstanding calls fail inside this call. Idempotent.
    public func close() {
        switch kind {
        case .single(let connection):
            connection.close()
        case .sentinel(let connection, let owner):
            owner.close()
            connection.close()
        case .cluster(let cluster):
            cluster.close()
        }
    }

    /// Whether calls may be issued: in a cluster, for the keys of at least one server.
    public var isReady: Bool {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.isReady
        case .cluster(let cluster): cluster.isReady
        }
    }

    /// The number of servers with keys that accept no calls now.
    public var unavailableServers: Int {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.isReady ? 0 : 1
        case .cluster(let cluster): cluster.unavailableServers
        }
    }

    /// Whether the keys are on several servers, so that some keys may be unavailable while others are
    /// available.
    public var hasSeveralServers: Bool {
        if case .cluster = kind { true } else { false }
    }

    /// Calls that have no reply yet.
    public var outstandingCount: Int {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.outstandingCount
        case .cluster(let cluster): cluster.outstandingCount
        }
    }

    /// Returns the connection for one call with this key. The caller must make the call at once. Nil if the
    /// key's server is not ready; the handler's `redisReady` is called later.
    public func connection(for key: UnsafeRawBufferPointer) -> RedisConnection? {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.isReady ? connection : nil
        case .cluster(let cluster): cluster.connection(for: key)
        }
    }
}
