import ActivityStore
import LiveActivity
import Testing

@testable import Audiences

/// Some servers of a cluster come back empty and have lost members. The others still have the audience's hash, with the
/// claim and the checkpoint of its round. (R26)
@Suite struct ClusterLossTests {
    private static let members = SimulatedNames.names[0..<2].flatMap { $0.prefix(30) }

    @Test func `A checkpoint does not let a round begin without the members that another server has lost`() throws {
        let harness = RoundHarness(hasSeveralStoreServers: true)
        for name in Self.members { harness.join(name) }
        harness.appendCommand(1, hasAlert: true)
        #expect(Set(harness.sendAndAcceptPushes().map(\.member)) == Set(Self.members))
        harness.advanceClock(milliseconds: 1_000)
        harness.store.removeSegments()
        harness.join(Self.members[0])
        harness.core.membersLastCompleteAtMilliseconds = .min
        harness.appendCommand(2, hasAlert: true)
        let sent = pushesAfterReturnOfMembers(to: harness, of: 2)
        #expect(sent.count == Self.members.count && Set(sent.map(\.member)) == Set(Self.members))
        #expect(sent.allSatisfy { $0.alert == 2 })
        #expect(try #require(harness.result(of: 2)).contains("\"delivered\":60"))
    }

    /// - Parameter isLossKnown: whether a reading of the marks has shown the loss, and the first member is registered
    ///   again.
    @Test(arguments: [false, true])
    func `A round with an intact claim waits for the members that another server has lost`(isLossKnown: Bool) throws {
        let harness = try harnessWithIntactClaim()
        harness.core.membersLastCompleteAtMilliseconds = isLossKnown ? .min : harness.nowMilliseconds - 10
        harness.core.storeMayHaveLostDataAtMilliseconds = harness.nowMilliseconds
        if isLossKnown { harness.join(Self.members[0]) }
        let sent = pushesAfterReturnOfMembers(to: harness, of: 1)
        #expect(sent.count == Self.members.count && Set(sent.map(\.member)) == Set(Self.members))
        #expect(sent.allSatisfy { $0.alert == 1 })
        #expect(try #require(harness.result(of: 1)).contains("\"delivered\":60"))
    }

    /// One server does not respond for a while. Each failed attempt to connect is reported as a loss. The segments that
    /// the audience does not use look as if they were lost.
    @Test func `Losses that are reported all the time delay a round with an intact claim only for a short time`()
        throws
    {
        let harness = try harnessWithIntactClaim()
        for name in Self.members { harness.join(name) }
        harness.core.storeMayHaveLostDataAtMilliseconds = harness.nowMilliseconds
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<60 {
            harness.core.membersLastCompleteAtMilliseconds = harness.nowMilliseconds
            harness.advanceClock(milliseconds: 500)
            harness.core.storeMayHaveLostDataAtMilliseconds = harness.nowMilliseconds
            sent += harness.sendAndAcceptPushes()
        }
        #expect(Set(sent.map(\.member)) == Set(Self.members))
        #expect(harness.result(of: 1) != nil)
    }

    /// No reading of the marks succeeds any more. The pages of all segments wait together, not one after the other.
    @Test func `A round with an intact claim continues without its members after ten minutes`() throws {
        let harness = try harnessWithIntactClaim()
        harness.core.membersLastCompleteAtMilliseconds = .min
        harness.advanceClock(milliseconds: 1_000)
        harness.advanceClock(milliseconds: 590_000)
        #expect(harness.sendAndAcceptPushes().isEmpty && harness.result(of: 1) == nil)
        harness.advanceClock(milliseconds: 11_000)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.sendAndAcceptPushes().isEmpty && harness.result(of: 1) != nil)
    }

    @Test func `A partition is drained while a round with an intact claim waits for members`() throws {
        let harness = try harnessWithIntactClaim()
        harness.core.membersLastCompleteAtMilliseconds = .min
        harness.advanceClock(milliseconds: 5_000)
        #expect(harness.beginRevoking())
    }

    /// Returns a core whose round has claimed its range and has requested its first pages. Then the store has lost all
    /// members, but not the audience's hash.
    private func harnessWithIntactClaim() throws -> RoundHarness {
        let harness = RoundHarness(hasSeveralStoreServers: true)
        for name in Self.members { harness.join(name) }
        harness.appendCommand(1, hasAlert: true)
        // The store does not know the version, so the round claims its range twice.
        for _ in 0..<2 {
            harness.core.advance(now: harness.moment)
            let claim = try #require(harness.nextCall())
            #expect(harness.reply(to: claim) == .claimed)
        }
        let requestedPageCount = harness.core.pageReads.count
        #expect(requestedPageCount > 0)
        harness.store.removeSegments()
        return harness
    }

    /// Checks that nothing is sent for 10 s. Then adds all members to the store again, and returns the pushes that
    /// follow.
    private func pushesAfterReturnOfMembers(to harness: RoundHarness, of command: Int) -> [RoundHarness.SentPush] {
        for _ in 0..<20 {
            harness.advanceClock(milliseconds: 500)
            #expect(harness.sendAndAcceptPushes().isEmpty)
        }
        #expect(harness.result(of: command) == nil, "pages without members end no range")
        for name in Self.members { harness.join(name) }
        harness.core.membersLastCompleteAtMilliseconds = harness.nowMilliseconds
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 500)
            sent += harness.sendAndAcceptPushes()
        }
        return sent
    }
}
