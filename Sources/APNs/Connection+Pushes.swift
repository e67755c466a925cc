import Reactor

/// Sends pushes and gives each push its ``PushResponse``.
extension Connection {
    /// Sends a push on a new stream.
    ///
    /// - Returns: false if the connection cannot take the push now. No byte of the push is then sent. If the connection
    ///   has no usable provider token, it also retires.
    func submit(_ request: borrowing PushRequest) -> Bool {
        guard freeStreamCount > 0, let stream = transportStream else { return false }
        // If the clock was set back, the token seems to be issued in the future, and APNs may refuse it. So check the
        // token now, not at the scheduled time, which may be hours away.
        let wasClockSetBack = loop.wallMilliseconds < tokenUsedSinceSeconds * 1_000
        let isCheckDue = wasClockSetBack || loop.wallMilliseconds >= newerTokenCheckAtWallMilliseconds
        guard !isCheckDue || updateProviderToken() else {
            retire(.providerToken)
            return false
        }
        let timeoutMilliseconds = configuration.requestTimeoutMilliseconds
        let slotIndex = allocateSlot(for: request, timeoutMilliseconds: timeoutMilliseconds)
        let slot = pushSlots.pointer(slotIndex)

        // Write the header block and the body together if the body fits into one frame and into both flow-control
        // windows: the connection's and the new stream's.
        let body = request.body
        let bodyBytesMax = min(
            Int64(FrameHeader.payloadBytesMax),
            sendWindowBytes,
            Int64(peerSettings.initialWindowBytes)
        )
        let sendsWholeBody = Int64(body.count) <= bodyBytesMax
        let buffer = stream.reserve(
            2 * FrameHeader.byteCount + headerEncoder.blockBytesMax + (sendsWholeBody ? body.count : 0)
        )
        guard let start = buffer.baseAddress else { preconditionFailure("no room was reserved") }
        let blockBytes = writeHeaderBlock(of: request, to: start + FrameHeader.byteCount)
        let isEmpty = body.isEmpty
        FrameHeader(
            payloadBytes: blockBytes,
            type: FrameType.headers,
            flags: FrameFlags.endHeaders | (isEmpty ? FrameFlags.endStream : 0),
            streamIdentifier: nextStreamIdentifier
        )
        .write(to: start)
        var writtenBytes = FrameHeader.byteCount + blockBytes
        if sendsWholeBody, !isEmpty {
            FrameHeader(
                payloadBytes: body.count,
                type: FrameType.data,
                flags: FrameFlags.endStream,
                streamIdentifier: nextStreamIdentifier
            )
            .write(to: start + writtenBytes)
            writtenBytes += FrameHeader.byteCount
            UnsafeMutableRawBufferPointer(start: start + writtenBytes, count: body.count).copyMemory(from: body)
            writtenBytes += body.count
            sendWindowBytes -= Int64(body.count)
            slot.pointee.windowDeltaBytes = -Int64(body.count)
        }
        stream.commit(writtenBytes)
        nextStreamIdentifier += 2
        if sendsWholeBody {
            markSent(slot)
        } else {
            slot.pointee.remainingBody = body
            pushSlots.appendToWaitingBodies(slotIndex)
            sendBody(slotIndex)
        }
        if !isScheduled(.requestTimeout) { schedule(.requestTimeout, afterMilliseconds: timeoutMilliseconds / 2) }
        allowedFrameCount = min(
            allowedFrameCount + ConnectionLimits.framesAllowedPerPush,
            ConnectionLimits.allowedFramesMax
        )
        requestCount += 1
        if requestCount >= configuration.requestsPerConnectionMax { retire(.requestsMax) }
        return true
    }

    @inline(__always)
    private func writeHeaderBlock(of request: borrowing PushRequest, to output: UnsafeMutableRawPointer) -> Int {
        guard !request.isBroadcast else {
            return headerEncoder.writeBroadcast(
                to: output,
                channel: request.address,
                priority: request.priority,
                expirationSeconds: request.expirationSeconds,
                identifier: request.identifier
            )
        }
        return headerEncoder.writePush(
            to: output,
            deviceToken: request.address,
            priority: request.priority,
            expirationSeconds: request.expirationSeconds,
            identifier: request.identifier
        )
    }

    /// Takes a free slot for the push, and assigns the slot to the next stream.
    private func allocateSlot(for request: borrowing PushRequest, timeoutMilliseconds: Int64) -> Int32 {
        let slotIndex = pushSlots.allocate(deadlineMilliseconds: loop.nowMilliseconds + timeoutMilliseconds)
        let slot = pushSlots.pointer(slotIndex)
        slot.pointee.tag = request.tag
        slot.pointee.identifier = request.identifier
        slot.pointee.isBroadcast = request.isBroadcast
        slot.pointee.streamIdentifier = nextStreamIdentifier
        streamTable.insert(nextStreamIdentifier, slotIndex: slotIndex)
        return slotIndex
    }

    private func markSent(_ slot: UnsafeMutablePointer<PushSlot>) {
        // If the stream has failed, APNs never gets the push. So the push stays in the phase `sending`.
        guard let stream = transportStream, stream.isOpen else { return }
        slot.pointee.phase = .sent
        slot.pointee.outputEndBytes = stream.takenOutputBytes + Int64(stream.pendingOutputBytes)
        slot.pointee.sentAtWallMilliseconds = loop.wallMilliseconds
    }

    /// Changes to the newest provider token that the connection may use. Returns false if the connection may use no
    /// token: the caller must then close or retire the connection.
    ///
    /// A connection that tries a new signing key gets a token of that key. A connection never changes to a token of
    /// another key, and keeps each token for at least 20 minutes.
    func updateProviderToken() -> Bool {
        let seconds = loop.wallMilliseconds / 1_000
        guard var nextToken = trialToken ?? tokenSource.provideToken(unixSeconds: seconds) else {
            pool.report(.providerTokenFailed(reason: .absent, detail: "no token was signed, or a shared one is due"))
            return false
        }
        if let providerToken, providerToken.keyGeneration != nextToken.keyGeneration {
            // A connection must never carry tokens of two keys, so this one keeps its current token.
            nextToken = providerToken
        }
        // Never send a token that is too old for APNs. `tokenSource` renews only tokens of the key in use, so a token
        // of a replaced key or of a new key on trial can become too old. If APNs refused a new key's token for its age,
        // `tokenSource` would discard the key.
        guard nextToken.ageSeconds(at: seconds) < ProviderTokenTimes.ageSecondsMax else { return false }
        if nextToken !== providerToken {
            if providerToken != nil,
                !ProviderTokenTimes.mayChangeToken(usedSinceSeconds: tokenUsedSinceSeconds, nowSeconds: seconds)
            {
                return false
            }
            providerToken = nextToken
            tokenUsedSinceSeconds = seconds
            headerEncoder.setAuthorization(nextToken.headerValue)
        }
        // If the clock was set back, the use of the token may seem to begin in the future. So it counts from now.
        tokenUsedSinceSeconds = min(tokenUsedSinceSeconds, seconds)
        let checkAtSeconds = ProviderTokenTimes.newerTokenCheckAtSeconds(
            usedSinceSeconds: tokenUsedSinceSeconds,
            issuedAtSeconds: nextToken.issuedAtSeconds
        )
        // If the check is already due, there was no newer token: wait a second, so that not every push asks for one.
        newerTokenCheckAtWallMilliseconds =
            max(checkAtSeconds, seconds + ProviderTokenTimes.newerTokenRetrySeconds) * 1_000
        return true
    }

    /// Ends the connection's trial of a new signing key, and passes the result to the token source. Does nothing if the
    /// connection tries no key.
    func endKeyTrial(_ result: ProviderTokenSource.KeyTrialResult) {
        guard let token = trialToken else { return }
        trialToken = nil
        tokenSource.endKeyTrial(of: token, result)
    }

    // MARK: - Bodies that wait for room

    /// Sends as much of the waiting bodies as their windows allow. Begins with the body that has waited longest, and
    /// stops when more than ``Stream/highWaterBytes`` of output waits.
    func sendWaitingBodies() {
        hasSendWindowGrown = false
        var slotIndex = pushSlots.firstWaitingIndex
        while slotIndex >= 0, sendWindowBytes > 0, let stream = transportStream,
            stream.pendingOutputBytes <= Stream.highWaterBytes
        {
            let nextIndex = pushSlots.pointer(slotIndex).pointee.nextWaitingIndex
            sendBody(slotIndex)
            slotIndex = nextIndex
        }
    }

    /// Sends as much of one body as the windows of its stream and of the connection allow. A DATA frame has at most
    /// 16,384 bytes, because every peer must accept this length (RFC 9113, section 4.2).
    private func sendBody(_ slotIndex: Int32) {
        let slot = pushSlots.pointer(slotIndex)
        while !slot.pointee.remainingBody.isEmpty {
            let rest = slot.pointee.remainingBody
            let streamWindowBytes = Int64(peerSettings.initialWindowBytes) + slot.pointee.windowDeltaBytes
            let count = Int(
                min(sendWindowBytes, streamWindowBytes, Int64(min(rest.count, FrameHeader.payloadBytesMax)))
            )
            guard count > 0 else { return }
            writeFrame(
                FrameType.data,
                flags: count == rest.count ? FrameFlags.endStream : FrameFlags.none,
                streamIdentifier: slot.pointee.streamIdentifier,
                payload: UnsafeRawBufferPointer(rebasing: rest[..<count])
            )
            sendWindowBytes -= Int64(count)
            slot.pointee.windowDeltaBytes -= Int64(count)
            slot.pointee.remainingBody = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
        pushSlots.removeFromWaitingBodies(slotIndex)
        markSent(slot)
    }

    // MARK: - Responses to pushes

    /// Ends a push, because its whole response has arrived.
    func finishResponse(_ slotIndex: Int32) {
        let slot = pushSlots.pointer(slotIndex)
        // If the push is still `sending`, the server has responded before it got the whole body. The server then needs
        // no more of the body (RFC 9113, section 8.1).
        if slot.pointee.phase == .sending { writeReset(slot.pointee.streamIdentifier, .cancel) }
        completePush(slotIndex, wasStreamRefused: false)
    }

    /// Resets a stream on which the server broke HTTP/2 or sent a body that is too long, and ends the stream's push. If
    /// the final status has already arrived, this status decides how the push ends.
    func resetStream(_ slotIndex: Int32, _ code: ErrorCode) {
        writeReset(pushSlots.pointer(slotIndex).pointee.streamIdentifier, code)
        completePush(slotIndex, wasStreamRefused: false)
    }

    /// Ends every push in flight, because the connection ends. Each push gets its ``PushResponse``.
    func completeAllPushes() {
        for slotIndex in 0..<Int32(pushSlots.capacity) where pushSlots.pointer(slotIndex).pointee.phase != .free {
            completePush(slotIndex, wasStreamRefused: false)
        }
    }

    /// Ends a push: frees its slot, gives the push its ``PushResponse``, and acts on what the response says about the
    /// connection and its provider token. All pushes of the connection end through this function.
    func completePush(_ slotIndex: Int32, wasStreamRefused: Bool, hasTimedOut: Bool = false) {
        let slot = pushSlots.pointer(slotIndex).pointee
        var body = ErrorContent()
        let hasFinalStatus = slot.status >= 200
        if hasFinalStatus, slot.keptResponseBytes > 0 {
            body = ErrorContent(
                UnsafeRawBufferPointer(
                    start: pushSlots.responseBodyMemory(slotIndex),
                    count: Int(slot.keptResponseBytes)
                )
            )
        }
        let reason = body.reason
        let mayReachAPNs = mayReachAPNs(slot)
        var completion = pushCompletion(slot, wasStreamRefused: wasStreamRefused, mayReachAPNs: mayReachAPNs)
        let isTrialKeyRefused = trialToken != nil && isKeyRefused(slot, reason)
        // APNs refused the new key before it processed the push, so the push can be sent again with the old key.
        if isTrialKeyRefused { completion = .notProcessed }
        let disposition = ResponseDisposition(completion: completion, status: slot.status, reason: reason)
        let response = PushResponse(
            tag: slot.tag,
            completion: completion,
            status: completion == .responded ? slot.status : 0,
            reason: reason,
            reasonText: body.reasonText,
            invalidAtWallMilliseconds: body.timestampMilliseconds,
            sentAtWallMilliseconds: mayReachAPNs ? slot.sentAtWallMilliseconds : nil,
            responseAtWallMilliseconds: loop.wallMilliseconds,
            connectionNumber: number,
            disposition: slot.isBroadcast ? disposition.forBroadcast : disposition,
            isBroadcast: slot.isBroadcast
        )
        // Free the slot first, so that the handler can submit a push in it. The bytes of the reason stay valid until
        // another response is written to the slot.
        streamTable.remove(slot.streamIdentifier)
        pushSlots.free(slotIndex)
        if isTrialKeyRefused {
            pool.report(.providerTokenFailed(reason: reason, detail: "APNs refused the new key; the old one is kept"))
            endKeyTrial(.refused(reason))
            retire(.providerToken)
        } else if response.showsAcceptedProviderToken {
            endKeyTrial(.accepted)
            markAuthenticated()
        } else if phase == .unauthenticated {
            hasTokenTestFailed = true
        }
        let submittedAtMilliseconds = slot.deadlineMilliseconds - configuration.requestTimeoutMilliseconds
        if hasTimedOut {
            retireIfUnresponsive(submittedAtMilliseconds: submittedAtMilliseconds)
        } else if completion == .responded, slot.status < 500 {
            (lastServedAtMilliseconds, timedOutPushCount) = (loop.nowMilliseconds, 0)
        }
        pool.pushCompleted(
            response,
            on: self,
            hasTimedOut: hasTimedOut,
            roundTripMilliseconds: loop.nowMilliseconds - submittedAtMilliseconds
        )
    }

    /// Whether a response refuses the key of the provider token: a 403 or a 400 TopicDisallowed. Exceptions:
    /// - A 400 TopicDisallowed while the breaker is not closed: APNs may refuse the topic with every key.
    /// - A 403 to a broadcast without a reason: it may come from a proxy that permits only the paths of devices.
    private func isKeyRefused(_ slot: PushSlot, _ reason: Reason) -> Bool {
        if slot.status == 403 { return !(slot.isBroadcast && reason == .absent) }
        return slot.status == 400 && reason == .topicDisallowed && pool.breaker.isClosed
    }

    /// Retires the connection if several pushes in a row have timed out, or if the breaker's probe has. A PING does not
    /// show this fault, because a load balancer may acknowledge it although it has no server.
    ///
    /// - Parameter submittedAtMilliseconds: when the push that has just timed out was submitted.
    private func retireIfUnresponsive(submittedAtMilliseconds: Int64) {
        // Do not count a push from before `lastServedAtMilliseconds`: the server has served another request since.
        guard submittedAtMilliseconds >= lastServedAtMilliseconds else { return }
        timedOutPushCount += 1
        guard timedOutPushCount >= ConnectionLimits.timedOutPushesMax || pool.breaker.isProbing else { return }
        retire(.unresponsive)
    }

    /// Whether APNs responded to a push that has ended; if not, whether APNs may have processed the push.
    private func pushCompletion(
        _ slot: PushSlot,
        wasStreamRefused: Bool,
        mayReachAPNs: Bool
    ) -> PushResponse.Completion {
        if slot.status >= 200 { return .responded }
        // APNs does not process a refused stream (RFC 9113, section 8.7), nor a request whose last byte was not sent.
        return wasStreamRefused || !mayReachAPNs ? .notProcessed : .ambiguous
    }

    /// Whether APNs has the whole push, or may still get it. An open stream still sends its waiting output. A stream
    /// that has ended has discarded the output that the socket had not taken.
    private func mayReachAPNs(_ slot: PushSlot) -> Bool {
        guard slot.phase == .sent, let stream = transportStream else { return false }
        return stream.isOpen || slot.outputEndBytes <= stream.takenOutputBytes
    }

    /// Whether the last byte of the push waits in the open stream's output.
    private func isOutputWaiting(_ slotIndex: Int32) -> Bool {
        guard let stream = transportStream, stream.isOpen else { return false }
        let slot = pushSlots.pointer(slotIndex)
        return slot.pointee.phase == .sent && slot.pointee.outputEndBytes > stream.takenOutputBytes
    }

    // MARK: - Deadlines of pushes

    /// Ends the pushes that have timed out. Closes the connection if its peer has stopped reading. Otherwise schedules
    /// the timer again, and sends a PING if nothing was received for half of the timeout (``Timer/requestTimeout``).
    func requestTimerFired() {
        let nowMilliseconds = loop.nowMilliseconds
        var hasTimedOutPush = false
        var isOutputStalled = false
        // First send what the socket takes now. If output still waits afterwards, the peer reads slowly.
        transportStream?.flush()
        while pushSlots.oldestIndex >= 0,
            pushSlots.pointer(pushSlots.oldestIndex).pointee.deadlineMilliseconds <= nowMilliseconds
        {
            let slotIndex = pushSlots.oldestIndex
            if isOutputWaiting(slotIndex) {
                // Close the stream to discard its output. Otherwise APNs could still get this push after it has timed
                // out.
                isOutputStalled = true
                transportStream?.close()
            }
            writeReset(pushSlots.pointer(slotIndex).pointee.streamIdentifier, .cancel)
            completePush(slotIndex, wasStreamRefused: false, hasTimedOut: true)
            guard phase != .closed else { return }
            hasTimedOutPush = true
        }
        if isOutputStalled { return close(.outputStalled, detail: "") }
        // Much output alone only means that the connection is busy. But if pushes time out too, the peer has stopped
        // reading.
        if hasTimedOutPush, let stream = transportStream, stream.pendingOutputBytes > Stream.highWaterBytes {
            return close(.outputStalled, detail: "")
        }
        guard pushSlots.oldestIndex >= 0 else { return closeIfDrained() }
        let deadlineMilliseconds = pushSlots.pointer(pushSlots.oldestIndex).pointee.deadlineMilliseconds
        let halfTimeoutMilliseconds = configuration.requestTimeoutMilliseconds / 2
        guard nowMilliseconds >= deadlineMilliseconds - halfTimeoutMilliseconds else {
            return schedule(
                .requestTimeout,
                afterMilliseconds: deadlineMilliseconds - halfTimeoutMilliseconds - nowMilliseconds
            )
        }
        let remainingMilliseconds = deadlineMilliseconds - nowMilliseconds
        let pingDueMilliseconds = lastReceivedAtMilliseconds + halfTimeoutMilliseconds
        guard nowMilliseconds >= pingDueMilliseconds else {
            let untilPingMilliseconds = pingDueMilliseconds - nowMilliseconds
            return schedule(.requestTimeout, afterMilliseconds: min(remainingMilliseconds, untilPingMilliseconds))
        }
        // Nothing was received for half of the timeout. A PING usually shows before the oldest push times out whether
        // the peer is dead. A living peer gets at least a quarter of the timeout to acknowledge it.
        sendPing(
            timeoutMilliseconds: min(
                configuration.pingTimeoutMilliseconds,
                max(remainingMilliseconds, halfTimeoutMilliseconds / 2)
            )
        )
        schedule(.requestTimeout, afterMilliseconds: remainingMilliseconds)
    }
}
