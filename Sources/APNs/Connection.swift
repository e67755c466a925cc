import Reactor

/// One HTTP/2 connection to APNs, over TLS.
///
/// The types in `HTTP2/` read and write frames and header blocks without I/O. The connection sends and receives the
/// bytes, keeps within APNs' limits, and gives each push exactly one ``PushResponse``. `Connection+Pushes` sends
/// pushes, `Connection+Frames` handles received frames, and `Connection+Writing` writes frames.
final class Connection {
    enum Phase: UInt8 {
        /// TCP and TLS are being set up. Next: `awaitingSettings` or `closed`.
        case connecting
        /// Our preface is sent, and the server's SETTINGS frame has not arrived. Next: `unauthenticated` or `closed`.
        case awaitingSettings
        /// APNs has not yet accepted our provider token, so at most one request may be open, even if SETTINGS allow
        /// more. Next: `open` after the first response that shows that APNs accepts the token; otherwise `draining` or
        /// `closed`.
        case unauthenticated
        /// As many requests may be open as SETTINGS and `inFlightPushesPerConnectionMax` allow. Next: `draining` or
        /// `closed`.
        case open
        /// The connection takes no new request. It waits until the requests in flight get their responses or time
        /// out. Next: `closed`.
        case draining
        /// The connection has ended, or `close` is just ending the connection and every push in flight. No phase
        /// follows.
        case closed
    }

    enum Timer: UInt64 {
        /// Fires if the server's SETTINGS frame has not arrived in time.
        case settingsTimeout
        /// Watches the oldest request in flight. If the peer is silent for half of the request's timeout, the
        /// connection sends a PING. At the deadline, the request ends.
        case requestTimeout
        /// Checks whether anything has arrived in `pingAfterIdleMilliseconds`. If not, the connection sends a PING,
        /// because the peer may be dead.
        case silenceCheck
        /// Fires if the peer has not acknowledged a PING in time.
        case pingTimeout
    }

    unowned let pool: Pool
    /// The connection's number in its pool, from 1. Responses have it as ``PushResponse/connectionNumber``.
    let number: UInt32
    let loop: EventLoop
    let configuration: PoolConfiguration
    let tokenSource: ProviderTokenSource
    private(set) var phase = Phase.connecting
    /// Whether the connection has ever been `open`.
    private(set) var wasAuthenticated = false
    /// Whether the last push on this `unauthenticated` connection did not show that APNs accepts the provider token:
    /// for example, it timed out or got a 403. Pushes then go to `open` connections first. At most a second later, the
    /// pool sets this to false, and the next push tests the token again.
    var hasTokenTestFailed = false

    /// Whether the server's first SETTINGS frame has arrived. It shows that the server's address works.
    private(set) var hasReceivedSettings = false
    /// When the last response with a status below 500 came; 0: none. Such a response shows that requests are served.
    var lastServedAtMilliseconds: Int64 = 0
    /// How many pushes have timed out that were submitted at `lastServedAtMilliseconds` or later.
    var timedOutPushCount = 0

    // The state of the HTTP/2 protocol on this connection.
    var frameReader = FrameReader()
    var headerDecoder = HeaderDecoder()
    var headerEncoder: HeaderEncoder
    let pushSlots: PushSlotTable
    let streamTable: StreamTable
    var peerSettings = PeerSettings()
    /// The stream that the next request opens.
    var nextStreamIdentifier: Int32 = 1
    /// Body bytes that we may still send on the whole connection; at first 65,535 (RFC 9113, section 6.9.2).
    var sendWindowBytes: Int64 = 65_535
    /// Whether bodies that wait for flow control may continue: the send window of the connection or of a stream may
    /// have grown since the last `sendWaitingBodies`.
    var hasSendWindowGrown = false
    /// Bytes that the server may still send on the whole connection without another WINDOW_UPDATE.
    var receiveWindowBytes = ConnectionLimits.receiveWindowBytes
    /// How many more frames we accept from the server now. ``ConnectionLimits/framesPerSecondMax`` describes how this
    /// number changes.
    var allowedFrameCount = ConnectionLimits.framesPerSecondMax
    /// When `allowedFrameCount` was last set to `framesPerSecondMax`.
    var frameAllowanceRefilledAtMilliseconds: Int64 = 0

    /// How many streams may be open at once; 0 in all phases but `unauthenticated` and `open`.
    private(set) var streamsMax = 0
    var streamAbsence = StreamAbsence()
    var isCountedAsUsable = false  // by the `ConnectionBudget`
    var requestCount: Int64 = 0

    /// The provider token that requests carry; nil until the server's first SETTINGS frame has arrived.
    var providerToken: ProviderToken?
    /// The token of the new signing key that this connection tries (``ProviderTokenSource``). Nil if the connection
    /// tries no key, and after the trial has ended.
    var trialToken: ProviderToken?
    /// When the connection began to use `providerToken`, UNIX seconds.
    var tokenUsedSinceSeconds: Int64 = 0
    /// When the connection next asks `tokenSource` for a newer provider token, UNIX milliseconds.
    var newerTokenCheckAtWallMilliseconds: Int64 = 0

    private var timers = InlineArray<4, TimerIdentifier>(repeating: .none)
    var lastReceivedAtMilliseconds: Int64 = 0
    /// Nil until `connect(to:)` has been called.
    private(set) var transportStream: Stream?
    private var streamRelay: StreamRelay?

    init(
        pool: Pool,
        number: UInt32,
        loop: EventLoop,
        configuration: PoolConfiguration,
        tokenSource: ProviderTokenSource,
        trialToken: ProviderToken? = nil
    ) {
        self.pool = pool
        self.number = number
        self.loop = loop
        self.configuration = configuration
        self.tokenSource = tokenSource
        self.trialToken = trialToken
        pushSlots = PushSlotTable(capacity: configuration.inFlightPushesPerConnectionMax)
        streamTable = StreamTable(capacity: configuration.inFlightPushesPerConnectionMax)
        let authority =
            configuration.port == 443
            ? configuration.serverName : "\(configuration.serverName):\(configuration.port)"
        headerEncoder = HeaderEncoder(appHeaders: configuration.appHeaders, authority: authority)
    }

    deinit {
        precondition(pushSlots.count == 0, "a connection was released before it was closed")
    }

    var inFlightPushCount: Int { pushSlots.count }

    /// How many pushes the connection has room for now.
    var freeStreamCount: Int {
        let unusedStreamCount = streamsMax - pushSlots.count
        guard unusedStreamCount > 0, let stream = transportStream, stream.isOpen else { return 0 }
        // Take no push that would only wait for the send window. It waits in the caller's queue instead, where a newer
        // state can replace it.
        let hasSendWindow = sendWindowBytes >= ConnectionLimits.sendWindowBytesMin || pushSlots.count == 0
        return hasSendWindow && stream.pendingOutputBytes <= Stream.highWaterBytes ? unusedStreamCount : 0
    }

    var peer: SocketAddress? { transportStream?.peer }

    /// Whether the connection takes pushes now, or will take pushes when it is set up.
    var isLive: Bool { phase.rawValue <= Phase.open.rawValue }

    /// Whether the connection takes pushes in this phase, even if it has no room at this moment.
    var acceptsPushes: Bool { phase == .unauthenticated || phase == .open }

    // MARK: - Opening the connection

    func connect(to address: SocketAddress) {
        let streamRelay = StreamRelay(connection: self)
        let stream = Stream(loop: loop, handler: streamRelay)
        self.streamRelay = streamRelay
        transportStream = stream
        stream.connect(
            to: address,
            tls: configuration.tls,
            serverName: configuration.serverName,
            timeoutMilliseconds: configuration.connectTimeoutMilliseconds
        )
    }

    /// Applies the server's SETTINGS. After the first frame, the connection takes its first push, or closes if there is
    /// no usable provider token. A later frame may change the stream limit.
    func applyPeerSettings() {
        guard phase != .closed else { return }
        if phase == .awaitingSettings {
            hasReceivedSettings = true
            cancel(.settingsTimeout)
            guard updateProviderToken() else { return close(.connectionLost, detail: "no valid provider token") }
            enter(.unauthenticated)
            scheduleSilenceCheck()
            pool.report(.connected(connection: number, peer: peer?.description ?? ""))
            pool.connectionBecameReady(self)
        } else {
            let streamsMaxBefore = streamsMax
            updateStreamsMax()
            guard streamsMax != streamsMaxBefore else { return }
            pool.report(.streamLimitChanged(connection: number, streamsMax: streamsMax))
        }
    }

    /// Lets an `unauthenticated` connection have requests in parallel, because a response showed that APNs accepts the
    /// provider token. Does nothing in other phases.
    func markAuthenticated() {
        guard phase == .unauthenticated else { return }
        wasAuthenticated = true
        enter(.open)
        pool.connectionAuthenticated(self)
    }

    private func enter(_ next: Phase) {
        precondition(next.rawValue > phase.rawValue)
        phase = next
        updateStreamsMax()
    }

    private func updateStreamsMax() {
        let peerStreamsMax = Int(peerSettings.concurrentStreamsMax)
        switch phase {
        case .unauthenticated: streamsMax = min(1, peerStreamsMax)
        case .open: streamsMax = min(peerStreamsMax, configuration.inFlightPushesPerConnectionMax)
        case .connecting, .awaitingSettings, .draining, .closed: streamsMax = 0
        }
        if acceptsPushes { streamAbsence.noteLimit(streamsMax: streamsMax, nowMilliseconds: loop.nowMilliseconds) }
    }

    // MARK: - Ending the connection

    /// Takes no new push, and closes when the last push in flight has its response. A connection that is not set up
    /// yet, or has no push in flight, closes at once.
    func retire(_ cause: RetirementCause) {
        guard isLive else { return }
        guard acceptsPushes else { return close(.retired, detail: "") }
        enter(.draining)
        pool.connectionRetired(self, cause: cause)
        closeIfDrained()
    }

    /// Closes a draining connection when no push is in flight.
    func closeIfDrained() {
        guard phase == .draining, inFlightPushCount == 0 else { return }
        writeGoAway(.noError)
        close(.retired, detail: "")
    }

    /// Sends a GOAWAY frame and closes the connection, because the peer broke HTTP/2 or exceeded one of our limits.
    func fail(_ fault: ConnectionFault) {
        guard phase != .closed else { return }
        writeGoAway(fault.code)
        close(.protocolError, detail: fault.detail.description)
    }

    /// Ends the connection now, and every push in flight.
    func close(_ cause: CloseCause, detail: String) {
        guard phase != .closed else { return }
        let lastPhase = phase
        enter(.closed)
        for timer in [Timer.settingsTimeout, .requestTimeout, .silenceCheck, .pingTimeout] { cancel(timer) }
        if let stream = transportStream {
            stream.flush()
            stream.close()
        }
        completeAllPushes()
        endKeyTrial(.inconclusive)
        pool.connectionClosed(self, in: lastPhase, cause: cause, detail: detail)
    }

    // MARK: - Timers of the connection

    func schedule(_ timer: Timer, afterMilliseconds: Int64) {
        cancel(timer)
        timers[Int(timer.rawValue)] = loop.schedule(
            afterMilliseconds: afterMilliseconds,
            handler: self,
            tag: timer.rawValue
        )
    }

    func cancel(_ timer: Timer) {
        loop.cancel(timers[Int(timer.rawValue)])
        timers[Int(timer.rawValue)] = .none
    }

    func isScheduled(_ timer: Timer) -> Bool {
        timers[Int(timer.rawValue)] != .none
    }

    private func scheduleSilenceCheck() {
        schedule(.silenceCheck, afterMilliseconds: configuration.pingAfterIdleMilliseconds)
    }

    private func checkSilence() {
        let silenceMilliseconds = loop.nowMilliseconds - lastReceivedAtMilliseconds
        let remainingMilliseconds = configuration.pingAfterIdleMilliseconds - silenceMilliseconds
        if remainingMilliseconds > 0 {
            schedule(.silenceCheck, afterMilliseconds: remainingMilliseconds)
        } else {
            sendPing(timeoutMilliseconds: configuration.pingTimeoutMilliseconds)
            scheduleSilenceCheck()
        }
    }
}

/// Constants that limit what a connection reads, writes and logs, so that a faulty server does no harm.
enum ConnectionLimits {
    /// Bytes that the server may send on the whole connection before it needs a WINDOW_UPDATE: room for
    /// thousands of APNs' responses.
    static let receiveWindowBytes = 1 << 20
    /// The send window that a connection with pushes in flight must have to take another push, in bytes: the size of
    /// the largest body, that of a broadcast.
    static let sendWindowBytesMin: Int64 = 5_120
    /// The maximum number of bytes in the body of a response, padding included. After more bytes, the connection resets
    /// the stream. The limit is below the 65,535 bytes of a stream's initial window, so no stream needs a
    /// WINDOW_UPDATE.
    static let responseBodyBytesMax: Int32 = 16_384
    /// The connection retires after this many timeouts of pushes without a response between them. A single timeout may
    /// be the fault of its stream only.
    static let timedOutPushesMax = 5
    /// How many frames the server may send in a second if we send no push. More frames are a flood, and end the
    /// connection (RFC 9113, section 10.5).
    ///
    /// `allowedFrameCount` begins with this number. Each frame subtracts 1, and each push adds `framesAllowedPerPush`.
    /// When nothing is left, `allowedFrameCount` is set to this number again, but at most once a second.
    static let framesPerSecondMax = 10_000
    /// Frames that each push adds to `allowedFrameCount`, for its response and the server's flow control.
    static let framesAllowedPerPush = 8
    /// The highest value to which pushes can raise `allowedFrameCount`. Without this limit, a connection that has sent
    /// many pushes would notice no flood of frames.
    static let allowedFramesMax = 100_000
    /// How much output may wait beyond ``Stream/highWaterBytes``: a few thousand acknowledgements. If more output
    /// waits, the connection ends, because its peer does not read our acknowledgements.
    static let waitingAcknowledgementBytesMax = 64 * 1024
    /// The maximum number of bytes of a GOAWAY's text in the log, because the server chooses the text's length.
    static let goAwayTextBytesMax = 256
}

// MARK: - Events of the TLS stream

extension Connection {
    fileprivate func streamConnected(_ stream: Stream) {
        guard phase == .connecting else { return }
        guard stream.negotiatedProtocol == "h2" else {
            return close(.notHTTP2, detail: "the server selected \(stream.negotiatedProtocol ?? "no protocol") by ALPN")
        }
        lastReceivedAtMilliseconds = loop.nowMilliseconds
        frameAllowanceRefilledAtMilliseconds = loop.nowMilliseconds
        writePreface()
        enter(.awaitingSettings)
        schedule(.settingsTimeout, afterMilliseconds: configuration.settingsTimeoutMilliseconds)
    }

    fileprivate func streamHasRoom() {
        // Keep the pool alive: the code below may call the pool's handler, and the handler may release the pool.
        let pool = pool
        sendWaitingBodies()
        pool.notifyHandlerIfRoom()
    }

    fileprivate func streamClosed(error: StreamError?) {
        // Keep the pool alive: `close` calls the pool's handler, and the handler may release the pool.
        let pool = pool
        // While the breaker is open, the pool has room only if no push is in flight. So look for room after `close` has
        // ended this connection's pushes.
        defer { pool.notifyHandlerIfRoom() }
        guard phase == .connecting else {
            return close(.connectionLost, detail: error?.description ?? "closed by the server")
        }
        if let error, error.code == .certificateRefused { return close(.certificateRefused, detail: error.reason) }
        close(.connectFailed, detail: error?.description ?? "closed by the server")
    }
}

/// Passes the events of the TLS `Stream` on to its connection.
///
/// `Stream` holds its handler weakly, and Swift retains an object with weak references more slowly. Every push retains
/// the connection, so the connection itself must not be the handler.
private final class StreamRelay: StreamHandler {
    unowned let connection: Connection

    init(connection: Connection) {
        self.connection = connection
    }

    func streamConnected(_ stream: Stream) {
        connection.streamConnected(stream)
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        connection.receive(bytes)
    }

    func streamHasRoom(_ stream: Stream) {
        connection.streamHasRoom()
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        connection.streamClosed(error: error)
    }
}

extension Connection: TimerHandler {
    func timerFired(tag: UInt64) {
        guard let timer = Timer(rawValue: tag), phase != .closed else { return }
        timers[Int(tag)] = .none
        let pool = pool
        switch timer {
        case .settingsTimeout: close(.settingsTimeout, detail: "")
        case .requestTimeout: requestTimerFired()
        case .silenceCheck: checkSilence()
        case .pingTimeout: close(.pingTimeout, detail: "")
        }
        pool.notifyHandlerIfRoom()
    }
}
