extension Stream {
    /// Appends the bytes to the output, which is sent at the end of the iteration, or later if the stream is not
    /// connected or the socket takes no bytes. If more than `outputBytesMax` would wait, the stream fails.
    ///
    /// Ignores the bytes after `shutDownAfterFlush`, and if the stream has failed or is closed.
    public func write(_ bytes: UnsafeRawBufferPointer) {
        guard acceptsOutput else { return }
        guard bytes.count <= Stream.outputBytesMax - output.count else { return failForOutputLimit() }
        output.reserve(bytes.count).copyMemory(from: bytes)
        output.commit(bytes.count)
        scheduleSending()
    }

    /// Reserves room at the end of the output. The caller writes its bytes there, and must then call `commit`.
    ///
    /// - Parameter count: at most `reservedBytesMax`.
    /// - Returns: at least `count` uninitialised bytes; valid until the next call of a method of this stream.
    public func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        precondition(count >= 0 && count <= Stream.reservedBytesMax, "more is reserved than the limit allows")
        return output.reserve(count)
    }

    /// Appends the first `count` bytes of the reserved room to the output, as `write` does with its bytes.
    public func commit(_ count: Int) {
        guard acceptsOutput else { return }
        output.commit(count)
        guard output.count <= Stream.outputBytesMax else { return failForOutputLimit() }
        scheduleSending()
    }

    /// Sends as much as the socket takes now, without waiting for the end of the iteration. Does nothing if the stream
    /// is not open.
    public func flush() {
        guard case .open = phase else { return }
        if !isOutputBlocked { sendOutput() }
        guard case .open = phase else { return }
        if isRoomReportDue { scheduleIterationEnd() }
        if isShutdownRequested, output.count == 0 { endOutput() }
    }

    /// Ends the stream in an orderly way:
    /// 1. It sends the waiting output. From now on it ignores writes.
    /// 2. It ends our side (close_notify under TLS), and still delivers input.
    /// 3. When the peer has ended its side, or after `peerEndTimeoutMilliseconds`, the handler gets `streamClosed`.
    public func shutDownAfterFlush() {
        guard acceptsOutput else { return }
        isShutdownRequested = true
        if case .open = phase { scheduleIterationEnd() }
    }

    // MARK: - Called when the loop reports an event

    /// Sends output again when the socket is ready, and tells the handler if there is room for more output. Called only
    /// from the loop.
    func flushBlockedOutput() {
        guard case .open = phase else { return }
        isOutputBlocked = false
        isTLSWriteAwaitingReadable = false
        flush()
        updateInterest()
        if case .open = phase { reportRoomIfDue() }
    }

    func reportRoomIfDue() {
        guard isRoomReportDue else { return }
        needsRoomReport = false
        guard let handler else { return close() }
        handler.streamHasRoom(self)
    }

    // MARK: - Sending the output

    private var acceptsOutput: Bool {
        switch phase {
        case .idle, .connecting, .accepted, .handshaking, .open: !isShutdownRequested
        case .halfClosed, .failing, .closed: false
        }
    }

    private var isRoomReportDue: Bool { needsRoomReport && output.count < Stream.lowWaterBytes }

    private func failForOutputLimit() {
        fail(
            StreamError(code: .outputLimitExceeded, reason: "more than \(Stream.outputBytesMax) bytes wait to be sent")
        )
    }

    /// Makes the stream send the added output at the end of the iteration, if it is open and its output is not blocked.
    /// If more than `highWaterBytes` wait, the handler gets `streamHasRoom` later.
    private func scheduleSending() {
        if output.count > Stream.highWaterBytes { needsRoomReport = true }
        if !isOutputBlocked, case .open = phase { scheduleIterationEnd() }
    }

    /// Sends output until the socket takes no more. If the socket or TLS fails, the stream fails.
    private func sendOutput() {
        while output.count > 0 {
            let bytes = output.bytes
            let part =
                transport.isTLS ? UnsafeRawBufferPointer(rebasing: bytes.prefix(nextRecordBytesMax)) : bytes
            switch transport.write(part) {
            case .bytes(let count):
                output.consume(count)
                takenOutputBytes += Int64(count)
                nextRecordBytesMax = Stream.tlsRecordBytesMax
            case .blockedUntilWritable:
                nextRecordBytesMax = part.count
                return blockOutput(until: .writable)
            case .blockedUntilReadable:
                nextRecordBytesMax = part.count
                return blockOutput(until: .readable)
            case .endOfStream, .failed:
                return fail(transport.takeFailure(), hasUnreadInput: true)
            }
        }
    }

    private func blockOutput(until readiness: DescriptorEvents) {
        isOutputBlocked = true
        isTLSWriteAwaitingReadable = readiness == .readable
        updateInterest()
    }

    /// Ends our side, and gives the peer `peerEndTimeoutMilliseconds` to end its side.
    private func endOutput() {
        phase = .halfClosed
        transport.shutDownWriting()
        startDeadline(afterMilliseconds: Stream.peerEndTimeoutMilliseconds)
        updateInterest()
    }
}
