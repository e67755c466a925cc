import Reactor

/// One HTTP/2 connection to APNs, over a TLS stream.
///
/// What frames and header blocks may look like is decided in `HTTP2/`, without I/O; this object moves the bytes, keeps within what
/// APNs allows, and brings each push to exactly one answer. `ConnectionPushes` holds what goes out, `ConnectionFrames` what comes in.
final class Connection {
    enum Phase: UInt8 {
        /// TCP and TLS are being set up. → `settling`, `closed`.
        case connecting
        /// Our preface is out, the server's SETTINGS frame has not come. → `cold`, `closed`.
        case settling
        /// APNs has not yet accepted our provider token: one request at a time, whatever SETTINGS say. → `open` with the
        /// first answer that shows that it has, `draining`, `closed`.
        case cold
        /// As many requests as SETTINGS and our own limit allow. → `draining`, `closed`.
        case open
        /// No new request; those in flight are awaited until they are answered or their time runs out. → `closed`.
        case draining
        /// Every push has been answered. Final.
        case closed
    }

    enum Timer: UInt64 {
        /// The server's SETTINGS frame is late.
        case settings
        /// Half of the oldest request's time is up, or all of it.
        case request
        /// Nothing has come for so long that the connection may be dead.
        case idle
        /// A PING has not been answered.
        case ping
    }

    unowned let pool: Pool
    let identifier: UInt32
    let loop: EventLoop
    let configuration: PoolConfiguration
    let tokens: ProviderTokenSource
    private(set) var phase = Phase.connecting
    /// Whether it has ever been `open`.
    private(set) var wasAuthenticated = false

    // What HTTP/2 knows of the connection.
    var reader = FrameReader()
    var decoder = HeaderDecoder()
    var encoder: HeaderEncoder
    let slots: SlotTable
    let streams: StreamTable
    var peerSettings = PeerSettings()
    /// The stream of the next request.
    var nextStream: Int32 = 1
    /// Body bytes that the server takes on the whole connection (RFC 9113, section 6.9).
    var sendWindow: Int64 = 65_535
    /// Room appeared for bodies that wait.
    var hasWindowOpened = false
    /// What the server may still send before it is told that more may come.
    var receiveWindow = ConnectionLimits.receiveWindowBytes
    /// Frames that are taken before the server has earned more, and when it was last given some.
    var framesAllowed = ConnectionLimits.framesPerSecondMax
    var framesAllowedAtMilliseconds: Int64 = 0

    /// Streams that may be open at once; 0 unless `cold` or `open`.
    private(set) var streamsMax = 0
    var requests: Int64 = 0

    /// The provider token in use.
    var token: ProviderToken?
    /// The token of a candidate key that this connection is to try; nil once APNs has said what it thinks of it.
    var trialToken: ProviderToken?
    var tokenPinnedAtSeconds: Int64 = 0
    var tokenReviewMilliseconds: Int64 = 0

    private var timers = InlineArray<4, TimerIdentifier>(repeating: .none)
    var lastReceivedMilliseconds: Int64 = 0
    /// Nil until the connection is under way.
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
        precondition(slots.count == 0, "a connection went away before it was closed")
    }

    var inFlight: Int { slots.count }

    /// Pushes that it would take now.
    var freeStreams: Int {
        let free = streamsMax - slots.count
        guard free > 0, let stream = openedStream else { return 0 }
        // A body that waits for room is one that a newer state cannot replace: better it waits with the caller.
        let hasWindow = sendWindow >= ConnectionLimits.sendWindowBytesMin || slots.count == 0
        return hasWindow && stream.pendingOutputBytes <= Stream.highWaterBytes ? free : 0
    }

    var peer: SocketAddress? { openedStream?.peer }

    /// Whether it may take pushes now or soon.
    var isLive: Bool { phase.rawValue <= Phase.open.rawValue }

    /// Whether it takes pushes, if not at this moment.
    var carriesPushes: Bool { phase == .cold || phase == .open }

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

    /// The server's SETTINGS have been taken over: its first, or a change.
    func settingsChanged() {
        guard phase != .closed else { return }
        if phase == .settling {
            cancel(.settings)
            guard reviewToken() else { return close(.connectionLost, detail: "no provider token could be signed") }
            enter(.cold)
            startIdleTimer()
            pool.notice(.connected(connection: identifier, peer: peer?.description ?? ""))
            pool.connectionReady(self)
        } else {
            let before = streamsMax
            updateStreamsMax()
            guard streamsMax != before else { return }
            pool.notice(.streamLimitChanged(connection: identifier, streamsMax: streamsMax))
        }
    }

    /// An answer showed that APNs accepts the provider token.
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
        case .connecting, .settling, .draining, .closed: streamsMax = 0
        }
    }

    // MARK: - Ending

    /// Takes no new push, and closes when the last one in flight is answered.
    func retire(_ cause: RetirementCause) {
        guard isLive else { return }
        guard carriesPushes else { return close(.retired, detail: "") }
        enter(.draining)
        pool.connectionRetired(self, cause: cause)
        closeIfOver()
    }

    /// Closes a connection that has nothing left to do.
    func closeIfOver() {
        guard phase == .draining, inFlight == 0 else { return }
        writeGoAway(.noError)
        close(.retired, detail: "")
    }

    /// The peer broke the protocol: says so, and ends the connection.
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

/// What one connection is allowed.
enum ConnectionLimits {
    /// What the server may send on the whole connection before we have read it: a thousand answers fit many times.
    static let receiveWindowBytes = 1 << 20
    /// With less room than this for bodies, which is that of the largest, no push is taken unless none is in flight.
    static let sendWindowBytesMin: Int64 = 4_096
    /// The body of one answer; what is longer is cut off. Below the 65,535 that the server may send without being asked for more.
    static let answerBodyBytesMax: Int32 = 16_384
    /// Frames taken in a second, beside those that pushes pay for: more is a flood (RFC 9113, section 10.5).
    static let framesPerSecondMax = 10_000
    /// Frames that each push pays for: its answer's, and what servers add for flow control.
    static let framesPerPush = 8
    /// The most that can be saved up of them.
    static let framesSavedMax = 100_000
    /// Text of a GOAWAY that goes into a log line.
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
        enter(.settling)
        schedule(.settings, afterMilliseconds: configuration.settingsTimeoutMilliseconds)
    }

    fileprivate func streamDrained() {
        // The handler may release the pool in what follows.
        let pool = pool
        sendWaiting()
        pool.roomMayHaveChanged()
    }

    fileprivate func streamClosed(error: StreamError?) {
        let cause = phase == .connecting ? CloseCause.connectFailed : .connectionLost
        close(cause, detail: error?.description ?? "ended by the peer")
    }
}

/// Stands between a connection and its stream, which holds its handler weakly: an object that is the target of a weak
/// reference pays for it with every retain, and the connection is retained for every push.
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
