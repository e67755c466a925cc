import Delivery
import LiveActivity
import Testing

/// The breaker of a pool is open, so the pool's next push is a probe. If a start gets no response, it is `unknown` and
/// is not sent again. So a start is a probe only if no other push is ready. (R16)
@Suite struct ProbeTests {
    private let pool = PoolTarget(appIndex: 0, environment: .production)

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

    /// The first probe was an update, and failed. While this update waits for its next attempt, only a start is ready.
    @Test func `An update that is retried soon becomes the next probe, and no start does`() {
        let core = CoreHarness()
        core.receive(.start(1), .update(1, of: "c"))
        while let call = core.outstandingCalls.first {
            core.reply(call.hasPrefix("takeStartToken") ? .tokenFound : .send)
        }
        #expect(!isStateRetriedSoon(core))
        #expect(core.push(permitsStarts: false)?.command == "c.u1")
        core.respond(.retryLater, status: 503)
        #expect(core.push(permitsStarts: false) == nil && isStateRetriedSoon(core))
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit c.u1"] && isStateRetriedSoon(core), "Redis admits the update again")
        core.reply(.send)
        #expect(core.push(permitsStarts: false)?.command == "c.u1")
    }

    @Test func `A start becomes a probe if an update waits longer than a few seconds`() {
        let core = CoreHarness()
        core.receive(.start(1), .update(1, of: "c"))
        while let call = core.outstandingCalls.first {
            core.reply(call.hasPrefix("takeStartToken") ? .tokenFound : .send)
        }
        _ = core.push(permitsStarts: false)
        core.respond(.retrySoon)
        core.elapse(300)
        // The pool's retry budget is empty, so the update waits for 15 to 30 s.
        let pushWithoutBudget = core.delivery.takeNextPush(
            pool,
            permitsRetry: false,
            permitsStarts: false,
            now: core.now
        )
        #expect(pushWithoutBudget == nil && !isStateRetriedSoon(core))
        #expect(core.push()?.command == "s1")
    }

    private func isStateRetriedSoon(_ core: CoreHarness) -> Bool {
        core.delivery.isStateRetriedSoon(pool, now: core.now)
    }
}
