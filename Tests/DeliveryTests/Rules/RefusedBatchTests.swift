import Delivery
import LiveActivity
import Testing

/// Kafka limits the size of a batch, and refuses all its records together. So the core produces the records again in
/// small groups, each after a pause. (R9)
@Suite struct RefusedBatchTests {
    /// Returns a core with unacknowledged results of this many commands.
    private static func makeCoreWithResults(_ count: Int) -> CoreHarness {
        let core = CoreHarness()
        for number in 1...count {
            core.receive(.update(1, of: "a\(number)"))
            core.reply(.unchanged)
        }
        return core
    }

    @Test func `Results that Kafka refuses as too large are produced again in small groups`() {
        let core = Self.makeCoreWithResults(100)
        #expect(core.outgoingRecords.count == 100)
        for _ in 0..<100 { core.report(.tooLarge, on: .result) }
        #expect(core.outgoingRecords.isEmpty)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 64)
        #expect((core.nextDueMilliseconds ?? .max) <= core.now.monotonicMilliseconds + 250)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 100)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 100)
    }

    @Test func `A result waits until the refused results before it have left in their small groups`() {
        let core = Self.makeCoreWithResults(1)
        core.report(.tooLarge, on: .result)
        core.receive(.update(1, of: "b"))
        core.reply(.unchanged)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 1)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 2)
    }

    @Test func `A result that Kafka has refused three times is then produced alone`() {
        let core = Self.makeCoreWithResults(2)
        for _ in 0..<3 {
            #expect(core.outgoingRecords.count == 2)
            for _ in 0..<2 { core.report(.tooLarge, on: .result) }
            core.elapse(250)
        }
        #expect(core.outgoingRecords.count == 1)
        core.report(.acknowledged, on: .result)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 1)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 2)
    }

    @Test func `A record that Kafka has refused twice does not make the groups behind its own smaller`() {
        let core = Self.makeCoreWithResults(100)
        for _ in 0..<100 { core.report(.tooLarge, on: .result) }
        core.elapse(250)
        #expect(core.outgoingRecords.count == 64)
        core.report(.tooLarge, on: .result)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 63 + 8)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 100)
    }

    @Test func `A record whose batch was refused leaves alone again after a temporary failure`() {
        let core = Self.makeCoreWithResults(1)
        for _ in 0..<3 {
            core.report(.tooLarge, on: .result)
            core.elapse(250)
        }
        core.report(.failed, on: .result)
        core.receive(.update(1, of: "b"))
        core.reply(.unchanged)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 1)
        core.elapse(250)
        #expect(core.outgoingRecords.count == 2)
    }

    @Test(arguments: [1, 100])
    func `Deferred records that Kafka refuses as too large leave in groups, and are never given up`(count: Int) {
        let core = DeferralTests.makeCore()
        for number in 1...count {
            core.receive(.update(1, of: "a\(number)"))
            core.reply(.send)
        }
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        func deferralCount() -> Int { core.outgoingRecords.count { $0.kind == .deferral } }
        #expect(deferralCount() == count)
        for _ in 0..<count { core.report(.tooLarge, on: .deferral) }
        core.elapse(250)
        #expect(deferralCount() == min(64, count))
        guard count == 1 else { return }
        for _ in 0..<2 * Int(OutgoingRecord.retriesAfterRefusalMax) {
            core.report(.tooLarge, on: .deferral)
            core.elapse(250)
            #expect(deferralCount() == 1)
        }
    }
}
