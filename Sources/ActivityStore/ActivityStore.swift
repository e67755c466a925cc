public import LiveActivity
public import Reactor
public import Redis

/// Receives the store's replies and learns what happens to its connections. All calls come from the loop, or from inside
/// ``ActivityStore/close()``. Each of them may issue calls or close the store.
public protocol ActivityStoreHandler: RedisHandler {
    /// - Parameter reply: its bytes are valid only during this call.
    func replied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>)
    /// If the error is the connection's, the call may have been performed. It is safe to repeat the call, unless it is a refund
    /// of a start.
    func failed(tag: UInt64, script: StoreScript, error: RedisError)
}

/// What is known about activities and devices, in Redis. Every call runs one of three scripts on one key, atomically.
///
/// A lane has one store. Everything happens on the lane's thread, and a call and its reply allocate nothing. All calls of one
/// turn leave with one write.
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

    /// Connects and stays connected until `close`. Call it once.
    public func connect() { redis.connect() }

    /// Ends all connections. Outstanding calls fail, from inside this call. May be called again.
    public func close() { redis.close() }

    /// Whether some calls are taken. In a cluster: those for the keys of at least one server.
    public var isReady: Bool { redis.isReady }

    /// Servers that hold keys and take no calls now.
    public var unavailableServers: Int { redis.unavailableServers }

    /// Whether the keys are on several servers, so that one key's server may be away while others are not.
    public var hasSeveralServers: Bool { redis.hasSeveralServers }

    /// Calls that have no reply yet.
    public var outstandingCount: Int { redis.outstandingCount }

    /// Writes a call, or collects it for the command that leaves at the end of the turn.
    ///
    /// Updates, ends and settlements of activities that are issued in a row leave as one command. So do registrations of
    /// activities and confirmations of their leaves. Each call succeeds or fails alone, but the command may also fail as a
    /// whole.
    public func issue(_ call: StoreCall<UnsafeRawBufferPointer>) -> CallIssue {
        guard call.operation.isWithinBounds(of: call.subject.kind), let count = StoreKey.write(call.subject, to: key)
        else {
            return .outOfBounds
        }
        let key = UnsafeRawBufferPointer(rebasing: key[..<count])
        if call.operation.isAboutLifetime { return issueAboutLifetime(call, activityKey: key) }
        guard let connection = redis.connection(for: key) else { return .notReady }
        guard connection.takesAcknowledgedCalls || !call.operation.asksForReplicas else { return .awaitsReplicas }
        // All sessions of this client were made in `init`, so the cast is safe.
        return unsafeDowncast(connection.session, to: StoreSession.self).issue(call, key: key, on: connection)
    }

    private func issueAboutLifetime(
        _ call: StoreCall<UnsafeRawBufferPointer>,
        activityKey: UnsafeRawBufferPointer
    ) -> CallIssue {
        LifetimeKey.all[LifetimeKey.number(ofActivityKey: activityKey)]
            .withUnsafeBytes { key in
                guard let connection = redis.connection(for: key) else { return .notReady }
                return unsafeDowncast(connection.session, to: StoreSession.self)
                    .issue(call.operation, tag: call.tag, activityKey: activityKey, key: key, on: connection)
            }
    }
}

extension RedisError {
    /// What the error means to the caller. A slot or a script that must be found or loaded again is not a refusal.
    public var storeFailure: StoreFailure {
        guard isRetriable else { return .refused }
        // The server works, and calls that ask for no acknowledgement continue.
        if isUnexplained || code == .replicasMissing { return .unexplained }
        switch code {
        case .stream, .deadline, .resolve, .closed, .protocolViolation, .moved, .ask, .noScript: return .unanswered
        default: return .busy
        }
    }
}
