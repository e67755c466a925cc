import Reactor

/// Handles received frames: responses, resets, SETTINGS, flow control, PING and GOAWAY.
extension Connection {
    /// Reads the frames in received bytes, and applies each frame. Ends the connection if a frame breaks HTTP/2 or
    /// exceeds a limit.
    func receive(_ bytes: UnsafeRawBufferPointer) {
        guard phase != .closed else { return }
        // Keep the pool alive: the code below may call the pool's handler, and the handler may release the pool.
        let pool = pool
        defer { pool.notifyHandlerIfRoom() }
        lastReceivedAtMilliseconds = loop.nowMilliseconds
        do throws(ConnectionFault) {
            var input = bytes
            while let frame = try frameReader.nextFrame(&input) {
                try dispatch(frame)
                guard phase != .closed else { return }
            }
        } catch {
            return fail(error)
        }
        if hasSendWindowGrown { sendWaitingBodies() }
        closeIfDrained()
    }

    private func dispatch(_ frame: Frame) throws(ConnectionFault) {
        try consumeFrameAllowance()
        switch frame.type {
        case FrameType.headers: try headersReceived(frame)
        case FrameType.data: try dataReceived(frame)
        case FrameType.windowUpdate: try windowUpdateReceived(frame)
        case FrameType.resetStream: try resetReceived(frame)
        case FrameType.settings: try settingsReceived(frame)
        case FrameType.ping: try pingReceived(frame)
        case FrameType.goAway: goAwayReceived(frame)
        case FrameType.pushPromise:
            throw ConnectionFault(.protocolError, "PUSH_PROMISE, which we have disabled (RFC 9113, 8.4)")
        default:
            // PRIORITY is deprecated, and frames of unknown types must be ignored (RFC 9113, sections 5.3.2 and 5.5).
            break
        }
    }

    /// Counts a received frame, and refills `allowedFrameCount` when it is used up. Throws if the last refill was less
    /// than a second ago: the server floods the connection with frames (``ConnectionLimits/framesPerSecondMax``).
    private func consumeFrameAllowance() throws(ConnectionFault) {
        allowedFrameCount -= 1
        guard allowedFrameCount < 0 else { return }
        let nowMilliseconds = loop.nowMilliseconds
        guard nowMilliseconds - frameAllowanceRefilledAtMilliseconds >= 1_000 else {
            throw ConnectionFault(.enhanceYourCalm, "a flood of frames (RFC 9113, 10.5)")
        }
        frameAllowanceRefilledAtMilliseconds = nowMilliseconds
        allowedFrameCount = ConnectionLimits.framesPerSecondMax
    }

    /// Returns the slot of the push on a stream; -1 if the stream is closed. Throws if the stream was never open.
    ///
    /// For a closed stream, the caller must still decode header blocks and count bytes: after our RST_STREAM, frames
    /// may still arrive, and HPACK's table and the receive window belong to the whole connection.
    private func slotIndex(of streamIdentifier: Int32) throws(ConnectionFault) -> Int32 {
        // The server opens no stream, and may send frames only on streams that we have opened (RFC 9113,
        // section 5.1).
        guard streamIdentifier & 1 == 1, streamIdentifier < nextStreamIdentifier else {
            throw ConnectionFault(.protocolError, "a frame on an idle stream (RFC 9113, 5.1)")
        }
        return streamTable.slotIndex(of: streamIdentifier)
    }

    // MARK: - Frames of responses

    private func headersReceived(_ frame: Frame) throws(ConnectionFault) {
        let slotIndex = try slotIndex(of: frame.streamIdentifier)
        // Decode the block even if the stream is closed, because every block updates HPACK's table (RFC 9113,
        // section 4.3).
        let head = try headerDecoder.decode(frame.payload)
        guard slotIndex >= 0 else { return }
        let endsStream = frame.flags & FrameFlags.endStream != 0
        let slot = pushSlots.pointer(slotIndex)
        if slot.pointee.status != 0 {
            // Trailers end the stream and have no pseudo-header field (RFC 9113, section 8.1).
            guard endsStream, !head.isMalformed, head.status == 0 else { return discardResponse(slotIndex) }
            return checkLengthAndFinishResponse(slotIndex)
        }
        guard !head.isMalformed, head.status != 0 else { return resetStream(slotIndex, .protocolError) }
        if head.status < 200 {
            // An informational response does not end the stream, and HTTP/2 has no 101 (RFC 9113, sections 8.1 and
            // 8.6).
            if endsStream || head.status == 101 { resetStream(slotIndex, .protocolError) }
            return
        }
        slot.pointee.status = head.status
        if head.hasIdentifier, head.identifier != slot.pointee.identifier {
            pool.statistics.apnsIdMismatchCount += 1
        }
        // Do not check the length of a 204 or 304 response: it has no content, whatever its `content-length` says (RFC
        // 9113, section 8.1.1).
        slot.pointee.hasContentLength = head.contentLengthBytes >= 0 && head.status != 204 && head.status != 304
        slot.pointee.remainingResponseBytes = head.contentLengthBytes
        if endsStream { checkLengthAndFinishResponse(slotIndex) }
    }

    /// Accepts a complete response. Discards the response if its body is shorter than its `content-length` (RFC 9113,
    /// section 8.1.1).
    private func checkLengthAndFinishResponse(_ slotIndex: Int32) {
        let slot = pushSlots.pointer(slotIndex)
        guard !slot.pointee.hasContentLength || slot.pointee.remainingResponseBytes == 0 else {
            return discardResponse(slotIndex)
        }
        finishResponse(slotIndex)
    }

    /// Discards a malformed response and resets its stream (RFC 9113, section 8.1.1). The push then ends as if no
    /// response had come: as `ambiguous`, or as `notProcessed` if the push's body was not sent completely.
    private func discardResponse(_ slotIndex: Int32) {
        pushSlots.pointer(slotIndex).pointee.status = 0
        resetStream(slotIndex, .protocolError)
    }

    private func dataReceived(_ frame: Frame) throws(ConnectionFault) {
        let slotIndex = try slotIndex(of: frame.streamIdentifier)
        try consumeReceiveWindow(frame.flowControlledBytes)
        guard slotIndex >= 0 else { return }
        let slot = pushSlots.pointer(slotIndex)
        guard slot.pointee.status != 0 else { return resetStream(slotIndex, .protocolError) }
        pushSlots.keepResponseBody(slotIndex, frame.payload)
        slot.pointee.receivedResponseBytes += Int32(truncatingIfNeeded: frame.flowControlledBytes)
        if slot.pointee.hasContentLength {
            slot.pointee.remainingResponseBytes -= Int32(truncatingIfNeeded: frame.payload.count)
            guard slot.pointee.remainingResponseBytes >= 0 else { return discardResponse(slotIndex) }
        }
        if frame.flags & FrameFlags.endStream != 0 {
            checkLengthAndFinishResponse(slotIndex)
        } else if slot.pointee.receivedResponseBytes > ConnectionLimits.responseBodyBytesMax {
            resetStream(slotIndex, .cancel)
        }
    }

    /// Subtracts received bytes from the connection's receive window. If less than half of the window is left, restores
    /// its full size with a WINDOW_UPDATE. Throws if the server sent more bytes than the window had.
    private func consumeReceiveWindow(_ byteCount: Int) throws(ConnectionFault) {
        receiveWindowBytes -= byteCount
        guard receiveWindowBytes >= 0 else {
            throw ConnectionFault(.flowControlError, "more bytes than the connection's window allows (RFC 9113, 6.9.1)")
        }
        guard receiveWindowBytes < ConnectionLimits.receiveWindowBytes / 2 else { return }
        writeWindowUpdate(ConnectionLimits.receiveWindowBytes - receiveWindowBytes)
        receiveWindowBytes = ConnectionLimits.receiveWindowBytes
    }

    private func resetReceived(_ frame: Frame) throws(ConnectionFault) {
        let slotIndex = try slotIndex(of: frame.streamIdentifier)
        guard slotIndex >= 0 else { return }
        completePush(
            slotIndex,
            wasStreamRefused: frame.payload.networkUInt32(at: 0) == ErrorCode.refusedStream.rawValue
        )
    }

    // MARK: - Frames of the whole connection

    private func settingsReceived(_ frame: Frame) throws(ConnectionFault) {
        guard frame.flags & FrameFlags.acknowledgement == 0 else { return }
        let settingsBefore = peerSettings
        try peerSettings.apply(frame.payload)
        if peerSettings.headerTableBytes != settingsBefore.headerTableBytes {
            headerEncoder.setPeerTableBytes(peerSettings.headerTableBytes)
        }
        if peerSettings.initialWindowBytes != settingsBefore.initialWindowBytes {
            try checkStreamWindows()
            hasSendWindowGrown = true
        }
        try requirePeerReadsOutput()
        writeFrame(FrameType.settings, flags: FrameFlags.acknowledgement)
        applyPeerSettings()
    }

    /// Throws if the send window of an open stream is too large, after SETTINGS with a new initial window size have
    /// changed all these windows (RFC 9113, section 6.9.2).
    private func checkStreamWindows() throws(ConnectionFault) {
        for slotIndex in 0..<Int32(pushSlots.capacity) where pushSlots.pointer(slotIndex).pointee.phase != .free {
            let windowDeltaBytes = pushSlots.pointer(slotIndex).pointee.windowDeltaBytes
            guard Int64(peerSettings.initialWindowBytes) + windowDeltaBytes <= Int64(Int32.max) else {
                throw ConnectionFault(.flowControlError, "INITIAL_WINDOW_SIZE raises a window beyond 2^31-1")
            }
        }
    }

    private func pingReceived(_ frame: Frame) throws(ConnectionFault) {
        if frame.flags & FrameFlags.acknowledgement != 0 { return cancel(.pingTimeout) }
        try requirePeerReadsOutput()
        writeFrame(FrameType.ping, flags: FrameFlags.acknowledgement, payload: frame.payload)
    }

    /// Throws if too much output waits. Then the peer sends SETTINGS or PING frames, but does not read our
    /// acknowledgements, which would fill the memory. (Pushes cannot: none is sent while more than
    /// ``Stream/highWaterBytes`` wait.)
    private func requirePeerReadsOutput() throws(ConnectionFault) {
        let outputBytesMax = Stream.highWaterBytes + ConnectionLimits.waitingAcknowledgementBytesMax
        guard let stream = transportStream, stream.pendingOutputBytes <= outputBytesMax else {
            throw ConnectionFault(.enhanceYourCalm, "the peer does not read our acknowledgements (RFC 9113, 10.5)")
        }
    }

    private func windowUpdateReceived(_ frame: Frame) throws(ConnectionFault) {
        let increment = Int64(frame.payload.networkUInt32(at: 0) & 0x7FFF_FFFF)
        guard frame.streamIdentifier != 0 else {
            guard increment > 0 else {
                throw ConnectionFault(.protocolError, "WINDOW_UPDATE by 0 (RFC 9113, 6.9)")
            }
            sendWindowBytes += increment
            guard sendWindowBytes <= Int64(Int32.max) else {
                throw ConnectionFault(.flowControlError, "a window beyond 2^31-1 (RFC 9113, 6.9.1)")
            }
            hasSendWindowGrown = true
            return
        }
        let slotIndex = try slotIndex(of: frame.streamIdentifier)
        guard slotIndex >= 0 else { return }
        guard increment > 0 else { return resetStream(slotIndex, .protocolError) }
        let slot = pushSlots.pointer(slotIndex)
        slot.pointee.windowDeltaBytes += increment
        guard Int64(peerSettings.initialWindowBytes) + slot.pointee.windowDeltaBytes <= Int64(Int32.max) else {
            return resetStream(slotIndex, .flowControlError)
        }
        hasSendWindowGrown = true
    }

    private func goAwayReceived(_ frame: Frame) {
        let lastStreamIdentifier = Int32(truncatingIfNeeded: frame.payload.networkUInt32(at: 0) & 0x7FFF_FFFF)
        let code = frame.payload.networkUInt32(at: 4)
        let data = UnsafeRawBufferPointer(rebasing: frame.payload[8...])
        let reason = ErrorContent(data).reason
        let text = data.logText(bytesMax: ConnectionLimits.goAwayTextBytesMax)
        pool.report(.goAway(connection: number, code: code, reason: reason, text: text))
        retire(.goAway)
        // The server never processes a stream above the last stream of its GOAWAY (RFC 9113, section 6.8). So end the
        // pushes on such streams now: their responses will not come, and the pushes can be sent again.
        for slotIndex in 0..<Int32(pushSlots.capacity) {
            guard phase != .closed else { return }
            let slot = pushSlots.pointer(slotIndex)
            if slot.pointee.phase != .free, slot.pointee.streamIdentifier > lastStreamIdentifier {
                completePush(slotIndex, wasStreamRefused: true)
            }
        }
    }
}
