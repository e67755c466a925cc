import Synchronization

/// The body of a response that grows over time, such as Server-Sent Events (`text/event-stream`). Any thread may
/// append.
///
/// If there is no room for all bytes of an append, usually because the client reads slowly, the stream skips the whole
/// append. If a client takes none of the waiting bytes for `HTTPServerLimits.idleTimeoutMilliseconds`, the server
/// closes the connection.
package final class HTTPResponseStream: Sendable {
    package enum AppendResult: Sendable, Equatable {
        case appended
        /// The stream has no room for the bytes. None of them will be sent.
        case skipped
        /// The stream was finished, or has ended (`hasEnded`). None of the bytes will be sent.
        case ended
    }

    private struct State {
        var waitingOutput: [UInt8] = []
        /// Whether `finish` was called. Appended bytes may still wait to be sent.
        var isFinished = false
        /// Whether the server takes no more bytes, see ``HTTPResponseStream/hasEnded``.
        var hasEnded = false
        /// Whether the server's thread knows of output that it has not taken yet.
        var isOutputAnnounced = false
        var onEnd: (@Sendable () -> Void)?

        /// Call this after bytes were appended, or after the stream was finished.
        ///
        /// - Returns: whether the caller must now post the message `streamHasOutput`. False if the server's thread was
        ///   already told and has not taken the output yet, or if the stream has ended.
        mutating func announceOutput() -> Bool {
            guard !isOutputAnnounced, !hasEnded else { return false }
            isOutputAnnounced = true
            return true
        }
    }

    /// The status, the header fields and the first part of the body.
    let initialResponse: HTTPResponse
    private let inbox: HTTPServerInbox
    private let connectionNumber: UInt64
    private let state: Mutex<State>

    /// - Precondition: the caller has counted the stream with `reserveStream` of the inbox.
    init(initialResponse: HTTPResponse, inbox: HTTPServerInbox, connectionNumber: UInt64) {
        self.initialResponse = initialResponse
        self.inbox = inbox
        self.connectionNumber = connectionNumber
        state = Mutex(State(waitingOutput: initialResponse.body))
    }

    /// Whether the server takes no more bytes from the stream, for one of these reasons:
    /// - The server has taken the last bytes of a finished stream.
    /// - The request's method is `HEAD`.
    /// - The request was refused before the stream began.
    /// - The server stops, or the connection has ended.
    package var hasEnded: Bool { state.withLock { $0.hasEnded } }

    /// Appends bytes to the body. The stream takes either all of them or none. If the connection ends early, bytes
    /// that were taken may be lost.
    @discardableResult
    package func append(_ bytes: [UInt8]) -> AppendResult {
        let (appendResult, mustPost) = state.withLock { state -> (AppendResult, Bool) in
            guard !state.isFinished, !state.hasEnded else { return (.ended, false) }
            guard bytes.count <= inbox.limits.streamBytesMax - state.waitingOutput.count else {
                return (.skipped, false)
            }
            state.waitingOutput += bytes
            return (.appended, state.announceOutput())
        }
        if mustPost { inbox.post(.streamHasOutput(connectionNumber: connectionNumber)) }
        return appendResult
    }

    /// Ends the response. The server still sends the bytes that were appended before.
    package func finish() {
        let mustPost = state.withLock { state in
            state.isFinished = true
            return state.announceOutput()
        }
        if mustPost { inbox.post(.streamHasOutput(connectionNumber: connectionNumber)) }
    }

    /// Sets the action for the end of the stream (``hasEnded``). A stream may end without ``finish()``, for example
    /// because the client disconnects. The action runs one time, on the server's thread. But if the stream has ended
    /// before this call, the action runs in this call, on the caller's thread.
    package func onEnd(_ action: @escaping @Sendable () -> Void) {
        let hasEnded = state.withLock { state in
            if !state.hasEnded { state.onEnd = action }
            return state.hasEnded
        }
        if hasEnded { action() }
    }

    // MARK: - The server's thread

    /// Removes and returns the bytes that wait, and whether they are the last bytes of the response.
    func takeWaitingOutput() -> (bytes: [UInt8], isLast: Bool) {
        state.withLock { state in
            state.isOutputAnnounced = false
            defer { state.waitingOutput = [] }
            return (state.waitingOutput, state.isFinished)
        }
    }

    /// Ends the stream, discards its waiting bytes and runs the action of `onEnd`. A second call does nothing.
    func end() {
        let (isFirst, action) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard !state.hasEnded else { return (false, nil) }
            state.hasEnded = true
            state.waitingOutput = []
            defer { state.onEnd = nil }
            return (true, state.onEnd)
        }
        guard isFirst else { return }
        inbox.releaseStream()
        action?()
    }
}
