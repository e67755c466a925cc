import Glibc

/// Told what happens to a stream. All calls come from the loop, never from inside a call of the stream; each may call
/// any method of the stream, `close` included.
public protocol StreamHandler: AnyObject {
    /// The connection, and TLS if asked for, is up.
    func streamConnected(_ stream: Stream)
    /// - Parameter bytes: valid only during the call. The loop's streams share the memory.
    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer)
    /// The output fell below the low-water mark after it had been above the high one.
    func streamDrained(_ stream: Stream)
    /// The stream is over: exactly once, and nothing after it. Not called after our own `close`.
    ///
    /// - Parameter error: nil if the peer ended the stream in order.
    func streamClosed(_ stream: Stream, error: StreamError?)
}

/// A byte stream on a loop: TCP or a Unix socket, with TLS or without.
///
/// What is written in a turn is collected and sent at the turn's end, one system call per TLS record of up to 16 KiB.
/// Failures are never reported from inside a call: `write`, `flush` and `connect` return, and `streamClosed` follows
/// from the loop.
///
/// The loop keeps an active stream alive; the stream holds its handler weakly. The owner keeps the handler alive and
/// closes the stream when it is done with it. A stream whose handler is gone closes itself at its next event.
public final class Stream {
    /// Above this much waiting output, a caller should stop writing until `streamDrained`.
    public static let highWaterBytes = 512 * 1024
    /// Output has drained when it is below this.
    public static let lowWaterBytes = 128 * 1024
    /// A stream that is asked to hold more output than this fails with `.outputLimit`.
    public static let outputBytesMax = 8 * 1024 * 1024
    /// The most that one `reserve` can ask for.
    public static let reservedBytesMax = 1024 * 1024
    /// How long a server waits for a client's TLS handshake.
    public static let acceptTimeoutMilliseconds: Int64 = 10_000
    /// How long the peer may take to end its side after `shutdownAfterFlush` has ended ours.
    public static let lingerMilliseconds: Int64 = 5_000

    enum State {
        /// Made; `connect` has not been called. → `connecting`, `failing`, `closed`.
        case idle
        /// The TCP or Unix connection is under way. → `handshaking`, `open`, `failing`, `closed`.
        case connecting
        /// Accepted without TLS: open in all but that the handler has not been told. → `open`, `closed`.
        case accepted
        /// The TLS handshake is under way. → `open`, `failing`, `closed`.
        case handshaking
        /// Both directions carry bytes. → `finishing`, `failing`, `closed`.
        case open
        /// All output is sent and our side is ended; the peer's may still carry bytes. → `closed`.
        case finishing
        /// Broken, which the handler will be told at the turn's end. → `closed`.
        case failing(StreamError, hasUnreadInput: Bool)
        /// Over, and everything is released. Final.
        case closed
    }

    let loop: EventLoop
    weak var handler: (any StreamHandler)?
    var state = State.idle
    var transport: Transport
    var tls: TLSContext?
    var serverName: String?

    var output = OutputBuffer()
    /// The socket, or TLS, takes no output for now.
    var isOutputBlocked = false
    var isAboveHighWater = false
    var isShutdownRequested = false

    var isReadingPaused = false
    /// TLS must write before it can read on.
    var readWantsWrite = false
    /// TLS must read before it can write on.
    var writeWantsRead = false

    /// What the loop watches the descriptor for; nil while it does not watch it.
    var watched: Interest?
    var isTurnEndScheduled = false
    var deadlineTimer = TimerIdentifier.none
    var continuationTimer = TimerIdentifier.none

    /// The remote end, once `connect` was called or if the stream was accepted.
    public internal(set) var peer: SocketAddress?
    /// What ALPN agreed on, once connected.
    public internal(set) var negotiatedProtocol: String?

    /// A stream that will connect.
    ///
    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, handler: any StreamHandler) {
        self.loop = loop
        self.handler = handler
        transport = Transport(descriptor: -1)
    }

    /// A stream over a connection that was accepted; owns the descriptor. `streamConnected` follows, after the TLS
    /// handshake if there is one, and not before this turn's end.
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

    /// Bytes written and not yet taken by the socket.
    public var pendingOutputBytes: Int { output.count }

    /// Ends the stream now. Output that waits is dropped; `streamClosed` is not called. Idempotent.
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

    /// Ends the stream now as a host does that has lost power: under TLS the peer gets no close_notify. Otherwise like `close`.
    public func cut() {
        if case .closed = state { return }
        release()
    }

    // MARK: - Ends

    /// Ends the stream and tells the handler. From the loop only.
    func finish(_ error: StreamError?) {
        if case .closed = state { return }
        // The peer that has ended in order is owed the same.
        if error == nil, case .open = state { transport.announceEnd() }
        // A failure of ours that the handler has not been told of yet comes before an end that the peer made.
        var failure = error
        if case .failing(let earlier, _) = state { failure = earlier }
        let handler = handler
        release()
        handler?.streamClosed(self, error: failure)
    }

    /// Marks the stream as broken. The handler is told from the loop, since the caller may be the handler itself.
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

    /// Makes the loop watch for what the stream waits for now.
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
    /// For the loop.
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

    /// For the loop.
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

    /// For the loop.
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

    /// A hang-up is reported every turn until it is read, and reading is paused: look away until it resumes.
    private func stopWatching() {
        guard watched != nil else { return }
        watched = nil
        loop.remove(descriptor: transport.descriptor)
    }
}

enum StreamTimer: UInt64 {
    /// Connecting, the handshake, or the peer's end takes too long.
    case deadline
    /// A reading was broken off with input left, to let others have their turn.
    case continuation
}
