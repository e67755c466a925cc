import Reactor

/// Whom a connection belongs to where there are several servers: says where its server is, and hears of what the handler of its calls
/// cannot see to.
protocol ConnectionOwner: AnyObject {
    /// The connection is about to be made: `located` or `lose` must follow, at once or later.
    func locate(for connection: RedisConnection)
    func becameReady(_ connection: RedisConnection)
    /// May close the connection.
    func wasLost(_ connection: RedisConnection)
    /// The server answered a command with an error, which the session is told next. Not of several calls that left as one command.
    func refused(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer)
}

/// A pipelined connection to one Redis server, for the scripts of a ``RedisSession``. It reconnects when it is lost.
///
/// A lane has one for each server that it calls, and all of it happens on the lane's thread. Commands go straight into the stream's
/// output buffer and leave at the end of the turn, all with one write; replies come in the order of the calls. A call or a reply allocates
/// nothing.
///
/// The connection does not repeat a call that had no reply when the connection was lost: the session is told of the failure.
public final class RedisConnection {
    enum State {
        /// Made. → `resolving` by `connect`, `closed`.
        case idle
        /// The server is asked for, if there are several, and its host's addresses are looked up, again for each attempt. → `connecting`, `pausing`, `closed`.
        case resolving
        /// The addresses are tried one after the other. → `handshaking`, `pausing`, `closed`.
        case connecting
        /// Logging in, looking at the server and loading the scripts. → `ready`, `pausing`, `closed`.
        case handshaking
        /// Calls are taken. → `pausing` when the connection is lost or given up, `closed`.
        case ready
        /// Waiting for the next attempt. → `resolving`, `closed`.
        case pausing
        /// Final.
        case closed
    }

    /// The most calls that one command carries: what one reply has room for.
    public static let callsPerCommandMax = 64
    /// Commands of the connection's own that can be outstanding beside the calls.
    static let ownCommandsMax = 16
    /// A server that answers late, but is answering now, is given this long to come to the oldest call.
    static let deadlineGraceMilliseconds: Int64 = 50

    let loop: EventLoop
    public let configuration: RedisConfiguration
    public let session: any RedisSession
    weak var handler: (any RedisHandler)?
    /// Nil if there is one server only.
    weak var owner: (any ConnectionOwner)?
    /// Where the server was at the last attempt.
    private(set) var location: RedisURL.Location

    var state = State.idle
    var stream: Stream?
    var reader: ReplyReader?
    var outstanding: CallQueue<OutstandingCall>
    var isTurnEndScheduled = false
    public let scripts: ScriptPrefixes
    /// Which script the next reply to SCRIPT LOAD is for.
    var nextLoadedScript = 0
    /// Whether the server takes a script's first line to say how it behaves (Redis 7).
    var serverTakesFlags = false
    /// The scripts were loaded a second time because the server had forgotten them.
    var hasReloaded = false
    /// Whose call comes next, as its cluster said when it gave the connection out.
    private var nextKeyFingerprint: UInt64 = 0

    var addresses: ArraySlice<SocketAddress> = []
    private var resolutions: UInt64 = 0
    private var pause = ReconnectPause()
    private var reconnectTimer = TimerIdentifier.none
    var deadlineTimer = TimerIdentifier.none
    var lastReceivedAtMilliseconds: Int64 = 0

    /// What asks replicas for their acknowledgement; empty if none is asked for.
    let replicaWait: [UInt8]
    var replicaWatch = ReplicaWatch()
    var withheld = WithheldReplies()
    /// What the WAIT that stands before all others was answered, from when it was seen until its reply is taken.
    var areReplicasEnough: Bool?

    /// A connection to the server of the configuration's URL.
    ///
    /// - Parameters:
    ///   - handler: held weakly.
    ///   - owner: held weakly; nil if there is one server only.
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

    /// Calls are taken.
    public var isReady: Bool { state == .ready }

    /// Calls that have no reply yet.
    public var outstandingCount: Int { outstanding.count }

    /// Connects, and stays connected until `close`. Once.
    public func connect() {
        precondition(state == .idle, "a connection is connected once")
        resolve()
    }

    /// Ends the connection; outstanding calls fail, from inside this call. Idempotent.
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

    /// Goes on to make the connection, now that it is known where the server is.
    func located(_ location: RedisURL.Location) {
        guard state == .resolving else { return }
        self.location = location
        switch location {
        case .unix(let path):
            // The URL was checked for this.
            guard let address = SocketAddress.unix(path: path) else { return lose(RedisError(.resolve)) }
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
                    lose(RedisError(.resolve, "Redis host: \(error.reason)"))
                }
            }
        }
    }

    func connectToNextAddress() {
        guard let address = addresses.popFirst() else { return lose(RedisError(.resolve)) }
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

    /// Gives the connection up, and reconnects after a pause.
    public func lose(_ error: RedisError) {
        guard state != .closed else { return }
        release()
        state = .pausing
        reconnectTimer = loop.schedule(
            afterMilliseconds: pause.next(),
            handler: self,
            tag: ConnectionTimer.reconnect.rawValue
        )
        // Where there are several servers, the log should say which.
        let told = owner == nil ? error : RedisError(error.code, "\(location): \(error.reason)")
        owner?.wasLost(self)
        guard state != .closed else { return }
        handler?.redisLost(told)
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

    /// There is room for one more call with ASKING before it.
    var hasRoomForAskedCall: Bool {
        guard let stream else { return false }
        return outstanding.count + 1 < configuration.outstandingCallsMax
            && stream.pendingOutputBytes + Self.asking.utf8CodeUnitCount < Stream.highWaterBytes
    }

    /// The next call is for this key.
    func prepareCall(keyFingerprint: UInt64) {
        nextKeyFingerprint = keyFingerprint
    }

    /// The next call is to be taken although its slot is still on its way to this server. Only if there is room for it: the server takes
    /// whatever command comes next by this.
    func prepareAskedCall(keyFingerprint: UInt64) {
        precondition(state == .ready && hasRoomForAskedCall && configuration.callsPerCommandMax == 1)
        stream?.write(UnsafeRawBufferPointer(Self.asking.bytes))
        append(.asking, batchCount: 1)
        nextKeyFingerprint = keyFingerprint
    }

    // MARK: - The session's calls

    /// Why no call can be issued now; nil if one can.
    public var obstacle: CallIssue? {
        guard state == .ready, let stream else { return .notReady }
        guard outstanding.count < configuration.outstandingCallsMax,
            stream.pendingOutputBytes < Stream.highWaterBytes
        else { return .full }
        return nil
    }

    /// Counts one call as outstanding, and has the turn's end call ``RedisSession/flush(on:)``. Only without an ``obstacle``.
    ///
    /// - Parameters:
    ///   - isWritten: whether the call has left as a command of its own; else it is collected for ``write(calls:bytesMax:_:)``.
    ///   - asksForReplicas: the reply is given when ``RedisConfiguration/replicas`` have what the call wrote; if too few have, the call
    ///     fails with ``RedisError/Code/replicasMissing``, and so do all that leave with it. Only while ``takesAcknowledgedCalls``.
    public func appendCall(isWritten: Bool, asksForReplicas: Bool = false) {
        scheduleTurnEnd()
        append(.call, batchCount: isWritten ? 1 : 0, awaitsReplicas: noteCall(asksForReplicas: asksForReplicas))
    }

    /// Writes one command.
    ///
    /// - Parameters:
    ///   - calls: how many of the newest calls, all collected before, leave with it; 0 for a call that is appended next.
    ///   - body: fills the reserved room and returns how much it has written.
    public func write(calls: Int, bytesMax: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
        guard let stream else { return }
        stream.commit(body(stream.reserve(bytesMax)))
        guard calls > 0 else { return }
        let first = outstanding.count - calls
        outstanding[first].batchCount = UInt8(calls)
        // One reply answers all of them.
        guard !replicaWait.isEmpty else { return }
        outstanding[first].awaitsReplicas = (first..<outstanding.count).contains { outstanding[$0].awaitsReplicas }
    }

    /// Ends the oldest call. False if the connection that the reply came from was lost meanwhile: then all calls have failed already.
    public func completeOldestCall(from reader: ReplyReader) -> Bool {
        reader === self.reader && outstanding.removeOldest() != nil
    }

    /// A call was answered: the server works.
    public func noteSuccess() {
        pause.reset()
    }

    // MARK: - The turn's end

    /// Before the stream's own, if it is asked for in time: then all that the turn has written leaves with one write.
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
            // It was this process that stood still: the replies are being read in this very turn.
            scheduleDeadline(Self.deadlineGraceMilliseconds)
        } else {
            lose(RedisError(.deadline))
        }
    }

}
