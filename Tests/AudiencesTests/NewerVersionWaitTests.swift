import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// Redis has admitted a newer version than all that a round knows. The round waits for the record of this version, but
/// not forever.
@Suite struct NewerVersionWaitTests {
    /// A worker died when the audience's only member was parked. The next owner reads the member again. Redis replies
    /// to this read only after the wait for the newer version is over.
    @Test func `The wait for a newer version may end while the parked members are read again`() throws {
        let harness = RoundHarness()
        let name = SimulatedNames.names[0][0]
        harness.join(name)
        harness.admit(2, timestamp: RoundHarness.startSeconds + 2)
        // The only range has all 256 segments, each with `1 << 32` positions.
        var checkpoint = Checkpoint(completedPosition: UInt64(1) << 40, newestSettledVersion: Version.zero)
        let version = Version(timestamp: RoundHarness.startSeconds + 1, sequence: 0)
        checkpoint.entries = [Checkpoint.Entry(version: version, startPosition: 0)]
        checkpoint.parkedPositions = [UInt64(SimulatedNames.location(of: name).ordinal)]
        harness.storeCheckpoint(try #require(checkpoint.encode()))
        harness.appendCommand(1)
        harness.reply(to: try #require(harness.nextCall()))
        let read = try #require(harness.nextCall())

        let waitEndMilliseconds =
            harness.nowMilliseconds + harness.core.configuration.newerVersionWaitMillisecondsMax
        harness.nowMilliseconds = waitEndMilliseconds - 1
        harness.core.advance(now: harness.moment)
        // A timer at the end of the wait would fire again and again.
        try #require((harness.core.nextDueMilliseconds ?? .max) > waitEndMilliseconds)
        harness.nowMilliseconds = waitEndMilliseconds
        harness.core.advance(now: harness.moment)
        let phase = harness.core.rounds[harness.firstRound].phase
        #expect(phase == .restoring)

        harness.reply(to: read)
        #expect(harness.sendAndAcceptPushes().isEmpty, "the member gets version 2 from another round")
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.core.roundCount == 0 && harness.committableOffset == 1)
    }
}
