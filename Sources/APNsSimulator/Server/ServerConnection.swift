import CNghttp2
import Glibc
import Reactor

/// One client's connection: TLS bytes in and out, an nghttp2 session in between.
///
/// - `handshaking`: no session yet. To `serving` when TLS is up and *h2* agreed on, to `closed` if it fails.
/// - `serving`: requests are judged and answered. To `draining` by GOAWAY.
/// - `draining`: what was begun is answered, later streams are ignored. To `closed` after the last.
/// - `closed`: the slots are given back, the stream is gone; nothing follows.
final class ServerConnection {
    private enum State {
        case handshaking, serving, draining, closed
    }

    /// The loop abandons its connections before it goes (`shutDown`).
    unowned let owner: ServerLoop
    private var state = State.handshaking
    private var stream: Stream?
    private var session: OpaquePointer?
    var authentication = ConnectionAuthentication()
    /// The request whose header section is being read, which may take several receptions: header sections of streams never mix
    /// (RFC 9113 §4.3).
    var reading: UnsafeMutablePointer<RequestSlot>?
    /// Requests under way.
    private var slots: UnsafeMutablePointer<RequestSlot>?
    private var requestCount = 0
    private var announcedLimit: UInt32 = 0

    init?(_ descriptor: Int32, owner: ServerLoop) {
        self.owner = owner
        stream = Stream(accepted: descriptor, loop: owner.loop, handler: self, tls: owner.setup.tls)
    }

    deinit {
        precondition(session == nil, "a connection is closed before it goes")
    }

    // MARK: - Requests

    func begin(streamIdentifier: Int32) -> UnsafeMutablePointer<RequestSlot>? {
        guard let slot = owner.slab.take() else { return nil }
        slot.pointee.streamIdentifier = streamIdentifier
        slot.pointee.connection = Unmanaged.passUnretained(self)
        slot.pointee.next = slots
        slots?.pointee.previous = slot
        slots = slot
        return slot
    }

    /// The stream is closed: its slot is free for another request.
    func release(_ slot: UnsafeMutablePointer<RequestSlot>) {
        let (previous, next) = (slot.pointee.previous, slot.pointee.next)
        if let previous { previous.pointee.next = next } else { slots = next }
        next?.pointee.previous = previous
        owner.slab.give(slot)
    }

    func noteAuthorization(_ value: UnsafeRawBufferPointer, of slot: UnsafeMutablePointer<RequestSlot>) {
        let verified = authentication.verifications
        slot.pointee.head.authorization = authentication.present(
            value,
            keys: owner.setup.keys,
            environment: owner.setup.environment,
            nowMilliseconds: owner.worldMilliseconds
        )
        owner.statistics.tokenVerifications += authentication.verifications - verified
    }

    /// The request is complete: its fate is decided, and its answer written now or later.
    func complete(_ slot: UnsafeMutablePointer<RequestSlot>) {
        requestCount += 1
        owner.statistics.countRequest(nowMilliseconds: owner.loop.wallMilliseconds)
        let reason = RequestJudge.judge(slot)
        if authentication.isAuthenticated { announceLimit() }
        if reason == .success {
            decide(slot)
        } else {
            owner.log(slot, PushEnd(reason))
            answer(slot, reason)
        }
        let limit = owner.faults.goAwayAfterRequests
        if limit > 0, requestCount == limit { submitGoAway() }
    }

    private func decide(_ slot: UnsafeMutablePointer<RequestSlot>) {
        let fate = owner.plan.fate(&owner.random)
        switch fate {
        case .processed:
            let (reason, effect) = process(slot)
            owner.log(slot, PushEnd(reason, effect: effect))
            answer(slot, reason)
        case .rejected(let reason):
            owner.log(slot, PushEnd(reason))
            answer(slot, reason)
        case .refused:
            owner.log(slot, PushEnd("refused"))
            owner.statistics.streamsRefused += 1
            reset(slot, NGHTTP2_REFUSED_STREAM)
        case .reset:
            owner.log(slot, PushEnd("reset", effect: effectOfLostAnswer(slot)))
            owner.statistics.streamsReset += 1
            reset(slot, NGHTTP2_INTERNAL_ERROR)
        case .unanswered:
            owner.log(slot, PushEnd("unanswered", effect: effectOfLostAnswer(slot)))
            owner.statistics.requestsUnanswered += 1
        }
    }

    private func effectOfLostAnswer(_ slot: UnsafeMutablePointer<RequestSlot>) -> PushEffect? {
        owner.faults.lostAnswersAreApplied ? process(slot).effect : nil
    }

    /// APNs looks at the token, and what it accepts goes to the phone.
    private func process(_ slot: UnsafeMutablePointer<RequestSlot>) -> (reason: Reason, effect: PushEffect?) {
        guard let key = authentication.key else { return (.missingProviderToken, nil) }
        let now = owner.worldMilliseconds
        let team = owner.setup.keys[key].teamIdentifier
        let priority = slot.pointee.head.priority
        let (verdict, effect) = owner.setup.world.use { model -> (PushVerdict, PushEffect?) in
            let (verdict, token) = RequestJudge.judge(slot, teamIdentifier: team, model: &model, nowMilliseconds: now)
            guard verdict.reason == .success else { return (verdict, nil) }
            let body = slot.pointee.memory.prefix(slot.pointee.bodyBytes, of: RequestMemory.body)
            let effect = model.deliver(
                body,
                token: token,
                priority: priority,
                tape: &owner.tape,
                nowMilliseconds: now
            )
            return (verdict, effect)
        }
        slot.pointee.tokenRetiredAtMilliseconds = verdict.atMilliseconds
        if verdict.reason == .success {
            if priority == 10 { owner.statistics.priority10 += 1 } else { owner.statistics.priority5 += 1 }
        }
        return (verdict.reason, effect)
    }

    private func answer(_ slot: UnsafeMutablePointer<RequestSlot>, _ reason: Reason) {
        slot.pointee.reason = reason
        owner.statistics[reason] += 1
        let latency = owner.plan.latencyMilliseconds(&owner.random)
        if latency == 0 || !owner.answer(slot, afterMilliseconds: latency) { submit(slot) }
    }

    /// An answer whose time has come.
    func submitAndSend(_ slot: UnsafeMutablePointer<RequestSlot>) {
        submit(slot)
        send()
    }

    private func submit(_ slot: UnsafeMutablePointer<RequestSlot>) {
        guard let session else { return }
        let identifier = owner.identifier(of: slot)
        let unique = owner.setup.environment == .sandbox ? owner.uniqueIdentifier(of: slot) : nil
        let fields = owner.fields.fill(slot.pointee.reason, identifier: identifier, unique: unique)
        // Submitting fails for want of memory only; the next call of the session then fails too, and closes the connection.
        if slot.pointee.reason == .success {
            nghttp2_submit_response(session, slot.pointee.streamIdentifier, fields.baseAddress, fields.count, nil)
        } else {
            writeAnswerBody(slot)
            var provider = nghttp2_data_provider()
            provider.source.ptr = UnsafeMutableRawPointer(slot)
            provider.read_callback = readAnswerBody
            nghttp2_submit_response(
                session,
                slot.pointee.streamIdentifier,
                fields.baseAddress,
                fields.count,
                &provider
            )
        }
    }

    private func reset(_ slot: UnsafeMutablePointer<RequestSlot>, _ code: nghttp2_error_code) {
        guard let session else { return }
        nghttp2_submit_rst_stream(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            slot.pointee.streamIdentifier,
            code.rawValue
        )
    }

    // MARK: - The connection

    /// Tells the client how many streams it may have, if that has changed: one until it has authenticated. Goes out with the next
    /// `send`.
    func announceLimit() {
        guard let session else { return }
        let limit =
            authentication.isAuthenticated
            ? owner.faults.concurrentStreams ?? owner.setup.limits.concurrentStreams
            : owner.setup.limits.streamsBeforeAuthentication
        guard limit != announcedLimit else { return }
        announcedLimit = limit
        var entry = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
            value: limit
        )
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entry, 1)
    }

    func goAway() {
        submitGoAway()
        send()
    }

    /// All that has arrived is still answered: only later streams are not processed.
    private func submitGoAway() {
        guard let session, state == .serving else { return }
        state = .draining
        owner.statistics.goAways += 1
        let data = "{\"reason\":\"Shutdown\"}"
        _ = data.utf8.withContiguousStorageIfAvailable { bytes in
            nghttp2_submit_goaway(
                session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                nghttp2_session_get_last_proc_stream_id(session),
                NGHTTP2_NO_ERROR.rawValue,
                bytes.baseAddress,
                bytes.count
            )
        }
    }

    /// Closes without a word.
    func abandon() {
        guard state != .closed else { return }
        state = .closed
        while let slot = slots { release(slot) }
        reading = nil
        nghttp2_session_del(session)
        session = nil
        stream?.close()
        stream = nil
        owner.forget(self)
    }

    /// Hands nghttp2's frames to the stream, which writes them at the turn's end.
    func send() {
        guard let session, let stream else { return }
        while stream.pendingOutputBytes < Stream.highWaterBytes {
            var data: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &data)
            guard count >= 0 else { return abandon() }
            if count == 0 { break }
            stream.write(UnsafeRawBufferPointer(start: data, count: count))
        }
        if nghttp2_session_want_read(session) == 0, nghttp2_session_want_write(session) == 0 {
            stream.shutdownAfterFlush()
        }
    }
}

extension ServerConnection: StreamHandler {
    func streamConnected(_ stream: Stream) {
        // APNs wants *h2* offered by ALPN; TLS alone lets a client through that offers nothing.
        let isAgreed = owner.setup.tls == nil || stream.negotiatedProtocol == "h2"
        guard state == .handshaking, isAgreed, openSession() else { return abandon() }
        state = .serving
        announceLimit()
        send()
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard let session else { return }
        let count = nghttp2_session_mem_recv(session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        // Not HTTP/2 at all, or out of memory. Protocol errors are answered by nghttp2 with GOAWAY.
        guard count >= 0 else { return abandon() }
        send()
        owner.announceRegistrations()
        if stream.pendingOutputBytes >= Stream.highWaterBytes { stream.pauseReading() }
    }

    func streamDrained(_ stream: Stream) {
        stream.resumeReading()
        send()
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        abandon()
    }

    private func openSession() -> Bool {
        guard let callbacks = makeSessionCallbacks() else { return false }
        defer { nghttp2_session_callbacks_del(callbacks) }
        guard nghttp2_session_server_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque()) == 0 else {
            session = nil
            return false
        }
        if let bytes = owner.faults.connectionWindowBytes {
            let window = Int32(truncatingIfNeeded: bytes)
            nghttp2_session_set_local_window_size(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, window)
        }
        return true
    }
}
