import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// The store loses all data, including members and claims, during a round or before it begins. (R26)
@Suite struct StoreLossTests {
    /// The members are in two segments, so that the core writes a checkpoint between the pages of the two
    /// segments.
    private static let members = SimulatedNames.names[0..<2].flatMap { $0.prefix(30) }

    /// Returns a core whose round had reached some members when the store lost all data. The core has noticed
    /// the loss.
    private func harnessAfterLoss() -> (harness: RoundHarness, reached: Set<String>) {
        let harness = RoundHarness()
        for name in Self.members { harness.join(name) }
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        let reached = Set(harness.send(atMost: 30).map(\.member))
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 1_000)
        harness.store = AudienceStoreModel(nowMilliseconds: harness.nowMilliseconds)
        harness.core.membersLastCompleteAtMilliseconds = .min
        harness.send(atMost: 1)
        harness.respondToPushes()
        harness.advanceClock(milliseconds: 1_000)
        return (harness, reached)
    }

    @Test func `After a loss of the store a round waits for its members, and reaches them with the alert`() throws {
        let (harness, reached) = harnessAfterLoss()
        for _ in 0..<20 {
            harness.advanceClock(milliseconds: 500)
            _ = harness.sendAndAcceptPushes()
        }
        #expect(harness.result(of: 1) == nil, "pages without members end no range")

        for name in Self.members { harness.join(name) }
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 500)
            sent += harness.sendAndAcceptPushes()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members).subtracting(reached))
        #expect(sent.allSatisfy { $0.alert == 1 })
        #expect(try #require(harness.result(of: 1)).contains("\"delivered\":60"))
        #expect(harness.committableOffset == 1)
    }

    @Test func `A round that begins while the store lacks its members waits for them, and reaches them with the alert`()
        throws
    {
        let harness = RoundHarness()
        harness.core.membersLastCompleteAtMilliseconds = .min
        admit(1, in: harness)
        let sent = pushesAfterReturnOfMembers(to: harness)
        #expect(Set(sent.map(\.member)) == Set(Self.members))
        #expect(sent.allSatisfy { $0.alert == 1 })
        #expect(try #require(harness.result(of: 1)).contains("\"delivered\":60"))
    }

    /// The connection was lost after the marks had been read. Since then the server may have restarted without its
    /// data.
    @Test func `A reading of the marks from before a lost connection releases no round`() {
        let harness = RoundHarness()
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        harness.advanceClock(milliseconds: 10)
        harness.core.storeMayHaveLostDataAtMilliseconds = harness.moment.monotonicMilliseconds
        admit(1, in: harness)
        #expect(Set(pushesAfterReturnOfMembers(to: harness).map(\.member)) == Set(Self.members))
    }

    /// No loss was reported. But a store that does not know the version may have lost members since the marks were
    /// read.
    @Test func `A round whose version the store does not know waits until the marks are read again`() {
        let harness = RoundHarness()
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 10)
        #expect(Set(pushesAfterReturnOfMembers(to: harness).map(\.member)) == Set(Self.members))
    }

    /// A producer wrote two versions in the wrong order. The store has lost the admission of the newer one.
    @Test func `A round waits if the store does not know its newest version, whatever the order of its records`() {
        let harness = RoundHarness()
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        admitToStore(1, in: harness)
        harness.appendCommand(2, hasAlert: true)
        harness.appendCommand(1, hasAlert: true)
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 10)
        #expect(Set(pushesAfterReturnOfMembers(to: harness).map(\.member)) == Set(Self.members))
    }

    @Test func `While a round waits for its members, its gauge shows since when they wait`() {
        let harness = RoundHarness()
        harness.core.membersLastCompleteAtMilliseconds = .min
        admit(1, in: harness)
        harness.advanceClock(milliseconds: 60_000)
        #expect(harness.sendAndAcceptPushes().isEmpty)
        #expect(harness.gauges.oldestRoundWaitingSinceWallMilliseconds == RoundHarness.startMilliseconds)
    }

    @Test func `A version that arrives after its round has lost the claim does not end the members' waiting time`() {
        let harness = RoundHarness()
        for name in Self.members { harness.join(name) }
        admit(1, in: harness)
        harness.send(atMost: 30)
        harness.advanceClock(milliseconds: 100)
        harness.core.handleLostClaim(harness.firstRound, areMembersLost: false, now: harness.moment)
        #expect(harness.gauges.oldestRoundWaitingSinceWallMilliseconds == RoundHarness.startMilliseconds)
        harness.appendCommand(2)
        #expect(harness.gauges.oldestRoundWaitingSinceWallMilliseconds == RoundHarness.startMilliseconds)
    }

    /// The core never learns that the store has all members. For example, the Redis user is not allowed to read the
    /// marks.
    @Test func `A round that no reading of the marks releases begins after ten minutes`() {
        let harness = RoundHarness()
        for name in Self.members { harness.join(name) }
        harness.core.membersLastCompleteAtMilliseconds = .min
        admit(1, in: harness)
        harness.advanceClock(milliseconds: 590_000)
        #expect(harness.sendAndAcceptPushes().isEmpty)
        harness.advanceClock(milliseconds: 11_000)
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 500)
            sent += harness.sendAndAcceptPushes()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members))
    }

    /// One server of a cluster does not respond. Each failed attempt to connect is reported as a loss.
    @Test func `Losses that are reported all the time delay a round only for a short time`() {
        let harness = RoundHarness()
        for name in Self.members { harness.join(name) }
        admit(1, in: harness)
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<20 {
            harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
            harness.advanceClock(milliseconds: 1_000)
            harness.core.storeMayHaveLostDataAtMilliseconds = harness.moment.monotonicMilliseconds
            sent += harness.sendAndAcceptPushes()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members))
    }

    /// Admits a command, so that the store knows its version. Then gives the core the command's fan-out record.
    private func admit(_ number: Int, in harness: RoundHarness) {
        admitToStore(number, in: harness)
        harness.appendCommand(number, hasAlert: true)
        harness.performPendingWork()
    }

    private func admitToStore(_ number: Int, in harness: RoundHarness) {
        let admission = AudienceAdmission<[UInt8]>(
            version: Version(timestamp: RoundHarness.startSeconds + Int64(number), sequence: 0),
            digest: 1,
            pace: Policy(name: "default").pace,
            isEnd: false,
            isStart: false,
            requestsHighPriority: true,
            mayUseReserve: true,
            rangeCount: 1,
            body: [],
            expirationSeconds: 0
        )
        #expect(harness.store.perform(harness.makeCall(.admit(admission))).verdict == .send)
    }

    /// Checks that nothing is sent for 10 s. Then adds the members to the store again, and returns the pushes that
    /// follow.
    private func pushesAfterReturnOfMembers(to harness: RoundHarness) -> [RoundHarness.SentPush] {
        for _ in 0..<20 {
            harness.advanceClock(milliseconds: 500)
            #expect(harness.sendAndAcceptPushes().isEmpty)
        }
        #expect(harness.result(of: 1) == nil, "pages without members end no range")
        for name in Self.members { harness.join(name) }
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 500)
            sent += harness.sendAndAcceptPushes()
        }
        return sent
    }

    /// The shell read the marks (R24) 3 s before the loss. It sets `membersLastCompleteAtMilliseconds` to that time
    /// only after the core has noticed the loss.
    @Test func `A reading of the marks from before the loss releases no round`() {
        let (harness, reached) = harnessAfterLoss()
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds - 3_000
        harness.advanceClock(milliseconds: 10_000)
        #expect(harness.sendAndAcceptPushes().isEmpty)
        for name in Self.members { harness.join(name) }
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        harness.advanceClock(milliseconds: 1_000)
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(Self.members).subtracting(reached))
    }

    @Test func `After a loss of the store, a newer version still takes over the round`() throws {
        let (harness, _) = harnessAfterLoss()
        harness.appendCommand(2)
        for name in Self.members { harness.join(name) }
        harness.core.membersLastCompleteAtMilliseconds = harness.moment.monotonicMilliseconds
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 500)
            sent += harness.sendAndAcceptPushes()
        }
        #expect(Set(sent.filter { $0.content == 2 }.map(\.member)) == Set(Self.members))
        #expect(harness.result(of: 2) != nil)
        #expect(harness.committableOffset == 2)
    }

    /// A worker died after it had fanned out more commands than it had committed. To a store without data, each of
    /// these commands is new. So the core asks the store to admit only the newest one.
    @Test func `Only the newest of commands that come together is admitted`() {
        let harness = RoundHarness()
        for name in Self.members { harness.join(name) }
        for number in 1...3 { harness.handOver(number, .update) }
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 2_000)
        #expect(harness.instructions.map(\.offset) == [3])
    }
}
