import Reactor
import Synchronization

/// An HTTP/1.1 server for a few clients. It has its own event loop and thread, so that it responds while the
/// rest of the process is busy. `HTTPServerLimits` limits its connections, memory and waiting times.
package final class HTTPServer: Sendable {
    private enum Phase {
        /// `run` does not accept connections yet. Next: `listening` or `ended`.
        case starting
        /// `run` accepts connections. Next: `ended`.
        case listening(UInt16)
        /// The server has stopped, or could not start. No phase follows.
        case ended(HTTPServerError?)
    }

    private typealias PortResult = Result<UInt16, HTTPServerError>

    private struct State {
        var phase = Phase.starting
        /// The callers that wait in ``HTTPServer/awaitPort()``.
        var callersAwaitingPort: [CheckedContinuation<PortResult, Never>] = []
        var callersAwaitingEnd: [CheckedContinuation<Void, Never>] = []
    }

    private let name: String
    private let socket: ListeningSocket
    private let inbox: HTTPServerInbox
    private let state = Mutex(State())

    /// The maximum number of connections that wait in the system until the server accepts them.
    private static let backlog: Int32 = 64

    /// Listens at once, so that a port in use is an error at the start of the process. `run` accepts the
    /// connections later.
    ///
    /// - Parameters:
    ///   - name: the name of the server's thread.
    ///   - address: the address to listen on. With port 0 the system chooses a port.
    /// - Throws: if the server cannot listen on the address, or the process is out of descriptors.
    package init(name: String, address: SocketAddress, limits: HTTPServerLimits) throws(SystemError) {
        self.name = name
        socket = try ListeningSocket(address: address, backlog: Self.backlog)
        inbox = try HTTPServerInbox(limits: limits)
    }

    /// Waits until `run` accepts connections, and returns the port of the server.
    ///
    /// - Throws: the reason why the server does not accept connections.
    package func awaitPort() async throws(HTTPServerError) -> UInt16 {
        let port: PortResult = await withCheckedContinuation { continuation in
            let knownPort: PortResult? = state.withLock { state in
                switch state.phase {
                case .starting:
                    state.callersAwaitingPort.append(continuation)
                    return nil
                case .listening(let port): return .success(port)
                case .ended(let error): return .failure(error ?? .serverEnded)
                }
            }
            if let knownPort { continuation.resume(returning: knownPort) }
        }
        return try port.get()
    }

    /// Asks the server to stop, so that `run` returns. Responses in progress may still be sent for at most one second.
    package func requestStop() { inbox.requestStop() }

    /// Accepts requests and responds to them until `requestStop`. Call it once.
    ///
    /// - Parameter makeHandler: makes the handler on the server's thread. Its argument is the event loop of
    ///   this thread.
    /// - Throws: if the server's thread or its listener cannot start.
    package func run(_ makeHandler: @escaping @Sendable (EventLoop) -> any HTTPRequestHandler)
        async throws(HTTPServerError)
    {
        let thread: LoopThread
        do throws(SystemError) {
            thread = try LoopThread.start(name: name) { [self] loop in serve(loop, makeHandler) }
        } catch {
            // Tasks that wait in `awaitPort()` must get the error, too.
            let failure = HTTPServerError(reason: "cannot start its thread: \(error)")
            enterEnded(failure)
            throw failure
        }
        await waitUntilEnded()
        thread.join()
        if case .ended(let error?) = state.withLock({ $0.phase }) { throw error }
    }

    package var usage: HTTPServerUsage { inbox.usage }

    /// Runs the server on its own thread until `requestStop`.
    private func serve(_ loop: EventLoop, _ makeHandler: (EventLoop) -> any HTTPRequestHandler) {
        do throws(SystemError) {
            let serverLoop = try HTTPServerLoop(loop: loop, socket: socket, handler: makeHandler(loop), inbox: inbox)
            enterListening(port: serverLoop.port)
            loop.run()
            serverLoop.close()
            enterEnded(nil)
        } catch {
            inbox.close()
            enterEnded(HTTPServerError(reason: "on \(socket.address) cannot start: \(error)"))
        }
    }

    private func enterListening(port: UInt16) {
        let continuations = state.withLock { state in
            state.phase = .listening(port)
            defer { state.callersAwaitingPort = [] }
            return state.callersAwaitingPort
        }
        for continuation in continuations { continuation.resume(returning: .success(port)) }
    }

    /// Notes that the server has ended, and resumes all tasks that wait in `awaitPort()` or `run`.
    private func enterEnded(_ error: HTTPServerError?) {
        let (callersAwaitingPort, callersAwaitingEnd) = state.withLock { state in
            state.phase = .ended(error)
            defer {
                state.callersAwaitingPort = []
                state.callersAwaitingEnd = []
            }
            return (state.callersAwaitingPort, state.callersAwaitingEnd)
        }
        for continuation in callersAwaitingPort { continuation.resume(returning: .failure(error ?? .serverEnded)) }
        for continuation in callersAwaitingEnd { continuation.resume() }
    }

    private func waitUntilEnded() async {
        await withCheckedContinuation { continuation in
            let hasEnded = state.withLock { state in
                if case .ended = state.phase { return true }
                state.callersAwaitingEnd.append(continuation)
                return false
            }
            if hasEnded { continuation.resume() }
        }
    }
}

/// Why a server accepts no connections: it could not start, or it has ended (``serverEnded``).
package struct HTTPServerError: Error, Equatable, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }

    static let serverEnded = HTTPServerError(reason: "has ended")
}
