public import LiveActivity
public import Reactor
public import Redis

/// Receives the replies to the calls of an ``ActivityStore``, and the events of its connections. The event loop and
/// ``ActivityStore/close()`` call these functions. Each function may issue calls or close the store.
public protocol ActivityStoreHandler: RedisHandler {
    /// Reports the reply to a call. The bytes of the reply are valid only during this function.
    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>)
    /// Reports that a call failed. Redis may still have performed the call, for example if the connection was lost, or
    /// if too few replicas acknowledged the write. Every call except a refund of a start can be repeated safely (R15).
    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError)
}

/// Reads and changes what Redis stores about activities and devices. Each call runs one of three scripts
/// (``StoreScript``), and is atomic.
///
/// A lane has one store, and uses it only on its own thread. The calls of one iteration of the event loop are sent
/// together at its end. A call and its reply allocate no memory.
public final class ActivityStore {
    let redis: RedisClient
    private let keyBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: SubjectKey.bytesMax, alignment: 8)

    /// Makes a store without connections; ``connect()`` opens them.
    ///
    /// - Parameter handler: held weakly. The store's owner should pass a small object that is used for nothing else, as
    ///   a lane does: Swift retains an object more slowly once it has weak references, and each push retains the lane.
    public init(loop: EventLoop, configuration: RedisConfiguration, handler: any ActivityStoreHandler) {
        redis = RedisClient(loop: loop, configuration: configuration, handler: handler) { [weak handler] in
            StoreSession(configuration: $0, handler: handler)
        }
    }

    deinit {
        keyBuffer.deallocate()
    }

    /// Connects, and connects again after each loss of a connection, until `close` is called. Call this method once.
    public func connect() { redis.connect() }

    /// Ends all connections. Outstanding calls fail before this method returns. A second call does nothing.
    public func close() { redis.close() }

    /// Whether calls can be issued. In a cluster, true if at least one server accepts calls for its keys.
    public var isReady: Bool { redis.isReady }

    /// The number of servers that have keys but accept no calls now; 1 while the servers of a cluster are unknown.
    public var unavailableServerCount: Int { redis.unavailableServerCount }

    /// Whether several servers share the keys. A call can then be issued only while the server that has its key is
    /// available.
    public var hasSeveralServers: Bool { redis.hasSeveralServers }

    /// The number of calls, and of the connections' own commands, that have no reply yet.
    public var outstandingCallCount: Int { redis.outstandingCallCount }

    /// Writes a call to Redis now, or collects it and writes it at the end of the iteration at the latest. If the
    /// result is not `issued`, nothing is written, and no reply or failure follows.
    ///
    /// Consecutive calls can share a Redis command (``CommandCallBatch``, ``RegistrationBatch``). Redis performs each
    /// call separately: one can fail while the others succeed. If the whole command fails, for example because the
    /// connection is lost, all its calls fail. In a cluster each call has its own command, because all keys of a
    /// command must be in one hash slot.
    public func issue(_ call: StoreCall<UnsafeRawBufferPointer>) -> IssueResult {
        guard call.operation.isWithinBounds(of: call.subject.kind),
            let count = SubjectKey.write(call.subject, to: keyBuffer)
        else {
            return .outOfBounds
        }
        let key = UnsafeRawBufferPointer(rebasing: keyBuffer[..<count])
        if call.operation.isLifetimeCall { return issueLifetimeCall(call, activityKey: key) }
        guard let connection = redis.connection(for: key) else { return .notReady }
        guard connection.acceptsCallsThatNeedReplicas || !call.operation.needsReplicas else {
            return .replicasMissing
        }
        // The cast is safe: the closure in `init` makes only sessions of this type.
        return unsafeDowncast(connection.session, to: StoreSession.self).issue(call, key: key, on: connection)
    }

    /// Issues a call about a lifetime on the connection to the server that has the activity's timetable. In a cluster,
    /// another server may have the activity's own key.
    private func issueLifetimeCall(
        _ call: StoreCall<UnsafeRawBufferPointer>,
        activityKey: UnsafeRawBufferPointer
    ) -> IssueResult {
        LifetimeKey.timetableKeys[LifetimeKey.timetableNumber(ofActivityKey: activityKey)]
            .withUnsafeBytes { timetableKey in
                guard let connection = redis.connection(for: timetableKey) else { return .notReady }
                return unsafeDowncast(connection.session, to: StoreSession.self)
                    .issue(
                        call.operation,
                        tag: call.tag,
                        activityKey: activityKey,
                        timetableKey: timetableKey,
                        on: connection
                    )
            }
    }
}

extension RedisError {
    /// Whether the core may make the failed call again, and when. For example, after `MOVED`, `ASK` or `NOSCRIPT`, it
    /// may do so at once (`retriableAtOnce`).
    public var storeFailure: StoreFailure {
        guard isRetriable else { return .refused }
        // Only this call must pause, because other calls may succeed. For example, if replicas are missing, only the
        // calls that wait for replicas fail.
        if mayBeCausedByCall || code == .replicasMissing { return .retriableAfterPause }
        switch code {
        case .stream, .deadline, .resolve, .closed, .protocolViolation, .moved, .ask, .noScript: return .retriableAtOnce
        default: return .serverRefusesMostCalls
        }
    }

    /// Like ``storeFailure``. But if several servers share the keys, an error of one server never pauses the calls to
    /// the others: the result is then not `serverRefusesMostCalls`, but `retriableAfterPause`.
    public func storeFailure(hasSeveralServers: Bool) -> StoreFailure {
        let failure = storeFailure
        return hasSeveralServers && failure == .serverRefusesMostCalls ? .retriableAfterPause : failure
    }
}
