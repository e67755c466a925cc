import CNghttp2
import Reactor

/// The ways in which a connection ends, orderly or not.
extension ServerConnection {
    /// Whether a complete request must stay unprocessed: its connection is about to be cut, or its stream is above
    /// the last stream of a GOAWAY that is planned or sent. Notes the stream of any other request in
    /// `lastProcessedStream`.
    func isLeftUnprocessed(_ slot: UnsafeMutablePointer<RequestSlot>) -> Bool {
        let faults = owner.connectionFaults(of: service)
        let stream = slot.pointee.streamIdentifier
        if isCutDue || stream > goAwayLastStream { return true }
        // Requests may become complete in another order than their stream numbers. A GOAWAY names one stream, and
        // says that only higher streams are unprocessed. So a late request on a stream below `lastProcessedStream`
        // must be processed too.
        let isUnprocessed =
            faults.unprocessedRequests > 0 && faults.goAwayAfterRequests < .max && stream > lastProcessedStream
            && requestCount > faults.goAwayAfterRequests - faults.unprocessedRequests
        if !isUnprocessed { lastProcessedStream = max(lastProcessedStream, stream) }
        return isUnprocessed
    }

    /// Submits a GOAWAY when the connection has had `goAwayAfterRequests` requests. Marks the connection to be cut
    /// when it has had `cutAfterRequests` requests. The cut follows after the present call of nghttp2.
    func applyConnectionFaults() {
        let faults = owner.connectionFaults(of: service)
        if requestCount == faults.goAwayAfterRequests {
            var goAway = self.faults.goAway
            if faults.unprocessedRequests > 0 { goAway.lastStream = lastProcessedStream }
            submitGoAway(goAway)
        }
        if requestCount >= faults.cutAfterRequests { isCutDue = true }
    }

    /// Leaves the connection half open when it has had more requests than `silentAfterRequests`. If this number is 0,
    /// leaves the connection half open before its first request.
    func becomeHalfOpenIfDue() {
        let faults = owner.connectionFaults(of: service)
        let isDue = requestCount > faults.silentAfterRequests || faults.silentAfterRequests == 0
        if isDue { becomeHalfOpen(stopsReading: faults.silentStopsReading) }
    }

    /// Tells the device model that the client may never read the latest responses on this connection. If the client
    /// then sends a push again, the repeat is not certainly its fault.
    func recordLostResponses() {
        guard service == .push else { return }
        let nowMilliseconds = owner.simulatedMilliseconds
        owner.setup.sharedModel.withModel { $0.recordLostResponses(atMilliseconds: nowMilliseconds) }
    }

    func becomeHalfOpen(stopsReading: Bool) {
        guard state == .serving || state == .draining, !isHalfOpen else { return }
        isHalfOpen = true
        recordLostResponses()
        owner.statistics.connectionsSilenced += 1
        hasStoppedReading = stopsReading
        if stopsReading { stream?.pauseReading() }
    }

    /// Closes the connection without GOAWAY and without TLS's close_notify.
    func closeWithoutCloseNotify() {
        guard state != .closed else { return }
        owner.statistics.connectionsCut += 1
        recordLostResponses()
        releaseSession()
        stream?.closeWithoutCloseNotify()
        stream = nil
        owner.remove(self)
    }

    // MARK: - GOAWAY

    func sendGoAway(_ goAway: GoAway) {
        submitGoAway(goAway)
        send()
    }

    /// Submits a GOAWAY, which the next `send` writes. With a grace time, submits only the notice that announces it,
    /// and schedules the final GOAWAY. Requests that have arrived, up to the last stream, still get their responses.
    private func submitGoAway(_ goAway: GoAway) {
        guard let session, state == .serving, pendingGoAway == nil else { return }
        guard goAway.graceMilliseconds > 0 else { return submitFinalGoAway(goAway) }
        nghttp2_submit_shutdown_notice(session)
        pendingGoAway = goAway
        let graceMilliseconds = Int64(goAway.graceMilliseconds)
        goAwayTimer = owner.loop.schedule(afterMilliseconds: graceMilliseconds, handler: self, tag: 0)
    }

    private func submitFinalGoAway(_ goAway: GoAway) {
        guard let session else { return }
        state = .draining
        owner.statistics.goAways += 1
        let lastStream = goAway.lastStream ?? nghttp2_session_get_last_proc_stream_id(session)
        // From now on, streams above the last one must not be processed. nghttp2 drops them only after it has
        // sent the frame. Until then, `isLeftUnprocessed` reports them.
        goAwayLastStream = lastStream
        let data = goAway.debugData
        nghttp2_submit_goaway(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            lastStream,
            goAway.errorCode,
            data,
            data.count
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
