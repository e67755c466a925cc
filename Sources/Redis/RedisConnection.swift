import Reactor

/// Owns the connections of a topology with several servers. Tells each connection the location of its server,
/// and handles losses and errors that concern the topology.
protocol ConnectionOwner: AnyObject {
    /// The connection is about to connect. The owner must call `located(_:)` or `disconnect(_:)`, now or
    /// later.
    func locate(for connection: RedisConnection)
    func becameReady(_ connection: RedisConnection)
    /// The connection was lost. The owner may close it here.
    func wasLost(_ connection: RedisConnection)
    /// The server answered a command with an error. The session gets the error next. Not called if the
    /// command had several calls.
    func refused(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer)
}

/// A pipelined connection to one Redis server, for the scripts of a ``RedisSession``. Reconnects
/// automatically.
///
/// A lane has one connection per server, and uses it only on the lane's thread. Commands go directly into the
/// stream's output buffer and leave with one write at the end of the turn. Replies come in the order of the
/// calls. Neither a call nor a reply allocates memory.
///
/// The connection never repeats a call. If it is lost, all calls without a reply fail, and the caller may
/// repeat them, because the scripts can be repeated safely.
public final class RedisConnection {
    enum State {
        /// Not connected yet. → `resolving` by `connect`, `closed`.
        case idle
        /// The owner is asked for the server, and the host's addresses are looked up. Both happen for each
        /// attempt. → `connecting`, `pausing`, `closed`.
        case resolving
        /// The addresses are tried one after the other. → `handshaking`, `pausing`, `closed`.
        case connecting
        /// The connection logs in, checks the server and loads the scripts. → `ready`, `pausing`, `closed`.
        case handshaking
        /// Calls may be issued. → `pausing` when the connection is lost or misses its deadline, `closed`.
        case ready
        /// Waiting for the next attempt. → `resolving`, `closed`.
        case pausing
        /// The final state.
        case closed
    }

    /// The maximum number of calls in one command, because the room for one reply is limited.
    public static let callsPerCommandMax = 64
    /// The maximum number of the connection's own outstanding commands, in addition to the calls.
    static let ownCommandsMax = 16
    /// The extra time for the oldest call if its reply is late but the server has just sent data.
    static let deadlineGraceMilliseconds: Int64 = 50

    let loop: EventLoop
    public let configuration: RedisConfiguration
    public let session: any RedisSession
    weak var handler: (any RedisHandler)?
    /// Nil if there is only one server.
    weak var owner: (any ConnectionOwner)?
    /// The server's address at the last attempt.
    private(set) var location: RedisURL.Location

    var state = State.idle
    var stream: Stream?
    var reader: ReplyReader?
    var outstanding: CallQueue<OutstandingCall>
    var isTurnEndScheduled = false
    public let scripts: ScriptPrefixes
    /// The script that the next reply to SCRIPT LOAD is for.
    var nextLoadedScript = 0
    /// Whether the server supports a first line with flags in a script (Redis 7).
    var serverTakesFlags = false
    /// Whether the scripts were loaded a second time because the server had lost them.
    var hasReloaded = false
    /// The fingerprint of the next call's key, which the cluster sets when it returns this connection for the
    /// call.
    private var nextKeyFingerprint: UInt64 = 0

    var addresses: ArraySlice<SocketAddress> = []
    private var resolutions: UInt64 = 0
    private var pause = ReconnectPause()
    private var reconnectTimer = TimerIdentifier.none
    var deadlineTimer = TimerIdentifier.none
    var lastReceivedAtMilliseconds: Int64 = 0

    /// The WAIT command for replicas; empty if no acknowledgement is requested.
    let replicaWait: [UInt8]
    var replicaWatch = ReplicaWatch()
    var withheld = WithheldReplies()
    /// Whether the reply to the next WAIT reports enough replicas. Nil except between finding this reply and
    /// handling it.
    var areReplicasEnough: Bool?

    /// Creates a connection to the server in the configuration's URL.
    ///
    /// - Parameters:
    ///   - handler: held weakly.
    ///   - owner: held weakly; nil if there is only one server.
    init(
        loop: EventLoop,
        configuration: RedisConfiguration,
        session: any RedisSession,
        handler: (any RedisHandler)?,
        owner: (any ConnectionOwner)? = nil
    ) {
        precondition(!configuration.url.usesTLS || configuration.tls != nil, "a rediss URL needs a TLS context")
        precondition(configuration.outstandingCallsMax > 0)
        precondition((1...Self.callsPerCommandMax).contains(configuration.callsPerCommandMax))
        self.loop = loop
        self.configuration = configuration
        self.session = session
        self.handler = handler
        self.owner = owner
        location = configuration.url.location
        outstanding = CallQueue(capacity: configuration.outstandingCallsMax + Self.ownCommandsMax)
        scripts = ScriptPrefixes(count: session.scripts.count)
        replicaWait = Self.replicaWait(configuration)
    }

    deinit {
        stream?.close()
    }

    /// Whether calls may be issued.
    public var isReady: Bool { state == .ready }

    /// Calls that have no reply yet.
    public var outstandingCount: Int { outstanding.count }

    /// Connects, and stays connected until `close`. Call it once.
    public func connect() {
        precondition(state == .idle, "a connection is connected once")
        resolve()
    }

    /// Ends the connection. Outstanding calls fail inside this call. Idempotent.
    public func close() {
        guard state != .closed else { return }
        release()
        state = .closed
        loop.cancel(reconnectTimer)
        failOutstanding(RedisError(.closed))
    }

    // MARK: - Connecting

    func resolve() {
        state = .resolving
        if let owner { owner.locate(for: self) } else { located(location) }
    }

    /// Continues connecting, now that the server's location is known.
    func located(_ location: RedisURL.Location) {
        guard state == .resolving else { return }
        self.location = location
        switch location {
        case .unix(let path):
            // `RedisURL` has checked that the path is usable.
            guard let address = SocketAddress.unix(path: path) else { return disconnect(RedisError(.resolve)) }
            addresses = [address]
            connectToNextAddress()
        case .host(let host, let port):
            resolutions += 1
            let resolution = resolutions
            loop.resolve(host: host, port: port) { [weak self] result in
                guard let self, state == .resolving, resolution == resolutions else { return }
                switch result {
                case .success(let found):
                    addresses = found[...]
                    connectToNextAddress()
                case .failure(let error):
                    disconnect(RedisError(.resolve, "Redis host: \(error.reason)"))
                }
            }
        }
    }

    func connectToNextAddress() {
        guard let address = addresses.popFirst() else { return disconnect(RedisError(.resolve)) }
        state = .connecting
        let stream = Stream(loop: loop, handler: self)
        self.stream = stream
        var serverName: String?
        if case .host(let host, _) = location { serverName = host }
        stream.connect(
            to: address,
            tls: configuration.url.usesTLS ? configuration.tls : nil,
            serverName: serverName,
            timeoutMilliseconds: configuration.connectTimeoutMilliseconds
        )
    }

    /// Ends the connection because of an error, and reconnects after a pause.
    public func disconnect(_ error: RedisError) {
        guard state != .closed else { return }
        release()
        state = .pausing
        reconnectTimer = loop.schedule(
            afterMilliseconds: pause.next(),
            handler: self,
            tag: ConnectionTimer.reconnect.rawValue
        )
        // If there are several servers, name the server in the log.
        let locatedError = owner == nil ? error : RedisError(error.code, "\(location): \(error.reason)")
        owner?.wasLost(self)
        guard state != .closed else { return }
        handler?.redisLost(locatedError)
        failOutstanding(error)
    }

    private func release() {
        stream?.close()
        stream = nil
        reader = nil
        session.discardCollected()
        replicaWatch.noteLost()
        (withheld, areReplicasEnough) = (WithheldReplies(), nil)
        loop.cancel(deadlineTimer)
        deadlineTimer = .none
    }

    private func failOutstanding(_ error: RedisError) {
        while let call = outstanding.removeOldest() {
            if call.kind == .call { session.failed(error) }
        }
    }

    func becomeReady() {
        state = .ready
        owner?.becameReady(self)
        handler?.redisReady()
    }

    // MARK: - Calls in a cluster

    private static let asking: StaticString = "*1\r\n$6\r\nASKING\r\n"

    /// Whether there is room for one more call with ASKING in front.
    var hasRoomForAskedCall: Bool {
        guard let stream else { return false }
        return outstanding.count + 1 < configuration.outstandingCallsMax
            && stream.pendingOutputBytes + Self.asking.utf8CodeUnitCount < Stream.highWaterBytes
    }

    /// Sets the key of the next call.
    func prepareCall(keyFingerprint: UInt64) {
        nextKeyFingerprint = keyFingerprint
    }

    /// Sends ASKING, so that the server accepts the next call although the key's slot is still moving to it.
    /// Requires room for that call, because ASKING applies to the next command, whichever it is.
    func prepareAskedCall(keyFingerprint: UInt64) {
        precondition(state == .ready && hasRoomForAskedCall && configuration.callsPerCommandMax == 1)
        stream?.write(UnsafeRawBufferPointer(Self.asking.bytes))
        append(.asking, batchCount: 1)
        nextKeyFingerprint = keyFingerprint
    }

    // MARK: - The session's calls

    /// Why no call can be issued now; nil if one can be.
    public var obstacle: CallIssue? {
        guard state == .ready, let stream else { return .notReady }
        guard outstanding.count < configuration.outstandingCallsMax,
            stream.pendingOutputBytes < Stream.highWaterBytes
        else { return .full }
        return nil
    }

    /// Adds one outstanding call, and schedules ``RedisSession/flush(on:)`` for the end of the turn. Requires
    /// that there is no ``obstacle``.
    ///
    /// - Parameters:
    ///   - isWritten: whether the call has been written as its own command. Otherwise the call waits for
    ///     ``write(calls:bytesMax:_:)``.
    ///   - asksForReplicas: whether ``RedisConfiguration/replicas`` must have the call's writes before its
    ///     reply is given. If too few have them, all calls of the same command fail with
    ///     ``RedisError/Code/replicasMissing``. Requires ``takesAcknowledgedCalls``.
    public func appendCall(isWritten: Bool, asksForReplicas: Bool = false) {
        scheduleTurnEnd()
        append(.call, batchCount: isWritten ? 1 : 0, awaitsReplicas: noteCall(asksForReplicas: asksForReplicas))
    }

    /// Writes one command.
    ///
    /// - Parameters:
    ///   - calls: the number of collected calls in the command, which are the newest calls; 0 if the
    ///     command's only call is appended next.
    ///   - body: writes into the reserved room and returns the number of bytes written.
    public func write(calls: Int, bytesMax: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
        guard let stream else { return }
        stream.commit(body(stream.reserve(bytesMax)))
        guard calls > 0 else { return }
        let first = outstanding.count - calls
        outstanding[first].batchCount = UInt8(calls)
        // The calls share one reply, so if one call waits for replicas, all calls wait.
        guard !replicaWait.isEmpty else { return }
        outstanding[first].awaitsReplicas = (first..<outstanding.count).contains { outstanding[$0].awaitsReplicas }
    }

    /// Removes the oldest call. False if the reply's connection was lost meanwhile; then all calls have
    /// already failed.
    public func completeOldestCall(from reader: ReplyReader) -> Bool {
        reader === self.reader && outstanding.removeOldest() != nil
    }

    /// Resets the reconnect pause, because the server has answered a call.
    public func noteSuccess() {
        pause.reset()
    }

    // MARK: - The turn's end

    /// Schedules the session's flush. If it runs before the stream's own turn end, all output of the turn
    /// leaves with one write.
    func scheduleTurnEnd() {
        guard !isTurnEndScheduled else { return }
        isTurnEndScheduled = true
        loop.atTurnEnd(self)
    }

    // MARK: - The deadline

    func append(_ kind: CommandKind, batchCount: UInt8, awaitsReplicas: Bool = false) {
        outstanding.append(
            OutstandingCall(
                keyFingerprint: nextKeyFingerprint,
                issuedAtMicroseconds: loop.nowMicroseconds,
                kind: kind,
                batchCount: batchCount,
                followsReload: hasReloaded,
                awaitsReplicas: awaitsReplicas
            )
        )
        if deadlineTimer == .none { scheduleDeadline(configuration.responseDeadlineMilliseconds) }
    }

    private func scheduleDeadline(_ milliseconds: Int64) {
        deadlineTimer = loop.schedule(
            afterMilliseconds: milliseconds,
            handler: self,
            tag: ConnectionTimer.deadline.rawValue
        )
    }

    func checkDeadline() {
        deadlineTimer = .none
        guard let oldest = outstanding.oldest else { return }
        let limit = configuration.responseDeadlineMilliseconds
        let age = loop.nowMilliseconds - oldest.issuedAtMicroseconds / 1_000
        if age < limit {
            scheduleDeadline(limit - age)
        } else if lastReceivedAtMilliseconds == loop.nowMilliseconds && age < 2 * limit {
            // This process was slow, not the server: replies are being read in this turn.
            scheduleDeadline(Self.deadlineGraceMilliseconds)
        } else {
            disconnect(RedisError(.deadline))
        }
    }

}
