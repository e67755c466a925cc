extension Stream {
    /// How many times in a row one stream may fill the loop's `readBuffer`. After that, the loop first handles other
    /// descriptors.
    private static let readBufferFillsPerEventMax = 4
    /// The longest plaintext of a TLS record (RFC 8446 section 5.1). A read with this much room takes a whole
    /// record.
    static let tlsRecordBytesMax = 16 * 1024

    /// Stops the delivery of input. Received bytes wait in the kernel, and under TLS also in OpenSSL. When the
    /// kernel's buffer is full, the peer cannot send more.
    public func pauseReading() {
        isReadingPaused = true
        updateInterest()
    }

    /// Resumes the delivery of input after `pauseReading`. The handler gets no input inside this call.
    public func resumeReading() {
        guard isReadingPaused else { return }
        isReadingPaused = false
        updateInterest()
        if transport.hasBufferedInput { scheduleReadContinuation() }
    }

    /// Reads the available input and passes it to the handler. After `readBufferFillsPerEventMax` buffers, the rest
    /// waits until the next iteration. Closes the stream if the input has ended or a read fails. Called only from the
    /// loop.
    func readInput() {
        for _ in 0..<Stream.readBufferFillsPerEventMax {
            switch phase {
            case .open, .halfClosed: break
            case .idle, .connecting, .accepted, .handshaking, .failing, .closed: return
            }
            guard !isReadingPaused else { return }
            let result = fillAndDeliverReadBuffer()
            if case .closed = phase { return }
            switch result {
            case .bytes:
                continue
            case .blockedUntilReadable:
                setTLSReadAwaitingWritable(false)
                return
            case .blockedUntilWritable:
                setTLSReadAwaitingWritable(true)
                return
            case .endOfStream:
                return closeAndReport(nil)
            case .failed:
                return closeAndReport(transport.takeFailure())
            }
        }
        scheduleReadContinuation()
    }

    /// Reads the available input into the loop's `readBuffer` until it is full, and passes it to the handler. Closes
    /// the stream if the handler was released, or if a read fails after earlier reads have returned bytes.
    ///
    /// - Returns: `.bytes` if there may be more input; otherwise why reading has stopped.
    private func fillAndDeliverReadBuffer() -> TransferResult {
        let buffer = loop.readBuffer
        var filledBytes = 0
        var result = TransferResult.bytes(0)
        while buffer.count - filledBytes >= Stream.tlsRecordBytesMax, case .bytes = result {
            result = transport.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filledBytes...]))
            guard case .bytes(let count) = result else { break }
            filledBytes += count
            if transport.isTLS {
                // After a short TLS record, the socket is usually empty, and another read would waste a system call. If
                // the socket does have more input, the loop reports it.
                if count < Stream.tlsRecordBytesMax, !transport.hasBufferedInput { result = .blockedUntilReadable }
            } else {
                // A read that does not fill the buffer has emptied the socket.
                if filledBytes < buffer.count { result = .blockedUntilReadable }
                break
            }
        }
        guard filledBytes > 0 else { return result }
        let error = takeFailureIfFailed(result)
        guard let handler else {
            close()
            return result
        }
        handler.stream(self, received: UnsafeRawBufferPointer(rebasing: buffer[..<filledBytes]))
        if let error { closeAndReport(error) }
        return result
    }

    /// Returns the error of a failed transfer; nil if the transfer did not fail. Call this before the handler: the
    /// handler may use OpenSSL for another stream, and the error would be lost.
    private func takeFailureIfFailed(_ result: TransferResult) -> StreamError? {
        guard case .failed = result else { return nil }
        return transport.takeFailure()
    }

    /// Delivers the input that is left after a write has failed, unless reading is paused. The peer's last bytes may
    /// say why it closed the connection.
    func deliverRemainingInput() {
        guard !isReadingPaused else { return }
        for _ in 0..<Stream.readBufferFillsPerEventMax {
            guard case .failing = phase, case .bytes = fillAndDeliverReadBuffer() else { return }
        }
    }

    private func setTLSReadAwaitingWritable(_ isAwaiting: Bool) {
        guard isTLSReadAwaitingWritable != isAwaiting else { return }
        isTLSReadAwaitingWritable = isAwaiting
        updateInterest()
    }

    private func scheduleReadContinuation() {
        guard readContinuationTimer == .none else { return }
        readContinuationTimer = loop.schedule(
            afterMilliseconds: 0,
            handler: self,
            tag: StreamTimer.readContinuation.rawValue
        )
    }
}
