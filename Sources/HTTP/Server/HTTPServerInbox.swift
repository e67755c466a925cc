import Reactor
import Synchronization

/// The messages of other threads to a server's thread, and the counts that all threads share.
///
/// The limits of open exchanges and streams bound the queue: each exchange or stream has at most two messages
/// in the queue.
final class HTTPServerInbox: Sendable {
    enum Message {
        case answer(HTTPResponse, connection: UInt64)
        case streamBegan(HTTPResponseStream, connection: UInt64)
        /// A stream has new bytes or has finished. Sent once until the server's thread takes the bytes.
        case streamReady(connection: UInt64)
    }

    private struct State {
        var messages: [Message] = []
        var isStopRequested = false
        /// Whether the server has ended and takes no more messages.
        var isClosed = false
        var connections = 0
        var exchanges = 0
        var streams = 0
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

    func post(_ message: Message) {
        let isOpen = state.withLock { state in
            if !state.isClosed { state.messages.append(message) }
            return !state.isClosed
        }
        if isOpen { wakeup.signal() }
    }

    /// Takes all waiting messages. Called on the server's thread.
    func take() -> (messages: [Message], isStopRequested: Bool) {
        wakeup.drain()
        return state.withLock { state in
            defer { state.messages = [] }
            return (state.messages, state.isStopRequested)
        }
    }

    /// Closes the inbox when the server ends, and ends the streams whose first message was not handled.
    /// Called on the server's thread.
    func close() {
        let messages = state.withLock { state in
            state.isClosed = true
            defer { state.messages = [] }
            return state.messages
        }
        for case .streamBegan(let stream, _) in messages { stream.end() }
    }

    /// - Returns: false if the limit of exchanges is reached.
    func beginExchange() -> Bool {
        state.withLock { state in
            guard state.exchanges < limits.exchangesMax else { return false }
            state.exchanges += 1
            return true
        }
    }

    func endExchange(bodyBytes: Int) {
        state.withLock { state in
            state.exchanges -= 1
            state.bodyBytes -= bodyBytes
        }
    }

    /// - Returns: false if the limit of streams is reached, or the server has ended.
    func beginStream() -> Bool {
        state.withLock { state in
            guard state.streams < limits.streamsMax, !state.isClosed else { return false }
            state.streams += 1
            return true
        }
    }

    func endStream() { state.withLock { $0.streams -= 1 } }

    /// Counts bytes of a body that have arrived.
    ///
    /// - Returns: false if all bodies together are now larger than allowed.
    func addBodyBytes(_ count: Int) -> Bool {
        state.withLock { state in
            state.bodyBytes += count
            return state.bodyBytes <= limits.bodiesBytesMax
        }
    }

    /// Removes bytes from the count, because their body was dropped before an exchange got it.
    func dropBodyBytes(_ count: Int) { state.withLock { $0.bodyBytes -= count } }

    func noteConnections(_ count: Int) { state.withLock { $0.connections = count } }

    var usage: HTTPServerUsage {
        state.withLock { state in
            HTTPServerUsage(
                connections: state.connections,
                exchanges: state.exchanges,
                streams: state.streams,
                bodyBytes: state.bodyBytes
            )
        }
    }
}

/// The connections, requests, streams and bytes of a server at this moment.
package struct HTTPServerUsage: Sendable, Equatable {
    package var connections = 0
    /// Requests without a response, including requests of clients that have disconnected.
    package var exchanges = 0
    package var streams = 0
    /// The bytes of all bodies that are being received or whose request is not answered yet.
    package var bodyBytes = 0
}
