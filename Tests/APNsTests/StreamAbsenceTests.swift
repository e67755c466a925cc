import Reactor
import Testbed
import Testing

@testable import APNs

/// The server keeps a connection, but allows it no stream. The tests do not wait for 30 s: they make the absence older.
@Suite(.ownThread) struct StreamAbsenceTests {
    private static func settings(streamsMax: UInt32) -> [UInt8] {
        frame(FrameType.settings, setting(SettingIdentifier.concurrentStreamsMax, streamsMax))
    }

    private func makeFixture() throws -> HostileFixture {
        try HostileFixture {
            $0.openingIntervalMilliseconds = 0
            ($0.backoffBaseMilliseconds, $0.backoffJitterMillisecondsMax) = (1, 20)
        }
    }

    /// Expects that the connection has noticed that it allows no stream, and makes it seem that this began 30 s ago.
    private func makeAbsenceOld(of connection: Connection) {
        let nowMilliseconds = connection.loop.nowMilliseconds
        let durationMilliseconds = StreamAbsence.millisecondsMax
        #expect(!connection.streamAbsence.isTooLong(nowMilliseconds: nowMilliseconds))
        #expect(connection.streamAbsence.isTooLong(nowMilliseconds: nowMilliseconds + durationMilliseconds))
        connection.streamAbsence = StreamAbsence()
        connection.streamAbsence.noteLimit(streamsMax: 0, nowMilliseconds: nowMilliseconds - durationMilliseconds)
    }

    @Test func `A connection may allow no stream for 30 s`() {
        var absence = StreamAbsence()
        #expect(!absence.isTooLong(nowMilliseconds: 1_000_000))
        absence.noteLimit(streamsMax: 0, nowMilliseconds: 1_000)
        // The server repeats its limit. This does not begin the time again.
        absence.noteLimit(streamsMax: 0, nowMilliseconds: 20_000)
        #expect(!absence.isTooLong(nowMilliseconds: 30_999))
        #expect(absence.isTooLong(nowMilliseconds: 31_000))
        absence.noteLimit(streamsMax: 1, nowMilliseconds: 31_000)
        #expect(!absence.isTooLong(nowMilliseconds: 1_000_000))
        absence.noteLimit(streamsMax: 0, nowMilliseconds: 40_000)
        #expect(!absence.isTooLong(nowMilliseconds: 69_999))
        #expect(absence.isTooLong(nowMilliseconds: 70_000))
    }

    /// The pool's only connection is never authenticated. The pool is offered no push, as if only pushes of audiences
    /// waited: a lane takes none from its core while its pool has no stream.
    @Test func `A connection that allows no stream from its start is replaced`() throws {
        let fixture = try makeFixture()
        fixture.server.greeting = Self.settings(streamsMax: 0)
        fixture.pool.start()
        #expect(fixture.runLoop(until: { fixture.pool.connections.first?.phase == .unauthenticated }))
        fixture.server.greeting = Self.settings(streamsMax: 1_000)
        let connection = try #require(fixture.pool.connections.first)
        // An absence that has just begun replaces nothing.
        let beganAtMilliseconds = fixture.pool.sizingIntervalBeganAtMilliseconds
        #expect(fixture.runLoop(until: { fixture.pool.sizingIntervalBeganAtMilliseconds != beganAtMilliseconds }))
        #expect(fixture.recorder.retirementCauses.isEmpty && fixture.pool.freeStreamCount == 0)
        makeAbsenceOld(of: connection)
        #expect(fixture.runLoop(until: { fixture.pool.freeStreamCount == 1 }))
        #expect(fixture.submit(1))
        #expect(fixture.recorder.retirementCauses == [.unresponsive])
        #expect(fixture.recorder.closeCauses == [.retired])
        #expect(fixture.pool.connections.map(\.number) == [2])
    }

    /// The limit becomes 0 while a push is in flight. The replaced connection stays until the push has its response.
    @Test func `An open connection that allows no stream any longer is replaced`() throws {
        let fixture = try makeFixture()
        try #require(fixture.warmUp())
        let peer = try #require(fixture.server.peers.first)
        let connection = try #require(fixture.pool.connections.first)
        #expect(fixture.submit(1))
        #expect(
            fixture.runLoop(until: { peer.receivedFrames.contains { $0.type == FrameType.data && $0.stream == 3 } })
        )
        peer.send(Self.settings(streamsMax: 0))
        #expect(fixture.runLoop(until: { connection.streamsMax == 0 }))
        makeAbsenceOld(of: connection)
        #expect(fixture.runLoop(until: { fixture.submit(2) }))
        #expect(fixture.recorder.retirementCauses == [.unresponsive] && fixture.recorder.closeCauses.isEmpty)
        peer.send(acceptedResponse(stream: 3))
        #expect(fixture.runLoop(until: { fixture.recorder.closeCauses == [.retired] }))
        #expect(try fixture.recorder.onlyResponse(to: 1).status == 200)
    }
}
