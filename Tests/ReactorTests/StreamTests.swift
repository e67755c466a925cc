import Glibc
import Reactor
import Testing

/// A client and its server side on one loop.
struct StreamPair {
    let loop: EventLoop
    let server: TestServer
    let client: Stream
    let recorder: StreamRecorder
    /// The address of a Unix pair is removed with it.
    let directory: TemporaryDirectory?

    enum Kind: CaseIterable {
        case tcp, unix, tls13, tls12
        var isTLS: Bool { self == .tls13 || self == .tls12 }
    }

    /// Connected, unless the server was told to do otherwise by `prepare`.
    init(_ kind: Kind, prepare: ((StreamRecorder) -> Void)? = nil) throws {
        loop = try EventLoop()
        let certificates = kind.isTLS ? try TestCertificates() : nil
        let serverTLS = try certificates?.server(maximumVersion: kind == .tls12 ? .tls12 : .tls13)
        if kind == .unix {
            let directory = try TemporaryDirectory()
            self.directory = directory
            let address = try #require(SocketAddress.unix(path: "\(directory.path)/socket"))
            server = try TestServer(loop: loop, address: address)
        } else {
            directory = nil
            server = try TestServer(loop: loop, tls: serverTLS)
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

    func connect() throws -> TestServer.Connection {
        turn(loop) {
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

extension ReactorTests {
    @Suite struct Streams {
        @Test(arguments: StreamPair.Kind.allCases)
        func `10 MiB go to the server and come back unchanged`(kind: StreamPair.Kind) throws {
            let content = patternedBytes(10 * 1024 * 1024)
            let pair = try StreamPair(kind) { recorder in
                recorder.keepsBytes = false
                recorder.onReceived = { stream, bytes in stream.write(bytes) }
            }
            var sent = 0
            // In pieces of many sizes, as much as the high-water mark lets in.
            func fill(_ stream: Stream) {
                while sent < content.count, stream.pendingOutputBytes < Stream.highWaterBytes {
                    let piece = content[sent..<min(content.count, sent + 1 + sent % 70_001)]
                    piece.withUnsafeBytes { stream.write($0) }
                    sent += piece.count
                }
            }
            pair.recorder.onReceived = { stream, _ in fill(stream) }
            _ = try pair.connect()
            fill(pair.client)
            turn(pair.loop) {
                fill(pair.client)
                return pair.recorder.receivedCount == content.count
            }
            #expect(pair.recorder.received == content)
            #expect(pair.client.negotiatedProtocol == (kind.isTLS ? "h2" : nil))
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `what is written before the connection is up is sent after it, in order`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            pair.client.write(Array("first ".utf8))
            let room = pair.client.reserve(6)
            #expect(room.count >= 6)
            room.copyBytes(from: "second".utf8)
            pair.client.commit(6)
            #expect(pair.client.pendingOutputBytes == 12)
            let connection = try pair.connect()
            turn(pair.loop) { connection.recorder.receivedCount == 12 }
            #expect(connection.recorder.received == Array("first second".utf8))
            #expect(pair.client.pendingOutputBytes == 0)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `shutdownAfterFlush sends everything, and both sides end in order`(kind: StreamPair.Kind) throws {
            let content = patternedBytes(3_000_000)
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.recorder.onClosed = { #expect(!$0.isOpen) }
            pair.client.write(content)
            pair.client.shutdownAfterFlush()
            pair.client.write(Array("ignored".utf8))
            turn(pair.loop) { connection.recorder.isClosed && pair.recorder.isClosed }
            #expect(connection.recorder.received == content)
            #expect(connection.recorder.closed == [nil])
            #expect(pair.recorder.closed == [nil])
            pair.close()
        }

        @Test func `after shutdownAfterFlush a peer that never ends is given up in time`() throws {
            let loop = try EventLoop()
            var ends: [Int32] = [0, 0]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            let recorder = StreamRecorder()
            let stream = Stream(accepted: ends[0], loop: loop, handler: recorder, tls: nil)
            turn(loop) { recorder.connectedCount == 1 }
            let start = loop.nowMilliseconds
            stream.shutdownAfterFlush()
            turn(loop) { recorder.isClosed }
            #expect(recorder.closed == [nil])
            #expect(loop.nowMilliseconds - start >= Stream.lingerMilliseconds)
            close(ends[1])
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `our own close is not reported to us, and reaches the peer in order`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            pair.client.close()
            pair.client.close()
            turn(pair.loop) { connection.recorder.isClosed }
            #expect(connection.recorder.closed == [nil])
            #expect(pair.recorder.closed.isEmpty)
            #expect(!pair.client.isOpen)
            // Of no effect, and harmless.
            pair.client.write([1])
            _ = pair.client.reserve(1)
            pair.client.commit(1)
            pair.client.flush()
            pair.client.pauseReading()
            pair.client.resumeReading()
            pair.client.shutdownAfterFlush()
            turn(pair.loop, forMilliseconds: 5)
            #expect(pair.recorder.closed.isEmpty)
            pair.close()
        }

        enum Callback: CaseIterable { case connected, received, drained, closed }

        @Test(arguments: Callback.allCases, StreamPair.Kind.allCases)
        func `a handler may close in each of its callbacks`(callback: Callback, kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind) { recorder in
                recorder.onConnected = { $0.write(patternedBytes(100_000)) }
            }
            let recorder = pair.recorder
            var calls = 0
            func close(_ stream: Stream) {
                calls += 1
                stream.close()
            }
            switch callback {
            case .connected: recorder.onConnected = close
            case .received: recorder.onReceived = { stream, _ in close(stream) }
            case .drained:
                recorder.onConnected = { $0.write(patternedBytes(Stream.highWaterBytes + 1)) }
                recorder.onDrained = close
            case .closed: recorder.onClosed = close
            }
            turn(pair.loop) { pair.server.connections.first?.recorder.connectedCount == 1 }
            if callback == .closed { pair.server.connections[0].stream.close() }
            turn(pair.loop) { calls == 1 && (callback == .closed || pair.server.connections[0].recorder.isClosed) }
            turn(pair.loop, forMilliseconds: 3)
            #expect(calls == 1)
            #expect(recorder.closed.count == (callback == .closed ? 1 : 0))
            pair.close()
        }

        @Test func `a stream whose handler is gone closes itself`() throws {
            let pair = try StreamPair(.tcp)
            let loop = pair.loop
            var recorder: StreamRecorder? = StreamRecorder()
            let orphan = try Stream(loop: loop, handler: #require(recorder))
            orphan.connect(to: pair.server.address, tls: nil, serverName: nil, timeoutMilliseconds: 60_000)
            turn(loop) { recorder?.connectedCount == 1 && pair.server.connections.count == 2 }
            recorder = nil
            for connection in pair.server.connections { connection.stream.write([1]) }
            turn(loop) { !orphan.isOpen }
            turn(loop) { pair.server.connections.contains { $0.recorder.isClosed } }
            pair.close()
        }

        @Test func `both sides know each other's address`() throws {
            let pair = try StreamPair(.tcp)
            let connection = try pair.connect()
            #expect(pair.client.peer == pair.server.address)
            #expect(connection.stream.peer?.host == "127.0.0.1")
            pair.close()
        }
    }

    @Suite struct StreamFailures {
        private func failure(
            to address: SocketAddress,
            tls: TLSContext? = nil,
            serverName: String? = nil,
            timeoutMilliseconds: Int64 = 5_000,
            loop: EventLoop
        ) -> StreamError? {
            let recorder = StreamRecorder()
            let stream = Stream(loop: loop, handler: recorder)
            stream.connect(
                to: address,
                tls: tls,
                serverName: serverName,
                timeoutMilliseconds: timeoutMilliseconds
            )
            // Never from inside the call.
            #expect(recorder.closed.isEmpty)
            turn(loop) { recorder.isClosed }
            #expect(recorder.connectedCount == 0)
            turn(loop, forMilliseconds: 3)
            #expect(recorder.closed.count == 1)
            return recorder.error
        }

        @Test func `a refused connection, over TCP and over a Unix socket`() throws {
            let loop = try EventLoop()
            let address = SocketAddress.loopback(port: try Listener.unusedLoopbackPort())
            #expect(failure(to: address, loop: loop)?.code == .connectFailed(ECONNREFUSED))
            let path = try #require(SocketAddress.unix(path: "/tmp/reactor-tests-no-such-socket"))
            #expect(failure(to: path, loop: loop)?.code == .connectFailed(ENOENT))
        }

        @Test func `a connection that is not answered times out`() throws {
            let loop = try EventLoop()
            // A queue for one, which nobody empties: what comes after it is not answered.
            let recorder = StreamRecorder()
            let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(listening) }
            #expect(SocketAddress.loopback(port: 0).withRaw { bind(listening, $0, $1) } == 0)
            #expect(listen(listening, 0) == 0)
            var raw = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutablePointer(to: &raw) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = getsockname(listening, $0, &length) }
            }
            let address = SocketAddress.loopback(port: UInt16(bigEndian: raw.sin_port))
            let fillers = (0..<4)
                .map { _ in
                    let stream = Stream(loop: loop, handler: recorder)
                    stream.connect(to: address, tls: nil, serverName: nil, timeoutMilliseconds: 60_000)
                    return stream
                }
            turn(loop) { recorder.connectedCount > 0 }
            let start = loop.nowMilliseconds
            #expect(failure(to: address, timeoutMilliseconds: 50, loop: loop)?.code == .connectTimeout)
            // By its own limit: the kernel would go on trying for minutes.
            #expect(50...30_000 ~= loop.nowMilliseconds - start)
            for filler in fillers { filler.close() }
        }

        @Test func `a server that never answers the handshake times out`() throws {
            let loop = try EventLoop()
            let server = try TestServer(loop: loop)
            let tls = try TestCertificates().client()
            let error = failure(
                to: server.address,
                tls: tls,
                serverName: "localhost",
                timeoutMilliseconds: 50,
                loop: loop
            )
            #expect(error?.code == .connectTimeout)
            server.close()
        }

        @Test func `a server that hangs up in the handshake, or speaks something else`() throws {
            let loop = try EventLoop()
            let tls = try TestCertificates().client()
            let server = try TestServer(loop: loop)
            server.prepare = { recorder in recorder.onReceived = { stream, _ in stream.close() } }
            let hungUp = failure(to: server.address, tls: tls, serverName: "localhost", loop: loop)
            #expect(hungUp?.code == .handshakeFailed)
            server.prepare = { recorder in
                recorder.onReceived = { stream, _ in stream.write(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)) }
            }
            let other = failure(to: server.address, tls: tls, serverName: "localhost", loop: loop)
            #expect(other?.code == .handshakeFailed)
            #expect(other?.reason.contains("wrong version number") == true)
            server.close()
        }

        @Test(arguments: [TLSVersion.tls12, .tls13])
        func `an untrusted authority and a wrong name are refused, and the right ones are not`(version: TLSVersion)
            throws
        {
            let loop = try EventLoop()
            let certificates = try TestCertificates(hosts: ["localhost", "*.apns.example", "127.0.0.1", "::1"])
            let server = try TestServer(loop: loop, tls: try certificates.server(maximumVersion: version))
            let trusted = try certificates.client()
            let untrusted = try TestCertificates().client()
            let error = failure(to: server.address, tls: untrusted, serverName: "localhost", loop: loop)
            #expect(error?.code == .certificate)
            #expect(error?.reason.isEmpty == false)
            for name in ["other.example", "apns.example", "a.b.apns.example", "127.0.0.2", "::2"] {
                #expect(
                    failure(to: server.address, tls: trusted, serverName: name, loop: loop)?.code == .certificate,
                    "\(name)"
                )
            }
            for name in ["localhost", "localhost.", "LOCALHOST", "api.apns.example", "127.0.0.1", "::1", "[::1]", nil] {
                let recorder = StreamRecorder()
                let stream = Stream(loop: loop, handler: recorder)
                stream.connect(to: server.address, tls: trusted, serverName: name, timeoutMilliseconds: 5_000)
                turn(loop) { recorder.connectedCount == 1 || recorder.isClosed }
                #expect(
                    recorder.connectedCount == 1,
                    "\(name ?? "the address itself"): \(String(describing: recorder.error))"
                )
                stream.close()
            }
            server.close()
        }

        @Test func `TLS over a Unix socket without a server's name is refused`() throws {
            let loop = try EventLoop()
            let directory = try TemporaryDirectory()
            let certificates = try TestCertificates()
            let address = try #require(SocketAddress.unix(path: "\(directory.path)/socket"))
            let server = try TestServer(loop: loop, tls: certificates.server(), address: address)
            #expect(failure(to: address, tls: try certificates.client(), loop: loop)?.code == .handshakeFailed)
            server.close()
        }

        @Test(arguments: [
            (client: ["http/1.1"], server: ["h2"]), (client: ["h2"], server: []), (client: [], server: ["h2"]),
        ])
        func `sides that agree on no application protocol do not connect`(client: [String], server: [String]) throws {
            let loop = try EventLoop()
            let certificates = try TestCertificates()
            let testServer = try TestServer(loop: loop, tls: certificates.server(server))
            let recorder = StreamRecorder()
            let stream = Stream(loop: loop, handler: recorder)
            stream.connect(
                to: testServer.address,
                tls: try certificates.client(client),
                serverName: "localhost",
                timeoutMilliseconds: 5_000
            )
            turn(loop) { recorder.isClosed && testServer.connections.first?.recorder.isClosed == true }
            let serverRecorder = try #require(testServer.connections.first?.recorder)
            // Whichever side asks for a protocol and gets none fails the handshake; under TLS 1.3 the other may just
            // see it end.
            #expect(recorder.connectedCount == 0 || client.isEmpty)
            #expect(serverRecorder.connectedCount == 0 || server.isEmpty)
            #expect(recorder.error?.code == .handshakeFailed || client.isEmpty)
            #expect(serverRecorder.error?.code == .handshakeFailed || server.isEmpty)
            testServer.close()
        }

        @Test func `the server's choice follows its own order`() throws {
            let loop = try EventLoop()
            let certificates = try TestCertificates()
            let server = try TestServer(loop: loop, tls: certificates.server(["h2", "http/1.1"]))
            let recorder = StreamRecorder()
            let stream = Stream(loop: loop, handler: recorder)
            stream.connect(
                to: server.address,
                tls: try certificates.client(["http/1.1", "h2"]),
                serverName: "localhost",
                timeoutMilliseconds: 5_000
            )
            turn(loop) { stream.isOpen }
            #expect(stream.negotiatedProtocol == "h2")
            stream.close()
            server.close()
        }

        @Test(arguments: [StreamPair.Kind.tls12, .tls13])
        func `an end of TLS without close_notify is reported, after the bytes before it`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.stream.write(Array("last words".utf8))
            connection.stream.flush()
            shutdown(connection.descriptor, Int32(SHUT_WR))
            turn(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.received == Array("last words".utf8))
            #expect(pair.recorder.closed.count == 1)
            #expect(pair.recorder.error?.code == .truncated)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases.filter { $0 != .unix })
        func `a reset is reported as one`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            // Closing with unread input, or with this option, resets the connection.
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(connection.descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
            let spare = open("/dev/null", O_RDONLY)
            // The stream's number is pointed elsewhere, so that nothing but the reset is said.
            pair.loop.remove(descriptor: connection.descriptor)
            dup2(spare, connection.descriptor)
            close(spare)
            turn(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.error?.code == .reset)
            pair.close()
        }

        @Test(arguments: [StreamPair.Kind.tcp, .tls13])
        func `what the peer said before it hung up is delivered, even if our write fails first`(kind: StreamPair.Kind)
            throws
        {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            let written = Array("GOAWAY".utf8)
            connection.stream.write(written)
            connection.stream.flush()
            connection.stream.close()
            // The peer is closed: the first write draws a reset, the second fails, both before anything is read.
            for _ in 0..<2 {
                pair.client.write([1])
                pair.client.flush()
                usleep(2_000)
            }
            turn(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.received == written)
            #expect(pair.recorder.closed.count == 1)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `output beyond the limit fails the stream, and not before`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.stream.pauseReading()
            let block = patternedBytes(1024 * 1024)
            var written = 0
            while pair.recorder.closed.isEmpty, written < 64 {
                let isFull = pair.client.pendingOutputBytes + block.count > Stream.outputBytesMax
                pair.client.write(block)
                written += 1
                #expect(pair.recorder.closed.isEmpty)
                #expect(pair.client.isOpen != isFull)
                pair.loop.turn(waitMilliseconds: 0)
            }
            #expect(pair.recorder.closed.count == 1)
            #expect(pair.recorder.error?.code == .outputLimit)
            #expect(pair.client.pendingOutputBytes == 0)
            pair.close()
        }

        @Test func `a failure of ours is reported even if the peer's end arrives with it`() throws {
            let pair = try StreamPair(.tls13)
            let connection = try pair.connect()
            // The last bytes and the end are read at once; the handler goes over the limit in between.
            pair.recorder.onReceived = { stream, _ in stream.write(patternedBytes(Stream.outputBytesMax + 1)) }
            connection.stream.write([1])
            connection.stream.flush()
            connection.stream.close()
            turn(pair.loop) { pair.recorder.isClosed }
            turn(pair.loop, forMilliseconds: 3)
            #expect(pair.recorder.closed.map { $0?.code } == [.outputLimit])
            pair.close()
        }

        @Test func `reserving and committing beyond the limit fails the stream`() throws {
            let pair = try StreamPair(.tcp)
            let connection = try pair.connect()
            connection.stream.pauseReading()
            for _ in 0...(Stream.outputBytesMax / Stream.reservedBytesMax) {
                let room = pair.client.reserve(Stream.reservedBytesMax)
                #expect(room.count >= Stream.reservedBytesMax)
                pair.client.commit(Stream.reservedBytesMax)
            }
            #expect(!pair.client.isOpen)
            turn(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.error?.code == .outputLimit)
            pair.close()
        }
    }

    @Suite struct BackPressure {
        @Test(arguments: StreamPair.Kind.allCases)
        func `the drained signal comes once for each time above the high-water mark`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.recorder.keepsBytes = false
            // The kernel lets a TCP connection's buffer grow; this one must not take in what is meant to wait.
            var receiveBytes: Int32 = 262_144
            let length = socklen_t(MemoryLayout<Int32>.size)
            try #require(setsockopt(connection.descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBytes, length) == 0)
            // More than the kernel's buffers hold, so that some of it has to wait.
            let block = patternedBytes(7 * 1024 * 1024)
            for round in 1...2 {
                connection.stream.pauseReading()
                pair.client.write(block)
                turn(pair.loop, forMilliseconds: 5)
                #expect(pair.client.pendingOutputBytes > Stream.highWaterBytes)
                #expect(pair.recorder.drainedCount == round - 1)
                connection.stream.resumeReading()
                turn(pair.loop) { connection.recorder.receivedCount == round * block.count }
                #expect(pair.recorder.drainedCount == round)
            }
            pair.client.write([1])
            turn(pair.loop) { connection.recorder.receivedCount == 2 * block.count + 1 }
            #expect(pair.recorder.drainedCount == 2)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `nothing is delivered while reading is paused, and all of it afterwards`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            let content = patternedBytes(300_000)
            // Pausing from inside the callback leaves bytes inside TLS as well as in the kernel.
            pair.recorder.onReceived = { stream, _ in stream.pauseReading() }
            connection.stream.write(content)
            turn(pair.loop) { pair.recorder.receivedCount > 0 }
            var resumes = 0
            while pair.recorder.receivedCount < content.count, resumes < 10_000 {
                let count = pair.recorder.receivedCount
                for _ in 0..<3 { pair.loop.turn(waitMilliseconds: 0) }
                #expect(pair.recorder.receivedCount == count)
                pair.client.resumeReading()
                turn(pair.loop) { pair.recorder.receivedCount > count }
                resumes += 1
            }
            #expect(resumes > 1)
            #expect(pair.recorder.received == content)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `a paused stream does not spin on a peer that hung up, and reports the end when it resumes`(
            kind: StreamPair.Kind
        ) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            pair.client.pauseReading()
            connection.stream.write(Array("bye".utf8))
            connection.stream.flush()
            connection.stream.close()
            pair.client.write([1])
            turn(pair.loop, forMilliseconds: 10)
            let start = pair.loop.nowMilliseconds
            for _ in 0..<3 { pair.loop.turn(waitMilliseconds: 10) }
            #expect(pair.loop.nowMilliseconds - start >= 20)
            pair.client.resumeReading()
            turn(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.closed.count == 1)
            pair.close()
        }

        @Test func `a stream with endless input leaves other streams their turn`() throws {
            let pair = try StreamPair(.tls13)
            let connection = try pair.connect()
            let block = patternedBytes(Stream.highWaterBytes + 1)
            pair.recorder.keepsBytes = false
            connection.stream.write(block)
            connection.recorder.onDrained = { $0.write(block) }
            turn(pair.loop) { pair.recorder.receivedCount > 4 * block.count }
            let before = pair.recorder.receivedCount
            pair.loop.turn(waitMilliseconds: 100)
            #expect(pair.recorder.receivedCount - before <= 2 * 4 * 64 * 1024)
            pair.close()
        }
    }
}
