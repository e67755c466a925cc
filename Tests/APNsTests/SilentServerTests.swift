import Reactor
import Testbed
import Testing

@testable import APNs

/// The server responds to no push for a while, but acknowledges PINGs.
@Suite(.ownThread) struct SilentServerTests {
    /// The server responds to the second push at once, never to the first, and to the third only after the first has
    /// timed out. Half of the first push's time is over before the server has been silent for this time.
    @Test func `A server that acknowledges PINGs keeps its connection while pushes time out`() throws {
        let fixture = try HostileFixture {
            $0.requestTimeoutMilliseconds = 2_000
            $0.pingTimeoutMilliseconds = 2_000
        }
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        var ping: (payload: [UInt8], receivedAtMilliseconds: Int64)?
        fixture.server.onFrame = { [loop = fixture.loop] peer, received in
            if received.type == FrameType.ping, ping == nil { ping = (received.payload, loop.nowMilliseconds) }
            if received.type == FrameType.data, received.stream == 5 { peer.send(acceptedResponse(stream: 5)) }
        }
        #expect(fixture.submit(1))
        let secondPushAtMilliseconds = fixture.loop.nowMilliseconds + 300
        #expect(fixture.runLoop(until: { fixture.loop.nowMilliseconds >= secondPushAtMilliseconds }))
        #expect(fixture.submit(2))
        #expect(fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil }))
        #expect(fixture.submit(3))
        var isPingAcknowledged = false
        var hasResponded = false
        #expect(
            fixture.runLoop(until: {
                let nowMilliseconds = fixture.loop.nowMilliseconds
                if let ping, !isPingAcknowledged, nowMilliseconds - ping.receivedAtMilliseconds >= 400 {
                    peer.send(frame(FrameType.ping, flags: FrameFlags.acknowledgement, ping.payload))
                    isPingAcknowledged = true
                }
                if isPingAcknowledged, !hasResponded, !peer.resetCodes.isEmpty {
                    peer.send(acceptedResponse(stream: 7))
                    hasResponded = true
                }
                return fixture.recorder.responsesByTag[3] != nil
            })
        )
        #expect(try fixture.recorder.onlyResponse(to: 1).completion == .ambiguous)
        #expect(try fixture.recorder.onlyResponse(to: 3).status == 200)
        #expect(fixture.recorder.closeCauses.isEmpty)
        let firstFrame = peer.receivedFrames.first { $0.type == FrameType.ping || $0.type == FrameType.resetStream }
        #expect(firstFrame?.type == FrameType.ping)
    }
}
