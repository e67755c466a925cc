import Reactor

/// A server on the test's own loop. Each connection is a stream with a recorder.
final class StreamServer: ListenerHandler {
    struct Connection {
        let descriptor: Int32
        let stream: Stream
        let recorder: StreamRecorder
    }

    let loop: EventLoop
    let tls: TLSContext?
    private(set) var listener: Listener?
    private(set) var connections: [Connection] = []
    var keepsConnections = true
    var prepare: ((StreamRecorder) -> Void)?

    init(loop: EventLoop, tls: TLSContext? = nil, address: SocketAddress = .loopback(port: 0)) throws {
        self.loop = loop
        self.tls = tls
        listener = try Listener(loop: loop, address: address, handler: self)
    }

    var address: SocketAddress { listener?.address ?? .loopback(port: 0) }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        let recorder = StreamRecorder()
        prepare?(recorder)
        let stream = Stream(accepted: descriptor, loop: loop, handler: recorder, tls: tls)
        connections.append(Connection(descriptor: descriptor, stream: stream, recorder: recorder))
    }

    func forgetConnections() {
        for connection in connections { connection.stream.close() }
        connections = []
    }

    func close() {
        forgetConnections()
        listener?.close()
        listener = nil
    }
}
