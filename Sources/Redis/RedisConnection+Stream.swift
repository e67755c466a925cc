import Reactor

enum ConnectionTimer: UInt64 {
    case reconnect
    case deadline
}

// MARK: - The loop's calls

extension RedisConnection: StreamHandler, TimerHandler, IterationEndHandler {
    /// Begins the handshake. The loop calls this method when the connection's ``Stream`` is connected.
    public func streamConnected(_ stream: Stream) {
        guard stream === self.stream else { return }
        guard let reader = ReplyReader() else {
            return disconnect(RedisError(.protocolViolation, "no memory for the reader"))
        }
        self.reader = reader
        phase = .handshaking
        beginHandshake()
    }

    /// Handles all complete replies, in their order, up to one that must stay unread
    /// (``findOutIfNextReplyIsWithheld(in:)``). The loop calls this method when bytes have arrived.
    public func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard stream === self.stream, let reader else { return }
        lastReceivedAtMilliseconds = loop.nowMilliseconds
        guard reader.feed(bytes) else { return disconnect(RedisError(.protocolViolation)) }
        // An error reply may have ended the connection inside `handleReply`. The session or the handler may also have
        // closed it. So check before each reply that this stream is still the connection's.
        while stream === self.stream && !findOutIfNextReplyIsWithheld(in: reader) {
            switch reader.next() {
            case .incomplete: return
            case .violation: disconnect(RedisError(.protocolViolation))
            case .reply(let reply): handleReply(reply, from: reader)
            }
        }
    }

    private func handleReply(_ reply: Reply, from reader: ReplyReader) {
        guard let call = outstandingCalls.oldest, call.commandCallCount > 0 else {
            return disconnect(RedisError(.protocolViolation, "Redis sent a reply without a request"))
        }
        guard call.kind == .sessionCall else {
            _ = outstandingCalls.removeOldest()
            if reply.kind == .error { delegate?.serverReturnedError(call, on: self, error: reply.bytes) }
            return handleReplyToOwnCommand(reply, to: call.kind, from: reader, handler)
        }
        let callCount = Int(call.commandCallCount)
        let roundTripMicroseconds = loop.nowMicroseconds - call.issuedAtMicroseconds
        handler?.redisReplied(callCount: callCount, roundTripMicroseconds: roundTripMicroseconds)
        if reply.kind == .error {
            handleError(reply.bytes, of: call, from: reader)
        } else if call.awaitsReplicas && hasEnoughReplicas != true {
            failUnacknowledgedCalls(callCount, from: reader)
        } else {
            session.handleReply(reply, toCalls: callCount, from: reader, on: self)
        }
    }

    /// Fails all calls of a command to which the server replied with an error.
    private func handleError(_ text: UnsafeRawBufferPointer, of firstCall: OutstandingCall, from reader: ReplyReader) {
        let error = RedisError(reply: text)
        if firstCall.commandCallCount == 1 { delegate?.serverReturnedError(firstCall, on: self, error: text) }
        let isScriptMissing = error.code == .noScript
        if isScriptMissing && !hasReloadedScripts { reloadScripts() }
        for _ in 0..<firstCall.commandCallCount {
            guard completeOldestCall(from: reader) else { return }
            session.handleFailureOfOldestCall(error)
        }
        guard reader === self.reader else { return }
        if error.endsConnection || isScriptMissing && firstCall.followsScriptReload { disconnect(error) }
    }

    /// Does nothing, because ``obstacleToIssue`` checks before each call how much output waits.
    public func streamHasRoom(_ stream: Stream) {}

    /// Tries the server's next address, or ends the connection. The loop calls this method when the connection's
    /// ``Stream`` has ended, or could not connect.
    public func streamClosed(_ stream: Stream, error: StreamError?) {
        guard stream === self.stream else { return }
        if phase == .connecting && !untriedAddresses.isEmpty { return connectToNextAddress() }
        disconnect(RedisError(.stream, "connection to Redis: \(error?.description ?? "closed by the server")"))
    }

    /// Writes the collected calls, and WAIT if a call needs it. The loop calls this method at the end of an iteration
    /// in which calls were issued or a WAIT got its reply.
    public func iterationEnded() {
        isIterationEndScheduled = false
        session.flush(on: self)
        sendWaitCommandIfNeeded()
    }

    /// Connects again after the pause, or ends the connection if its oldest call has waited too long.
    public func timerFired(tag: UInt64) {
        switch ConnectionTimer(rawValue: tag) {
        case .reconnect: if phase == .pausing { beginConnectionAttempt() }
        case .deadline: enforceReplyDeadline()
        case nil: preconditionFailure("a timer that no connection sets")
        }
    }
}
