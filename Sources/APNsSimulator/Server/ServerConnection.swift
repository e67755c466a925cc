import CNghttp2
import Glibc
import Reactor

/// One client's connection: bytes in and out, usually under TLS, with an nghttp2 session in between.
///
/// - `handshaking`: there is no session yet. `serving` follows when the connection is set up (under TLS: with `h2`).
/// - `serving`: requests are checked and get their responses. `draining` follows after a GOAWAY. If the GOAWAY comes in
///   two steps, `draining` follows after the second one.
/// - `draining`: requests up to the GOAWAY's last stream get their responses, later streams are ignored.
/// - `closed`: the request slots, the nghttp2 session and the socket are released. `closed` follows after the last
///   response of `draining`. It also follows in every phase if the connection fails, ends or is cut.
final class ServerConnection {
    enum Phase { case handshaking, serving, draining, closed }

    /// Always valid, because a `ServerLoop` closes its connections before the `ServerLoop` is freed (`shutDown`).
    unowned let server: ServerLoop
    let service: SimulatedService
    var phase = Phase.handshaking
    var stream: Stream?
    var session: OpaquePointer?
    var authentication = ConnectionAuthentication()
    /// The request whose header section is being read. A header section may need several reads from the socket, but no
    /// other stream's frame interrupts it (RFC 9113 §4.3).
    var slotBeingRead: UnsafeMutablePointer<RequestSlot>?
    /// The first slot of the linked list of the requests in flight.
    private var firstSlot: UnsafeMutablePointer<RequestSlot>?
    var requestCount = 0
    private var announcedStreamsMax: UInt32 = 0
    /// The highest stream whose request has been processed (`beginProcessing`); 0: none yet.
    var lastProcessedStreamIdentifier: Int32 = 0
    /// The last stream of the final GOAWAY; `Int32.max`: there is no final GOAWAY yet.
    var goAwayLastStreamIdentifier = Int32.max
    /// Whether the connection is left half open: the simulator writes nothing more on it.
    var isHalfOpen = false
    /// Whether the simulator reads nothing more from this half-open connection.
    var hasStoppedReading = false
    /// Whether the connection must be cut when the present call of nghttp2 returns. An earlier cut would free the
    /// session that nghttp2 still uses.
    var isCutDue = false
    /// The final GOAWAY, if it waits for the end of the grace time (``GoAway/graceMilliseconds``); else nil.
    var pendingGoAway: GoAway?
    var goAwayTimer = TimerIdentifier.none

    init?(_ descriptor: Int32, service: SimulatedService, server: ServerLoop) {
        self.server = server
        self.service = service
        stream = Stream(accepted: descriptor, loop: server.loop, handler: self, tls: server.setup.tls)
    }

    deinit {
        precondition(session == nil, "a connection is closed before it is freed")
    }

    var faults: Faults { server.faults(of: service) }

    // MARK: - Requests and their responses

    func beginRequest(streamIdentifier: Int32) -> UnsafeMutablePointer<RequestSlot>? {
        guard let slot = server.slab.allocate() else { return nil }
        slot.pointee.streamIdentifier = streamIdentifier
        slot.pointee.connection = Unmanaged.passUnretained(self)
        slot.pointee.nextSlot = firstSlot
        firstSlot?.pointee.previousSlot = slot
        firstSlot = slot
        return slot
    }

    /// Frees the slot of a closed stream for another request.
    func free(_ slot: UnsafeMutablePointer<RequestSlot>) {
        let (previous, next) = (slot.pointee.previousSlot, slot.pointee.nextSlot)
        if let previous { previous.pointee.nextSlot = next } else { firstSlot = next }
        next?.pointee.previousSlot = previous
        server.slab.free(slot)
    }

    func checkAuthorization(_ value: UnsafeRawBufferPointer, of slot: UnsafeMutablePointer<RequestSlot>) {
        let countBefore = authentication.verificationCount
        slot.pointee.head.authorizationResponse = authentication.authenticate(
            value,
            keys: server.setup.keys,
            environment: server.setup.environment,
            nowMilliseconds: server.simulatedWallMilliseconds
        )
        server.statistics.tokenVerificationCount += authentication.verificationCount - countBefore
    }

    /// Checks and counts a complete request, then processes it and responds, now or later. ``Faults``, a GOAWAY or a
    /// cut can prevent that.
    func handleRequest(_ slot: UnsafeMutablePointer<RequestSlot>) {
        requestCount += 1
        if service == .push {
            server.statistics.countRequest(nowMilliseconds: server.loop.wallMilliseconds)
        } else {
            server.statistics.managementRequestCount += 1
        }
        let response = validate(slot)
        if authentication.isAuthenticated { announceStreamLimit() }
        becomeHalfOpenIfDue()
        if !beginProcessing(slot) {
            server.log(slot, LoggedPushResult("unprocessed"))
        } else if isHalfOpen {
            leaveWithoutResponse(slot, isValid: response == .success)
        } else if response == .success {
            handleValidRequest(slot)
        } else {
            server.log(slot, LoggedPushResult(response))
            respond(slot, response)
        }
        applyConnectionFaults()
    }

    private func validate(_ slot: UnsafeMutablePointer<RequestSlot>) -> SimulatedResponse {
        if service == .management { return ChannelRequestHandler.validateManagementRequest(slot, tape: &server.tape) }
        guard slot.pointee.head.path == .broadcast else { return DevicePushValidator.validate(slot) }
        return ChannelRequestHandler.validateBroadcast(slot, tape: &server.tape)
    }

    private func handleValidRequest(_ slot: UnsafeMutablePointer<RequestSlot>) {
        let handling = server.sampleHandling(service)
        switch handling {
        case .processed, .late:
            let (response, effect) = processRequest(slot)
            server.log(slot, LoggedPushResult(response, effect: effect))
            if case .late = handling {
                respond(slot, response, afterMilliseconds: Int64(faults.lateMilliseconds))
            } else {
                respond(slot, response)
            }
        case .rejected(let reason):
            server.log(slot, LoggedPushResult(reason))
            slot.pointee.tokenRetiredAtWallMilliseconds = server.simulatedWallMilliseconds
            respond(slot, reason)
        case .undocumented(let undocumented):
            server.log(slot, LoggedPushResult(undocumented))
            server.statistics.undocumentedResponseCount += 1
            slot.pointee.undocumentedResponse = undocumented
            respond(slot, undocumented.reason)
        case .refused:
            server.log(slot, LoggedPushResult("refused"))
            server.statistics.refusedStreamCount += 1
            resetStream(slot, NGHTTP2_REFUSED_STREAM.rawValue)
        case .reset:
            server.log(slot, LoggedPushResult("reset", effect: processRequestWithoutResponse(slot)))
            server.statistics.resetStreamCount += 1
            resetStream(slot, faults.resetCode)
        case .noResponse:
            leaveWithoutResponse(slot, isValid: true)
        }
    }

    private func leaveWithoutResponse(_ slot: UnsafeMutablePointer<RequestSlot>, isValid: Bool) {
        server.log(slot, LoggedPushResult("unanswered", effect: isValid ? processRequestWithoutResponse(slot) : nil))
        server.statistics.requestWithoutResponseCount += 1
    }

    private func processRequestWithoutResponse(_ slot: UnsafeMutablePointer<RequestSlot>) -> PushEffect? {
        faults.requestsWithoutResponseTakeEffect ? processRequest(slot).effect : nil
    }

    /// Carries out a valid request. A request about channels, such as a broadcast, goes to `processChannelRequest`. A
    /// push to a device reaches its phone if APNs would accept the device token and the topic.
    private func processRequest(_ slot: UnsafeMutablePointer<RequestSlot>) -> (
        response: SimulatedResponse, effect: PushEffect?
    ) {
        guard let key = authentication.keyIndex else { return (.missingProviderToken, nil) }
        let nowMilliseconds = server.simulatedWallMilliseconds
        let team = server.setup.keys[key].teamId
        if slot.pointee.head.concernsChannels {
            return (processChannelRequest(slot, teamId: team, nowMilliseconds: nowMilliseconds), nil)
        }
        let priority = slot.pointee.head.priority
        let (checkResult, effect) = server.setup.sharedModel.withModel { model -> (TokenCheckResult, PushEffect?) in
            let (checkResult, tokenReference) = DevicePushValidator.checkTopicAndToken(
                slot,
                teamId: team,
                model: &model,
                nowMilliseconds: nowMilliseconds
            )
            guard checkResult.response == .success else { return (checkResult, nil) }
            let body = slot.pointee.memory.prefix(slot.pointee.receivedBodyByteCount, of: RequestMemory.bodyByteRange)
            let effect = model.deliver(
                body,
                tokenReference: tokenReference,
                priority: priority,
                tape: &server.tape,
                nowMilliseconds: nowMilliseconds
            )
            return (checkResult, effect)
        }
        slot.pointee.tokenRetiredAtWallMilliseconds = checkResult.tokenRetiredAtMilliseconds
        if checkResult.response == .success {
            if priority == 10 {
                server.statistics.priority10PushCount += 1
            } else {
                server.statistics.priority5PushCount += 1
            }
        }
        return (checkResult.response, effect)
    }

    /// Responds to a request after the latency. Responds at once if the latency is 0, or if too many responses wait for
    /// their time (``ResponseQueue``).
    ///
    /// - Parameter latencyMilliseconds: nil: a random latency within the configured range.
    private func respond(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        _ response: SimulatedResponse,
        afterMilliseconds latencyMilliseconds: Int64? = nil
    ) {
        slot.pointee.response = response
        // A response with an error does not contain a description or list of channels.
        if response != .success { slot.pointee.managementResponseBody = [] }
        if slot.pointee.undocumentedResponse == nil { server.statistics[response] += 1 }
        let milliseconds = latencyMilliseconds ?? server.sampleLatencyMilliseconds(service)
        if milliseconds == 0 || !server.scheduleResponse(slot, afterMilliseconds: milliseconds) { submitResponse(slot) }
    }

    /// Sends a response that is due.
    func submitResponseAndSend(_ slot: UnsafeMutablePointer<RequestSlot>) {
        submitResponse(slot)
        send()
    }

    private func submitResponse(_ slot: UnsafeMutablePointer<RequestSlot>) {
        guard let session else { return }
        if server.sampleEarlyHints(service) {
            let hints = server.responseFields.makeEarlyHintsFields()
            let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
            let streamIdentifier = slot.pointee.streamIdentifier
            nghttp2_submit_headers(session, flags, streamIdentifier, nil, hints.baseAddress, hints.count, nil)
            server.statistics.informationalResponseCount += 1
        }
        guard !slot.pointee.head.concernsChannels, service == .push else { return submitChannelResponse(slot, session) }
        let identifier = server.ensureIdentifier(of: slot)
        let uniqueIdentifier = server.setup.environment == .sandbox ? server.writeUniqueIdentifier(of: slot) : nil
        let fields = server.responseFields.makeFields(
            slot.pointee.response,
            identifier: identifier,
            uniqueIdentifier: uniqueIdentifier
        )
        // Ignore the results of nghttp2: a call fails only if memory is exhausted. The session's next call then fails
        // too, and the connection closes.
        if slot.pointee.response == .success {
            nghttp2_submit_response(session, slot.pointee.streamIdentifier, fields.baseAddress, fields.count, nil)
        } else {
            writeResponseBody(slot)
            submitResponseWithBody(slot, fields, session)
        }
    }

    private func submitChannelResponse(_ slot: UnsafeMutablePointer<RequestSlot>, _ session: OpaquePointer) {
        let head = slot.pointee.head
        let fields = server.responseFields.makeFields(
            slot.pointee.response,
            slot.pointee.successStatus,
            requestIdentifier: server.ensureIdentifier(of: slot),
            channel: slot.pointee.memory.prefix(head.channelByteCount, of: RequestMemory.channelByteRange)
        )
        if slot.pointee.response != .success { writeResponseBody(slot) }
        if slot.pointee.response == .success, slot.pointee.managementResponseBody.isEmpty {
            nghttp2_submit_response(session, slot.pointee.streamIdentifier, fields.baseAddress, fields.count, nil)
        } else {
            submitResponseWithBody(slot, fields, session)
        }
    }

    private func submitResponseWithBody(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        _ fields: UnsafeMutableBufferPointer<nghttp2_nv>,
        _ session: OpaquePointer
    ) {
        var provider = nghttp2_data_provider()
        provider.source.ptr = UnsafeMutableRawPointer(slot)
        provider.read_callback = copyResponseBody
        nghttp2_submit_response(
            session,
            slot.pointee.streamIdentifier,
            fields.baseAddress,
            fields.count,
            &provider
        )
    }

    private func resetStream(_ slot: UnsafeMutablePointer<RequestSlot>, _ code: UInt32) {
        guard let session else { return }
        nghttp2_submit_rst_stream(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            slot.pointee.streamIdentifier,
            code
        )
    }

    // MARK: - The session and the stream

    /// Submits SETTINGS_MAX_CONCURRENT_STREAMS if its value has changed. The value is low while the connection has no
    /// valid provider token. The next `send` writes the frame.
    func announceStreamLimit() {
        guard let session else { return }
        let limit =
            authentication.isAuthenticated
            ? faults.concurrentStreams ?? server.setup.limits.concurrentStreamsMax
            : server.setup.limits.streamsBeforeAuthenticationMax
        guard limit != announcedStreamsMax else { return }
        announcedStreamsMax = limit
        var entry = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
            value: limit
        )
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entry, 1)
    }

    /// Ends the connection, with TLS's close_notify. Does nothing if the connection is closed.
    func close() {
        guard phase != .closed else { return }
        freeSession()
        stream?.close()
        stream = nil
        server.remove(self)
    }

    /// Makes the connection `closed`, and frees its slots and nghttp2 session. The caller must close `stream`.
    func freeSession() {
        phase = .closed
        while let slot = firstSlot { free(slot) }
        slotBeingRead = nil
        nghttp2_session_del(session)
        session = nil
        server.loop.cancel(goAwayTimer)
        pendingGoAway = nil
    }

    /// Passes nghttp2's frames to `stream`, and ends `stream` after the last frame. Does nothing if half open.
    func send() {
        guard let session, let stream, !isHalfOpen else { return }
        while stream.pendingOutputBytes < Stream.highWaterBytes {
            var frameBytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &frameBytes)
            guard count >= 0 else { return close() }
            if count == 0 { break }
            stream.write(UnsafeRawBufferPointer(start: frameBytes, count: count))
        }
        if nghttp2_session_want_read(session) == 0, nghttp2_session_want_write(session) == 0 {
            stream.shutDownAfterFlush()
        }
    }
}

extension ServerConnection: StreamHandler {
    func streamConnected(_ stream: Stream) {
        // APNs requires `h2` by ALPN. TLS alone would also accept a client that does not use ALPN.
        let isAgreed = server.setup.tls == nil || stream.negotiatedProtocol == "h2"
        guard phase == .handshaking, isAgreed, openSession() else { return close() }
        phase = .serving
        becomeHalfOpenIfDue()
        announceStreamLimit()
        send()
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard let session else { return }
        let count = nghttp2_session_mem_recv(session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        // A negative count means that the bytes are not HTTP/2, or that memory is exhausted. nghttp2 itself
        // responds to protocol errors with a GOAWAY.
        guard count >= 0 else { return close() }
        if isCutDue {
            server.notifyOfRegistrations()
            return closeWithoutCloseNotify()
        }
        send()
        server.notifyOfRegistrations()
        if stream.pendingOutputBytes >= Stream.highWaterBytes { stream.pauseReading() }
    }

    func streamHasRoom(_ stream: Stream) {
        if !hasStoppedReading { stream.resumeReading() }
        send()
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        if !isHalfOpen { noteLostResponses() }
        close()
    }

    /// Creates the session of nghttp2. Returns whether there was memory for it.
    private func openSession() -> Bool {
        guard let callbacks = makeSessionCallbacks() else { return false }
        defer { nghttp2_session_callbacks_del(callbacks) }
        guard nghttp2_session_server_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque()) == 0 else {
            session = nil
            return false
        }
        if let bytes = faults.connectionWindowBytes {
            let windowBytes = Int32(truncatingIfNeeded: bytes)
            nghttp2_session_set_local_window_size(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, windowBytes)
        }
        return true
    }
}
