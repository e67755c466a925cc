public import LiveActivity
public import Reactor
public import Redis

/// Receives the replies of an ``ActivityStore``, and reports about its connections. The event loop calls these
/// functions; so does ``ActivityStore/close()``. An implementation may issue calls or close the store.
public protocol ActivityStoreHandler: RedisHandler {
    /// Reports the reply to a call. The bytes of the reply are valid only during this function.
    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>)
    /// Reports that a call failed. Redis may still have performed the call, for example if the connection was lost or
    /// too few replicas acknowledged. Every call except a refund of a start can be repeated safely.
    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError)
}

/// The client of what Redis stores about activities and devices. Each call runs one of three scripts, and is
/// atomic.
///
/// A lane has one store and uses it only on its own thread. A call and its reply allocate no memory. The calls
/// of an iteration are sent together at its end.
public final class ActivityStore {
    let redis: RedisClient
    private let keyBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: SubjectKey.bytesMax, alignment: 8)

    /// Makes a store without connections; ``connect()`` opens them.
    ///
    /// - Parameter handler: The store keeps a weak reference to it. A lane passes a `LaneStoreHandler`, not itself:
    ///   Swift retains an object with weak references more slowly, and each push retains the lane.
    public init(loop: EventLoop, configuration: RedisConfiguration, handler: any ActivityStoreHandler) {
        redis = RedisClient(loop: loop, configuration: configuration, handler: handler) { [weak handler] in
            StoreSession(configuration: $0, handler: handler)
        }
    }

    deinit {
        keyBuffer.deallocate()
    }

    /// Connects and stays connected until `close`. Call it once.
    public func connect() { redis.connect() }

    /// Ends all connections. Reports all outstanding calls as failed before it returns. May be called again.
    public func close() { redis.close() }

    /// Whether the store takes calls. In a cluster: whether at least one server takes calls for its keys.
    public var isReady: Bool { redis.isReady }

    /// The number of servers that hold keys but take no calls now; 1 while the servers of a cluster are unknown.
    public var unavailableServerCount: Int { redis.unavailableServerCount }

    /// Whether several servers share the keys. Then one server may be unavailable while the others take calls.
    public var hasSeveralServers: Bool { redis.hasSeveralServers }

    /// The number of calls, and of the connections' own commands, that have no reply yet.
    public var outstandingCallCount: Int { redis.outstandingCallCount }

    /// Writes a call to Redis, or collects it for a script call that is written at the end of the iteration at the
    /// latest.
    ///
    /// Some calls about activities share a script call:
    /// - consecutive updates, ends and settlements;
    /// - consecutive registrations and confirmations of departures
    ///   (``StoreCall/Operation/confirmDepartures(atMilliseconds:)``). But a registration whose token came with a
    ///   command has a script call of its own.
    ///
    /// The script performs each of these calls separately: if one fails, the others can succeed. But if the whole
    /// script call fails, for example because the connection is lost, all its calls fail. In a cluster each call has a
    /// script call of its own, because all keys of a script call must belong to one hash slot.
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
        // The cast is safe: the closure in `init` makes the sessions of all connections of this client.
        return unsafeDowncast(connection.session, to: StoreSession.self).issue(call, key: key, on: connection)
    }

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
    /// What the error means to the caller. After `MOVED`, `ASK` and `NOSCRIPT` the same call can succeed at once, so
    /// they count as `noReply`.
    public var storeFailure: StoreFailure {
        guard isRetriable else { return .refused }
        // Other calls may succeed. For example, if too few replicas acknowledge, calls that do not wait for replicas
        // still succeed.
        if mayConcernOnlySomeCalls || code == .replicasMissing { return .unexplained }
        switch code {
        case .stream, .deadline, .resolve, .closed, .protocolViolation, .moved, .ask, .noScript: return .noReply
        default: return .serverRefusesMostCalls
        }
    }
}
