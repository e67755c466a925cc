import Delivery
import LiveActivity
import Testing

/// A result and a dead letter carry the trace of their record.
@Suite struct TraceTests {
    private func receive(_ record: String, trace: String, _ core: CoreHarness) {
        core.receiveOne(record, partition: core.commandsPartition, trace: trace)
    }

    @Test func `Each of many commands keeps its own trace`() {
        let core = CoreHarness()
        receive(.update(1), trace: "first", core)
        receive(.update(2), trace: "", core)
        receive(.update(3), trace: "a longer third", core)
        core.endBatch()
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 superseded", "u2 superseded", "u3 accepted"])
        #expect(core.results.map(\.trace) == ["first", "", "a longer third"])
    }

    /// The alert is written into the newer command's body. The body moves in memory to make room for it.
    @Test func `A trace stays when the body moves in memory`() {
        let core = CoreHarness()
        receive(.alert(1), trace: "the alert's", core)
        receive(.update(2), trace: "the carrier's", core)
        core.endBatch()
        core.admitAndRespond()
        #expect(core.delivery.carriedAlertCount == 1)
        #expect(core.results.map(\.trace).sorted() == ["the alert's", "the carrier's"])
        for result in core.results {
            #expect(result.trace == (result.outcome == "accepted" ? "the carrier's" : "the alert's"))
        }
    }

    @Test func `The result and the dead letter of an invalid record have its trace`() {
        let core = CoreHarness()
        receive("{", trace: "t", core)
        core.endBatch()
        #expect(core.outcomes.count == 1)
        #expect(core.results.map(\.trace) == ["t"])
        #expect(core.deadLetters.map(\.trace) == ["t"])
        #expect(core.deadLetters.map(\.value) == ["{"])
    }

    /// Redis does not keep the command's own trace, so the command continues in the trace of the registration.
    @Test func `A released command continues in the registration's trace`() {
        let core = CoreHarness()
        core.receiveOne(CommandText.registration(), partition: core.registrationsPartition, trace: "registration's")
        core.endBatch()
        core.reply(.registered, held: .update(4))
        core.admitAndRespond()
        #expect(core.outcomes == ["u4 accepted"])
        #expect(core.results.map(\.trace) == ["registration's"])
    }
}
