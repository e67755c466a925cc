import Numbers
import Reactor
import Testbed
import Testing

@testable import APNs

/// A server violates HTTP/2. The client must send the right error code, and each push must get one outcome.
@Suite(.ownThread) struct HostileServerTests {
    struct Attack: Sendable, CustomTestStringConvertible {
        let name: String
        let bytes: [UInt8]
        let code: ErrorCode
        var testDescription: String { name }

        init(_ name: String, _ bytes: [UInt8], _ code: ErrorCode) {
            self.name = name
            self.bytes = bytes
            self.code = code
        }
    }

    /// Bytes that are sent while streams 3 to 9 are open. The connection must end with the given code.
    static let attacks: [Attack] = [
        Attack("frame too long", frame(FrameType.data, stream: 3, length: 16_385), .frameSizeError),
        Attack("DATA on stream 0", frame(FrameType.data, [0]), .protocolError),
        Attack("DATA on an idle stream", frame(FrameType.data, stream: 11, [0]), .protocolError),
        Attack("HEADERS on stream 0", frame(FrameType.headers, flags: 4, [0x88]), .protocolError),
        Attack("HEADERS on an idle stream", frame(FrameType.headers, flags: 4, stream: 11, [0x88]), .protocolError),
        Attack(
            "HEADERS on a stream of the server",
            frame(FrameType.headers, flags: 4, stream: 2, [0x88]),
            .protocolError
        ),
        Attack("padding without length", frame(FrameType.headers, flags: 0xC, stream: 3), .frameSizeError),
        Attack("padding longer than the frame", frame(FrameType.data, flags: 8, stream: 3, [3, 0, 0]), .protocolError),
        Attack("priority that is cut", frame(FrameType.headers, flags: 0x24, stream: 3, [0, 0]), .frameSizeError),
        Attack(
            "header block that is none",
            frame(FrameType.headers, flags: 4, stream: 3, [0xFF, 0xFF]),
            .compressionError
        ),
        Attack("index 0", frame(FrameType.headers, flags: 4, stream: 3, [0x80]), .compressionError),
        Attack(
            "number without end",
            frame(FrameType.headers, flags: 4, stream: 3, [0xFF] + [UInt8](repeating: 0xFF, count: 9) + [0]),
            .compressionError
        ),
        Attack(
            "table too large",
            frame(FrameType.headers, flags: 4, stream: 3, [0x3F, 0xE2, 0x1F, 0x88]),
            .compressionError
        ),
        Attack("CONTINUATION alone", frame(FrameType.continuation, flags: 4, stream: 3, [0x88]), .protocolError),
        Attack(
            "PING inside a header block",
            frame(FrameType.headers, stream: 3, [0x88]) + frame(FrameType.ping, [UInt8](repeating: 0, count: 8)),
            .protocolError
        ),
        Attack(
            "CONTINUATION of another stream",
            frame(FrameType.headers, stream: 3, [0x88]) + frame(FrameType.continuation, flags: 4, stream: 5),
            .protocolError
        ),
        Attack(
            "flood of CONTINUATION",
            frame(FrameType.headers, stream: 3, [0x88])
                + (0..<20).flatMap { _ in frame(FrameType.continuation, stream: 3) },
            .enhanceYourCalm
        ),
        Attack(
            "header block without end",
            frame(FrameType.headers, stream: 3)
                + (0..<5)
                .flatMap { _ in frame(FrameType.continuation, stream: 3, [UInt8](repeating: 0x88, count: 16_384)) },
            .enhanceYourCalm
        ),
        Attack("PUSH_PROMISE", frame(FrameType.pushPromise, flags: 4, stream: 3, [0, 0, 0, 2, 0x88]), .protocolError),
        Attack("RST_STREAM on stream 0", frame(FrameType.resetStream, bigEndianBytes(8)), .protocolError),
        Attack(
            "RST_STREAM on an idle stream",
            frame(FrameType.resetStream, stream: 11, bigEndianBytes(8)),
            .protocolError
        ),
        Attack("RST_STREAM that is cut", frame(FrameType.resetStream, stream: 3, [0]), .frameSizeError),
        Attack("SETTINGS on a stream", frame(FrameType.settings, stream: 3), .protocolError),
        Attack("SETTINGS of odd length", frame(FrameType.settings, [0]), .frameSizeError),
        Attack("acknowledgement with settings", frame(FrameType.settings, flags: 1, setting(3, 1)), .frameSizeError),
        Attack("ENABLE_PUSH", frame(FrameType.settings, setting(SettingIdentifier.enablePush, 1)), .protocolError),
        Attack(
            "INITIAL_WINDOW_SIZE too large",
            frame(FrameType.settings, setting(SettingIdentifier.initialWindowSize, 1 << 31)),
            .flowControlError
        ),
        Attack(
            "MAX_FRAME_SIZE too small",
            frame(FrameType.settings, setting(SettingIdentifier.frameSizeMax, 16_383)),
            .protocolError
        ),
        Attack(
            "MAX_FRAME_SIZE too large",
            frame(FrameType.settings, setting(SettingIdentifier.frameSizeMax, 1 << 24)),
            .protocolError
        ),
        Attack("PING on a stream", frame(FrameType.ping, stream: 3, [UInt8](repeating: 0, count: 8)), .protocolError),
        Attack("PING that is cut", frame(FrameType.ping, [0]), .frameSizeError),
        Attack(
            "GOAWAY on a stream",
            frame(FrameType.goAway, stream: 3, bigEndianBytes(0) + bigEndianBytes(0)),
            .protocolError
        ),
        Attack("GOAWAY that is cut", frame(FrameType.goAway, bigEndianBytes(0)), .frameSizeError),
        Attack("WINDOW_UPDATE by 0", frame(FrameType.windowUpdate, bigEndianBytes(0)), .protocolError),
        Attack("WINDOW_UPDATE that is cut", frame(FrameType.windowUpdate, [1]), .frameSizeError),
        Attack(
            "WINDOW_UPDATE on an idle stream",
            frame(FrameType.windowUpdate, stream: 11, bigEndianBytes(1)),
            .protocolError
        ),
        Attack("window beyond 2^31-1", frame(FrameType.windowUpdate, bigEndianBytes(0x7FFF_FFFF)), .flowControlError),
        Attack(
            "initial window that raises a stream's beyond 2^31-1",
            frame(FrameType.windowUpdate, stream: 3, bigEndianBytes(0x7FFF_0000))
                + frame(FrameType.settings, setting(SettingIdentifier.initialWindowSize, 0x7FFF_FFFF)),
            .flowControlError
        ),
        Attack("PRIORITY on stream 0", frame(FrameType.priority, [0, 0, 0, 0, 0]), .protocolError),
        Attack("flood of SETTINGS", (0..<12_000).flatMap { _ in frame(FrameType.settings) }, .enhanceYourCalm),
        Attack(
            "flood of PING",
            (0..<12_000).flatMap { _ in frame(FrameType.ping, [UInt8](repeating: 0, count: 8)) },
            .enhanceYourCalm
        ),
        Attack("flood of an unknown type", (0..<12_000).flatMap { _ in frame(0x42, stream: 77) }, .enhanceYourCalm),
        Attack(
            "flood of empty DATA",
            (0..<12_000).flatMap { _ in frame(FrameType.data, stream: 1) },
            .enhanceYourCalm
        ),
    ]

    @Test(arguments: attacks)
    func `An attack ends the connection, and each push gets one outcome`(_ attack: Attack) throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        for tag in 0..<4 { #expect(fixture.submit(UInt64(tag))) }
        let peer = try #require(fixture.server.peers.first)
        #expect(fixture.runLoop(until: { peer.receivedFrames.count { $0.type == FrameType.data } == 5 }))
        // The client counts the frames of each second to detect a flood. A busy machine may need longer to read the
        // flood. So here the counted second begins in the future, and all frames count together.
        fixture.pool.connections.first?.frameAllowanceRefilledAtMilliseconds =
            fixture.loop.nowMilliseconds + EventLoop.eventWaitMillisecondsMax
        peer.send(attack.bytes)
        #expect(fixture.runLoop(until: { fixture.recorder.closeCauses == [.protocolError] }))
        // If the client closes before it has read the whole flood, TCP is reset and its GOAWAY may be lost. So after a
        // flood, an end without GOAWAY is accepted too.
        let isFlood = attack.bytes.count > 100_000
        #expect(fixture.runLoop(until: { peer.goAwayCode != nil || isFlood && peer.isClosed }))
        #expect(peer.goAwayCode == attack.code.rawValue || isFlood && peer.goAwayCode == nil)
        #expect(fixture.recorder.responseCount == 5)
        #expect(fixture.recorder.singleResponseCount == 5)
        #expect(fixture.recorder.count(.ambiguous) == 4)
        #expect(fixture.pool.connections.isEmpty)
    }

    @Test(arguments: [
        frame(FrameType.ping, [UInt8](repeating: 0, count: 8)), frame(FrameType.settings, flags: 1),
        Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8),
        frame(FrameType.goAway, bigEndianBytes(0) + bigEndianBytes(0)),
    ])
    func `The first frame must be SETTINGS`(_ greeting: [UInt8]) throws {
        let fixture = try HostileFixture()
        fixture.server.greeting = greeting
        fixture.pool.start()
        #expect(fixture.runLoop(until: { fixture.recorder.closeCauses == [.protocolError] }))
        #expect(!fixture.submit(1))
        #expect(fixture.recorder.responseCount == 0)
    }

    /// Bytes that violate the rules of one stream. Only this stream must end, with the given code.
    @Test(arguments: [
        Attack("WINDOW_UPDATE by 0", frame(FrameType.windowUpdate, stream: 3, bigEndianBytes(0)), .protocolError),
        Attack(
            "window beyond 2^31-1",
            frame(FrameType.windowUpdate, stream: 3, bigEndianBytes(0x7FFF_FFFF)),
            .flowControlError
        ),
        Attack("DATA before HEADERS", frame(FrameType.data, stream: 3, [0x7B]), .protocolError),
        Attack(
            "response without status",
            frame(FrameType.headers, flags: 5, stream: 3, [0x00, 1, 0x78, 1, 0x79]),
            .protocolError
        ),
        Attack(
            "informational response that ends the stream",
            frame(FrameType.headers, flags: 5, stream: 3, [0x08, 3, 0x31, 0x30, 0x33]),
            .protocolError
        ),
        Attack("101", frame(FrameType.headers, flags: 4, stream: 3, [0x08, 3, 0x31, 0x30, 0x31]), .protocolError),
        Attack(
            "pseudo-header field in the trailers",
            responseHead(stream: 3, contentLength: "1") + frame(FrameType.data, stream: 3, [0x7B])
                + frame(FrameType.headers, flags: 5, stream: 3, [0x88]),
            .protocolError
        ),
        Attack(
            "no body where one was said to come",
            responseHead(stream: 3, contentLength: "1", isLast: true),
            .protocolError
        ),
        Attack(
            "body shorter than it was said to be",
            responseHead(stream: 3, contentLength: "12") + frame(FrameType.data, flags: 1, stream: 3, [0x7B, 0x7D]),
            .protocolError
        ),
        Attack(
            "body and trailers, shorter than it was said to be",
            responseHead(stream: 3, contentLength: "12") + frame(FrameType.data, stream: 3, [0x7B, 0x7D])
                + frame(FrameType.headers, flags: 5, stream: 3, [0x00, 1, 0x78, 1, 0x79]),
            .protocolError
        ),
        Attack(
            "body longer than it was said to be",
            responseHead(stream: 3, contentLength: "3") + frame(FrameType.data, stream: 3, [0x7B, 0x7D])
                + frame(FrameType.data, stream: 3, [0x20, 0x20]),
            .protocolError
        ),
        Attack(
            "two lengths",
            frame(FrameType.headers, flags: 5, stream: 3, [0x88] + contentLengthField("0") + contentLengthField("1")),
            .protocolError
        ),
    ])
    func `A fault of a stream ends only the stream`(_ attack: Attack) throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        for tag in 0..<4 { #expect(fixture.submit(UInt64(tag))) }
        let peer = try #require(fixture.server.peers.first)
        #expect(fixture.runLoop(until: { peer.receivedFrames.count { $0.type == FrameType.data } == 5 }))
        peer.send(attack.bytes + (0..<4).flatMap { acceptedResponse(stream: 3 + 2 * Int32($0)) })
        #expect(fixture.runLoop(until: { fixture.recorder.responseCount == 5 }))
        #expect(try fixture.recorder.onlyResponse(to: 0).completion == .ambiguous)
        for tag in 1..<4 { #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).status == 200) }
        #expect(fixture.runLoop(until: { peer.resetCodes == [attack.code.rawValue] }))
        #expect(peer.goAwayCode == nil)
        #expect(fixture.submit(10))
    }

    /// The server sends unusual frames that the standard allows: padding, priorities, unknown frames and settings, and
    /// a header block in parts. With `isByteByByte`, it sends each byte by itself.
    @Test(arguments: [false, true])
    func `Odd frames that the standard allows are accepted`(isByteByByte: Bool) throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        for tag in 0..<4 { #expect(fixture.submit(UInt64(tag))) }
        let peer = try #require(fixture.server.peers.first)
        #expect(fixture.runLoop(until: { peer.receivedFrames.count { $0.type == FrameType.data } == 5 }))
        var bytes = frame(0xEE, flags: 0xFF, stream: 99, [1, 2, 3])
        bytes += frame(FrameType.settings, setting(0xFFFF, 7) + setting(SettingIdentifier.headerListSizeMax, 8_000))
        bytes += frame(FrameType.priority, stream: 3, [0, 0, 0, 0, 0])
        // Padding of two bytes, a priority, and `:status: 410` in three frames.
        bytes += frame(FrameType.headers, flags: 0x28, stream: 3, [2, 0, 0, 0, 0, 9, 0x08, 0, 0])
        bytes += frame(FrameType.continuation, stream: 3, [3, 0x34])
        bytes += frame(FrameType.continuation, flags: 4, stream: 3, [0x31, 0x30])
        bytes += frame(FrameType.data, flags: 8, stream: 3, [4] + Array(#"{"reason":"#.utf8) + [0, 0, 0, 0])
        bytes += frame(FrameType.data, stream: 3)
        bytes += frame(FrameType.ping, [1, 2, 3, 4, 5, 6, 7, 8])
        bytes += frame(FrameType.data, flags: 1, stream: 3, Array(#""Unregistered"}"#.utf8))
        // A 304, which never has a body, with a `content-length`. Then two bodies of the announced length: one is
        // followed by trailers, the other has padding, which does not count.
        bytes += frame(FrameType.headers, flags: 5, stream: 5, [0x8B] + contentLengthField("7"))
        bytes += responseHead(stream: 7, contentLength: "2") + frame(FrameType.data, stream: 7, [0x7B, 0x7D])
        bytes += frame(FrameType.headers, flags: 5, stream: 7, [0x00, 1, 0x78, 1, 0x79])
        bytes += responseHead(stream: 9, contentLength: "2")
        bytes += frame(FrameType.data, flags: 9, stream: 9, [3, 0x7B, 0x7D, 0, 0, 0])
        // Frames on streams that have ended, which the client must ignore.
        bytes += acceptedResponse(stream: 5) + frame(FrameType.resetStream, stream: 3, bigEndianBytes(0))
        bytes += frame(FrameType.windowUpdate, stream: 7, bigEndianBytes(1)) + frame(FrameType.data, stream: 9, [0])
        if isByteByByte {
            for byte in bytes {
                peer.send([byte])
                fixture.loop.runIteration(waitMilliseconds: 0)
            }
        } else {
            peer.send(bytes)
        }
        #expect(fixture.runLoop(until: { fixture.recorder.responseCount == 5 }))
        let deadTokenResponse = try fixture.recorder.onlyResponse(to: 0)
        #expect(deadTokenResponse.status == 410 && deadTokenResponse.reason == .unregistered)
        #expect(try fixture.recorder.onlyResponse(to: 1).status == 304)
        for tag in 2..<4 { #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).status == 200) }
        let pong = HostileServer.ReceivedFrame(type: FrameType.ping, flags: 1, stream: 0, payload: Array(1...8))
        #expect(fixture.runLoop(until: { peer.receivedFrames.contains(pong) }))
        #expect(fixture.submit(10))
    }

    /// The server sends PINGs, which the client must acknowledge, and never reads the acknowledgements.
    @Test func `A server that does not read acknowledgements loses the connection`() throws {
        let fixture = try HostileFixture { $0.requestTimeoutMilliseconds = 60_000 }
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        peer.stopReading()
        let pings = (0..<9_000).flatMap { _ in frame(FrameType.ping, [UInt8](repeating: 0, count: 8)) }
        let hasEnded = fixture.runLoop(until: {
            peer.send(pings)
            fixture.loop.runIteration(waitMilliseconds: 1)
            return !fixture.recorder.closeCauses.isEmpty
        })
        #expect(hasEnded)
        #expect(fixture.recorder.closeCauses == [.protocolError])
    }

    /// After its SETTINGS, the server sends random frames, valid or not. Each push gets one outcome, and the client
    /// does not trap.
    @Test(arguments: 0..<40)
    func `After any bytes, each push has one response`(seed: Int) throws {
        var generator = SplitMix64(seed: UInt64(seed))
        let fixture = try HostileFixture {
            $0.backoffBaseMilliseconds = 1
            $0.backoffJitterMillisecondsMax = 1
            $0.openingIntervalMilliseconds = 0
            $0.requestTimeoutMilliseconds = 50
            $0.breaker.failureWindowPushesMin = 100_000
        }
        // Responds to the first push of every connection, so that the connection accepts pushes in parallel.
        fixture.server.onFrame = { peer, frame in
            if frame.type == FrameType.headers, frame.stream == 1 { peer.send(acceptedResponse(stream: 1)) }
        }
        fixture.pool.start()
        var pushCount: UInt64 = 0
        for _ in 0..<150 {
            while pushCount < 1_000, fixture.submit(pushCount, bodyBytes: Int.random(in: 0...100, using: &generator)) {
                pushCount += 1
            }
            if let peer = fixture.server.peers.last, !peer.isClosed {
                let streams = peer.receivedFrames.filter { $0.type == FrameType.headers }.map(\.stream)
                if streams.count > 1 { peer.send(randomFrames(&generator, streams: streams.suffix(20))) }
            }
            fixture.loop.runIteration(waitMilliseconds: 2)
        }
        fixture.pool.close()
        #expect(pushCount > 20)
        #expect(fixture.recorder.responseCount == Int(pushCount))
        #expect(fixture.recorder.singleResponseCount == Int(pushCount))
    }

    private func randomFrames(_ generator: inout SplitMix64, streams: ArraySlice<Int32>) -> [UInt8] {
        var bytes: [UInt8] = []
        for _ in 0..<Int.random(in: 0...12, using: &generator) {
            let stream = streams.randomElement(using: &generator) ?? 1
            switch Int.random(in: 0..<12, using: &generator) {
            case 0...4: bytes += acceptedResponse(stream: stream)
            case 5: bytes += frame(FrameType.headers, flags: 4, stream: stream, [0x8B])
            case 6:
                bytes += frame(
                    FrameType.data,
                    flags: UInt8.random(in: 0...1, using: &generator),
                    stream: stream,
                    [0x7B]
                )
            case 7:
                bytes += frame(
                    FrameType.resetStream,
                    stream: stream,
                    bigEndianBytes(UInt32.random(in: 0...13, using: &generator))
                )
            case 8:
                bytes += frame(
                    FrameType.settings,
                    setting(
                        UInt16.random(in: 1...6, using: &generator),
                        UInt32.random(in: 0...70_000, using: &generator)
                    )
                )
            case 9:
                bytes += frame(
                    FrameType.windowUpdate,
                    stream: Bool.random(using: &generator) ? 0 : stream,
                    bigEndianBytes(UInt32.random(in: 0...100_000, using: &generator))
                )
            case 10:
                let lastStream = bigEndianBytes(UInt32.random(in: 0...40, using: &generator))
                bytes += frame(FrameType.goAway, lastStream + bigEndianBytes(0))
            default:
                let payload = (0..<Int.random(in: 0...20, using: &generator))
                    .map { _ in UInt8.random(in: 0...255, using: &generator) }
                bytes += frame(
                    UInt8.random(in: 0...10, using: &generator),
                    flags: UInt8.random(in: 0...255, using: &generator),
                    stream: stream,
                    payload
                )
            }
        }
        if Int.random(in: 0..<6, using: &generator) == 0, !bytes.isEmpty {
            bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
        }
        return bytes
    }
}
