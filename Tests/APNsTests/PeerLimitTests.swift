import Testbed
import Testing

@testable import APNs
@testable import Reactor

/// The limits of a connection: its streams, its flow-control windows, and how fast the server reads.
@Suite(.ownThread) struct PeerLimitTests {
    /// Submits pushes until the output buffer is full, or until `isEnough` holds. The server has wide windows, and does
    /// not read.
    private func fillOutput(
        _ fixture: HostileFixture,
        until isEnough: (Stream) -> Bool = { _ in false }
    ) throws -> (peer: HostileServer.Peer, submittedCount: UInt64) {
        let window: UInt32 = 1 << 30
        fixture.server.greeting = frame(FrameType.settings, setting(SettingIdentifier.initialWindowSize, window))
        fixture.server.greeting += frame(FrameType.windowUpdate, bigEndianBytes(window))
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        peer.stopReading()
        let stream = try #require(fixture.pool.connections.first?.transportStream)
        var submittedCount: UInt64 = 0
        while !isEnough(stream), fixture.submit(submittedCount, bodyBytes: 16_384) {
            submittedCount += 1
            fixture.loop.runIteration(waitMilliseconds: 0)
        }
        #expect(submittedCount < 1_000)
        return (peer, submittedCount)
    }

    @Test func `A PING beside a full output buffer is acknowledged`() throws {
        let fixture = try HostileFixture(bodyBytesMax: 16_384) { $0.requestTimeoutMilliseconds = 120_000 }
        let (peer, _) = try fillOutput(fixture)
        let stream = try #require(fixture.pool.connections.first?.transportStream)
        let outputBytes = stream.pendingOutputBytes
        try #require(outputBytes > Stream.highWaterBytes)
        let ping: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        peer.send(frame(FrameType.ping, ping))
        let hasReacted = fixture.runLoop(until: {
            stream.pendingOutputBytes > outputBytes || !fixture.recorder.closeCauses.isEmpty
        })
        try #require(hasReacted && fixture.recorder.closeCauses.isEmpty)
        peer.resumeReading()
        let pong = HostileServer.ReceivedFrame(
            type: FrameType.ping,
            flags: FrameFlags.acknowledgement,
            stream: 0,
            payload: ping
        )
        #expect(fixture.runLoop(until: { peer.receivedFrames.contains(pong) }))
    }

    /// The server reads slowly, but in time: the output buffer becomes full, and no push fails.
    @Test func `A pool waits for a server that reads late`() throws {
        let timeoutMilliseconds: Int64 = 12_000
        let fixture = try HostileFixture(bodyBytesMax: 16_384) { $0.requestTimeoutMilliseconds = timeoutMilliseconds }
        let (peer, submittedCount) = try fillOutput(fixture)
        // The output buffer is still full when half of the oldest push's time limit has passed. The other half is
        // enough for the server to read everything.
        let beganAtMilliseconds = fixture.loop.nowMilliseconds
        #expect(
            fixture.runLoop(until: {
                fixture.loop.nowMilliseconds - beganAtMilliseconds > timeoutMilliseconds / 2 + 100
            })
        )
        #expect(!fixture.submit(submittedCount))
        fixture.server.onFrame = { peer, frame in
            if frame.type == FrameType.data, frame.flags & FrameFlags.endStream != 0 {
                peer.send(acceptedResponse(stream: frame.stream))
            }
        }
        peer.resumeReading()
        #expect(fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 }))
        #expect(fixture.recorder.closeCauses.isEmpty)
        #expect(fixture.recorder.count(.responded) == Int(submittedCount) + 1)
    }

    /// The server resets the connection. The pushes in the output buffer have not left the process, unlike those in the
    /// kernel's buffers.
    @Test func `Pushes in the output buffer of a lost connection were not processed`() throws {
        let fixture = try HostileFixture(bodyBytesMax: 16_384) { $0.requestTimeoutMilliseconds = 120_000 }
        let (peer, submittedCount) = try fillOutput(fixture)
        let stream = try #require(fixture.pool.connections.first?.transportStream)
        try #require(stream.pendingOutputBytes > Stream.highWaterBytes)
        peer.close()
        #expect(fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 }))
        let unprocessedCount = fixture.recorder.count(.notProcessed)
        #expect(unprocessedCount >= 30)
        #expect(fixture.recorder.count(.ambiguous) == Int(submittedCount) - unprocessedCount)
        #expect(
            fixture.recorder.responsesByTag.values.joined()
                .allSatisfy { $0.wasSent == ($0.completion != .notProcessed) }
        )
    }

    /// The server reads no more, but is not silent, so the connection needs no PING. Only the last pushes are still in
    /// the output buffer, which is half full. They must not be sent after they have timed out.
    @Test func `A push that waits in the output buffer at its deadline was not processed`() throws {
        let fixture = try HostileFixture(bodyBytesMax: 16_384) { $0.requestTimeoutMilliseconds = 4_000 }
        let (peer, submittedCount) = try fillOutput(fixture, until: { $0.pendingOutputBytes > 256 * 1024 })
        var sentAtMilliseconds = fixture.loop.nowMilliseconds
        #expect(
            fixture.runLoop(until: {
                if fixture.loop.nowMilliseconds - sentAtMilliseconds >= 100 {
                    peer.send(frame(0x42, stream: 77))
                    sentAtMilliseconds = fixture.loop.nowMilliseconds
                }
                return !fixture.recorder.closeCauses.isEmpty
            })
        )
        #expect(fixture.recorder.closeCauses == [.outputStalled])
        let unprocessedCount = fixture.recorder.count(.notProcessed)
        #expect(unprocessedCount > 0)
        #expect(fixture.recorder.count(.ambiguous) == Int(submittedCount) - unprocessedCount)
    }

    @Test func `A connection whose stream has just failed takes no push`() throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        let stream = try #require(fixture.pool.connections.first?.transportStream)
        stream.fail(StreamError(code: .connectionReset, reason: ""))
        #expect(!fixture.submit(1))
    }

    /// The limit is 0 at the start, and again later. Pushes in flight still get their responses.
    @Test func `A limit of 0 streams stops only new pushes`() throws {
        let fixture = try HostileFixture()
        fixture.server.greeting = frame(FrameType.settings, setting(SettingIdentifier.concurrentStreamsMax, 0))
        fixture.pool.start()
        #expect(fixture.runLoop(until: { fixture.pool.connections.first?.phase == .unauthenticated }))
        #expect(!fixture.submit(1) && fixture.pool.freeStreamCount == 0)
        let peer = try #require(fixture.server.peers.first)
        var roomCount = 0
        fixture.recorder.onRoom = { _ in roomCount += 1 }
        peer.send(frame(FrameType.settings, setting(SettingIdentifier.concurrentStreamsMax, 3)))
        #expect(fixture.runLoop(until: { roomCount == 1 }))
        #expect(fixture.submit(1) && !fixture.submit(2))
        #expect(
            fixture.runLoop(until: { peer.receivedFrames.contains { $0.type == FrameType.data && $0.stream == 1 } })
        )
        peer.send(acceptedResponse(stream: 1))
        #expect(fixture.runLoop(until: { fixture.recorder.responseCount == 1 }))
        #expect(fixture.submit(2) && fixture.submit(3))
        #expect(
            fixture.runLoop(until: { peer.receivedFrames.contains { $0.type == FrameType.data && $0.stream == 5 } })
        )
        peer.send(frame(FrameType.settings, setting(SettingIdentifier.concurrentStreamsMax, 0)))
        #expect(fixture.runLoop(until: { fixture.pool.connections.first?.streamsMax == 0 }))
        #expect(!fixture.submit(4))
        peer.send(acceptedResponse(stream: 3) + acceptedResponse(stream: 5))
        #expect(fixture.runLoop(until: { fixture.recorder.responseCount == 3 }))
        #expect(!fixture.submit(4))
        peer.send(frame(FrameType.settings, setting(SettingIdentifier.concurrentStreamsMax, 0x7FFF_FFFF)))
        #expect(fixture.runLoop(until: { roomCount == 3 }))
        for tag in 4..<1_004 { #expect(fixture.submit(UInt64(tag), bodyBytes: 10)) }
        #expect(!fixture.submit(1_004, bodyBytes: 10))
        fixture.recorder.onRoom = nil
        #expect(fixture.recorder.count(.responded) == 3 && fixture.recorder.closeCauses.isEmpty)
    }

    /// The client uses the last streams that `requestsPerConnectionMax` allows on a connection. Then a new connection
    /// begins at stream 1.
    @Test func `A connection uses its last streams`() throws {
        let fixture = try HostileFixture { $0.openingIntervalMilliseconds = 0 }
        try #require(fixture.warmUp())
        let connection = try #require(fixture.pool.connections.first)
        connection.requestCount = fixture.pool.configuration.requestsPerConnectionMax - 10
        connection.nextStreamIdentifier = Int32(2 * connection.requestCount + 1)
        fixture.server.onFrame = { peer, frame in
            if frame.type == FrameType.data { peer.send(acceptedResponse(stream: frame.stream)) }
        }
        var nextTag: UInt64 = 0
        #expect(
            fixture.runLoop(until: {
                while nextTag < 20, fixture.submit(nextTag) { nextTag += 1 }
                return fixture.recorder.responseCount == 21
            })
        )
        let streams: [[Int32]] = fixture.server.peers.map { peer in
            peer.receivedFrames.filter { $0.type == FrameType.headers }.map(\.stream)
        }
        let lastStreams: [Int32] = Array(stride(from: 1_999_999_981, to: 2_000_000_000, by: 2))
        let firstStreams: [Int32] = Array(stride(from: 1, to: 20, by: 2))
        #expect(streams == [[1] + lastStreams, firstStreams])
        #expect(fixture.recorder.retirementCauses == [.requestsMax])
        #expect(fixture.recorder.count(.responded) == 21)
        #expect(fixture.runLoop(until: { fixture.recorder.closeCauses == [.retired] }))
    }

    /// Windows begin at zero, grow by a byte, and become negative. The body is sent in pieces, and is complete at the
    /// end.
    @Test func `A body is sent in pieces as flow control allows`() throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        peer.send(frame(FrameType.settings, setting(SettingIdentifier.initialWindowSize, 0)))
        let hasAcknowledged = { (count: Int) in
            peer.receivedFrames.count { $0.type == FrameType.settings && $0.flags & FrameFlags.acknowledgement != 0 }
                == count
        }
        #expect(fixture.runLoop(until: { hasAcknowledged(2) }))
        #expect(fixture.submit(1) && fixture.submit(2))
        let sentPieceBytes = { (stream: Int32) in
            peer.receivedFrames.filter { $0.type == FrameType.data && $0.stream == stream }.map(\.payload.count)
        }
        peer.send(frame(FrameType.windowUpdate, stream: 3, bigEndianBytes(1)))
        #expect(fixture.runLoop(until: { sentPieceBytes(3) == [1] }))
        // Stream 5 has a window of its own, so its body does not wait for stream 3's.
        peer.send(frame(FrameType.windowUpdate, stream: 5, bigEndianBytes(200)))
        #expect(fixture.runLoop(until: { sentPieceBytes(5) == [100] }))
        // The initial window of all streams grows by 40, and then shrinks by 20, so that stream 3's window is
        // below zero.
        peer.send(frame(FrameType.settings, setting(SettingIdentifier.initialWindowSize, 40)))
        #expect(fixture.runLoop(until: { sentPieceBytes(3) == [1, 40] }))
        peer.send(frame(FrameType.settings, setting(SettingIdentifier.initialWindowSize, 20)))
        #expect(fixture.runLoop(until: { hasAcknowledged(4) }))
        peer.send(
            frame(FrameType.windowUpdate, stream: 3, bigEndianBytes(20))
                + frame(FrameType.ping, [UInt8](repeating: 7, count: 8))
        )
        #expect(fixture.runLoop(until: { peer.receivedFrames.contains { $0.type == FrameType.ping } }))
        #expect(sentPieceBytes(3) == [1, 40])
        peer.send(acceptedResponse(stream: 5))
        #expect(fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil }))
        #expect(try fixture.recorder.onlyResponse(to: 2).status == 200)
        peer.send(frame(FrameType.windowUpdate, stream: 3, bigEndianBytes(59)))
        #expect(fixture.runLoop(until: { sentPieceBytes(3) == [1, 40, 59] }))
        peer.send(acceptedResponse(stream: 3))
        #expect(fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil }))
        #expect(try fixture.recorder.onlyResponse(to: 1).status == 200)
        #expect(peer.receivedFrames.last { $0.type == FrameType.data }?.flags == FrameFlags.endStream)
    }
}
