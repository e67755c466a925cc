import Reactor

/// Access to Redis for the thread of one event loop, such as a lane: to one server, to a primary that Sentinels watch,
/// or to a cluster. It returns the connection for a key.
///
/// Returning a connection allocates nothing. The connections report their events directly to the handler.
public final class RedisClient {
    private enum Backend {
        case single(RedisConnection)
        case sentinel(RedisConnection, SentinelLocator)
        case cluster(Cluster)
    }

    private let backend: Backend

    /// Makes a client without connections; ``connect()`` opens them.
    ///
    /// - Parameters:
    ///   - handler: held weakly.
    ///   - makeSession: called for each new connection, with the connection's configuration. All calls on the
    ///     connection go through this session.
    public init(
        loop: EventLoop,
        configuration: RedisConfiguration,
        handler: any RedisHandler,
        makeSession: @escaping (RedisConfiguration) -> any RedisSession
    ) {
        switch configuration.topology {
        case .single:
            let session = makeSession(configuration)
            backend = .single(
                RedisConnection(loop: loop, configuration: configuration, session: session, handler: handler)
            )
        case .sentinel(let sentinels):
            let lookup = SentinelLookup(loop: loop, configuration: configuration, sentinels: sentinels)
            let locator = SentinelLocator(lookup)
            let connection = RedisConnection(
                loop: loop,
                configuration: configuration,
                session: makeSession(configuration),
                handler: handler,
                delegate: locator
            )
            backend = .sentinel(connection, locator)
        case .cluster:
            backend = .cluster(
                Cluster(loop: loop, configuration: configuration, handler: handler, makeSession: makeSession)
            )
        }
    }

    /// Connects, and connects again after each loss, until `close`. Call this method once.
    public func connect() {
        switch backend {
        case .single(let connection), .sentinel(let connection, _): connection.connect()
        case .cluster(let cluster): cluster.connect()
        }
    }

    /// Ends all connections. Calls without a reply fail inside this method. A second call does nothing.
    public func close() {
        switch backend {
        case .single(let connection):
            connection.close()
        case .sentinel(let connection, let locator):
            locator.close()
            connection.close()
        case .cluster(let cluster):
            cluster.close()
        }
    }

    /// Whether calls can be issued. In a cluster, true if at least one server is ready.
    public var isReady: Bool {
        switch backend {
        case .single(let connection), .sentinel(let connection, _): connection.isReady
        case .cluster(let cluster): cluster.isReady
        }
    }

    /// The number of servers that have keys but accept no calls now; 1 while the servers of a cluster are unknown.
    public var unavailableServerCount: Int {
        switch backend {
        case .single(let connection), .sentinel(let connection, _): connection.isReady ? 0 : 1
        case .cluster(let cluster): cluster.unavailableServerCount
        }
    }

    /// Whether several servers share the keys. Then some keys may be available while others are not.
    public var hasSeveralServers: Bool {
        if case .cluster = backend { true } else { false }
    }

    /// The number of calls, and of the connections' own commands, that have no reply yet.
    public var outstandingCallCount: Int {
        switch backend {
        case .single(let connection), .sentinel(let connection, _): connection.outstandingCallCount
        case .cluster(let cluster): cluster.outstandingCallCount
        }
    }

    /// Returns the connection for one call with this key. The caller must issue the call at once.
    ///
    /// - Returns: nil if the key's server is unknown or not ready; ask again after `redisReady`. In a cluster, also ask
    ///   again after a pause: if an ASK redirects the call to a server without room, no `redisReady` follows.
    public func connection(for key: UnsafeRawBufferPointer) -> RedisConnection? {
        switch backend {
        case .single(let connection), .sentinel(let connection, _): connection.isReady ? connection : nil
        case .cluster(let cluster): cluster.connection(for: key)
        }
    }
}
