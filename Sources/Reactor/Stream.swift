import Glibc

/// Receives a stream's events. The loop makes all calls; no method of the stream calls its handler directly. The
/// handler may call any method of the stream in a callback, including `close`.
public protocol StreamHandler: AnyObject {
    /// The connection is established, and the TLS handshake is complete if TLS is used.
    func streamConnected(_ stream: Stream)
    /// The stream has received bytes.
    ///
    /// - Parameter bytes: valid only during the call; the streams of a loop share the memory.
    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer)
    /// The waiting output fell below `lowWaterBytes` after it had exceeded `highWaterBytes`.
    func streamHasRoom(_ stream: Stream)
    /// The stream has ended, and makes no further call. Not called after `close` or `closeWithoutCloseNotify`.
    ///
    /// - Parameter error: nil if the peer ended the stream in an orderly way. Also nil if `shutDownAfterFlush` ended
    ///   our side, and the peer did not end its side within `peerEndTimeoutMilliseconds`.
    func streamClosed(_ stream: Stream, error: StreamError?)
}

/// A byte stream on a loop: TCP or a Unix socket, with or without TLS. It sends its output at the end of the iteration.
/// `write`, `flush` and `connect` report no failure; the loop later calls `streamClosed`.
///
/// The loop keeps a stream alive while it watches the stream's socket, so the owner must close the stream at the end.
/// The stream holds its handler weakly, and closes itself instead of calling a handler that was released.
public final class Stream {
    /// If more output than this waits, a caller should stop writing until `streamHasRoom`.
    public static let highWaterBytes = 512 * 1024
    /// When the waiting output falls below this limit after it was above `highWaterBytes`, the handler gets
    /// `streamHasRoom`. The limit is far below `highWaterBytes`, so that a caller need not stop again after a few
    /// writes.
    public static let lowWaterBytes = 128 * 1024
    /// If more output than this waits, the stream fails with `.outputLimitExceeded`. This bounds the memory even if a
    /// caller ignores `highWaterBytes`. (R4)
    public static let outputBytesMax = 8 * 1024 * 1024
    /// The largest argument of `reserve`.
    public static let reservedBytesMax = 1024 * 1024
    /// How long an accepted stream waits for the TLS handshake of the client.
    public static let acceptTimeoutMilliseconds: Int64 = 10_000
    /// How long the peer may take to end its side after our side has ended by `shutDownAfterFlush`.
    public static let peerEndTimeoutMilliseconds: Int64 = 5_000

    enum Phase {
        /// The first phase. Next:
        /// - `connecting` after `connect`
        /// - `accepted` or `handshaking` if the connection was accepted
        /// - `failing` or `closed`
        case idle
        /// The TCP or Unix connection is being set up. Next: `handshaking`, `open`, `failing` or `closed`.
        case connecting
        /// The connection was accepted without TLS. The handler gets `streamConnected` at the end of the iteration.
        /// Next: `open`, `failing` or `closed`.
        case accepted
        /// The TLS handshake is running. Next: `open`, `failing` or `closed`.
        case handshaking
        /// Both directions can carry bytes. Next: `halfClosed`, `failing` or `closed`.
        case open
        /// All output is sent and our side has ended; the peer may still send bytes. Next: `failing` or `closed`.
        case halfClosed
        /// The stream has failed. The handler gets `streamClosed` at the end of the iteration. Next: `closed`.
        case failing(StreamError, hasUnreadInput: Bool)
        /// The stream has ended, and has released its socket, its timers and OpenSSL's state of the connection. No
        /// phase follows.
        case closed
    }

    let loop: EventLoop
    weak var handler: (any StreamHandler)?
    var phase = Phase.idle
    var transport: Transport
    var tls: TLSContext?
    var serverName: String?

    var output = OutputBuffer()
    /// How many bytes of the output the socket or TLS has taken since the stream was created. The peer has received at
    /// most these. (Under TLS, a record that was sent only in part does not count: no peer can decrypt it.)
    public internal(set) var takenOutputBytes: Int64 = 0
    /// The maximum number of bytes in the next write to TLS. After a blocked write, it is the size of that write,
    /// because OpenSSL must get the same bytes again. With more bytes, it could send the blocked record without
    /// reporting its bytes as taken.
    var nextRecordBytesMax = Stream.tlsRecordBytesMax
    /// Whether the socket or TLS takes no more output until the loop reports the next event.
    var isOutputBlocked = false
    /// Whether the handler must get `streamHasRoom` once less than `lowWaterBytes` waits, because more than
    /// `highWaterBytes` has waited.
    var needsRoomReport = false
    /// Whether `shutDownAfterFlush` was called. The stream then ignores writes, and ends our side when all output is
    /// sent.
    var isShutdownRequested = false

    var isReadingPaused = false
    /// Whether reading or the handshake waits until the socket is writable, because TLS must write first.
    var isTLSReadAwaitingWritable = false
    /// Whether writing waits until the socket is readable, because TLS must read first.
    var isTLSWriteAwaitingReadable = false

    /// The events for which the loop watches the descriptor; nil while the loop does not watch it.
    var watchedEvents: DescriptorEvents?
    var isIterationEndScheduled = false
    var deadlineTimer = TimerIdentifier.none
    var readContinuationTimer = TimerIdentifier.none

    /// The remote address. Nil before `connect`, and if the client of an accepted connection has no address, as on a
    /// Unix socket, or had already disconnected.
    public internal(set) var peer: SocketAddress?
    /// The application protocol that ALPN agreed on; nil before the handshake is complete, or without ALPN.
    public internal(set) var negotiatedProtocol: String?

    /// Creates a stream that is not connected. Call `connect` next.
    ///
    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, handler: any StreamHandler) {
        self.loop = loop
        self.handler = handler
        transport = Transport(descriptor: -1)
    }

    /// Creates a stream for an accepted connection, and takes ownership of the descriptor. The handler gets
    /// `streamConnected` at the end of this iteration at the earliest, and with TLS after the handshake.
    public init(accepted descriptor: Int32, loop: EventLoop, handler: any StreamHandler, tls: TLSContext?) {
        precondition(tls?.isServer ?? true, "an accepted stream needs a server's TLS context")
        self.loop = loop
        self.handler = handler
        self.tls = tls
        transport = Transport(descriptor: descriptor)
        peer = remoteAddress(of: descriptor)
        startAcceptedConnection()
    }

    deinit {
        loop.cancel(deadlineTimer)
        loop.cancel(readContinuationTimer)
        if watchedEvents != nil { loop.remove(descriptor: transport.descriptor) }
    }

    /// True from `streamConnected` until the stream is closed, has failed, or has ended its output.
    public var isOpen: Bool {
        if case .open = phase { true } else { false }
    }

    /// Bytes that were written to the stream and that the socket has not taken.
    public var pendingOutputBytes: Int { output.count }

    /// Bytes that were written to the stream and that the peer's system has not acknowledged: `pendingOutputBytes`, and
    /// the bytes in the kernel's buffer, perhaps megabytes. Under TLS the number is too high, because it includes what
    /// TLS adds. Each use makes a system call.
    public var unacknowledgedOutputBytes: Int { output.count + transport.unacknowledgedBytes }

    /// Ends the stream now and discards the waiting output. An open stream under TLS first sends close_notify. The
    /// handler does not get `streamClosed`. May be called in any callback; a second call does nothing.
    public func close() {
        switch phase {
        case .closed:
            return
        case .open:
            transport.sendCloseNotify()
        case .idle, .connecting, .accepted, .handshaking, .halfClosed, .failing:
            break
        }
        closeTransport()
    }

    /// Ends the stream as `close` does, but without close_notify, by which a TLS peer knows that nothing is missing. So
    /// the peer sees a connection that was cut off. Without TLS, does the same as `close`.
    public func closeWithoutCloseNotify() {
        if case .closed = phase { return }
        closeTransport()
    }

    // MARK: - Ends of the stream

    /// Ends the stream and calls `streamClosed`. Does nothing if the stream is closed. Called only from the loop.
    func closeAndReport(_ error: StreamError?) {
        if case .closed = phase { return }
        // If the peer ended its side in an orderly way, our side sends close_notify as well.
        if error == nil, case .open = phase { transport.sendCloseNotify() }
        var reportedError = error
        // If the stream has already failed, the handler gets that first error.
        if case .failing(let firstError, _) = phase { reportedError = firstError }
        let handler = handler
        closeTransport()
        handler?.streamClosed(self, error: reportedError)
    }

    /// Marks the stream as failed and discards the waiting output. The handler gets `streamClosed` only at the end of
    /// the iteration, because the caller may be the handler itself. Does nothing if the stream has already failed or is
    /// closed.
    ///
    /// - Parameter hasUnreadInput: whether the handler first gets the input that the socket still has.
    func fail(_ error: StreamError, hasUnreadInput: Bool = false) {
        switch phase {
        case .closed, .failing:
            return
        case .idle, .connecting, .accepted, .handshaking, .open, .halfClosed:
            phase = .failing(error, hasUnreadInput: hasUnreadInput)
            output.removeAll()
            scheduleIterationEnd()
        }
    }

    /// Ends the stream without a call to the handler. Releases the socket, the timers and the waiting output.
    private func closeTransport() {
        phase = .closed
        cancelTimers()
        if watchedEvents != nil {
            watchedEvents = nil
            loop.remove(descriptor: transport.descriptor)
        }
        transport = Transport(descriptor: -1)
        output.removeAll()
        tls = nil
    }

    private func cancelTimers() {
        loop.cancel(deadlineTimer)
        loop.cancel(readContinuationTimer)
        deadlineTimer = .none
        readContinuationTimer = .none
    }

    // MARK: - Events that the stream waits for

    /// Makes the loop watch for the events that the stream now waits for.
    func updateInterest() {
        var interest: DescriptorEvents = []
        switch phase {
        case .idle, .closed, .failing, .accepted:
            return
        case .connecting:
            interest = .writable
        case .handshaking:
            interest = isTLSReadAwaitingWritable ? .writable : .readable
        case .open, .halfClosed:
            if !isReadingPaused || isTLSWriteAwaitingReadable { interest.insert(.readable) }
            if isOutputBlocked && !isTLSWriteAwaitingReadable || isTLSReadAwaitingWritable {
                interest.insert(.writable)
            }
        }
        watch(interest)
    }

    /// Makes the loop watch the socket for these events. If the loop refuses, the stream fails.
    func watch(_ interest: DescriptorEvents) {
        guard watchedEvents != interest else { return }
        do throws(SystemError) {
            if watchedEvents == nil {
                try loop.add(descriptor: transport.descriptor, interest: interest, handler: self)
            } else {
                try loop.update(descriptor: transport.descriptor, interest: interest)
            }
            watchedEvents = interest
        } catch {
            fail(StreamError(code: .systemCallFailed(error.code), reason: error.description))
        }
    }

    func scheduleIterationEnd() {
        guard !isIterationEndScheduled else { return }
        isIterationEndScheduled = true
        loop.callAtIterationEnd(self)
    }
}

// MARK: - Events from the loop

extension Stream: DescriptorHandler, IterationEndHandler, TimerHandler {
    /// The loop calls this method when the descriptor has events.
    public func descriptorReady(_ events: DescriptorEvents) {
        switch phase {
        case .connecting:
            finishConnecting()
        case .handshaking:
            continueHandshake()
        case .open, .halfClosed:
            if !events.isDisjoint(with: [.readable, .hangup]) || isTLSReadAwaitingWritable { readInput() }
            if isOutputBlocked, events.contains(isTLSWriteAwaitingReadable ? .readable : .writable) {
                flushBlockedOutput()
            }
            if events.contains(.hangup), isReadingPaused { stopWatchingDescriptor() }
        case .idle, .accepted, .failing, .closed:
            break
        }
    }

    /// The loop calls this method at the end of an iteration if the stream registered for it with
    /// `scheduleIterationEnd`.
    public func iterationEnded() {
        isIterationEndScheduled = false
        switch phase {
        case .accepted:
            becomeOpen()
        case .open, .halfClosed:
            flush()
            reportRoomIfDue()
        case .failing(let error, let hasUnreadInput):
            if hasUnreadInput { deliverRemainingInput() }
            closeAndReport(error)
        case .idle, .connecting, .handshaking, .closed:
            break
        }
    }

    /// The loop calls this method when a timer of the stream fires.
    public func timerFired(tag: UInt64) {
        switch StreamTimer(rawValue: tag) {
        case .deadline:
            deadlineTimer = .none
            closeAfterDeadline()
        case .readContinuation:
            readContinuationTimer = .none
            readInput()
        case nil:
            preconditionFailure("a timer that no stream sets")
        }
    }

    /// Stops watching the descriptor after a hang-up while reading is paused. Otherwise the loop would report the
    /// hang-up in every iteration. `resumeReading` watches the descriptor again.
    private func stopWatchingDescriptor() {
        guard watchedEvents != nil else { return }
        watchedEvents = nil
        loop.remove(descriptor: transport.descriptor)
    }
}

enum StreamTimer: UInt64 {
    /// Fires if the connection attempt, the handshake, or the end of the peer's side takes too long.
    case deadline
    /// The stream reads again, without an event of its socket, for one of these reasons:
    /// - The last reading ended early, so that the loop could handle other descriptors.
    /// - The caller resumed reading, and OpenSSL has input that is no longer in the socket.
    case readContinuation
}
