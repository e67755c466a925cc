import Reactor
import Testbed
import Testing

/// A client stream and the server's stream on one loop.
struct StreamPair {
    let loop: EventLoop
    let server: StreamServer
    let client: Stream
    let recorder: StreamRecorder
    /// The directory of a Unix socket, which is removed with the pair; nil for the other kinds.
    let directory: TemporaryDirectory?

    enum Kind: CaseIterable {
        case tcp, unix, tls13, tls12
        var isTLS: Bool { self == .tls13 || self == .tls12 }
    }

    /// Begins to connect the client. `connect` waits until both sides are connected.
    ///
    /// - Parameter prepare: gets the recorder of each connection that the server accepts, before its first event.
    init(_ kind: Kind, prepare: ((StreamRecorder) -> Void)? = nil) throws {
        loop = try EventLoop()
        let certificates = kind.isTLS ? try TestCertificates() : nil
        let serverTLS = try certificates?.server(versionMax: kind == .tls12 ? .tls12 : .tls13)
        if kind == .unix {
            let directory = try TemporaryDirectory()
            self.directory = directory
            let address = try #require(SocketAddress.unix(path: "\(directory.path)/socket"))
            server = try StreamServer(loop: loop, address: address)
        } else {
            directory = nil
            server = try StreamServer(loop: loop, tls: serverTLS)
        }
        server.prepare = prepare
        recorder = StreamRecorder()
        client = Stream(loop: loop, handler: recorder)
        client.connect(
            to: server.address,
            tls: try certificates?.client(),
            serverName: kind.isTLS ? "localhost" : nil,
            timeoutMilliseconds: 60_000
        )
    }

    func connect() throws -> StreamServer.Connection {
        runLoop(loop) {
            (client.isOpen || recorder.isClosed) && server.connections.first?.recorder.connectedCount == 1
        }
        try #require(recorder.connectedCount == 1)
        return try #require(server.connections.first)
    }

    func close() {
        client.close()
        server.close()
    }
}
