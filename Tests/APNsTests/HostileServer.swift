import Glibc
import Reactor
import Testbed

@testable import APNs

/// Returns the bytes of a frame, valid or not.
func frame(_ type: UInt8, flags: UInt8 = 0, stream: Int32 = 0, _ payload: [UInt8] = [], length: Int? = nil) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: FrameHeader.byteCount)
    bytes.withUnsafeMutableBytes { buffer in
        if let start = buffer.baseAddress {
            FrameHeader(payloadBytes: length ?? payload.count, type: type, flags: flags, streamIdentifier: stream)
                .write(to: start)
        }
    }
    return bytes + payload
}

func setting(_ identifier: UInt16, _ value: UInt32) -> [UInt8] {
    withUnsafeBytes(of: identifier.bigEndian) { Array($0) } + bigEndianBytes(value)
}

func bigEndianBytes(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

/// Returns a response with `:status: 200` that ends the stream.
func acceptedResponse(stream: Int32) -> [UInt8] {
    frame(FrameType.headers, flags: FrameFlags.endHeaders | FrameFlags.endStream, stream: stream, [0x88])
}

/// Returns a `content-length` field whose name is an index into the static table.
func contentLengthField(_ text: String) -> [UInt8] { [0x0F, 0x0D, UInt8(text.utf8.count)] + Array(text.utf8) }

/// Returns the header of a response with `:status: 200` and the announced length of its body.
func responseHead(stream: Int32, contentLength text: String, isLast: Bool = false) -> [UInt8] {
    let flags = FrameFlags.endHeaders | (isLast ? FrameFlags.endStream : 0)
    return frame(FrameType.headers, flags: flags, stream: stream, [0x88] + contentLengthField(text))
}

/// A TLS server that sends exactly the bytes that the test gives it, and reads the client's bytes frame by
/// frame.
final class HostileServer: ListenerHandler {
    struct ReceivedFrame: Equatable {
        var type: UInt8
        var flags: UInt8
        var stream: Int32
        var payload: [UInt8]

        /// The code of a GOAWAY or RST_STREAM.
        var code: UInt32? {
            switch type {
            case FrameType.goAway where payload.count >= 8: payload.withUnsafeBytes { $0.networkUInt32(at: 4) }
            case FrameType.resetStream where payload.count == 4: payload.withUnsafeBytes { $0.networkUInt32(at: 0) }
            default: nil
            }
        }
    }

    let loop: EventLoop
    let tls: TLSContext
    private var listener: Listener?
    private(set) var peers: [Peer] = []
    /// The bytes that the server sends after the TLS handshake.
    var greeting = frame(FrameType.settings)
    var onFrame: (Peer, ReceivedFrame) -> Void = { _, _ in }

    init(loop: EventLoop, tls: TLSContext) throws {
        self.loop = loop
        self.tls = tls
        listener = try Listener(loop: loop, address: .loopback(port: 0), handler: self)
    }

    var port: UInt16 { listener?.port ?? 0 }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        peers.append(Peer(server: self, descriptor: descriptor))
    }

    func stop() {
        listener?.close()
        for peer in peers { peer.close() }
    }

    final class Peer: StreamHandler {
        unowned let server: HostileServer
        private var stream: Stream?
        private var input: [UInt8] = []
        private var hasPreface = false
        private(set) var receivedFrames: [ReceivedFrame] = []
        private(set) var isClosed = false

        init(server: HostileServer, descriptor: Int32) {
            self.server = server
            stream = Stream(accepted: descriptor, loop: server.loop, handler: self, tls: server.tls)
        }

        func send(_ bytes: [UInt8]) {
            bytes.withUnsafeBytes { stream?.write($0) }
        }

        func stopReading() { stream?.pauseReading() }

        func resumeReading() { stream?.resumeReading() }

        func close() {
            stream?.close()
            isClosed = true
        }

        func streamConnected(_ stream: Stream) { send(server.greeting) }

        func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
            input += bytes
            if !hasPreface {
                guard input.count >= 24 else { return }
                hasPreface = true
                input.removeFirst(24)
            }
            var position = 0
            while input.count - position >= FrameHeader.byteCount {
                let header = input.withUnsafeBytes { $0.baseAddress.map { FrameHeader($0 + position) } }
                guard let header else { return }
                let end = position + FrameHeader.byteCount + header.payloadBytes
                guard input.count >= end else { break }
                let frame = ReceivedFrame(
                    type: header.type,
                    flags: header.flags,
                    stream: header.streamIdentifier,
                    payload: Array(input[position + FrameHeader.byteCount..<end])
                )
                position = end
                receivedFrames.append(frame)
                server.onFrame(self, frame)
            }
            input.removeFirst(position)
        }

        func streamHasRoom(_ stream: Stream) {}

        func streamClosed(_ stream: Stream, error: StreamError?) { isClosed = true }

        /// The code of the GOAWAY that the client sent.
        var goAwayCode: UInt32? { receivedFrames.first { $0.type == FrameType.goAway }?.code }
        var resetCodes: [UInt32] { receivedFrames.compactMap { $0.type == FrameType.resetStream ? $0.code : nil } }
    }
}

/// A hostile server, a pool and a recorder on one loop.
final class HostileFixture {
    let loop: EventLoop
    let server: HostileServer
    let recorder = PushRecorder()
    let pool: Pool
    private let body: UnsafeMutableRawBufferPointer

    init(bodyBytesMax: Int = 100, _ adjust: (inout PoolConfiguration) -> Void = { _ in }) throws {
        let files = try TestCredentials.files.get()
        loop = try EventLoop()
        body = .allocate(byteCount: bodyBytesMax, alignment: 16)
        server = try HostileServer(
            loop: loop,
            tls: .server(
                certificateFile: files.certificateFile,
                keyFile: files.keyFile,
                applicationProtocols: ["h2"]
            )
        )
        var configuration = try PoolFixture.configuration(port: server.port)
        configuration.backoffBaseMilliseconds = 60_000
        configuration.backoffJitterMillisecondsMax = 60_000
        configuration.openingIntervalMilliseconds = 60_000
        adjust(&configuration)
        pool = try Pool(
            loop: loop,
            configuration: configuration,
            tokenSource: TestCredentials.makeTokenSource(),
            handler: recorder
        )
        body.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "b"))
    }

    deinit {
        pool.close()
        server.stop()
        // The loop and a stream that waits for the end of the iteration retain each other. One more iteration frees
        // both.
        loop.runIteration(waitMilliseconds: 0)
        body.deallocate()
    }

    func submit(_ tag: UInt64, bodyBytes: Int = 100) -> Bool {
        Array("0123456789abcdef".utf8)
            .withUnsafeBytes { token in
                pool.submit(
                    PushRequest(
                        tag: tag,
                        address: token,
                        priority: 5,
                        expirationSeconds: 0,
                        identifier: (1, tag),
                        body: UnsafeRawBufferPointer(rebasing: body[..<bodyBytes])
                    )
                )
            }
    }

    /// Runs the loop until the condition holds. Returns false if it does not hold in time.
    func runLoop(until condition: () -> Bool) -> Bool { loop.run(until: condition) }

    /// Starts the pool and responds to its first push, on stream 1, so that the connection accepts pushes in parallel.
    /// Returns false if this does not happen in time.
    func warmUp() -> Bool {
        server.onFrame = { peer, frame in
            if frame.type == FrameType.data, frame.stream == 1 { peer.send(acceptedResponse(stream: 1)) }
        }
        pool.start()
        let isWarm = runLoop(until: { submit(1_000_000) }) && runLoop(until: { recorder.responseCount == 1 })
        server.onFrame = { _, _ in }
        return isWarm
    }
}
