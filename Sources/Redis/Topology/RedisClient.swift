import Reactor

/// Redis as a lane sees it: one server, a primary that Sentinels watch, or a cluster. Gives out the connection for a key.
///
/// All of it happens on the lane's thread; giving out a connection allocates nothing. What becomes of the calls is told to the handler
/// by the connections themselves.
public final class RedisClient {
    private enum Kind {
        case single(RedisConnection)
        case sentinel(RedisConnection, SentinelOwner)
        case cluster(Cluster)
    }

    private let kind: Kind

    /// - Parameters:
    ///   - handler: held weakly.
    ///   - makeSession: called with each connection's configuration, once for each server that is connected to; each call of a server
    ///     goes over its session.
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

    /// Connects, and stays connected until `close`. Once.
    public func connect() {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.connect()
        case .cluster(let cluster): cluster.connect()
        }
    }

    /// Ends all connections; outstanding calls fail, from inside this call. Idempotent.
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

    /// Some calls are taken; of a cluster, those for the keys of at least one server.
    public var isReady: Bool {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.isReady
        case .cluster(let cluster): cluster.isReady
        }
    }

    /// Servers that hold keys and take no calls now.
    public var serversAway: Int {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.isReady ? 0 : 1
        case .cluster(let cluster): cluster.serversAway
        }
    }

    /// Keys are on several servers, so that one key's may be away while others are there.
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

    /// The connection for one call with this key, which is to be issued at once. Nil if the key's server is not ready now; `redisReady`
    /// will tell.
    public func connection(for key: UnsafeRawBufferPointer) -> RedisConnection? {
        switch kind {
        case .single(let connection), .sentinel(let connection, _): connection.isReady ? connection : nil
        case .cluster(let cluster): cluster.connection(for: key)
        }
    }
}
