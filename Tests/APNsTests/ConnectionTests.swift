import CNghttp2
import Reactor
import Testbed
import Testing

@testable import APNs

/// Connections whose server or network behaves unexpectedly.
@Suite(.ownThread) struct ConnectionTests {
    /// The time limit for pushes, in tests where some pushes exceed it. All other pushes get their responses much
    /// sooner, even on a busy machine.
    private let deadlineMilliseconds: Int64 = 2_000

    @Test func `After GOAWAY, only the pushes above the last stream count as not processed`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        var heldRequests: [ServedRequest] = []
        fixture.server.respond = {
            heldRequests.append($0)
            return nil
        }
        for tag in 0..<100 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { heldRequests.count == 100 })
        // GOAWAY names the stream of the fiftieth push, so APNs has not processed the 50 pushes after it.
        let connection = heldRequests[0].connection
        connection.goAway(lastStream: heldRequests[49].stream, reason: "Shutdown")
        fixture.runLoop(until: { fixture.recorder.count(.notProcessed) == 50 })
        #expect(fixture.pool.connections.first?.phase == .draining)
        for tag in 50..<100 {
            let response = try fixture.recorder.onlyResponse(to: UInt64(tag))
            #expect(response.completion == .notProcessed)
            #expect(response.disposition == .retrySoon)
        }
        // A new connection takes the next push while the old one still gets responses.
        fixture.server.respond = { _ in .accepted }
        fixture.runLoop(until: { fixture.submit(200) })
        for request in heldRequests.prefix(50) { connection.respond(.accepted, stream: request.stream) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        for tag in 0..<50 { #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).status == 200) }
        #expect(try fixture.recorder.onlyResponse(to: 200).connection == 2)
        fixture.runLoop(until: { fixture.recorder.closeCauses == [.retired] })
        let notice = fixture.recorder.events.contains {
            if case .goAway(1, 0, .shutdown, #"{"reason":"Shutdown"}"#) = $0 { true } else { false }
        }
        #expect(notice)
    }

    /// Sends ten pushes on streams 3 to 21. Only pushes on streams above GOAWAY's last stream may be sent
    /// again.
    @Test(arguments: [
        (lastStreams: [0], refusedCount: 10), (lastStreams: [1], refusedCount: 10), (lastStreams: [3], refusedCount: 9),
        (lastStreams: [4], refusedCount: 9),
        (lastStreams: [19], refusedCount: 1), (lastStreams: [21], refusedCount: 0),
        (lastStreams: [0x7FFF_FFFF], refusedCount: 0),
        // Two GOAWAY frames, as a server sends them when it shuts down gracefully (RFC 9113, section 6.8).
        (lastStreams: [0x7FFF_FFFF, 11], refusedCount: 5), (lastStreams: [21, 3], refusedCount: 9),
    ])
    func `GOAWAY may name any last stream`(lastStreams: [Int32], refusedCount: Int) throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        for tag in 0..<10 { #expect(fixture.submit(UInt64(tag))) }
        #expect(fixture.runLoop(until: { peer.receivedFrames.count { $0.type == FrameType.data } == 11 }))
        for stream in lastStreams {
            peer.send(frame(FrameType.goAway, bigEndianBytes(UInt32(stream)) + bigEndianBytes(0)))
            let end = frame(FrameType.ping, [UInt8](repeating: UInt8(truncatingIfNeeded: stream), count: 8))
            peer.send(end)
            #expect(
                fixture.runLoop(until: {
                    peer.isClosed
                        || peer.receivedFrames.contains {
                            $0.type == FrameType.ping && Array(end.suffix(8)) == $0.payload
                        }
                })
            )
        }
        #expect(fixture.recorder.count(.notProcessed) == refusedCount)
        #expect(!fixture.submit(100))
        for stream: Int32 in stride(from: 3, to: 23, by: 2) { peer.send(acceptedResponse(stream: stream)) }
        #expect(fixture.runLoop(until: { fixture.recorder.closeCauses == [.retired] }))
        #expect(fixture.recorder.singleResponseCount == 11)
        #expect(fixture.recorder.count(.responded) == 11 - refusedCount)
        for tag in 0..<10 {
            let response = try fixture.recorder.onlyResponse(to: UInt64(tag))
            #expect(response.completion == (tag < 10 - refusedCount ? .responded : .notProcessed))
        }
    }

    /// The server resets a stream with each known code and with two unknown codes. Only REFUSED_STREAM proves that
    /// the push was not processed.
    @Test(arguments: Array(0...13) + [0x0F, 0xFFFF_FFFF] as [UInt32])
    func `A stream may be reset with any code`(_ code: UInt32) throws {
        let fixture = try HostileFixture()
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        for tag in 0..<3 { #expect(fixture.submit(UInt64(tag))) }
        #expect(fixture.runLoop(until: { peer.receivedFrames.count { $0.type == FrameType.data } == 4 }))
        peer.send(
            frame(FrameType.resetStream, stream: 5, bigEndianBytes(code)) + acceptedResponse(stream: 3)
                + acceptedResponse(stream: 7)
        )
        #expect(fixture.runLoop(until: { fixture.recorder.responseCount == 4 }))
        #expect(
            try fixture.recorder.onlyResponse(to: 1).completion
                == (code == ErrorCode.refusedStream.rawValue ? .notProcessed : .ambiguous)
        )
        #expect(try fixture.recorder.onlyResponse(to: 0).status == 200)
        #expect(try fixture.recorder.onlyResponse(to: 2).status == 200)
        #expect(fixture.recorder.closeCauses.isEmpty && fixture.submit(10))
    }

    /// The response to a push comes after the push's deadline. The client takes only the response's new entries of the
    /// header table, because later responses refer to them.
    @Test func `A response after the deadline changes only the header table`() throws {
        let fixture = try HostileFixture { $0.requestTimeoutMilliseconds = deadlineMilliseconds }
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        fixture.server.onFrame = { peer, received in
            guard received.type == FrameType.ping else { return }
            peer.send(frame(FrameType.ping, flags: FrameFlags.acknowledgement, received.payload))
        }
        #expect(fixture.submit(1))
        #expect(fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil }))
        #expect(fixture.runLoop(until: { peer.resetCodes == [ErrorCode.cancel.rawValue] }))
        #expect(fixture.submit(2))
        // The closed stream gets `:status: 410`, which becomes a new entry of the header table. The open
        // stream's `:status` refers to this entry.
        let lateHeaders = frame(
            FrameType.headers,
            flags: FrameFlags.endHeaders,
            stream: 3,
            [0x48, 3] + Array("410".utf8)
        )
        let lateBody = frame(
            FrameType.data,
            flags: FrameFlags.endStream,
            stream: 3,
            Array(#"{"reason":"Unregistered"}"#.utf8)
        )
        let openHeaders = frame(
            FrameType.headers,
            flags: FrameFlags.endHeaders | FrameFlags.endStream,
            stream: 5,
            [0x80 | 62]
        )
        peer.send(lateHeaders + lateBody + openHeaders)
        #expect(fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil }))
        #expect(try fixture.recorder.onlyResponse(to: 1).completion == .ambiguous)
        #expect(try fixture.recorder.onlyResponse(to: 2).status == 410)
        #expect(fixture.recorder.closeCauses.isEmpty)
    }

    @Test func `A connection after GOAWAY ends at the deadline even without responses`() throws {
        let fixture = try PoolFixture { $0.requestTimeoutMilliseconds = deadlineMilliseconds }
        fixture.warmUp()
        fixture.server.respond = { request in
            if request.ordinal == 10 { request.connection.goAway(lastStream: request.stream, reason: "IdleTimeout") }
            return nil
        }
        for tag in 0..<10 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.recorder.closeCauses == [.retired] })
        #expect(fixture.recorder.count(.ambiguous) == 10)
    }

    @Test func `A pool follows the server's limit of streams down to one and up again`() throws {
        let fixture = try PoolFixture(bodyBytes: 40)
        fixture.warmUp()
        var heldRequests: [ServedRequest] = []
        fixture.server.respond = {
            heldRequests.append($0)
            return nil
        }
        for tag in 0..<1_000 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { heldRequests.count == 1_000 })
        let connection = heldRequests[0].connection
        connection.setStreamsMax(1)
        fixture.runLoop(until: { fixture.pool.connections.first?.streamsMax == 1 })
        for request in heldRequests.prefix(999) { connection.respond(.accepted, stream: request.stream) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 1 })
        #expect(!fixture.submit(1_000))
        connection.respond(.accepted, stream: heldRequests[999].stream)
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.submit(1_000))
        #expect(!fixture.submit(1_001))
        connection.setStreamsMax(1_000)
        var hasReportedRoom = false
        fixture.recorder.onRoom = { _ in hasReportedRoom = true }
        fixture.runLoop(until: { hasReportedRoom })
        for tag in 1_001..<2_000 { #expect(fixture.submit(UInt64(tag))) }
        #expect(!fixture.submit(2_000))
        fixture.runLoop(until: { heldRequests.count == 2_000 })
        for request in heldRequests.suffix(1_000) { connection.respond(.accepted, stream: request.stream) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
        #expect(fixture.recorder.count(.responded) == 2_001)
        #expect(fixture.server.acceptedConnectionCount == 1)
    }

    /// The server refuses every second stream, as a server may do after it has lowered its limit of streams. Refused
    /// pushes are safe to send again.
    @Test func `Pushes on refused streams count as not processed`() throws {
        let fixture = try PoolFixture(bodyBytes: 40)
        fixture.warmUp()
        fixture.server.respond = { $0.ordinal % 2 == 0 ? .reset(NGHTTP2_REFUSED_STREAM.rawValue) : .accepted }
        for tag in 0..<200 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.count(.notProcessed) == 100)
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
    }

    @Test func `A push without a response is ambiguous at its deadline`() throws {
        let fixture = try PoolFixture { $0.requestTimeoutMilliseconds = deadlineMilliseconds }
        fixture.warmUp()
        fixture.server.respond = { $0.ordinal == 1 ? nil : .accepted }
        #expect(fixture.submit(1))
        let start = fixture.loop.nowMilliseconds
        fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil })
        #expect(fixture.loop.nowMilliseconds - start >= deadlineMilliseconds)
        let response = try fixture.recorder.onlyResponse(to: 1)
        #expect(response.completion == .ambiguous)
        #expect(response.wasSent)
        // Only the stream has failed, so the connection continues.
        #expect(fixture.submit(2))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 2).status == 200)
        #expect(fixture.server.acceptedConnectionCount == 1)
    }

    /// The client receives nothing for half of a push's time limit. It then sends a PING, and closes the connection
    /// if the PING gets no response.
    @Test func `A silent server is detected by PING`() throws {
        let fixture = try PoolFixture {
            $0.requestTimeoutMilliseconds = deadlineMilliseconds
            $0.pingTimeoutMilliseconds = deadlineMilliseconds
        }
        fixture.warmUp()
        fixture.server.connections[0].isMute = true
        for tag in 0..<5 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.recorder.closeCauses.contains(.pingTimeout) })
        #expect(fixture.recorder.count(.ambiguous) == 5)
        fixture.runLoop(until: { fixture.submit(10) })
        fixture.runLoop(until: { fixture.recorder.responsesByTag[10] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 10).connection == 2)
    }

    /// The server's first connection acknowledges PINGs, but serves no request.
    ///
    /// - Parameter given: `failureWindowPushesMin` is 1 if the first timeout opens the breaker. The next push is then a
    ///   probe, and already the probe's timeout shows that the connection must be replaced.
    @Test(arguments: [(failureWindowPushesMin: 50, timeoutCount: 5), (failureWindowPushesMin: 1, timeoutCount: 2)])
    func `A connection that serves no request is replaced`(_ given: (failureWindowPushesMin: Int, timeoutCount: Int))
        throws
    {
        let fixture = try PoolFixture {
            $0.requestTimeoutMilliseconds = 100
            $0.breaker.failureWindowPushesMin = given.failureWindowPushesMin
            $0.breaker.probeDelayMilliseconds = 1
        }
        fixture.server.respond = { [unowned server = fixture.server] in
            $0.connection === server.connections.first ? nil : .accepted
        }
        fixture.pool.start()
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.pool.inFlightPushCount == 0, fixture.submit(tag) { tag += 1 }
            return fixture.recorder.responsesByTag.values.joined().contains { $0.status == 200 }
        })
        #expect(fixture.server.acceptedConnectionCount == 2)
        #expect(fixture.recorder.retirementCauses == [.unresponsive])
        #expect(fixture.recorder.count(.ambiguous) == given.timeoutCount)
    }

    @Test func `An idle connection gets a PING`() throws {
        let fixture = try PoolFixture { $0.pingAfterIdleMilliseconds = 50 }
        fixture.warmUp()
        fixture.runLoop(until: { fixture.server.connections[0].pingCount >= 2 })
        #expect(fixture.recorder.closeCauses.isEmpty)
        #expect(fixture.submit(1))
    }

    @Test func `An end without close_notify makes sent pushes ambiguous`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        var heldRequestCount = 0
        fixture.server.respond = { _ in
            heldRequestCount += 1
            return nil
        }
        for tag in 0..<50 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { heldRequestCount == 50 })
        fixture.server.connections[0].closeWithoutCloseNotify()
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.count(.ambiguous) == 50)
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
        #expect(fixture.recorder.closeCauses == [.connectionLost])
        fixture.server.respond = { _ in .accepted }
        fixture.runLoop(until: { fixture.submit(100) })
        fixture.runLoop(until: { fixture.recorder.responsesByTag[100] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 100).status == 200)
    }

    /// The connection's window of 65,535 bytes has room for six and a half bodies of 10,000 bytes. The warm-up has used
    /// one. So the connection accepts six pushes, and the second half of the sixth body is still unsent when the
    /// connection ends. The caller keeps the pushes that were not accepted, so newer states can still replace them.
    @Test func `A push whose body was held back by flow control was not processed`() throws {
        let fixture = try PoolFixture(bodyBytes: 10_000)
        fixture.warmUp()
        fixture.server.respond = { _ in nil }
        fixture.server.connections[0].isMute = true
        for tag in 0..<20 { #expect(fixture.submit(UInt64(tag)) == (tag < 6)) }
        fixture.runLoop(until: { fixture.server.requestCount == 6 })
        fixture.server.connections[0].closeWithoutCloseNotify()
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.count(.ambiguous) == 5)
        #expect(fixture.recorder.count(.notProcessed) == 1)
    }

    @Test func `A connection to a server that sends no SETTINGS is closed`() throws {
        let fixture = try PoolFixture { $0.settingsTimeoutMilliseconds = 50 }
        fixture.server.sendsSettings = false
        fixture.pool.start()
        fixture.runLoop(until: { fixture.recorder.closeCauses.contains(.settingsTimeout) })
        #expect(!fixture.submit(1))
        fixture.server.sendsSettings = true
        fixture.runLoop(until: { fixture.submit(1) })
        fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 1).status == 200)
    }

    @Test func `A refused connection is tried again and again`() throws {
        let port = try Listener.findUnusedLoopbackPort()
        let fixture = try PoolFixture { $0.port = port }
        fixture.pool.start()
        fixture.runLoop(until: { fixture.recorder.closeCauses.count >= 3 })
        #expect(fixture.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
        #expect(!fixture.submit(1))
        #expect(fixture.recorder.responseCount == 0)
    }

    @Test func `A certificate for another name is refused`() throws {
        let fixture = try PoolFixture { $0.serverName = "api.push.example" }
        fixture.pool.start()
        fixture.runLoop(until: { !fixture.recorder.closeCauses.isEmpty })
        #expect(fixture.recorder.closeCauses.first == .certificateRefused)
        #expect(fixture.server.requestCount == 0)
    }

    @Test func `A connection is replaced before its streams run out`() throws {
        let fixture = try PoolFixture { $0.requestsPerConnectionMax = 10 }
        fixture.pool.start()
        var nextTag: UInt64 = 0
        fixture.runLoop(until: {
            if nextTag < 35, fixture.submit(nextTag) { nextTag += 1 }
            return fixture.recorder.responseCount == 35
        })
        #expect(fixture.server.connections.map(\.requestCount) == [10, 10, 10, 5])
        #expect(fixture.recorder.count(.responded) == 35)
        #expect(fixture.recorder.retirementCauses == [.requestsMax, .requestsMax, .requestsMax])
    }

    @Test func `The server's limit of streams is never exceeded`() throws {
        let fixture = try PoolFixture()
        fixture.server.streamsMax = 7
        fixture.warmUp()
        var nextTag: UInt64 = 0
        fixture.recorder.onRoom = { [unowned fixture] _ in while nextTag < 500, fixture.submit(nextTag) { nextTag += 1 }
        }
        while fixture.submit(nextTag) { nextTag += 1 }
        fixture.runLoop(until: { fixture.recorder.responseCount == 501 })
        #expect(fixture.server.connections[0].peakOpenStreamCount == 7)
        fixture.recorder.onRoom = nil
    }
}
