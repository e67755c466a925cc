import Glibc

/// Receives a stream's events. All calls come from the loop, never from inside a call of the stream. The
/// handler may call any method of the stream in a callback, including `close`.
public protocol StreamHandler: AnyObject {
    /// The connection is established, and the TLS handshake is complete if TLS is used.
    func streamConnected(_ stream: Stream)
    /// - Parameter bytes: valid only during the call; the streams of a loop share the memory.
    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer)
    /// The output fell below the low-water mark after it had exceeded the high-water mark.
    func streamDrained(_ stream: Stream)
    /// The stream has ended. Called exactly once, as the last call. Not called after our own `close`.
    ///
    /// - Parameter error: nil if the peer ended the stream in an orderly way.
    func streamClosed(_ stream: Stream, error: StreamError?)
}

/// A byte stream on a loop: TCP or a Unix socket, with or without TLS.
///
/// The output of a turn is collected and sent at the end of the turn, with one system call per TLS record of
/// up to 16 KiB. Failures are never reported inside a call: `write`, `flush` and `connect` return, and
/// `streamClosed` follows from the loop.
///
/// The loop keeps an active stream alive; the stream holds its handler weakly. The owner keeps the handler
/// alive and closes the stream at the end. A stream whose handler was released closes itself at its next
/// event.
public final class Stream {
    /// With more waiting output than this, a caller should stop writing until `streamDrained`.
    public static let highWaterBytes = 512 * 1024
    /// Below this number of bytes the output has drained; see `streamDrained`.
    public static let lowWaterBytes = 128 * 1024
    /// A stream with more waiting output than this fails with `.outputLimit`.
    public static let outputBytesMax = 8 * 1024 * 1024
    /// The largest argument of `reserve`.
    public static let reservedBytesMax = 1024 * 1024
    /// How long a server waits for the TLS handshake of a client.
    public static let acceptTimeoutMilliseconds: Int64 = 10_000
    /// How long the peer may take to end its side after `shutdownAfterFlush` has ended our side.
    public static let endedVisibleMilliseconds: Int64 = 5_000

    enum State {
        /// `connect` has not been called. → `connecting`, `failing`, `closed`.
        case idle
        /// The TCP or Unix connection is being set up. → `handshaking`, `open`, `failing`, `closed`.
        case connecting
        /// Accepted without TLS. Bytes may flow, but the handler has not been notified yet. → `open`,
        /// `closed`.
        case accepted
        /// The TLS handshake is running. → `open`, `failing`, `closed`.
        case handshaking
        /// Both directions can carry bytes. → `finishing`, `failing`, `closed`.
        case open
        /// All output is sent and our side has ended; the peer may still send bytes. → `closed`.
        case finishing
        /// Failed; the handler will be notified at the end of the turn. → `closed`.
        case failing(StreamError, hasUnreadInput: Bool)
        /// Ended, and everything is released. Final.
        case closed
    }

    let loop: EventLoop
    weak var handler: (any StreamHandler)?
    var state = State.idle
    var transport: Transport
    var tls: TLSContext?
    var serverName: String?

    var output = OutputBuffer()
    /// Whether the socket, or TLS, accepts no output at the moment.
    var isOutputBlocked = false
    var isAboveHighWater = false
    var isShutdownRequested = false

    var isReadingPaused = false
    /// Whether TLS must write before it can continue to read.
    var readWantsWrite = false
    /// Whether TLS must read before it can continue to write.
    var writeWantsRead = false

    /// The events that the loop watches the descriptor for; nil while it is not watched.
    var watched: Interest?
    var isTurnEndScheduled = false
    var deadlineTimer = TimerIdentifier.none
    var continuationTimer = TimerIdentifier.none

    /// The remote address, after `connect` was called or if the stream was accepted.
    public internal(set) var peer: SocketAddress?
    /// The application protocol that ALPN agreed on, once connected.
    public internal(set) var negotiatedProtocol: String?

    /// Creates a stream that will connect.
    ///
    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, handler: any StreamHandler) {
        self.loop = loop
        self.handler = handler
        transport = Transport(descriptor: -1)
    }

    /// Creates a stream for an accepted connection, and takes ownership of the descriptor. `streamConnected`
    /// follows, after the TLS handshake if there is one, and not before the end of this turn.
    public init(accepted descriptor: Int32, loop: EventLoop, handler: any StreamHandler, tls: TLSContext?) {
        precondition(tls?.isServer ?? true, "an accepted stream needs a server's TLS context")
        self.loop = loop
        self.handler = handler
        self.tls = tls
        transport = Transport(descriptor: descriptor)
        peer = remoteAddress(of: descriptor)
        startAccepted()
    }

    deinit {
        loop.cancel(deadlineTimer)
        loop.cancel(continuationTimer)
        if watched != nil { loop.remove(descriptor: transport.descriptor) }
    }

    /// True from `streamConnected` until the stream is closed, has failed, or has ended its output.
    public var isOpen: Bool {
        if case .open = state { true } else { false }
    }

    /// Bytes that were written and that the socket has not taken.
    public var pendingOutputBytes: Int { output.count }

    /// Ends the stream now. Waiting output is dropped, and `streamClosed` is not called. Safe in any
    /// callback. Idempotent.
    public func close() {
        switch state {
        case .closed:
            return
        case .open:
            transport.announceEnd()
        case .idle, .connecting, .accepted, .handshaking, .finishing, .failing:
            break
        }
        release()
    }

    /// Ends the stream without close_notify, so that a TLS peer sees a truncated connection. Otherwise like
    /// `close`.
    public func cut() {
        if case .closed = state { return }
        release()
    }

    // MARK: - Ends

    /// Ends the stream and tells the handler. Called only from the loop.
    func finish(_ error: StreamError?) {
        if case .closed = state { return }
        // The peer ended in an orderly way, so we send close_notify as well.
        if error == nil, case .open = state { transport.announceEnd() }
        // An earlier failure that was not reported to the handler takes precedence over the peer's end.
        var failure = error
        if case .failing(let earlier, _) = state { failure = earlier }
        let handler = handler
        release()
        handler?.streamClosed(self, error: failure)
    }

    /// Marks the stream as failed. The handler is notified at the end of the turn, because the caller may be
    /// the handler itself.
    func fail(_ error: StreamError, hasUnreadInput: Bool = false) {
        switch state {
        case .closed, .failing:
            return
        case .idle, .connecting, .accepted, .handshaking, .open, .finishing:
            state = .failing(error, hasUnreadInput: hasUnreadInput)
            output.removeAll()
            scheduleTurnEnd()
        }
    }

    private func release() {
        state = .closed
        cancelTimers()
        if watched != nil {
            watched = nil
            loop.remove(descriptor: transport.descriptor)
        }
        transport = Transport(descriptor: -1)
        output.removeAll()
        tls = nil
    }

    private func cancelTimers() {
        loop.cancel(deadlineTimer)
        loop.cancel(continuationTimer)
        deadlineTimer = .none
        continuationTimer = .none
    }

    // MARK: - Interest

    /// Makes the loop watch for the events that the stream now waits for.
    func updateInterest() {
        var interest: Interest = []
        switch state {
        case .idle, .closed, .failing, .accepted:
            return
        case .connecting:
            interest = .writable
        case .handshaking:
            interest = readWantsWrite ? .writable : .readable
        case .open, .finishing:
            if !isReadingPaused || writeWantsRead { interest.insert(.readable) }
            if isOutputBlocked && !writeWantsRead || readWantsWrite { interest.insert(.writable) }
        }
        watch(interest)
    }

    func watch(_ interest: Interest) {
        guard watched != interest else { return }
        do throws(SystemError) {
            if watched == nil {
                try loop.add(descriptor: transport.descriptor, interest: interest, handler: self)
            } else {
                try loop.update(descriptor: transport.descriptor, interest: interest)
            }
            watched = interest
        } catch {
            fail(StreamError(code: .system(error.code), reason: error.description))
        }
    }

    func scheduleTurnEnd() {
        guard !isTurnEndScheduled else { return }
        isTurnEndScheduled = true
        loop.atTurnEnd(self)
    }
}

// MARK: - The loop's calls

extension Stream: DescriptorHandler, TurnEndHandler, TimerHandler {
    /// Called by the loop.
    public func descriptorReady(_ events: Interest) {
        switch state {
        case .connecting:
            finishConnecting()
        case .handshaking:
            continueHandshake()
        case .open, .finishing:
            if !events.isDisjoint(with: [.readable, .hangup]) || readWantsWrite { readInput() }
            if isOutputBlocked, events.contains(writeWantsRead ? .readable : .writable) { flushBlockedOutput() }
            if events.contains(.hangup), isReadingPaused { stopWatching() }
        case .idle, .accepted, .failing, .closed:
            break
        }
    }

    /// Called by the loop.
    public func turnEnded() {
        isTurnEndScheduled = false
        switch state {
        case .accepted:
            connectionIsUp()
        case .open, .finishing:
            flush()
            reportDrained()
        case .failing(let error, let hasUnreadInput):
            if hasUnreadInput { deliverRemainingInput() }
            finish(error)
        case .idle, .connecting, .handshaking, .closed:
            break
        }
    }

    /// Called by the loop.
    public func timerFired(tag: UInt64) {
        switch StreamTimer(rawValue: tag) {
        case .deadline:
            deadlineTimer = .none
            deadlinePassed()
        case .continuation:
            continuationTimer = .none
            readInput()
        case nil:
            preconditionFailure("a timer that no stream sets")
        }
    }

    /// Stops watching the descriptor while reading is paused, because the loop would report a hang-up in
    /// every turn.
    private func stopWatching() {
        guard watched != nil else { return }
        watched = nil
        loop.remove(descriptor: transport.descriptor)
    }
}

enum StreamTimer: UInt64 {
    /// Connecting, the handshake, or the peer's end took too long.
    case deadline
    /// Reading continues after a break in which the loop handled other descriptors.
    case continuation
}
