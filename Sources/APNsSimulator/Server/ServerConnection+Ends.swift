import CNghttp2
import Reactor

/// The ways in which a connection ends, orderly or not.
extension ServerConnection {
    /// Returns whether a complete request may be processed. If so, notes its stream in `lastProcessedStreamIdentifier`.
    /// A request is not processed if the connection is about to be cut, or if a GOAWAY that is sent or planned excludes
    /// its stream.
    func beginProcessing(_ slot: UnsafeMutablePointer<RequestSlot>) -> Bool {
        let faults = server.connectionFaults(of: service)
        let streamIdentifier = slot.pointee.streamIdentifier
        if isCutDue || streamIdentifier > goAwayLastStreamIdentifier { return false }
        // The planned GOAWAY will say that all streams up to the highest processed one are processed. So a lower stream
        // must be processed: for example stream 5, if its request becomes complete after that of stream 7.
        let isUnprocessed =
            faults.unprocessedRequestCount > 0 && faults.goAwayAfterRequests < .max
            && streamIdentifier > lastProcessedStreamIdentifier
            && requestCount > faults.goAwayAfterRequests - faults.unprocessedRequestCount
        if !isUnprocessed {
            lastProcessedStreamIdentifier = max(lastProcessedStreamIdentifier, streamIdentifier)
        }
        return !isUnprocessed
    }

    /// Call this after each request. At request `goAwayAfterRequests`, submits a GOAWAY. At request `cutAfterRequests`
    /// or a later one, notes that the connection must be cut. The cut follows when nghttp2 returns, because this
    /// function runs in one of its callbacks.
    func applyConnectionFaults() {
        let faults = server.connectionFaults(of: service)
        if requestCount == faults.goAwayAfterRequests {
            var goAway = self.faults.goAway
            if faults.unprocessedRequestCount > 0 { goAway.lastStreamIdentifier = lastProcessedStreamIdentifier }
            submitGoAway(goAway)
        }
        if requestCount >= faults.cutAfterRequests { isCutDue = true }
    }

    /// Leaves the connection half open if the connection has had more requests than `silentAfterRequests`. If this
    /// number is 0, leaves the connection half open before its first request.
    func becomeHalfOpenIfDue() {
        let faults = server.connectionFaults(of: service)
        let isDue = requestCount > faults.silentAfterRequests || faults.silentAfterRequests == 0
        if isDue { becomeHalfOpen(stopsReading: faults.silentStopsReading) }
    }

    /// Tells the device model that the client may have lost the latest responses to pushes; does nothing on a
    /// connection to the management service. If the client then sends one of these pushes again and its alert rings
    /// twice, this is perhaps no fault of the client (``SenderFaultCounts``).
    func noteLostResponses() {
        guard service == .push else { return }
        let nowMilliseconds = server.simulatedWallMilliseconds
        server.setup.sharedModel.withModel { $0.noteLostResponses(atMilliseconds: nowMilliseconds) }
    }

    /// Leaves the connection half open. Does nothing during the handshake, or if the connection is half open or closed.
    func becomeHalfOpen(stopsReading: Bool) {
        guard phase == .serving || phase == .draining, !isHalfOpen else { return }
        isHalfOpen = true
        noteLostResponses()
        server.statistics.halfOpenConnectionCount += 1
        hasStoppedReading = stopsReading
        if stopsReading { stream?.pauseReading() }
    }

    /// Closes the connection without GOAWAY and without TLS's close_notify. Does nothing if the connection is closed.
    func closeWithoutCloseNotify() {
        guard phase != .closed else { return }
        server.statistics.cutConnectionCount += 1
        noteLostResponses()
        freeSession()
        stream?.closeWithoutCloseNotify()
        stream = nil
        server.remove(self)
    }

    // MARK: - GOAWAY

    /// Sends a GOAWAY. Does nothing during the handshake, or if the connection has already got a GOAWAY or is closed.
    func sendGoAway(_ goAway: GoAway) {
        submitGoAway(goAway)
        send()
    }

    /// Submits a GOAWAY, which the next `send` writes. With a grace time (``GoAway/graceMilliseconds``), this is only a
    /// notice; a timer submits the final GOAWAY when the time is over. Requests up to the final GOAWAY's last stream
    /// still get their responses.
    private func submitGoAway(_ goAway: GoAway) {
        guard let session, phase == .serving, pendingGoAway == nil else { return }
        guard goAway.graceMilliseconds > 0 else { return submitFinalGoAway(goAway) }
        nghttp2_submit_shutdown_notice(session)
        pendingGoAway = goAway
        let graceMilliseconds = Int64(goAway.graceMilliseconds)
        goAwayTimer = server.loop.schedule(afterMilliseconds: graceMilliseconds, handler: self, tag: 0)
    }

    private func submitFinalGoAway(_ goAway: GoAway) {
        guard let session else { return }
        phase = .draining
        server.statistics.goAwayCount += 1
        let lastStreamIdentifier = goAway.lastStreamIdentifier ?? nghttp2_session_get_last_proc_stream_id(session)
        // From now on, streams above `lastStreamIdentifier` must not be processed. nghttp2 ignores these streams only
        // after it has sent the frame. Before that, `beginProcessing` refuses them.
        goAwayLastStreamIdentifier = lastStreamIdentifier
        let debugData = goAway.debugData
        nghttp2_submit_goaway(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            lastStreamIdentifier,
            goAway.errorCode,
            debugData,
            debugData.count
        )
    }
}

extension ServerConnection: TimerHandler {
    func timerFired(tag: UInt64) {
        guard let goAway = pendingGoAway else { return }
        pendingGoAway = nil
        submitFinalGoAway(goAway)
        send()
    }
}
