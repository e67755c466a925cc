import Delivery
import LiveActivity
import Testing

/// Other programs may write to the deferred topic, so the headers of its records may hold any values. The core must not
/// trap on such values, and must not register a wrong token.
@Suite struct HostileDeferralTests {
    private static let tokenMembers = #""token":"\#(CoreHarness.token)","environment":"production","#

    /// Receives a deferred record of this command. `change` changes the headers of the record first.
    private func receive(_ command: String, _ core: CoreHarness, _ change: (inout Deferral) -> Void) throws {
        core.receive(.update(1, of: "z"))
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        var deferredCommand = try #require(core.deferrals.first)
        deferredCommand.value = command
        change(&deferredCommand.deferral)
        core.receive(deferredCommand)
    }

    private func makeCore() -> CoreHarness {
        CoreHarness {
            ($0.reloadable.deferAfterMilliseconds, $0.reloadable.deferredDelayMilliseconds) = (10_000, 30_000)
        }
    }

    @Test(arguments: [UInt8(15), 254, .max]) func `Any number of earlier results is valid`(earlierResultCount: UInt8)
        throws
    {
        let core = makeCore()
        try receive(.update(1, beside: Self.tokenMembers), core) { $0.earlierResultCount = earlierResultCount }
        core.reply(.duplicate)
        #expect(core.outcomes == ["u1 duplicate"])
        core.acknowledgeAll()
        #expect(
            core.outstandingCalls == [] && core.committableOffset(core.deferredPartition) == 1,
            "after so many results a command no longer registers its token"
        )
    }

    @Test func `A held start without a token registers none`() throws {
        let core = makeCore()
        try receive(.start(1), core) { $0.isHeldStart = true }
        core.reply(.tokenFound)
        core.reply(.superseded)
        core.acknowledgeAll()
        core.acknowledgeAll()
        let isTokenRegistered = core.outstandingCalls.contains { $0.hasPrefix("register") }
        #expect(!isTokenRegistered, "an empty token would replace the known one")
    }

    /// The timetable has no entry of a held restart any more, so Redis would refuse the restart.
    @Test func `Redis is not asked about a held restart that comes back`() throws {
        let core = makeCore()
        let identifier = "lifetime:\(CoreHarness.startSeconds * 1_000):\(CoreHarness.startSeconds).0"
        try receive(CommandText.start(1, id: identifier, beside: Self.tokenMembers), core) { $0.isHeldStart = true }
        #expect(core.outstandingCalls == ["takeStartToken \(identifier)"])
    }

    @Test func `A held restart that comes back yields to an end of the producer`() throws {
        let previousOwner = makeCore()
        previousOwner.receive(.update(1, of: "z"))
        previousOwner.reply(.send)
        previousOwner.elapseInSteps(DeferralTests.overdueMilliseconds)
        var deferredRestart = try #require(previousOwner.deferrals.first)
        let identifier = "lifetime:\(CoreHarness.startSeconds * 1_000):\(CoreHarness.startSeconds).0"
        deferredRestart.value = CommandText.start(2, id: identifier, beside: Self.tokenMembers)
        deferredRestart.deferral.isHeldStart = true
        let core = makeCore()
        core.receive(.end(1))
        core.receive(deferredRestart)
        #expect(core.outcomes == ["\(identifier) superseded"] && core.outstandingCalls == ["admit e1"])
    }

    @Test func `A timestamp that was valid when its command was received is not refused later`() throws {
        let core = makeCore()
        try receive(.update(400), core) { $0.receivedAtWallMilliseconds += 200_000 }
        #expect(core.outcomes == [] && core.outstandingCalls == ["admit u400"])
    }
}
