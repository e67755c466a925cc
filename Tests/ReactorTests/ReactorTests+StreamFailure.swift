import Glibc
import Testbed
import Testing

@testable import Reactor

extension ReactorTests {
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
            // The handler is never called from inside the call that fails.
            #expect(recorder.closeErrors.isEmpty)
            runLoop(loop) { recorder.isClosed }
            #expect(recorder.connectedCount == 0)
            runLoop(loop, forMilliseconds: 3)
            #expect(recorder.closeErrors.count == 1)
            return recorder.error
        }

        @Test func `A refused connection is reported, over TCP and over a Unix socket`() throws {
            let loop = try EventLoop()
            let address = SocketAddress.loopback(port: try Listener.findUnusedLoopbackPort())
            #expect(failure(to: address, loop: loop)?.code == .connectFailed(ECONNREFUSED))
            let path = try #require(SocketAddress.unix(path: "/tmp/reactor-tests-no-such-socket"))
            #expect(failure(to: path, loop: loop)?.code == .connectFailed(ENOENT))
        }

        @Test func `A connection that nobody accepts times out`() throws {
            let loop = try EventLoop()
            // The listener's queue has room for one connection that is never accepted, so later connections get no
            // response.
            let recorder = StreamRecorder()
            let listeningDescriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(listeningDescriptor) }
            #expect(SocketAddress.loopback(port: 0).withSockaddr { bind(listeningDescriptor, $0, $1) } == 0)
            #expect(listen(listeningDescriptor, 0) == 0)
            var raw = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutablePointer(to: &raw) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    _ = getsockname(listeningDescriptor, $0, &length)
                }
            }
            let address = SocketAddress.loopback(port: UInt16(bigEndian: raw.sin_port))
            let fillers = (0..<4)
                .map { _ in
                    let stream = Stream(loop: loop, handler: recorder)
                    stream.connect(to: address, tls: nil, serverName: nil, timeoutMilliseconds: 60_000)
                    return stream
                }
            runLoop(loop) { recorder.connectedCount > 0 }
            let startMilliseconds = loop.nowMilliseconds
            #expect(failure(to: address, timeoutMilliseconds: 50, loop: loop)?.code == .connectTimeout)
            // The stream's own time limit ends the attempt. The kernel would try for minutes.
            #expect(50...30_000 ~= loop.nowMilliseconds - startMilliseconds)
            for filler in fillers { filler.close() }
        }

        @Test func `A server that never responds to the handshake times out`() throws {
            let loop = try EventLoop()
            let server = try StreamServer(loop: loop)
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

        @Test func `A server that closes in the handshake, or speaks another protocol, is reported`() throws {
            let loop = try EventLoop()
            let tls = try TestCertificates().client()
            let server = try StreamServer(loop: loop)
            server.prepare = { recorder in recorder.onReceived = { stream, _ in stream.close() } }
            let hangUpError = failure(to: server.address, tls: tls, serverName: "localhost", loop: loop)
            #expect(hangUpError?.code == .handshakeFailed)
            server.prepare = { recorder in
                recorder.onReceived = { stream, _ in stream.write(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)) }
            }
            let protocolError = failure(to: server.address, tls: tls, serverName: "localhost", loop: loop)
            #expect(protocolError?.code == .handshakeFailed)
            #expect(protocolError?.reason.contains("wrong version number") == true)
            server.close()
        }

        @Test(arguments: [TLSVersion.tls12, .tls13])
        func `An untrusted authority and a wrong name are refused, and the right ones are accepted`(version: TLSVersion)
            throws
        {
            let loop = try EventLoop()
            let certificates = try TestCertificates(hosts: ["localhost", "*.apns.example", "127.0.0.1", "::1"])
            let server = try StreamServer(loop: loop, tls: try certificates.server(versionMax: version))
            let trustingContext = try certificates.client()
            let otherContext = try TestCertificates().client()
            let error = failure(to: server.address, tls: otherContext, serverName: "localhost", loop: loop)
            #expect(error?.code == .certificateRefused)
            #expect(error?.reason.isEmpty == false)
            for name in ["other.example", "apns.example", "a.b.apns.example", "127.0.0.2", "::2"] {
                #expect(
                    failure(to: server.address, tls: trustingContext, serverName: name, loop: loop)?.code
                        == .certificateRefused,
                    "\(name)"
                )
            }
            for name in ["localhost", "localhost.", "LOCALHOST", "api.apns.example", "127.0.0.1", "::1", "[::1]", nil] {
                let recorder = StreamRecorder()
                let stream = Stream(loop: loop, handler: recorder)
                stream.connect(to: server.address, tls: trustingContext, serverName: name, timeoutMilliseconds: 5_000)
                runLoop(loop) { recorder.connectedCount == 1 || recorder.isClosed }
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
            let server = try StreamServer(loop: loop, tls: certificates.server(), address: address)
            #expect(failure(to: address, tls: try certificates.client(), loop: loop)?.code == .handshakeFailed)
            server.close()
        }

        @Test(arguments: [
            (client: ["http/1.1"], server: ["h2"]), (client: ["h2"], server: []), (client: [], server: ["h2"]),
        ])
        func `Sides that agree on no application protocol do not connect`(client: [String], server: [String]) throws {
            let loop = try EventLoop()
            let certificates = try TestCertificates()
            let testServer = try StreamServer(loop: loop, tls: certificates.server(server))
            let recorder = StreamRecorder()
            let stream = Stream(loop: loop, handler: recorder)
            stream.connect(
                to: testServer.address,
                tls: try certificates.client(client),
                serverName: "localhost",
                timeoutMilliseconds: 5_000
            )
            runLoop(loop) { recorder.isClosed && testServer.connections.first?.recorder.isClosed == true }
            let serverRecorder = try #require(testServer.connections.first?.recorder)
            // A side with protocols ends the handshake with an error if the other side has none of them. A side without
            // protocols is not checked: with TLS 1.3 it may already have completed its own handshake, and then sees
            // only the end of the connection.
            #expect(recorder.connectedCount == 0 || client.isEmpty)
            #expect(serverRecorder.connectedCount == 0 || server.isEmpty)
            #expect(recorder.error?.code == .handshakeFailed || client.isEmpty)
            #expect(serverRecorder.error?.code == .handshakeFailed || server.isEmpty)
            testServer.close()
        }

        @Test func `The server's choice follows its own order`() throws {
            let loop = try EventLoop()
            let certificates = try TestCertificates()
            let server = try StreamServer(loop: loop, tls: certificates.server(["h2", "http/1.1"]))
            let recorder = StreamRecorder()
            let stream = Stream(loop: loop, handler: recorder)
            stream.connect(
                to: server.address,
                tls: try certificates.client(["http/1.1", "h2"]),
                serverName: "localhost",
                timeoutMilliseconds: 5_000
            )
            runLoop(loop) { stream.isOpen }
            #expect(stream.negotiatedProtocol == "h2")
            stream.close()
            server.close()
        }

        @Test(arguments: [StreamPair.Kind.tls12, .tls13])
        func `An end of TLS without close_notify is reported, after the bytes before it`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.stream.write(Array("last words".utf8))
            connection.stream.flush()
            shutdown(connection.descriptor, Int32(SHUT_WR))
            runLoop(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.receivedInput == Array("last words".utf8))
            #expect(pair.recorder.closeErrors.count == 1)
            #expect(pair.recorder.error?.code == .truncated)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases.filter { $0 != .unix })
        func `A reset is reported as a reset`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            // With this option (SO_LINGER, 0 s), closing the last descriptor resets the connection.
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(connection.descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
            let spareDescriptor = open("/dev/null", O_RDONLY)
            // Closes the socket by putting another file under its descriptor. The stream's own `close` would first send
            // an orderly end under TLS.
            pair.loop.remove(descriptor: connection.descriptor)
            dup2(spareDescriptor, connection.descriptor)
            close(spareDescriptor)
            runLoop(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.error?.code == .connectionReset)
            pair.close()
        }

        @Test(arguments: [StreamPair.Kind.tcp, .tls13])
        func `Bytes that the peer sent before it closed are delivered, even if our write fails first`(
            kind: StreamPair.Kind
        )
            throws
        {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            let sentOutput = Array("GOAWAY".utf8)
            connection.stream.write(sentOutput)
            connection.stream.flush()
            connection.stream.close()
            // The peer has closed. The first write causes a reset, and the second write fails. The client has
            // read nothing by then.
            for _ in 0..<2 {
                pair.client.write([1])
                pair.client.flush()
                // Waits until the reset has arrived.
                var pollDescriptor = pollfd(fd: pair.client.transport.descriptor, events: 0, revents: 0)
                #expect(poll(&pollDescriptor, 1, 10_000) == 1)
            }
            runLoop(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.receivedInput == sentOutput)
            #expect(pair.recorder.closeErrors.count == 1)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `Output beyond the limit fails the stream, and not before`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.stream.pauseReading()
            let block = makePatternedBytes(1024 * 1024)
            var writtenBlockCount = 0
            while pair.recorder.closeErrors.isEmpty, writtenBlockCount < 64 {
                let isFull = pair.client.pendingOutputBytes + block.count > Stream.outputBytesMax
                pair.client.write(block)
                writtenBlockCount += 1
                #expect(pair.recorder.closeErrors.isEmpty)
                #expect(pair.client.isOpen != isFull)
                pair.loop.runIteration(waitMilliseconds: 0)
            }
            #expect(pair.recorder.closeErrors.count == 1)
            #expect(pair.recorder.error?.code == .outputLimitExceeded)
            #expect(pair.client.pendingOutputBytes == 0)
            pair.close()
        }

        @Test func `Our own failure is reported even if the peer's end arrives with it`() throws {
            let pair = try StreamPair(.tls13)
            let connection = try pair.connect()
            // The client reads the peer's last byte and the peer's end in one iteration. When the handler gets the
            // byte, it writes more than the limit.
            pair.recorder.onReceived = { stream, _ in stream.write(makePatternedBytes(Stream.outputBytesMax + 1)) }
            connection.stream.write([1])
            connection.stream.flush()
            connection.stream.close()
            runLoop(pair.loop) { pair.recorder.isClosed }
            runLoop(pair.loop, forMilliseconds: 3)
            #expect(pair.recorder.closeErrors.map { $0?.code } == [.outputLimitExceeded])
            pair.close()
        }

        @Test func `Reserving and committing beyond the limit fails the stream`() throws {
            let pair = try StreamPair(.tcp)
            let connection = try pair.connect()
            connection.stream.pauseReading()
            for _ in 0...(Stream.outputBytesMax / Stream.reservedBytesMax) {
                let room = pair.client.reserve(Stream.reservedBytesMax)
                #expect(room.count >= Stream.reservedBytesMax)
                pair.client.commit(Stream.reservedBytesMax)
            }
            #expect(!pair.client.isOpen)
            runLoop(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.error?.code == .outputLimitExceeded)
            pair.close()
        }
    }
}
