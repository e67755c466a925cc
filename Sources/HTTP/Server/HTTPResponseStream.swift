import Synchronization

/// The body of a response that grows over time, such as Server-Sent Events (`text/event-stream`).
///
/// Any thread may append. What finds no room, because the client reads slowly, is skipped as a whole; a client that takes nothing for
/// `HTTPServerLimits.idleMilliseconds` while bytes wait for it is cut.
package final class HTTPResponseStream: Sendable {
    package enum Appended: Sendable, Equatable {
        case taken
        /// There is no room. Nothing of the bytes will be sent.
        case skipped
        /// The stream was finished, or the client has gone. Nothing will be sent any more.
        case ended
    }

    private struct State {
        var waiting: [UInt8] = []
        var isFinished = false
        var hasEnded = false
        /// The server's thread has been notified, and has not taken the bytes yet.
        var isAnnounced = false
        var onEnd: (@Sendable () -> Void)?

        /// - Returns: whether the caller must notify the server's thread.
        mutating func announce() -> Bool {
            guard !isAnnounced, !hasEnded else { return false }
            isAnnounced = true
            return true
        }
    }

    let head: HTTPResponse
    private let inbox: HTTPServerInbox
    private let connection: UInt64
    private let state: Mutex<State>

    /// - Precondition: the inbox has counted the stream.
    init(head: HTTPResponse, inbox: HTTPServerInbox, connection: UInt64) {
        self.head = head
        self.inbox = inbox
        self.connection = connection
        state = Mutex(State(waiting: head.body))
    }

    /// Whether nothing will be sent any more: the stream was finished and all is sent, or the client has gone.
    package var hasEnded: Bool { state.withLock { $0.hasEnded } }

    /// Appends bytes that are sent whole, or not at all.
    @discardableResult
    package func append(_ bytes: [UInt8]) -> Appended {
        let (appended, isNew) = state.withLock { state -> (Appended, Bool) in
            guard !state.isFinished, !state.hasEnded else { return (.ended, false) }
            guard bytes.count <= inbox.limits.streamBytesMax - state.waiting.count else { return (.skipped, false) }
            state.waiting += bytes
            return (.taken, state.announce())
        }
        if isNew { inbox.post(.streamReady(connection: connection)) }
        return appended
    }

    /// Ends the response after the bytes that were appended.
    package func finish() {
        let isNew = state.withLock { state in
            state.isFinished = true
            return state.announce()
        }
        if isNew { inbox.post(.streamReady(connection: connection)) }
    }

    /// Sets what is called once, on the server's thread, when the stream has ended; at once if it has already.
    package func onEnd(_ action: @escaping @Sendable () -> Void) {
        let hasEnded = state.withLock { state in
            if !state.hasEnded { state.onEnd = action }
            return state.hasEnded
        }
        if hasEnded { action() }
    }

    // MARK: - The server's thread

    /// - Returns: the bytes that wait, and whether they are the last.
    func take() -> (bytes: [UInt8], isLast: Bool) {
        state.withLock { state in
            state.isAnnounced = false
            defer { state.waiting = [] }
            return (state.waiting, state.isFinished)
        }
    }

    /// Idempotent.
    func end() {
        let (isFirst, action) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard !state.hasEnded else { return (false, nil) }
            state.hasEnded = true
            state.waiting = []
            defer { state.onEnd = nil }
            return (true, state.onEnd)
        }
        guard isFirst else { return }
        inbox.endStream()
        action?()
    }
}
