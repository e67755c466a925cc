import Reactor

/// One HTTP/2 connection to APNs, over a TLS stream.
///
/// The types in `HTTP2/` read and write frames and header blocks without I/O. This object sends and receives
/// the bytes, keeps APNs' limits, and gives each push exactly one response. `Connection+Pushes` sends,
/// `Connection+Frames` receives.
final class Connection {
    enum Phase: UInt8 {
        /// TCP and TLS are being set up. → `awaitingSettings`, `closed`.
        case connecting
        /// Our preface is sent; the server's SETTINGS frame has not arrived. → `cold`, `closed`.
        case awaitingSettings
        /// APNs has not yet accepted our provider token, so only one request may be open, even if SETTINGS
        /// allow more. → `open` with the first response that shows acceptance, `draining`, `closed`.
        case cold
        /// As many requests as SETTINGS and our own limit allow. → `draining`, `closed`.
        case open
        /// Takes no new request. Waits until the requests in flight are answered or time out. → `closed`.
        case draining
        /// Every push has been answered. Final.
        case closed
    }

    enum Timer: UInt64 {
        /// The server's SETTINGS frame did not arrive in time.
        case settings
        /// Half of the oldest request's timeout has passed, or all of it.
        case request
        /// Nothing arrived for so long that the connection may be dead.
        case idle
        /// The peer did not answer a PING in time.
        case ping
    }

    unowned let pool: Pool
    let identifier: UInt32
    let loop: EventLoop
    let configuration: PoolConfiguration
    let tokens: ProviderTokenSource
    private(set) var phase = Phase.connecting
    /// Whether the connection has ever been `open`.
    private(set) var wasAuthenticated = false
    /// Whether an answer on the cold connection did not show that APNs accepts the provider token. Then the
    /// connection has no priority for the next push: an overloaded server would get every push of a slow
    /// pool. The pool clears the flag in each sizing interval, to try the connection again.
    var hasUnprovenAnswer = false

    // The state of the HTTP/2 protocol on this connection.
    var reader = FrameReader()
    var decoder = HeaderDecoder()
    var encoder: HeaderEncoder
    let slots: SlotTable
    let streams: StreamTable
    var peerSettings = PeerSettings()
    /// The stream that the next request opens.
    var nextStream: Int32 = 1
    /// Body bytes that the server accepts on the whole connection (RFC 9113, section 6.9).
    var sendWindow: Int64 = 65_535
    /// Whether a flow-control window grew, so that waiting bodies may continue.
    var hasWindowOpened = false
    /// Bytes that the server may still send in its flow-control window of the connection.
    var receiveWindow = ConnectionLimits.receiveWindowBytes
    /// Frames that we still accept from the server, and when this allowance was last refilled.
    var framesAllowed = ConnectionLimits.framesPerSecondMax
    var framesAllowedAtMilliseconds: Int64 = 0

    /// Streams that may be open at once; 0 unless `cold` or `open`.
    private(set) var streamsMax = 0
    var requests: Int64 = 0

    /// The provider token that requests carry.
    var token: ProviderToken?
    /// The token of a candidate key that this connection tries. Nil once APNs has accepted or refused it.
    var trialToken: ProviderToken?
    var tokenPinnedAtSeconds: Int64 = 0
    var tokenReviewMilliseconds: Int64 = 0

    private var timers = InlineArray<4, TimerIdentifier>(repeating: .none)
    var lastReceivedMilliseconds: Int64 = 0
    /// Nil until `connect(to:)` has been called.
    private(set) var openedStream: Stream?
    private var relay: StreamRelay?

    init(
        pool: Pool,
        identifier: UInt32,
        loop: EventLoop,
        configuration: PoolConfiguration,
        tokens: ProviderTokenSource,
        trialToken: ProviderToken? = nil
    ) {
        self.pool = pool
        self.identifier = identifier
        self.loop = loop
        self.configuration = configuration
        self.tokens = tokens
        self.trialToken = trialToken
        slots = SlotTable(capacity: configuration.inFlightMax)
        streams = StreamTable(capacity: configuration.inFlightMax)
        let authority =
            configuration.port == 443
            ? configuration.serverName : "\(configuration.serverName):\(configuration.port)"
        encoder = HeaderEncoder(profile: configuration.profile, authority: authority)
    }

    deinit {
        precondition(slots.count == 0, "a connection was released before it was closed")
    }

    var inFlight: Int { slots.count }

    /// How many pushes the connection would take now.
    var freeStreams: Int {
        let free = streamsMax - slots.count
        guard free > 0, let stream = openedStream else { return 0 }
        // A newer state cannot replace a push that was already submitted. So without flow-control window the
        // push waits with the caller.
        let hasWindow = sendWindow >= ConnectionLimits.sendWindowBytesMin || slots.count == 0
        return hasWindow && stream.pendingOutputBytes <= Stream.highWaterBytes ? free : 0
    }

    var peer: SocketAddress? { openedStream?.peer }

    /// Whether the connection takes pushes now or will soon.
    var isLive: Bool { phase.rawValue <= Phase.open.rawValue }

    /// Whether the connection takes pushes in this phase, even if it has no room at this moment.
    var takesPushes: Bool { phase == .cold || phase == .open }

    // MARK: - Opening

    func connect(to address: SocketAddress) {
        let relay = StreamRelay(connection: self)
        let stream = Stream(loop: loop, handler: relay)
        self.relay = relay
        openedStream = stream
        stream.connect(
            to: address,
            tls: configuration.tls,
            serverName: configuration.serverName,
            timeoutMilliseconds: configuration.connectTimeoutMilliseconds
        )
    }

    /// Applies the server's SETTINGS: the first frame makes the connection `cold`; a later frame may change
    /// the stream limit.
    func settingsChanged() {
        guard phase != .closed else { return }
        if phase == .awaitingSettings {
            cancel(.settings)
            guard pinNewestToken() else { return close(.connectionLost, detail: "no provider token could be signed") }
            enter(.cold)
            startIdleTimer()
            pool.report(.connected(connection: identifier, peer: peer?.description ?? ""))
            pool.connectionReady(self)
        } else {
            let before = streamsMax
            updateStreamsMax()
            guard streamsMax != before else { return }
            pool.report(.streamLimitChanged(connection: identifier, streamsMax: streamsMax))
        }
    }

    /// Allows requests in parallel, because a response showed that APNs accepts the provider token.
    func authenticated() {
        guard phase == .cold else { return }
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
        let allowed = Int(peerSettings.concurrentStreamsMax)
        switch phase {
        case .cold: streamsMax = min(1, allowed)
        case .open: streamsMax = min(allowed, configuration.inFlightMax)
        case .connecting, .awaitingSettings, .draining, .closed: streamsMax = 0
        }
    }

    // MARK: - Ending

    /// Takes no new push, and closes when the last push in flight is answered.
    func retire(_ cause: RetirementCause) {
        guard isLive else { return }
        guard takesPushes else { return close(.retired, detail: "") }
        enter(.draining)
        pool.connectionRetired(self, cause: cause)
        closeIfOver()
    }

    /// Closes a draining connection when no push is in flight.
    func closeIfOver() {
        guard phase == .draining, inFlight == 0 else { return }
        writeGoAway(.noError)
        close(.retired, detail: "")
    }

    /// Ends the connection because the peer broke the protocol, and tells the peer in a GOAWAY frame.
    func fail(_ fault: ConnectionFault) {
        guard phase != .closed else { return }
        writeGoAway(fault.code)
        close(.protocolError, detail: fault.detail.description)
    }

    /// Answers every push in flight and ends the connection now.
    func close(_ cause: CloseCause, detail: String) {
        guard phase != .closed else { return }
        let lastPhase = phase
        enter(.closed)
        for timer in [Timer.settings, .request, .idle, .ping] { cancel(timer) }
        if let stream = openedStream {
            stream.flush()
            stream.close()
        }
        answerAll()
        endTrial(.inconclusive)
        pool.connectionClosed(self, in: lastPhase, cause: cause, detail: detail)
    }

    // MARK: - Timers

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

    private func startIdleTimer() {
        schedule(.idle, afterMilliseconds: configuration.pingIdleMilliseconds)
    }

    private func idleTimerFired() {
        let silence = loop.nowMilliseconds - lastReceivedMilliseconds
        let rest = configuration.pingIdleMilliseconds - silence
        if rest > 0 {
            schedule(.idle, afterMilliseconds: rest)
        } else {
            sendPing(timeoutMilliseconds: configuration.pingTimeoutMilliseconds)
            startIdleTimer()
        }
    }
}

/// The limits of one connection.
enum ConnectionLimits {
    /// Bytes that the server may send on the whole connection before we have read them. Room for thousands of
    /// APNs' responses.
    static let receiveWindowBytes = 1 << 20
    /// The smallest send window with which a push is taken while other pushes are in flight: room for the
    /// largest body, which is a broadcast's.
    static let sendWindowBytesMin: Int64 = 5_120
    /// The longest response body that is read. A stream with a longer body is reset. Below the 65,535 bytes
    /// of a stream's initial window, so no stream needs a WINDOW_UPDATE.
    static let responseBodyBytesMax: Int32 = 16_384
    /// Frames accepted in a second, in addition to `framesPerPush`. More frames are treated as a flood (RFC
    /// 9113, section 10.5).
    static let framesPerSecondMax = 10_000
    /// Frames that each push adds to the allowance, for its response and the server's flow control.
    static let framesPerPush = 8
    /// The most frames that the allowance can save up.
    static let framesSavedMax = 100_000
    /// The bytes of a GOAWAY's text that are written to the log.
    static let logTextBytesMax = 256
}

// MARK: - The stream's calls

extension Connection {
    fileprivate func streamConnected(_ stream: Stream) {
        guard phase == .connecting else { return }
        guard stream.negotiatedProtocol == "h2" else {
            return close(.notHTTP2, detail: "ALPN gave \(stream.negotiatedProtocol ?? "nothing")")
        }
        lastReceivedMilliseconds = loop.nowMilliseconds
        framesAllowedAtMilliseconds = loop.nowMilliseconds
        writePreface()
        enter(.awaitingSettings)
        schedule(.settings, afterMilliseconds: configuration.settingsTimeoutMilliseconds)
    }

    fileprivate func streamDrained() {
        // Keep the pool alive, because the handler may release it during the calls below.
        let pool = pool
        sendWaiting()
        pool.roomMayHaveChanged()
    }

    fileprivate func streamClosed(error: StreamError?) {
        guard phase == .connecting else {
            return close(.connectionLost, detail: error?.description ?? "ended by the peer")
        }
        if let error, error.code == .certificate { return close(.certificateRefused, detail: error.reason) }
        close(.connectFailed, detail: error?.description ?? "ended by the peer")
    }
}

/// Passes a stream's events on to its connection.
///
/// `Stream` holds its handler weakly, and Swift makes every retain of a weakly referenced object more
/// expensive. The connection is retained for every push, so the relay is the stream's handler instead.
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

    func streamDrained(_ stream: Stream) {
        connection.streamDrained()
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
        case .settings: close(.settingsTimeout, detail: "")
        case .request: requestTimerFired()
        case .idle: idleTimerFired()
        case .ping: close(.pingTimeout, detail: "")
        }
        pool.roomMayHaveChanged()
    }
}
