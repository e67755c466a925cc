import Delivery
import LiveActivity
import Testing

/// The breaker of a pool is open, so the pool's next push is a probe. If a start gets no response, it is `unknown` and is
/// not sent again. So a start is a probe only if no other push is ready. (R16)
@Suite struct ProbeTests {
    @Test func `An update or an end becomes a probe before any start`() {
        let core = CoreHarness()
        core.receive(.start(1), .start(1, of: "b"), .update(1, of: "c"), .end(1, of: "d"))
        while let call = core.outstandingCalls.first {
            core.reply(call.hasPrefix("takeStartToken") ? .tokenFound : .send)
        }
        #expect(core.push(permitsStarts: false)?.command == "c.u1")
        core.returnPush()
        #expect(core.push(permitsStarts: false)?.command == "c.u1", "the push that found no stream is the first again")
        #expect(core.push(permitsStarts: false)?.command == "d.e1")
        #expect(core.push(permitsStarts: false) == nil)
        #expect(core.push()?.command == "s1")
        #expect(core.push()?.command == "b.s1", "the starts keep their order")
    }
}
