import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A lane postpones the calls whose Redis server is unavailable, until the core has no other call. So each call must
/// come once, and only after a pause again. (R19)
@Suite struct UnavailableServerTests {
    @Test func `Calls that are postponed do not come again before the calls behind them`() {
        let harness = RoundHarness()
        for (index, name) in SimulatedNames.names[0].prefix(3).enumerated() {
            harness.register(name, record: UInt32(index))
        }
        var postponedTags: [UInt64] = []
        while postponedTags.count < 10,
            let tag = harness.core.withNextStoreCall(now: harness.moment, { $0.tag })
        {
            harness.core.delayNextStoreCallForUnavailableServer(now: harness.moment)
            postponedTags.append(tag)
        }
        #expect(postponedTags.count == 3 && Set(postponedTags).count == 3)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.membershipChangeCounts[0] == 3, "the core makes the calls again after a while")
    }

    @Test func `A postponed call for the retirement of a token comes again after a pause`() {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        harness.send()
        harness.respondToPushes(.tokenDead)
        #expect(nextRetirementTag(in: harness) != nil)
        harness.core.delayNextActivityStoreCallForUnavailableServer(now: harness.moment)
        #expect(nextRetirementTag(in: harness) == nil)
        harness.advanceClock(milliseconds: 1_000)
        #expect(nextRetirementTag(in: harness) != nil)
    }

    private func nextRetirementTag(in harness: RoundHarness) -> UInt64? {
        harness.core.withNextActivityStoreCall(now: harness.moment) { $0.tag }
    }
}
