import CNghttp2
import Glibc
import Reactor

/// From submission to answer.
extension Connection {
    /// Starts a push on a stream of its own. False if the session does not take it; then nothing has happened.
    func submit(_ request: borrowing PushRequest) -> Bool {
        guard freeStreams > 0, let session else { return false }
        guard loop.wallMilliseconds < tokenReviewMilliseconds || reviewToken() else {
            retire(.providerToken)
            return false
        }
        let timeout = configuration.requestTimeoutMilliseconds
        let index = slots.take(deadlineMilliseconds: loop.nowMilliseconds + timeout)
        let slot = slots.pointer(index)
        slot.pointee.tag = request.tag
        slot.pointee.body = request.body
        let text = slots.text(index)
        Hexadecimal.writeIdentifier(request.identifier, to: text + SlotTable.identifierOffset)
        headers.setPush(
            text: text,
            pathBytes: slots.writePath(index, deviceToken: request.deviceToken),
            expirationBytes: Decimal.write(request.expiration, to: text + SlotTable.expirationOffset),
            priority: request.priority
        )
        let handle = slots.handle(index)
        var provider = nghttp2_data_provider(source: nghttp2_data_source(ptr: handle), read_callback: onBodyRead)
        let stream = nghttp2_submit_request(session, nil, headers.fields, HeaderBlock.count, &provider, handle)
        guard stream > 0 else {
            slots.free(index)
            retire(.sessionRefused)
            return false
        }
        slot.pointee.streamIdentifier = stream
        if !isScheduled(.request) { schedule(.request, afterMilliseconds: timeout) }
        if requests == 0 { headers.stopIndexing() }
        requests += 1
        if requests >= configuration.requestsPerConnectionMax { retire(.requestsMax) }
        pump()
        return true
    }

    /// Takes the newest provider token if this connection may change to it. False if there is none to use.
    func reviewToken() -> Bool {
        let seconds = loop.wallMilliseconds / 1_000
        guard let newest = tokens.current(unixSeconds: seconds) else {
            pool.notice(.providerTokenTrouble(reason: .absent, detail: "no provider token could be signed"))
            return false
        }
        if newest !== token {
            replacedToken = token
            token = newest
            tokenPinnedAtSeconds = seconds
            headers.setAuthorization(newest)
        }
        let review = ProviderTokenTimes.reviewSeconds(
            pinnedAt: tokenPinnedAtSeconds,
            issuedAt: newest.issuedAtSeconds
        )
        // After a failed signing the review is due already; the next attempt need not come with the next push.
        tokenReviewMilliseconds = max(review, seconds + ProviderTokenTimes.retrySeconds) * 1_000
        return true
    }

    /// nghttp2 takes the next part of a body into a DATA frame.
    func readBody(_ handle: UnsafeMutableRawPointer?, into buffer: UnsafeMutableRawBufferPointer) -> (Int, isLast: Bool)
    {
        guard let index = slots.index(of: handle) else { return (0, true) }
        let slot = slots.pointer(index)
        let rest = UnsafeRawBufferPointer(rebasing: slot.pointee.body[slot.pointee.bodySent...])
        let count = min(rest.count, buffer.count)
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: rest[..<count]))
        slot.pointee.bodySent += count
        guard count == rest.count else { return (count, false) }
        slot.pointee.stage = .sent
        slot.pointee.sentAtMilliseconds = loop.wallMilliseconds
        return (count, true)
    }

    // MARK: - The answer

    /// A field of the answer whose header block is being received. False if the block is too large to be an answer.
    func headerReceived(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Bool {
        guard headerSlot >= 0 else { return true }
        // The size as HTTP/2 counts it (RFC 9113, section 6.5.2).
        headerBytes += name.count + value.count + 32
        guard headerBytes <= SessionLimits.headerListBytesMax else { return false }
        // The lengths of the three names; most fields are none of them.
        guard name.count == 7 || name.count == 11 else { return true }
        let slot = slots.pointer(headerSlot)
        if (":status" as StaticString).equals(name) {
            slot.pointee.status = UInt16(Decimal.read(value, max: 999) ?? 0)
        } else if ("apns-id" as StaticString).equals(name) {
            let sent = slots.text(headerSlot) + SlotTable.identifierOffset
            let isEcho =
                value.count == Hexadecimal.identifierBytes
                && value.baseAddress.map { memcmp($0, sent, value.count) } == 0
            if !isEcho { pool.statistics.identifiersChanged += 1 }
        } else if ("retry-after" as StaticString).equals(name) {
            let seconds = Decimal.read(value, max: Int64(SessionLimits.retryAfterSecondsMax))
            slot.pointee.retryAfterSeconds = Int32(seconds ?? -1)
        }
        return true
    }

    /// A part of the answer's body; what is beyond the slot's room is dropped, the status is not.
    func bodyReceived(stream: Int32, bytes: UnsafeRawBufferPointer) {
        guard let index = slots.index(of: nghttp2_session_get_stream_user_data(session, stream)) else { return }
        let slot = slots.pointer(index)
        let kept = Int(slot.pointee.answerBytes)
        let count = min(bytes.count, SlotTable.answerBytesMax - kept)
        UnsafeMutableRawBufferPointer(start: slots.answer(index) + kept, count: count)
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        slot.pointee.answerBytes = UInt16(kept + count)
    }

    /// The stream is over: the one place, with `answerAll`, in which a push comes to its answer.
    func streamClosed(stream: Int32, code: UInt32) {
        guard let index = slots.index(of: nghttp2_session_get_stream_user_data(session, stream)) else { return }
        answer(index, wasRefused: code == NGHTTP2_REFUSED_STREAM.rawValue)
    }

    /// Answers what is in flight when the session will say nothing more: nghttp2 calls nothing back for streams that
    /// are open when it is deleted.
    func answerAll() {
        for index in 0..<Int32(slots.capacity) where slots.pointer(index).pointee.stage != .free {
            answer(index, wasRefused: false)
        }
    }

    private func answer(_ index: Int32, wasRefused: Bool) {
        let slot = slots.pointer(index).pointee
        var body = AnswerBody()
        let isAnswered = slot.status >= 200
        if isAnswered, slot.answerBytes > 0 {
            body = AnswerBody(UnsafeRawBufferPointer(start: slots.answer(index), count: Int(slot.answerBytes)))
        }
        let reason = body.reason
        let kind = answerKind(slot, wasRefused: wasRefused)
        let status = isAnswered ? slot.status : 0
        let result = PushAnswer(
            tag: slot.tag,
            kind: kind,
            status: status,
            reason: reason,
            reasonText: body.reasonText,
            timestampMilliseconds: body.timestampMilliseconds,
            retryAfterSeconds: slot.retryAfterSeconds,
            sentAtMilliseconds: slot.sentAtMilliseconds,
            answeredAtMilliseconds: loop.wallMilliseconds,
            connection: identifier,
            disposition: Disposition(kind: kind, status: status, reason: reason)
        )
        // Free first, so that the handler can use the stream; the reason's text stays until an answer overwrites it.
        slots.free(index)
        if phase == .cold, isAnswered, status != 403, reason != .tooManyProviderTokenUpdates { authenticated() }
        pool.pushCompleted(result, on: self, ranOutOfTime: !slot.isTimed)
    }

    private func answerKind(_ slot: Slot, wasRefused: Bool) -> PushAnswer.Kind {
        if slot.status >= 200 { return .answered }
        // RFC 9113, section 8.7: a refused stream has not been processed; and no server can have processed a request
        // whose end has not been sent.
        return wasRefused || slot.stage == .queued ? .notProcessed : .ambiguous
    }

    // MARK: - Deadlines

    func requestTimerFired() {
        guard let session else { return }
        let now = loop.nowMilliseconds
        var expired = 0
        while slots.oldest >= 0, slots.pointer(slots.oldest).pointee.deadlineMilliseconds <= now {
            let index = slots.oldest
            slots.untime(index)
            let stream = slots.pointer(index).pointee.streamIdentifier
            _ = nghttp2_submit_rst_stream(
                session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                stream,
                NGHTTP2_CANCEL.rawValue
            )
            expired += 1
        }
        // The streams close as their resets are sent. If the peer reads so little that they cannot be, it is gone.
        pump()
        guard phase != .closed else { return }
        guard slots.timedCount == slots.count else { return close(.outputStalled, detail: "") }
        if slots.oldest >= 0 {
            let deadline = slots.pointer(slots.oldest).pointee.deadlineMilliseconds
            schedule(.request, afterMilliseconds: max(1, deadline - now))
        }
        let isSilent = now - lastReceivedMilliseconds >= configuration.requestTimeoutMilliseconds
        if expired > 0, isSilent { sendPing() }
        closeIfOver()
    }
}
