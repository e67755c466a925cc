import CNghttp2
import Reactor

/// One HTTP/2 connection to APNs: an nghttp2 session over a TLS stream.
///
/// nghttp2 makes and reads the frames; this object moves the bytes, keeps within what APNs allows, and brings each push
/// to exactly one answer.
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
        /// The oldest request's time is up.
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

    var session: OpaquePointer?
    let memory = SessionMemory()
    /// Whether nghttp2 is on the call stack: its send and receive functions must not be entered again from a callback.
    var isInSession = false
    /// What nghttp2 said about the peer's last mistake.
    var sessionError = ""

    let slots: SlotTable
    let headers: HeaderBlock
    /// Streams that may be open at once; 0 unless `cold` or `open`.
    private(set) var streamsMax = 0
    var requests: Int64 = 0

    /// The provider token in use, and the one before: a request that is still queued in nghttp2 may point into it.
    var token: ProviderToken?
    var replacedToken: ProviderToken?
    var tokenPinnedAtSeconds: Int64 = 0
    var tokenReviewMilliseconds: Int64 = 0

    /// The slot whose header block is being received, or -1, and the block's size so far.
    var headerSlot: Int32 = -1
    var headerBytes = 0

    private var timers = InlineArray<4, TimerIdentifier>(repeating: .none)
    var lastReceivedMilliseconds: Int64 = 0
    /// Nil until the connection is under way.
    private var openedStream: Stream?
    private var relay: StreamRelay?

    init(
        pool: Pool,
        identifier: UInt32,
        loop: EventLoop,
        configuration: PoolConfiguration,
        tokens: ProviderTokenSource
    ) {
        self.pool = pool
        self.identifier = identifier
        self.loop = loop
        self.configuration = configuration
        self.tokens = tokens
        slots = SlotTable(capacity: configuration.inFlightMax, pathPrefix: configuration.profile.pathPrefix)
        let authority =
            configuration.port == 443
            ? configuration.serverName : "\(configuration.serverName):\(configuration.port)"
        headers = HeaderBlock(profile: configuration.profile, authority: authority)
    }

    deinit {
        precondition(session == nil && slots.count == 0, "a connection went away before it was closed")
    }

    var inFlight: Int { slots.count }

    var freeStreams: Int { max(0, streamsMax - slots.count) }

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

    /// The server's SETTINGS frame came: its first, or a change.
    func settingsReceived() {
        guard let session, phase != .closed else { return }
        let allowed = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        peerStreamsMax = Int(allowed)
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

    /// SETTINGS_MAX_CONCURRENT_STREAMS as last received.
    private var peerStreamsMax = 0

    private func enter(_ next: Phase) {
        precondition(next.rawValue > phase.rawValue)
        phase = next
        updateStreamsMax()
    }

    private func updateStreamsMax() {
        switch phase {
        case .cold: streamsMax = min(1, peerStreamsMax)
        case .open: streamsMax = min(peerStreamsMax, configuration.inFlightMax)
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

    /// Closes a connection that has nothing left to do, or whose session has ended itself.
    func closeIfOver() {
        guard !isInSession, let session, phase != .closed else { return }
        if phase == .draining, inFlight == 0 {
            _ = nghttp2_session_terminate_session(session, NGHTTP2_NO_ERROR.rawValue)
            pump()
            close(.retired, detail: "")
        } else if nghttp2_session_want_read(session) == 0, nghttp2_session_want_write(session) == 0 {
            close(.protocolError, detail: sessionError)
        }
    }

    /// Answers every push in flight and ends the connection now.
    func close(_ cause: CloseCause, detail: String) {
        guard phase != .closed else { return }
        let lastPhase = phase
        enter(.closed)
        headerSlot = -1
        for timer in [Timer.settings, .request, .idle, .ping] { cancel(timer) }
        if let stream = openedStream {
            stream.flush()
            stream.close()
        }
        answerAll()
        pool.connectionClosed(self, in: lastPhase, cause: cause, detail: detail)
        // Inside a callback of nghttp2 the session must live on; whoever entered it deletes it then.
        if !isInSession { deleteSession() }
    }

    func deleteSession() {
        precondition(phase == .closed && slots.count == 0)
        nghttp2_session_del(session)
        session = nil
    }

    // MARK: - Bytes

    /// Hands nghttp2's frames to the stream, which sends them at the turn's end. Stops while the peer does not read.
    func pump() {
        guard !isInSession, let session, let stream = openedStream, phase != .closed else { return }
        isInSession = true
        var failure: Int = 0
        while stream.pendingOutputBytes <= Stream.highWaterBytes {
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &bytes)
            guard count > 0 else {
                failure = count
                break
            }
            stream.write(UnsafeRawBufferPointer(start: bytes, count: count))
        }
        isInSession = false
        if phase == .closed {
            deleteSession()
        } else if failure < 0 {
            close(.protocolError, detail: sessionText(failure))
        }
    }

    fileprivate func receive(_ bytes: UnsafeRawBufferPointer) {
        guard let session, phase != .closed else { return }
        // The handler may let go of the pool in what follows.
        let pool = pool
        lastReceivedMilliseconds = loop.nowMilliseconds
        isInSession = true
        let taken = nghttp2_session_mem_recv(session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        isInSession = false
        guard phase != .closed else { return deleteSession() }
        guard taken >= 0 else { return close(.protocolError, detail: sessionText(taken)) }
        pump()
        closeIfOver()
        pool.roomMayHaveChanged()
    }

    private func sessionText(_ code: Int) -> String {
        let text = String(cString: nghttp2_strerror(Int32(truncatingIfNeeded: code)))
        return sessionError.isEmpty ? text : "\(text): \(sessionError)"
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
            sendPing()
            startIdleTimer()
        }
    }

    /// Asks the peer for a sign of life; without one in time the connection is closed.
    func sendPing() {
        guard let session, phase != .closed, !isScheduled(.ping) else { return }
        guard nghttp2_submit_ping(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) == 0 else { return }
        schedule(.ping, afterMilliseconds: configuration.pingTimeoutMilliseconds)
        pump()
    }
}

// MARK: - The stream's calls

extension Connection {
    fileprivate func streamConnected(_ stream: Stream) {
        guard phase == .connecting else { return }
        guard stream.negotiatedProtocol == "h2" else {
            return close(.notHTTP2, detail: "ALPN gave \(stream.negotiatedProtocol ?? "nothing")")
        }
        lastReceivedMilliseconds = loop.nowMilliseconds
        guard makeSession() else { return close(.protocolError, detail: "no memory for a session") }
        enter(.settling)
        schedule(.settings, afterMilliseconds: configuration.settingsTimeoutMilliseconds)
        pump()
    }

    fileprivate func streamDrained() {
        // The handler may let go of the pool in what follows.
        let pool = pool
        pump()
        closeIfOver()
        pool.roomMayHaveChanged()
    }

    fileprivate func streamClosed(error: StreamError?) {
        let cause = phase == .connecting ? CloseCause.connectFailed : .connectionLost
        close(cause, detail: error?.description ?? "ended by the peer")
    }
}

/// Stands between a connection and its stream, which holds its handler weakly: an object that is the target of a weak
/// reference pays for it with every retain, and the connection is retained in every callback of nghttp2.
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
