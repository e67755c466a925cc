import Reactor

/// Whom a connection belongs to where there are several servers: says where its server is, and hears of what the handler of its calls
/// cannot see to.
protocol ConnectionOwner: AnyObject {
    /// The connection is about to be made: `located` or `lose` must follow, at once or later.
    func locate(for connection: RedisConnection)
    func becameReady(_ connection: RedisConnection)
    /// May close the connection.
    func wasLost(_ connection: RedisConnection)
    /// The server answered a call with an error, which the handler is told next. Not of calls that left as one command.
    func refused(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer)
}

/// A pipelined connection to one Redis server, for the scripts `admit` and `settle`. It makes itself anew when it is lost.
///
/// A lane has one for each server that it calls, and all of it happens on the lane's thread. Calls go straight into the stream's output
/// buffer, updates, ends and settlements of activities into a batch before that, and leave at the end of the turn, all with one write;
/// replies come in the order of the calls. A call or a reply allocates nothing.
///
/// A call that has not been answered when the connection is lost is not issued again by the connection: that is for
/// whoever issued it, who knows whether it still matters.
public final class RedisConnection {
    enum State {
        /// Made. → `resolving` by `connect`, `closed`.
        case idle
        /// The server is asked for, if there are several, and its host's addresses are looked up, afresh for each attempt. → `connecting`, `pausing`, `closed`.
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

    /// Commands of the connection's own that can be outstanding beside the calls.
    static let ownCommandsMax = 16
    /// A server that answers late, but is answering now, is given this long to come to the oldest call.
    static let deadlineGraceMilliseconds: Int64 = 50

    let loop: EventLoop
    let configuration: RedisConfiguration
    weak var handler: (any RedisHandler)?
    /// Nil if there is one server only.
    private weak var owner: (any ConnectionOwner)?
    /// Where the server was at the last attempt.
    private(set) var location: RedisURL.Location

    var state = State.idle
    var stream: Stream?
    var reader: ReplyReader?
    var outstanding: OutstandingCalls
    /// Updates, ends and settlements that have not been written yet; they count among the outstanding calls, as the newest of them.
    var batch: AdmissionBatch
    private var isTurnEndScheduled = false
    let scripts: ScriptPrefixes
    /// The memory that a reply's token is unpacked into.
    let tokenMemory = UnsafeMutableRawBufferPointer.allocate(byteCount: TokenText.bytesMax * 2, alignment: 1)
    /// Whether the server takes a script's first line to say how it behaves (Redis 7).
    var serverTakesFlags = false
    /// The scripts were loaded a second time because the server had forgotten them.
    var hasReloaded = false
    /// Whose call comes next, as its cluster said when it gave the connection out.
    private var nextKeyFingerprint: UInt64 = 0

    private var addresses: ArraySlice<SocketAddress> = []
    private var resolutions: UInt64 = 0
    private var pause = ReconnectPause()
    private var reconnectTimer = TimerIdentifier.none
    private var deadlineTimer = TimerIdentifier.none
    private var lastReceivedAtMilliseconds: Int64 = 0

    /// A connection to the one server of the configuration's URL.
    ///
    /// - Parameter handler: held weakly.
    public convenience init(loop: EventLoop, configuration: RedisConfiguration, handler: any RedisHandler) {
        self.init(loop: loop, configuration: configuration, handler: handler, owner: nil)
    }

    /// - Parameter owner: held weakly.
    init(
        loop: EventLoop,
        configuration: RedisConfiguration,
        handler: (any RedisHandler)?,
        owner: (any ConnectionOwner)?
    ) {
        precondition(!configuration.url.usesTLS || configuration.tls != nil, "a rediss URL needs a TLS context")
        precondition(configuration.outstandingCallsMax > 0)
        precondition((1...Self.admissionsPerCommandMax).contains(configuration.admissionsPerCommandMax))
        self.loop = loop
        self.configuration = configuration
        self.handler = handler
        self.owner = owner
        location = configuration.url.location
        outstanding = OutstandingCalls(capacity: configuration.outstandingCallsMax + Self.ownCommandsMax)
        batch = AdmissionBatch(capacity: configuration.admissionsPerCommandMax)
        scripts = ScriptPrefixes()
    }

    deinit {
        stream?.close()
        tokenMemory.deallocate()
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

    private func resolve() {
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

    private func connectToNextAddress() {
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

    /// Gives the connection up, and sets out to make another.
    func lose(_ error: RedisError) {
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
        batch.removeAll()
        loop.cancel(deadlineTimer)
        deadlineTimer = .none
    }

    private func failOutstanding(_ error: RedisError) {
        let handler = handler
        while let call = outstanding.removeOldest() {
            guard let script = call.kind.script else { continue }
            handler?.failed(tag: call.tag, script: script, error: error)
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
        precondition(state == .ready && hasRoomForAskedCall && batch.count == 0)
        stream?.write(UnsafeRawBufferPointer(Self.asking.bytes))
        append(.asking, tag: 0, batchCount: 1)
        nextKeyFingerprint = keyFingerprint
    }

    // MARK: - The turn's end

    /// Before the stream's own, if it is asked for in time: then all that the turn has written leaves with one write.
    func scheduleTurnEnd() {
        guard !isTurnEndScheduled else { return }
        isTurnEndScheduled = true
        loop.atTurnEnd(self)
    }

    // MARK: - The deadline

    func append(_ kind: CallKind, tag: UInt64, batchCount: UInt8, asked: AskedPush = AskedPush()) {
        outstanding.append(
            OutstandingCall(
                tag: tag,
                keyFingerprint: nextKeyFingerprint,
                issuedAtMicroseconds: loop.nowMicroseconds,
                kind: kind,
                batchCount: batchCount,
                asked: asked,
                followsReload: hasReloaded
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

    private func checkDeadline() {
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

    /// A call was answered: the server works.
    func noteSuccess() {
        pause.reset()
    }
}

enum ConnectionTimer: UInt64 {
    case reconnect
    case deadline
}

// MARK: - The loop's calls

extension RedisConnection: StreamHandler, TimerHandler, TurnEndHandler {
    /// For the loop.
    public func streamConnected(_ stream: Stream) {
        guard stream === self.stream else { return }
        guard let reader = ReplyReader() else {
            return lose(RedisError(.protocolViolation, "no memory for the reader"))
        }
        self.reader = reader
        state = .handshaking
        beginHandshake()
    }

    /// For the loop.
    public func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard stream === self.stream, let reader else { return }
        lastReceivedAtMilliseconds = loop.nowMilliseconds
        guard reader.feed(bytes) else { return lose(RedisError(.protocolViolation)) }
        let handler = handler
        // The handler may close the connection, or a reply end it, from inside `take`.
        while stream === self.stream {
            switch reader.next() {
            case .incomplete:
                return
            case .violation:
                lose(RedisError(.protocolViolation))
            case .reply(let reply):
                guard let call = outstanding.oldest, call.batchCount > 0 else {
                    return lose(RedisError(.protocolViolation, "Redis sent a reply that nothing asked for"))
                }
                if call.kind.script != nil {
                    let roundTrip = loop.nowMicroseconds - call.issuedAtMicroseconds
                    handler?.answered(calls: Int(call.batchCount), roundTripMicroseconds: roundTrip)
                }
                if call.batchCount > 1 || reply.elementCount > 1 && call.kind.isCommand {
                    take(reply, ofBatch: Int(call.batchCount), from: reader, handler)
                } else {
                    _ = outstanding.removeOldest()
                    if reply.kind == .error { owner?.refused(call, on: self, error: reply.bytes) }
                    take(reply, of: call, from: reader, handler)
                }
            }
        }
    }

    /// For the loop.
    public func streamDrained(_ stream: Stream) {}

    /// For the loop.
    public func streamClosed(_ stream: Stream, error: StreamError?) {
        guard stream === self.stream else { return }
        if state == .connecting && !addresses.isEmpty { return connectToNextAddress() }
        lose(RedisError(.stream, "connection to Redis: \(error?.description ?? "closed by the server")"))
    }

    /// For the loop.
    public func turnEnded() {
        isTurnEndScheduled = false
        flushAdmissions()
    }

    /// For the loop.
    public func timerFired(tag: UInt64) {
        switch ConnectionTimer(rawValue: tag) {
        case .reconnect: if state == .pausing { resolve() }
        case .deadline: checkDeadline()
        case nil: preconditionFailure("a timer that no connection sets")
        }
    }
}
