import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// New members whose pool accepts no pushes: how long their pushes wait while their registrations' partition moves, and
/// what happens if bytes for their states are scarce. (R18, K24)
@Suite struct JoinerOutageTests {
    private let name = SimulatedNames.names[0][0]

    /// Returns a harness in which a new member waits for a pool that is away.
    private func harnessWithWaitingMember() -> RoundHarness {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        harness.register(name)
        harness.performPendingWork()
        #expect(harness.core.membershipChangeCount == 1)
        return harness
    }

    private func release(_ harness: RoundHarness, partition: Int32 = 0, settledEndOffset: Int64 = 10) {
        harness.core.limitJoinerWaits(
            ofRegistrationsPartition: partition,
            settledEndOffset: settledEndOffset,
            now: harness.moment
        )
    }

    private func assign(_ harness: RoundHarness, from offset: Int64 = 10, areLaterRecordsSettled: Bool = false) {
        harness.core.continueJoinerWaits(
            ofRegistrationsPartition: 0,
            from: offset,
            areLaterRecordsSettled: areLaterRecordsSettled,
            now: harness.moment
        )
    }

    /// The partition's next owner may have read that the member has left.
    @Test func `A push waits only for a minute after the registration's partition has moved`() {
        let harness = harnessWithWaitingMember()
        release(harness, partition: 1)
        harness.advanceClock(milliseconds: 600_000)
        #expect(harness.core.membershipChangeCount == 1)
        release(harness)
        harness.advanceClock(milliseconds: 50_000)
        #expect(harness.core.membershipChangeCount == 1)
        harness.advanceClock(milliseconds: 20_000)
        #expect(harness.core.membershipChangeCount == 0)
    }

    /// Each of two rebalances takes the partition away for some seconds.
    @Test func `A push waits on if the partition comes back and nobody has settled records meanwhile`() {
        let harness = harnessWithWaitingMember()
        for _ in 1...2 {
            release(harness)
            harness.advanceClock(milliseconds: 5_000)
            assign(harness)
            harness.advanceClock(milliseconds: 70_000)
            #expect(harness.core.membershipChangeCount == 1)
        }
        #expect(harness.sendAndAcceptPushes().map(\.content) == [1])
    }

    /// Another worker has settled a record that this lane has not read, perhaps one that says that the member has left.
    @Test(arguments: [(11, false), (10, true)] as [(Int64, Bool)])
    func `A push is given up if another owner has settled records`(offset: Int64, areLaterRecordsSettled: Bool) {
        let harness = harnessWithWaitingMember()
        release(harness)
        harness.advanceClock(milliseconds: 5_000)
        assign(harness, from: offset, areLaterRecordsSettled: areLaterRecordsSettled)
        // A later move, after which nobody else has settled a record, does not lift the limit of the first one.
        release(harness, settledEndOffset: 20)
        assign(harness, from: 20)
        harness.advanceClock(milliseconds: 70_000)
        #expect(harness.core.membershipChangeCount == 0)
    }

    /// Another worker may have read that the member has left, and may have died before it committed the offset. The
    /// group notices a death only after the session timeout, and then gives the partition back.
    @Test func `A push is given up if the partition comes back after the session timeout`() {
        let harness = harnessWithWaitingMember()
        release(harness)
        harness.advanceClock(milliseconds: 20_000)
        assign(harness)
        harness.advanceClock(milliseconds: 70_000)
        #expect(harness.core.membershipChangeCount == 0)
    }

    /// Registers four members in four audiences, whose pool is away. Each state needs bytes of its own.
    private func register(_ harness: RoundHarness) {
        for (index, audience) in ["match-1", "match-2", "match-3", "match-4"].enumerated() {
            harness.admit(index + 1, timestamp: RoundHarness.startSeconds, audience: audience)
            harness.register(SimulatedNames.names[0][index], [audience], record: UInt32(index))
        }
        harness.performPendingWork()
    }

    @Test func `Members wait on although the bytes for their states are scarce`() {
        let measuringHarness = harnessWithWaitingMember()
        let harness = RoundHarness(newestStateBytesMax: 2 * measuringHarness.core.newestStateBytes)
        register(harness)
        harness.advanceClock(milliseconds: 12_000)
        _ = harness.send(isProbing: true)
        harness.performPendingWork()
        #expect(harness.core.membershipChangeCount == 4)
        var sentContents: Set<Int> = []
        for _ in 0..<10 {
            sentContents.formUnion(harness.sendAndAcceptPushes().map(\.content))
            harness.advanceClock(milliseconds: 30_000)
        }
        #expect(sentContents == [1, 2, 3, 4])
        #expect(harness.core.membershipChangeCount == 0 && harness.core.newestStateBytes == 0)
    }

    /// After 12 s, all states must be requested again. The lane asks for a probe in each iteration until it gets one.
    @Test func `A probe requests the states of one member only`() {
        let harness = RoundHarness()
        register(harness)
        harness.advanceClock(milliseconds: 12_000)
        #expect(harness.send(isProbing: true).isEmpty)
        var calls: [AudienceCall<[UInt8]>] = []
        while let call = harness.nextCall() { calls.append(call) }
        #expect(calls.count == 1)
        for call in calls { harness.reply(to: call) }
        #expect(harness.send(atMost: 1, isProbing: true).count == 1)
    }
}
