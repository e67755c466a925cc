public import LiveActivity
public import Reactor
public import Redis

/// Told what the store replies, and what happens to its connections. All calls come from the loop, or from inside
/// ``ActivityStore/close()``; each may issue calls or close the store.
public protocol ActivityStoreHandler: RedisHandler {
    /// - Parameter reply: its bytes are valid during this call only.
    func replied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>)
    /// The call may have been performed if the error is the connection's: repeating it is safe.
    func failed(tag: UInt64, script: StoreScript, error: RedisError)
}

/// What is known of activities and devices, in Redis: every call runs one of two scripts on one key, atomically.
///
/// A lane has one store. Everything happens on the lane's thread; a call and its reply allocate nothing. Calls that are issued in one turn
/// leave with one write.
public final class ActivityStore {
    let redis: RedisClient
    private let key = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreKey.bytesMax, alignment: 8)

    /// Connects to nothing yet.
    ///
    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, configuration: RedisConfiguration, handler: any ActivityStoreHandler) {
        redis = RedisClient(loop: loop, configuration: configuration, handler: handler) { [weak handler] in
            StoreSession(configuration: $0, handler: handler)
        }
    }

    deinit {
        key.deallocate()
    }

    /// Connects, and stays connected until `close`. Once.
    public func connect() { redis.connect() }

    /// Ends all connections; outstanding calls fail, from inside this call. Idempotent.
    public func close() { redis.close() }

    /// Some calls are taken; of a cluster, those for the keys of at least one server.
    public var isReady: Bool { redis.isReady }

    /// Servers that hold keys and take no calls now.
    public var serversAway: Int { redis.serversAway }

    /// Keys are on several servers, so that the server of one key may be away while others are there.
    public var hasSeveralServers: Bool { redis.hasSeveralServers }

    /// Calls that have no reply yet.
    public var outstandingCount: Int { redis.outstandingCount }

    /// Writes a call, or collects it for the command that leaves at the end of the turn.
    ///
    /// Updates, ends and settlements of activities that are issued one after the other, without another operation between them, leave as
    /// one command; so do registrations of activities and confirmations of what they have left. Each of them succeeds or fails by itself,
    /// except that the command may fail as a whole.
    public func issue(_ call: StoreCall<UnsafeRawBufferPointer>) -> CallIssue {
        guard call.operation.isWithinBounds(of: call.subject.kind), let count = StoreKey.write(call.subject, to: key)
        else {
            return .outOfBounds
        }
        let key = UnsafeRawBufferPointer(rebasing: key[..<count])
        guard let connection = redis.connection(for: key) else { return .notReady }
        guard connection.takesAcknowledgedCalls || !call.operation.asksForReplicas else { return .awaitsReplicas }
        // Every session of this client was made above.
        return unsafeDowncast(connection.session, to: StoreSession.self).issue(call, key: key, on: connection)
    }
}

extension RedisError {
    /// What the error means to the caller. A slot or a script that is elsewhere, or has to be loaded again, is no refusal.
    public var storeFailure: StoreFailure {
        guard isRetriable else { return .refused }
        // The server is there, and calls that ask for no acknowledgement go on.
        if isUnexplained || code == .replicasMissing { return .unexplained }
        switch code {
        case .stream, .deadline, .resolve, .closed, .protocolViolation, .moved, .ask, .noScript: return .unanswered
        default: return .busy
        }
    }
}
