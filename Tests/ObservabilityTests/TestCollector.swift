import Reactor
import Synchronization
import Testing

/// A collector on loopback, with or without TLS. It responds to its requests in order, with one of `responses` each.
/// When all responses are used, a request gets none.
final class TestCollector: Sendable {
    private struct State {
        var responses: [String]
        var requests: [String] = []
    }

    let port: UInt16
    private let state: Mutex<State>
    /// Yields the number of requests so far, each time when a request arrives.
    private let arrivals = AsyncStream.makeStream(of: Int.self)
    private let endWakeup: Wakeup
    private let thread: Mutex<LoopThread?> = Mutex(nil)

    init(tls: TLSContext? = nil, responses: [String] = []) throws {
        state = Mutex(State(responses: responses))
        endWakeup = try Wakeup()
        // Uses a port that no other server gets after the collector has closed.
        let socket = try ListeningSocket(address: .loopback(port: Listener.findUnusedLoopbackPort()), backlog: 1_024)
        port = socket.address.port
        let loopThread = try LoopThread.start(name: "collector") { [self] loop in
            do {
                let server = try CollectorServer(loop: loop, socket: socket, tls: tls, collector: self)
                try loop.add(descriptor: endWakeup.descriptor, interest: .readable, handler: server)
                loop.run()
                server.close()
            } catch {
                Issue.record("no collector: \(error)")
            }
        }
        thread.withLock { $0 = loopThread }
    }

    /// The heads and bodies of the requests. A request is in the list as soon as its head is complete.
    var requests: [String] { state.withLock { $0.requests } }

    func close() {
        endWakeup.signal()
        thread.withLock { $0 }?.join()
    }

    /// Waits for this many requests. The test's time limit cancels the wait.
    func await(_ count: Int) async throws {
        guard requests.count < count else { return }
        for await arrived in arrivals.stream where arrived >= count { return }
        try #require(requests.count >= count, "\(count) requests, there are \(requests.count)")
    }

    fileprivate func response(to request: String) -> String? {
        state.withLock { state in
            state.requests.append(request)
            arrivals.continuation.yield(state.requests.count)
            return state.responses.isEmpty ? nil : state.responses.removeFirst()
        }
    }
}

private final class CollectorServer: ListenerHandler, DescriptorHandler {
    private let loop: EventLoop
    private let tls: TLSContext?
    private let collector: TestCollector
    private var listener: Listener?
    private var connections: [CollectorConnection] = []

    init(loop: EventLoop, socket: ListeningSocket, tls: TLSContext?, collector: TestCollector) throws {
        self.loop = loop
        self.tls = tls
        self.collector = collector
        listener = try Listener(loop: loop, socket: socket, handler: self)
    }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        connections.append(CollectorConnection(descriptor, loop: loop, tls: tls, collector: collector))
    }

    func descriptorReady(_ events: DescriptorEvents) { loop.stop() }

    func close() {
        for connection in connections { connection.stream?.close() }
        listener?.close()
    }
}

private final class CollectorConnection: StreamHandler {
    private(set) var stream: Stream?
    private let collector: TestCollector
    private var text = ""

    init(_ descriptor: Int32, loop: EventLoop, tls: TLSContext?, collector: TestCollector) {
        self.collector = collector
        stream = Stream(accepted: descriptor, loop: loop, handler: self, tls: tls)
    }

    func streamConnected(_ stream: Stream) {}
    func streamHasRoom(_ stream: Stream) {}
    func streamClosed(_ stream: Stream, error: StreamError?) {}

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        let wasComplete = text.contains("\r\n\r\n")
        text += String(decoding: bytes, as: UTF8.self)
        guard !wasComplete, text.contains("\r\n\r\n"), let response = collector.response(to: text) else { return }
        Array(response.utf8).withUnsafeBytes { stream.write($0) }
        stream.shutDownAfterFlush()
    }
}
