import Reactor
import Synchronization

/// The messages that any thread sends to the server's thread, and the server's usage, which any thread may read.
///
/// The number of messages has a limit, because the numbers of exchanges and streams have limits, and each has at most a
/// few messages here.
final class HTTPServerInbox: Sendable {
    enum Message {
        case response(HTTPResponse, connectionNumber: UInt64)
        case streamBegan(HTTPResponseStream, connectionNumber: UInt64)
        /// A stream has new bytes or has finished. It posts this again only after the server's thread has taken the
        /// bytes.
        case streamHasOutput(connectionNumber: UInt64)
    }

    private struct State {
        var messages: [Message] = []
        var isStopRequested = false
        /// Whether the server has ended and takes no more messages.
        var isClosed = false
        var connectionCount = 0
        var exchangeCount = 0
        var openStreamCount = 0
        var bodyBytes = 0
    }

    let limits: HTTPServerLimits
    let wakeup: Wakeup
    private let state = Mutex(State())

    init(limits: HTTPServerLimits) throws(SystemError) {
        self.limits = limits
        wakeup = try Wakeup()
    }

    func requestStop() {
        state.withLock { $0.isStopRequested = true }
        wakeup.signal()
    }

    /// Gives a message to the server's thread. If the server has ended, discards the message. The stream of a message
    /// `streamBegan` then ends, because it can never begin.
    func post(_ message: Message) {
        let isOpen = state.withLock { state in
            if !state.isClosed { state.messages.append(message) }
            return !state.isClosed
        }
        if isOpen {
            wakeup.signal()
        } else if case .streamBegan(let stream, _) = message {
            stream.end()
        }
    }

    /// Takes all waiting messages. Called on the server's thread.
    func takeMessages() -> (messages: [Message], isStopRequested: Bool) {
        wakeup.reset()
        return state.withLock { state in
            defer { state.messages = [] }
            return (state.messages, state.isStopRequested)
        }
    }

    /// Closes the inbox when the server ends. Ends each stream whose message `streamBegan` still waits, because no
    /// connection knows this stream yet. Called on the server's thread.
    func close() {
        let messages = state.withLock { state in
            state.isClosed = true
            defer { state.messages = [] }
            return state.messages
        }
        for case .streamBegan(let stream, _) in messages { stream.end() }
    }

    /// Counts one more exchange.
    ///
    /// - Returns: false, without counting, if the limit of exchanges is reached.
    func reserveExchange() -> Bool {
        state.withLock { state in
            guard state.exchangeCount < limits.exchangesMax else { return false }
            state.exchangeCount += 1
            return true
        }
    }

    func releaseExchange(bodyBytes: Int) {
        state.withLock { state in
            state.exchangeCount -= 1
            state.bodyBytes -= bodyBytes
        }
    }

    /// Counts one more open stream.
    ///
    /// - Returns: false, without counting, if the limit of streams is reached or the server has ended.
    func reserveStream() -> Bool {
        state.withLock { state in
            guard state.openStreamCount < limits.streamsMax, !state.isClosed else { return false }
            state.openStreamCount += 1
            return true
        }
    }

    func releaseStream() { state.withLock { $0.openStreamCount -= 1 } }

    /// Counts bytes of a body that have arrived.
    ///
    /// - Returns: false if the sum of all bodies now exceeds `totalBodyBytesMax`. The bytes are counted even then.
    func addBodyBytes(_ count: Int) -> Bool {
        state.withLock { state in
            state.bodyBytes += count
            return state.bodyBytes <= limits.totalBodyBytesMax
        }
    }

    /// Subtracts the bytes of a body that the connection has discarded. The bytes of a body that an exchange has got
    /// are subtracted when the exchange is released (``releaseExchange(bodyBytes:)``).
    func subtractBodyBytes(_ count: Int) { state.withLock { $0.bodyBytes -= count } }

    func setConnectionCount(_ count: Int) { state.withLock { $0.connectionCount = count } }

    var usage: HTTPServerUsage {
        state.withLock { state in
            HTTPServerUsage(
                connectionCount: state.connectionCount,
                exchangeCount: state.exchangeCount,
                openStreamCount: state.openStreamCount,
                bodyBytes: state.bodyBytes
            )
        }
    }
}

/// How much of its limits (``HTTPServerLimits``) a server uses at one moment.
package struct HTTPServerUsage: Sendable, Equatable {
    package var connectionCount = 0
    /// Requests that wait for the handler's response. A request counts until its `HTTPExchange` is released, even if
    /// the client has disconnected or has got status 503.
    package var exchangeCount = 0
    package var openStreamCount = 0
    /// The bytes of all bodies together. A body counts from its first byte until its `HTTPExchange` is released.
    package var bodyBytes = 0
}
