extension Stream {
    /// Times the shared buffer is filled for one stream before other streams get their turn.
    private static let fillsPerEventMax = 4
    /// The plaintext of a TLS record is no longer than this (RFC 8446 section 5.1), so a read of as much leaves no part
    /// of it behind.
    static let recordBytesMax = 16 * 1024

    /// Stops delivery. Bytes then wait in the kernel, and in time the peer has to wait.
    public func pauseReading() {
        isReadingPaused = true
        updateInterest()
    }

    public func resumeReading() {
        guard isReadingPaused else { return }
        isReadingPaused = false
        updateInterest()
        if transport.holdsInput { scheduleContinuation() }
    }

    /// Reads what there is, within limits, and hands it on. From the loop only.
    func readInput() {
        for _ in 0..<Stream.fillsPerEventMax {
            switch state {
            case .open, .finishing: break
            case .idle, .connecting, .accepted, .handshaking, .failing, .closed: return
            }
            guard !isReadingPaused else { return }
            let outcome = fillAndDeliver()
            if case .closed = state { return }
            switch outcome {
            case .bytes:
                continue
            case .wantsRead:
                setReadWantsWrite(false)
                return
            case .wantsWrite:
                setReadWantsWrite(true)
                return
            case .end:
                return finish(nil)
            case .failed:
                return finish(transport.takeFailure())
            }
        }
        scheduleContinuation()
    }

    /// Fills the shared buffer and hands it on. `.bytes`: there may be more.
    private func fillAndDeliver() -> TransferOutcome {
        let buffer = loop.readBuffer
        var filled = 0
        var outcome = TransferOutcome.bytes(0)
        while buffer.count - filled >= Stream.recordBytesMax, case .bytes = outcome {
            outcome = transport.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]))
            guard case .bytes(let count) = outcome else { break }
            filled += count
            if transport.isTLS {
                // Whatever else there is lies in the socket, and the loop will say so. After a short record, asking now
                // would most often cost a system call to learn that it is empty.
                if count < Stream.recordBytesMax, !transport.holdsInput { outcome = .wantsRead }
            } else {
                // Likewise: a short read has emptied the socket.
                if filled < buffer.count { outcome = .wantsRead }
                break
            }
        }
        guard filled > 0 else { return outcome }
        let error = failureToKeep(outcome)
        guard let handler else {
            close()
            return outcome
        }
        handler.stream(self, received: UnsafeRawBufferPointer(rebasing: buffer[..<filled]))
        if let error { finish(error) }
        return outcome
    }

    /// The handler may use OpenSSL for other streams, so the error has to be taken before it is called.
    private func failureToKeep(_ outcome: TransferOutcome) -> StreamError? {
        guard case .failed = outcome else { return nil }
        return transport.takeFailure()
    }

    /// A connection that takes no more output may still hold what the peer said last, such as why it hung up.
    func deliverRemainingInput() {
        guard !isReadingPaused else { return }
        for _ in 0..<Stream.fillsPerEventMax {
            guard case .failing = state, case .bytes = fillAndDeliver() else { return }
        }
    }

    private func setReadWantsWrite(_ wants: Bool) {
        guard readWantsWrite != wants else { return }
        readWantsWrite = wants
        updateInterest()
    }

    private func scheduleContinuation() {
        guard continuationTimer == .none else { return }
        continuationTimer = loop.schedule(
            afterMilliseconds: 0,
            handler: self,
            tag: StreamTimer.continuation.rawValue
        )
    }
}
