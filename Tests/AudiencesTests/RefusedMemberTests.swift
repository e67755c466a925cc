import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A member whose token APNs has refused: Redis keeps the member and its token until Kafka has the records about the
/// refusal. (R17)
@Suite struct RefusedMemberTests {
    private func makeHarness() -> RoundHarness {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        return harness
    }

    /// Takes the calls that remove a member from its audience, and replies to all other calls.
    private func takeRemovals(in harness: RoundHarness) -> [AudienceCall<[UInt8]>] {
        var removals: [AudienceCall<[UInt8]>] = []
        while let call = harness.nextCall() {
            if case .append = call.operation { removals.append(call) } else { harness.reply(to: call) }
        }
        return removals
    }

    /// Takes the next call that retires a token, and returns its tag; nil if there is none.
    private func takeRetirement(in harness: RoundHarness) -> UInt64? {
        let tag = harness.core.withNextActivityStoreCall(now: harness.moment) { $0.tag }
        if tag != nil { harness.core.removeNextActivityStoreCall() }
        return tag
    }

    private func takeOutgoingRecords(in harness: RoundHarness) -> [OutgoingAudienceRecord] {
        var outgoingRecords: [OutgoingAudienceRecord] = []
        while let outgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment) {
            harness.core.removeNextOutgoingRecord(outgoingRecord)
            outgoingRecords.append(outgoingRecord)
        }
        return outgoingRecords
    }

    @Test func `A member with a dead token leaves only when Kafka has both records about it`() throws {
        let harness = makeHarness()
        #expect(harness.send().count == 1)
        harness.respondToPushes(.tokenDead, performsWork: false)
        let outgoingRecords = takeOutgoingRecords(in: harness)
        #expect(outgoingRecords.map(\.kind) == [.memberResult, .invalidation])
        for outgoingRecord in outgoingRecords {
            #expect(takeRemovals(in: harness).isEmpty && takeRetirement(in: harness) == nil)
            harness.core.deliveryReportReceived(outgoingRecord, .acknowledged, now: harness.moment)
        }
        let removals = takeRemovals(in: harness)
        #expect(removals.count == 1)
        let retirementTag = try #require(takeRetirement(in: harness))

        harness.core.activityStoreReplied(tag: retirementTag, now: harness.moment)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.result(of: 1) == nil, "The member still leaves.")
        for removal in removals { harness.reply(to: removal) }
        harness.advanceClock(milliseconds: 1_000)
        #expect(SimulatedText.contains("\"unregistered\":1", in: harness.result(of: 1) ?? ""))
        #expect(harness.core.recordCount == 0 && harness.core.roundCount == 0)
        #expect(harness.committableOffset == 1)
    }

    /// The first worker dies when Kafka has only one of the two records. The next owner finds the member in its
    /// audience, so APNs refuses the token again.
    @Test func `After a crash the next owner reports the member again`() throws {
        let firstWorker = makeHarness()
        #expect(firstWorker.send().count == 1)
        firstWorker.respondToPushes(.tokenDead, performsWork: false)
        let outgoingRecord = try #require(takeOutgoingRecords(in: firstWorker).first)
        firstWorker.core.deliveryReportReceived(outgoingRecord, .acknowledged, now: firstWorker.moment)
        for removal in takeRemovals(in: firstWorker) { firstWorker.reply(to: removal) }

        let secondWorker = RoundHarness(store: firstWorker.store, seed: 2)
        secondWorker.log = firstWorker.log
        secondWorker.readLog()
        secondWorker.performPendingWork()
        #expect(secondWorker.send().count == 1)
        secondWorker.respondToPushes(.tokenDead, performsWork: false)
        #expect(takeOutgoingRecords(in: secondWorker).map(\.kind) == [.memberResult, .invalidation])
    }
}
