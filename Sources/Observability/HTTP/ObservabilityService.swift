import Logging
import Reactor
import ServiceLifecycle
import Synchronization

/// Serves `/metrics`, `/livez`, `/readyz` and `/statusz` of a worker, on a thread of its own.
///
/// It must precede the worker in its service group. A group stops its services from the last to the first, so the
/// endpoint then still answers while the worker drains.
package final class ObservabilityService: Service {
    private let address: SocketAddress
    private let registry: MetricRegistry
    private let logger: Logger
    private let control: HTTPControl

    /// - Parameters:
    ///   - host: a numeric address, such as 0.0.0.0, 127.0.0.1 or ::.
    ///   - port: 0 for a port of the system's choice.
    /// - Throws: ``ObservabilityError`` if the host is not a numeric address.
    package init(host: String, port: UInt16, registry: MetricRegistry, logger: Logger) throws {
        guard let address = SocketAddress(numeric: host, port: port) else {
            throw ObservabilityError(reason: "http.host: \(host) is not a numeric address")
        }
        self.address = address
        self.registry = registry
        self.logger = logger
        control = try HTTPControl()
    }

    /// The port that it listens on. Waits until it listens.
    ///
    /// - Throws: why it does not listen.
    package func port() async throws -> UInt16 { try await control.port() }

    /// Returns after a graceful shutdown, or when the task is cancelled.
    /// - Throws: ``ObservabilityError`` if it cannot listen.
    package func run() async throws {
        let (address, registry, logger, control) = (address, registry, logger, control)
        let thread: LoopThread
        do {
            thread = try LoopThread.start(name: "http") { loop in
                do throws(SystemError) {
                    let pages = WorkerPages(registry: registry, logger: logger)
                    let endpoint = try HTTPEndpoint(loop: loop, address: address, pages: pages, control: control)
                    loop.run()
                    endpoint.close()
                    control.noteEnded(nil)
                } catch {
                    let reason = "the HTTP endpoint cannot listen on \(address): \(error)"
                    control.noteEnded(ObservabilityError(reason: reason))
                }
            }
        } catch {
            // Callers that wait for the port must get the error, too.
            let failure = ObservabilityError(reason: "the HTTP endpoint's thread could not start: \(error)")
            control.noteEnded(failure)
            throw failure
        }
        await withTaskCancellationOrGracefulShutdownHandler {
            await control.waitUntilEnded()
        } onCancelOrGracefulShutdown: {
            control.requestStop()
        }
        thread.join()
        if let error = control.error { throw error }
    }
}

/// Why the endpoint does not work.
package struct ObservabilityError: Error, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }
}

/// The state that the service and its thread share.
final class HTTPControl: Sendable {
    private enum Phase {
        /// → `listening`, `ended`.
        case starting
        /// → `ended`.
        case listening(UInt16)
        /// Final.
        case ended(ObservabilityError?)
    }

    private struct State {
        var phase = Phase.starting
        var waitingForPort: [CheckedContinuation<UInt16, any Error>] = []
        var waitingForEnd: [CheckedContinuation<Void, Never>] = []
    }

    let wakeup: Wakeup
    private let stopRequested = Atomic<Bool>(false)
    private let state = Mutex(State())

    init() throws(SystemError) {
        wakeup = try Wakeup()
    }

    var isStopRequested: Bool { stopRequested.load(ordering: .acquiring) }

    func requestStop() {
        stopRequested.store(true, ordering: .releasing)
        wakeup.signal()
    }

    var error: ObservabilityError? {
        state.withLock { state in
            if case .ended(let error) = state.phase { error } else { nil }
        }
    }

    func noteListening(port: UInt16) {
        let waiting = state.withLock { state in
            state.phase = .listening(port)
            defer { state.waitingForPort = [] }
            return state.waitingForPort
        }
        for continuation in waiting { continuation.resume(returning: port) }
    }

    func noteEnded(_ error: ObservabilityError?) {
        let (port, end) = state.withLock { state in
            state.phase = .ended(error)
            defer {
                state.waitingForPort = []
                state.waitingForEnd = []
            }
            return (state.waitingForPort, state.waitingForEnd)
        }
        for continuation in port {
            continuation.resume(
                throwing: error
                    ?? ObservabilityError(
                        reason:
                            "the HTTP endpoint has ended"
                    )
            )
        }
        for continuation in end { continuation.resume() }
    }

    func port() async throws -> UInt16 {
        try await withCheckedThrowingContinuation { continuation in
            let known: Result<UInt16, any Error>? = state.withLock { state in
                switch state.phase {
                case .starting:
                    state.waitingForPort.append(continuation)
                    return nil
                case .listening(let port): return .success(port)
                case .ended(let error):
                    return .failure(
                        error
                            ?? ObservabilityError(
                                reason:
                                    "the HTTP endpoint has ended"
                            )
                    )
                }
            }
            if let known { continuation.resume(with: known) }
        }
    }

    func waitUntilEnded() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if case .ended = state.phase { return true }
                state.waitingForEnd.append(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
