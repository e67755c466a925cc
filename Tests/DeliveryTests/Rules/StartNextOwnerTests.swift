import Delivery
import LiveActivity
import Testing

/// A partition is revoked while an admitted start waits for a pool that accepts nothing. The next owner would read the
/// start again and report `unknown`, although APNs has not accepted the start. So the start goes to the next owner
/// through the deferred topic, with its claim. (R16)
@Suite struct StartNextOwnerTests {
    /// Returns a core whose pool accepts nothing, with the claim of a start that waits for the pool.
    private func makeCore() throws -> (CoreHarness, claim: UInt64) {
        let core = CoreHarness {
            ($0.reloadable.deferAfterMilliseconds, $0.reloadable.deferredDelayMilliseconds) = (10_000, 30_000)
        }
        core.receive(.update(1, of: "b"))
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.map(\.command) == ["b.u1"])
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        let claim = try #require(try core.oldestCall.claim)
        core.reply(.send)
        return (core, claim)
    }

    /// Expects that the start was deferred with its claim, and that nothing of the partition is left in the core.
    private func expectDeferralToNextOwner(_ core: CoreHarness, claim: UInt64) throws {
        let deferredCommand = try #require(core.deferrals.last)
        #expect(deferredCommand.command == "s1" && deferredCommand.deferral.claim == claim)
        core.acknowledgeAll()
        #expect(core.isDrained(core.commandsPartition) && core.committableOffset == 2 && core.outcomes == [])
    }

    @Test func `A start that waits for a stream is left to the next owner`() throws {
        let (core, claim) = try makeCore()
        core.beginRevoking(core.commandsPartition)
        core.elapseInSteps(1_100)
        try expectDeferralToNextOwner(core, claim: claim)
    }

    @Test(arguments: [false, true]) func `A start that got a 503 is left to the next owner`(isRevokedFirst: Bool) throws
    {
        let (core, claim) = try makeCore()
        core.push()
        if isRevokedFirst { core.beginRevoking(core.commandsPartition) }
        core.respond(.retryLater, status: 503)
        if !isRevokedFirst { core.beginRevoking(core.commandsPartition) }
        try expectDeferralToNextOwner(core, claim: claim)
    }
}
