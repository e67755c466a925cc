import Delivery
import LiveActivity
import Testing

/// A running core applies changed numbers of policies, retries and deferrals to later pushes, commands and retries.
@Suite struct ReloadTests {
    private func makeCore(_ spacingsMilliseconds: Int64...) -> CoreHarness {
        CoreHarness { configuration in
            configuration.reloadable.policies = Self.makePolicies(spacingsMilliseconds)
        }
    }

    private static func makePolicies(_ spacingsMilliseconds: [Int64]) -> [Policy] {
        spacingsMilliseconds.enumerated()
            .map { position, spacing in
                var policy = Policy(name: position == 0 ? "default" : "p\(position)")
                policy.spacingMilliseconds = spacing
                return policy
            }
    }

    private func applySettings(to core: CoreHarness, _ change: (inout ReloadableSettings) -> Void) {
        var settings = core.configuration.reloadable
        change(&settings)
        core.delivery.apply(settings)
    }

    @Test func `A new spacing applies from the next push on`() {
        let core = makeCore(1_000)
        core.receive(.update(1))
        core.admitAndRespond()
        applySettings(to: core) { $0.policies = Self.makePolicies([3_000]) }
        core.receive(.update(2))
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u2"], "the spacing that has begun stays one second")
        core.admitAndRespond()
        core.receive(.update(3))
        core.elapse(2_900)
        #expect(core.outstandingCalls == [])
        core.elapse(200)
        #expect(core.outstandingCalls == ["admit u3"])
    }

    @Test func `A command can name a new policy, and an app can get it as its default`() throws {
        let core = makeCore(1_000)
        core.receive(.update(1, beside: #""policy":"p1","#))
        #expect(core.results.map(\.outcome) == ["invalid"])
        applySettings(to: core) {
            $0.policies = Self.makePolicies([1_000, 4_000])
            $0.apps[0].defaultPolicyIndex = 1
        }
        core.receive(.update(2, beside: #""policy":"p1","#))
        #expect(try core.oldestCallView.policyIndex == 1)
        core.admitAndRespond()
        core.elapse(10_000)
        core.receive(.update(3))
        #expect(try core.oldestCallView.policyIndex == 1)
    }

    /// A record refers to its policy by index, so changed numbers also apply to a command that waits.
    @Test func `A waiting command follows the new numbers of its policy`() throws {
        let core = makeCore(1_000, 2_000)
        core.receive(.update(1, beside: #""policy":"p1","#))
        #expect(try core.oldestCallView.policyIndex == 1)
        applySettings(to: core) { $0.policies = Self.makePolicies([1_000, 5_000]) }
        core.admitAndRespond()
        core.receive(.update(2, beside: #""policy":"p1","#))
        core.elapse(4_900)
        #expect(core.outstandingCalls == [])
        core.elapse(200)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `A shorter maximum wait applies from the next retry on`() {
        let core = makeCore(1_000)
        core.receive(.update(1))
        for _ in 1...4 {
            core.admitAndRespond(.retryLater)
            core.elapse(6_400)
        }
        applySettings(to: core) { $0.retryMillisecondsMax = 1_000 }
        core.admitAndRespond(.retryLater)
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u1"])
    }

    /// The state that must carry the alert may be deferred. A longer delay lets this state return later.
    @Test func `With a longer delay of deferred commands, an alert waits longer for its carrier`() {
        let core = CoreHarness {
            $0.reloadable.deferredDelayMilliseconds = 10_000
            $0.lengthenCarrierWait()
        }
        applySettings(to: core) { $0.deferredDelayMilliseconds = 30_000 }
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        // The alert waits 5 s longer than the delay.
        core.elapse(34_900)
        #expect(core.outcomes == [])
        core.elapse(100 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes == ["u1 superseded"])
    }
}
