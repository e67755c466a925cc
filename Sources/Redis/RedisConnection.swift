import Reactor

/// A pipelined connection to one Redis server, for the scripts `admit` and `settle`. It makes itself anew when it is lost.
///
/// One lane has one, and all of it happens on the lane's thread. Calls go straight into the stream's output buffer and leave at
/// the end of the turn, all with one write; replies come in the order of the calls. A call or a reply allocates nothing.
///
/// A call that has not been answered when the connection is lost is not issued again by the connection: that is for
/// whoever issued it, who knows whether it still matters.
public final class RedisConnection {
    enum State {
        /// Made. → `resolving` by `connect`, `closed`.
        case idle
        /// The host's addresses are looked up, afresh for each attempt. → `connecting`, `pausing`, `closed`.
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

    var state = State.idle
    var stream: Stream?
    var reader: ReplyReader?
    var outstanding: OutstandingCalls
    let scripts: ScriptPrefixes
    /// The memory that a reply's token is unpacked into.
    let tokenMemory = UnsafeMutableRawBufferPointer.allocate(byteCount: TokenText.bytesMax * 2, alignment: 1)
    /// Whether the server takes a script's first line to say how it behaves (Redis 7).
    var serverTakesFlags = false
    /// The scripts were loaded a second time because the server had forgotten them.
    var hasReloaded = false

    private var addresses: ArraySlice<SocketAddress> = []
    private var resolutions: UInt64 = 0
    private var pause = ReconnectPause()
    private var reconnectTimer = TimerIdentifier.none
    private var deadlineTimer = TimerIdentifier.none
    private var lastReceivedAtMilliseconds: Int64 = 0

    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, configuration: RedisConfiguration, handler: any RedisHandler) {
        precondition(!configuration.url.usesTLS || configuration.tls != nil, "a rediss URL needs a TLS context")
        precondition(configuration.outstandingCallsMax > 0)
        self.loop = loop
        self.configuration = configuration
        self.handler = handler
        outstanding = OutstandingCalls(capacity: configuration.outstandingCallsMax + Self.ownCommandsMax)
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
        switch configuration.url.location {
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
        if case .host(let host, _) = configuration.url.location { serverName = host }
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
        handler?.redisLost(error)
        failOutstanding(error)
    }

    private func release() {
        stream?.close()
        stream = nil
        reader = nil
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
        handler?.redisReady()
    }

    // MARK: - The deadline

    func append(_ kind: CallKind, tag: UInt64) {
        outstanding.append(
            OutstandingCall(
                tag: tag,
                issuedAtMilliseconds: loop.nowMilliseconds,
                kind: kind,
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
        let age = loop.nowMilliseconds - oldest.issuedAtMilliseconds
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

extension RedisConnection: StreamHandler, TimerHandler {
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
                if let call = outstanding.removeOldest() {
                    take(reply, of: call, from: reader, handler)
                } else {
                    lose(RedisError(.protocolViolation, "Redis sent a reply that nothing asked for"))
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
    public func timerFired(tag: UInt64) {
        switch ConnectionTimer(rawValue: tag) {
        case .reconnect: if state == .pausing { resolve() }
        case .deadline: checkDeadline()
        case nil: preconditionFailure("a timer that no connection sets")
        }
    }
}
