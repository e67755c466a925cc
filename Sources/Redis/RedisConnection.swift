import Reactor

/// Tells a connection where its server is. With Sentinels, the delegate is the ``SentinelLocator``; in a cluster, it is
/// the ``Cluster``, which also acts on lost connections and on errors that show that keys may be on other servers.
protocol ConnectionDelegate: AnyObject {
    /// The connection begins an attempt to connect. The delegate must call the connection's `continueConnecting(to:)`
    /// or `disconnect(_:)`, now or later.
    func connectionNeedsLocation(_ connection: RedisConnection)
    func connectionBecameReady(_ connection: RedisConnection)
    /// The connection was lost, or an attempt to connect failed. The delegate may close the connection in this call.
    func connectionWasLost(_ connection: RedisConnection)
    /// The server replied to a command with an error. Not called if the command has several calls. If the command is a
    /// call of the session, the session gets the error after this method returns.
    func serverReturnedError(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer)
}

/// A pipelined connection to one Redis server, for the calls of a ``RedisSession``. It reconnects automatically. One
/// thread uses it.
///
/// The session writes commands directly into the output buffer, which is sent at the end of the iteration. Replies come
/// in the order of the calls. If the connection is lost, all calls without a reply fail. The connection never repeats a
/// call, but its caller may (R15). A call and its reply allocate no memory.
public final class RedisConnection {
    enum Phase {
        /// `connect` has not been called. Next: `resolving` or `closed`.
        case idle
        /// The connection finds the server: it asks the delegate, if there is one, and then looks up the addresses of a
        /// host name. Each attempt to connect begins here. Next: `connecting`, `pausing` or `closed`.
        case resolving
        /// The connection tries the addresses one after the other. Next: `handshaking`, `pausing` or `closed`.
        case connecting
        /// The connection logs in, checks the server and loads the scripts. Next: `ready`, `pausing` or `closed`.
        case handshaking
        /// Calls may be issued. Next: `pausing` or `closed`.
        case ready
        /// Waits for the next attempt to connect. Next: `resolving` or `closed`.
        case pausing
        /// `close` was called. No phase follows.
        case closed
    }

    /// The maximum number of calls in one command. The reply to more calls could exceed the buffer of 16 KiB in which
    /// Redis collects a reply (Measurements.md).
    public static let callsPerCommandMax = 64
    /// The maximum number of the connection's own commands that may wait for replies, in addition to the calls. A
    /// handshake sends fewer.
    static let ownCommandsMax = 16
    /// How much longer the oldest call may wait at its deadline if data has just arrived, because its reply may come
    /// next. Repeated until the call has waited for twice the reply deadline.
    static let deadlineGraceMilliseconds: Int64 = 50

    let loop: EventLoop
    public let configuration: RedisConfiguration
    public let session: any RedisSession
    weak var handler: (any RedisHandler)?
    /// Says where the server is. Nil if the configuration names a single server.
    weak var delegate: (any ConnectionDelegate)?
    /// Where the server was at the last attempt to connect. Before the first attempt, the configuration's first
    /// location.
    private(set) var location: RedisURL.Location

    var phase = Phase.idle
    var stream: Stream?
    var reader: ReplyReader?
    var outstandingCalls: CallQueue<OutstandingCall>
    var isIterationEndScheduled = false
    public let scriptCallPrefixes: ScriptCallPrefixes
    /// How many of the session's scripts the server has loaded so far. The next reply to SCRIPT LOAD is about the
    /// script with this index.
    var loadedScriptCount = 0
    /// Whether the server is known to accept the line `#!lua` at the beginning of a script (Redis 7 and later).
    var serverSupportsScriptFlags = false
    /// Whether this connection has sent the scripts a second time, because the server had lost them.
    var hasReloadedScripts = false
    /// The ``KeyHashSlot/fingerprint`` of the next call's key; 0 without a cluster. The cluster sets it when it returns
    /// this connection for the call.
    private var nextKeyFingerprint: UInt64 = 0

    /// The server's addresses that the present attempt to connect has not tried yet.
    var untriedAddresses: ArraySlice<SocketAddress> = []
    /// Counts the look-ups of the host's addresses. Only the result of the last one is used.
    private var lastResolutionNumber: UInt64 = 0
    private var reconnectPause = RetryPause()
    private var reconnectTimer = TimerIdentifier.none
    var deadlineTimer = TimerIdentifier.none
    var lastReceivedAtMilliseconds: Int64 = 0

    /// The WAIT command; empty if the configuration asks for no replicas.
    let waitCommand: [UInt8]
    var replicaWatch = ReplicaWatch()
    var waitReplySearch = WaitReplySearch()
    /// Whether enough replicas have acknowledged, by the reply to WAIT. This reply is looked at before the replies in
    /// front of it are read. Nil until it has arrived, and again after the connection has handled it.
    var hasEnoughReplicas: Bool?

    /// Makes a connection; ``connect()`` opens it.
    ///
    /// - Parameters:
    ///   - handler: held weakly.
    ///   - delegate: held weakly; nil if the server is at the first location of the configuration's URL.
    init(
        loop: EventLoop,
        configuration: RedisConfiguration,
        session: any RedisSession,
        handler: (any RedisHandler)?,
        delegate: (any ConnectionDelegate)? = nil
    ) {
        precondition(!configuration.url.usesTLS || configuration.tls != nil, "a rediss URL needs a TLS context")
        precondition(configuration.outstandingCallsMax > 0)
        precondition((1...Self.callsPerCommandMax).contains(configuration.callsPerCommandMax))
        self.loop = loop
        self.configuration = configuration
        self.session = session
        self.handler = handler
        self.delegate = delegate
        location = configuration.url.firstLocation
        outstandingCalls = CallQueue(capacity: configuration.outstandingCallsMax + Self.ownCommandsMax)
        scriptCallPrefixes = ScriptCallPrefixes(scriptCount: session.scripts.count)
        waitCommand = Self.waitCommand(configuration)
    }

    deinit {
        stream?.close()
    }

    /// Whether calls may be issued.
    public var isReady: Bool { phase == .ready }

    /// The number of calls, and of the connection's own commands, that have no reply yet.
    public var outstandingCallCount: Int { outstandingCalls.count }

    /// Connects, and connects again after each loss, until `close`. Call this method once.
    public func connect() {
        precondition(phase == .idle, "a connection is connected once")
        beginConnectionAttempt()
    }

    /// Ends the connection. Calls without a reply fail inside this method. A second call does nothing.
    public func close() {
        guard phase != .closed else { return }
        closeStream()
        phase = .closed
        loop.cancel(reconnectTimer)
        failOutstandingCalls(RedisError(.closed))
    }

    // MARK: - Connecting and handshake

    /// Begins an attempt to connect: finds out where the server is.
    func beginConnectionAttempt() {
        phase = .resolving
        if let delegate { delegate.connectionNeedsLocation(self) } else { continueConnecting(to: location) }
    }

    /// Continues the attempt to connect, now that the server's location is known. Does nothing if the connection is no
    /// longer in the phase `resolving`.
    func continueConnecting(to location: RedisURL.Location) {
        guard phase == .resolving else { return }
        self.location = location
        switch location {
        case .unix(let path):
            // `RedisURL` has checked the path, so this never fails.
            guard let address = SocketAddress.unix(path: path) else { return disconnect(RedisError(.resolve)) }
            untriedAddresses = [address]
            connectToNextAddress()
        case .host(let host, let port):
            lastResolutionNumber += 1
            let resolutionNumber = lastResolutionNumber
            loop.resolve(host: host, port: port) { [weak self] result in
                guard let self, phase == .resolving, resolutionNumber == lastResolutionNumber else { return }
                switch result {
                case .success(let foundAddresses):
                    untriedAddresses = foundAddresses[...]
                    connectToNextAddress()
                case .failure(let error):
                    disconnect(RedisError(.resolve, "Redis host: \(error.reason)"))
                }
            }
        }
    }

    /// Tries the next of the server's addresses. If none is left, the attempt to connect has failed.
    func connectToNextAddress() {
        guard let address = untriedAddresses.popFirst() else { return disconnect(RedisError(.resolve)) }
        phase = .connecting
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

    /// Ends the connection because of an error, fails all calls without a reply, and schedules the next attempt to
    /// connect. Does nothing after `close`.
    public func disconnect(_ error: RedisError) {
        guard phase != .closed else { return }
        closeStream()
        phase = .pausing
        reconnectTimer = loop.schedule(
            afterMilliseconds: reconnectPause.nextPauseMilliseconds(),
            handler: self,
            tag: ConnectionTimer.reconnect.rawValue
        )
        // The delegate may have chosen one of several servers, so the reported error names this connection's server.
        let locatedError = delegate == nil ? error : RedisError(error.code, "\(location): \(error.reason)")
        delegate?.connectionWasLost(self)
        guard phase != .closed else { return }
        handler?.redisDisconnected(locatedError)
        failOutstandingCalls(error)
    }

    private func closeStream() {
        stream?.close()
        stream = nil
        reader = nil
        session.discardCollectedCalls()
        replicaWatch.handleLostConnection()
        (waitReplySearch, hasEnoughReplicas) = (WaitReplySearch(), nil)
        loop.cancel(deadlineTimer)
        deadlineTimer = .none
    }

    private func failOutstandingCalls(_ error: RedisError) {
        while let call = outstandingCalls.removeOldest() {
            if call.kind == .sessionCall { session.handleFailureOfOldestCall(error) }
        }
    }

    func becomeReady() {
        phase = .ready
        delegate?.connectionBecameReady(self)
        handler?.redisReady()
    }

    // MARK: - Calls in a cluster

    private static let askingCommand: StaticString = "*1\r\n$6\r\nASKING\r\n"

    /// Whether the connection has room for the command ASKING and one more call (``sendAsking(keyFingerprint:)``).
    var hasRoomForAskingAndCall: Bool {
        guard let stream else { return false }
        return outstandingCalls.count + 1 < configuration.outstandingCallsMax
            && stream.pendingOutputBytes + Self.askingCommand.utf8CodeUnitCount < Stream.highWaterBytes
    }

    func setNextKeyFingerprint(_ keyFingerprint: UInt64) {
        nextKeyFingerprint = keyFingerprint
    }

    /// Sends ASKING, so that the server accepts the next command although the key's hash slot is still moving to this
    /// server. The caller must issue the call at once, so that ASKING applies to it.
    func sendAsking(keyFingerprint: UInt64) {
        precondition(phase == .ready && hasRoomForAskingAndCall && configuration.callsPerCommandMax == 1)
        stream?.write(UnsafeRawBufferPointer(Self.askingCommand.bytes))
        appendOutstandingCall(.asking, commandCallCount: 1)
        nextKeyFingerprint = keyFingerprint
    }

    // MARK: - The session's calls

    /// Why no call can be issued now; nil if one can be.
    public var obstacleToIssue: IssueResult? {
        guard phase == .ready, let stream else { return .notReady }
        guard outstandingCalls.count < configuration.outstandingCallsMax,
            stream.pendingOutputBytes < Stream.highWaterBytes
        else { return .full }
        return nil
    }

    /// Adds one call to those that wait for a reply. Call this only if ``obstacleToIssue`` is nil.
    ///
    /// - Parameters:
    ///   - isWritten: whether the session has already written the call, as a command of its own. If false, the session
    ///     writes it later (``write(callCount:bytesMax:_:)``), at the latest in ``RedisSession/flush(on:)``.
    ///   - needsReplicas: whether the session gets the reply only after ``RedisConfiguration/requiredReplicaCount``
    ///     replicas have acknowledged. If too few do, all calls of the command fail with
    ///     ``RedisError/Code/replicasMissing``. True is only allowed if ``acceptsCallsThatNeedReplicas`` is true.
    public func appendCall(isWritten: Bool, needsReplicas: Bool = false) {
        scheduleIterationEnd()
        appendOutstandingCall(
            .sessionCall,
            commandCallCount: isWritten ? 1 : 0,
            awaitsReplicas: noteIssuedCall(needsReplicas: needsReplicas) == .afterWaitCommand
        )
    }

    func appendOutstandingCall(_ kind: OutstandingCallKind, commandCallCount: UInt8, awaitsReplicas: Bool = false) {
        outstandingCalls.append(
            OutstandingCall(
                keyFingerprint: nextKeyFingerprint,
                issuedAtMicroseconds: loop.nowMicroseconds,
                kind: kind,
                commandCallCount: commandCallCount,
                followsScriptReload: hasReloadedScripts,
                awaitsReplicas: awaitsReplicas
            )
        )
        if deadlineTimer == .none { scheduleDeadline(configuration.replyDeadlineMilliseconds) }
    }

    /// Writes one command.
    ///
    /// - Parameters:
    ///   - callCount: how many calls the command has; the session has already added them
    ///     (``appendCall(isWritten:needsReplicas:)``). 0 for a single call that the session adds afterwards.
    ///   - body: writes into the reserved room, and returns the number of bytes written.
    public func write(callCount: Int, bytesMax: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
        guard let stream else { return }
        stream.commit(body(stream.reserve(bytesMax)))
        guard callCount > 0 else { return }
        let firstIndex = outstandingCalls.count - callCount
        outstandingCalls[firstIndex].commandCallCount = UInt8(callCount)
        // The calls share one reply. If one of them waits for replicas, all of them must wait.
        guard !waitCommand.isEmpty else { return }
        outstandingCalls[firstIndex].awaitsReplicas = (firstIndex..<outstandingCalls.count)
            .contains { outstandingCalls[$0].awaitsReplicas }
    }

    /// Removes the oldest call, because its result or an error has arrived.
    ///
    /// - Returns: false if the connection has been lost or closed since the reply arrived. Then all calls have already
    ///   failed.
    public func completeOldestCall(from reader: ReplyReader) -> Bool {
        reader === self.reader && outstandingCalls.removeOldest() != nil
    }

    /// Resets the pause before reconnecting, because a call has got its reply.
    public func resetReconnectPause() {
        reconnectPause.reset()
    }

    // MARK: - The iteration's end

    /// Makes the loop call ``iterationEnded()`` at the end of the iteration. If this method is called before the
    /// iteration's first output, ``iterationEnded()`` runs before the stream sends, and one write to the socket sends
    /// everything.
    func scheduleIterationEnd() {
        guard !isIterationEndScheduled else { return }
        isIterationEndScheduled = true
        loop.callAtIterationEnd(self)
    }

    // MARK: - The deadline

    private func scheduleDeadline(_ milliseconds: Int64) {
        deadlineTimer = loop.schedule(
            afterMilliseconds: milliseconds,
            handler: self,
            tag: ConnectionTimer.deadline.rawValue
        )
    }

    /// Ends the connection if the oldest call has waited too long (`disconnect(_:)`). Otherwise sets the deadline timer
    /// again, if a call waits. The timer calls this method.
    func enforceReplyDeadline() {
        deadlineTimer = .none
        guard let oldest = outstandingCalls.oldest else { return }
        let deadlineMilliseconds = configuration.replyDeadlineMilliseconds
        let ageMilliseconds = loop.nowMilliseconds - oldest.issuedAtMicroseconds / 1_000
        if ageMilliseconds < deadlineMilliseconds {
            scheduleDeadline(deadlineMilliseconds - ageMilliseconds)
        } else if lastReceivedAtMilliseconds == loop.nowMilliseconds && ageMilliseconds < 2 * deadlineMilliseconds {
            // Data has arrived in this iteration, so perhaps this process was slow, not the server. Let the call wait
            // longer.
            scheduleDeadline(Self.deadlineGraceMilliseconds)
        } else {
            disconnect(RedisError(.deadline))
        }
    }
}
