import Delivery
import LiveActivity
import Testing

/// A command follows the policy that it names. If it names none, it follows its app's default policy.
@Suite struct PolicyTests {
    private static func makeCore() -> CoreHarness {
        CoreHarness {
            var slow = Policy(name: "slow")
            slow.spacingMilliseconds = 30_000
            slow.expiration.updateSeconds = 77
            $0.reloadable.policies.append(slow)
        }
    }

    private static let slowPolicyMember = #""policy":"slow","#

    @Test func `A command that names no policy follows its app's default policy`() throws {
        let core = CoreHarness {
            $0.reloadable.policies.append(Policy(name: "slow"))
            $0.reloadable.apps[0].defaultPolicyIndex = 1
        }
        core.receive(.update(1))
        #expect(try core.oldestCallView.policyIndex == 1)
        #expect(try core.oldestCallView.policyName.isEmpty)
    }

    @Test func `A command may name another policy`() throws {
        let core = Self.makeCore()
        core.receive(.update(1, beside: Self.slowPolicyMember))
        #expect(try core.oldestCallView.policyIndex == 1)
        core.reply(.send)
        #expect(try #require(core.push()).sentExpirationSeconds == CoreHarness.startSeconds + 77)
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.results.first?.policy == "slow")
        core.receive(.update(2))
        core.elapse(29_999)
        #expect(core.outstandingCalls == [])
        core.elapse(1 + PaceTests.timerPrecisionMilliseconds)
        #expect(try core.oldestCallView.policyIndex == 0, "u2 names no policy, so it follows the default")
    }

    @Test func `A command that names an unknown policy is invalid`() {
        let core = Self.makeCore()
        core.receive(.update(1, beside: #""policy":"fast","#))
        #expect(core.results.first?.outcome == "invalid")
        #expect(core.deadLetters.first?.error == "unknownPolicy")
        #expect(core.deadLetters.first?.detail == "policy: is not configured")
    }

    @Test func `A held command keeps its policy, its priority and its own expiration`() throws {
        let core = Self.makeCore()
        core.receive(.update(1, beside: Self.slowPolicyMember + #""priority":10,"#))
        core.reply(.send, priority: 5, isDemoted: true)
        core.push()
        core.respond(.retryLater)
        core.elapse(30_010)
        core.reply(.noToken)
        let heldCommandText = try heldCommand(of: core)
        #expect(heldCommandText.contains(Self.slowPolicyMember) && heldCommandText.contains(#""priority":10"#))
        #expect(!heldCommandText.contains("expiration"), "the default expiration of its push is not held")
    }

    @Test func `A held command whose policy was removed follows its app's default policy`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: .update(1, beside: Self.slowPolicyMember))
        #expect(core.outstandingCalls == ["admit u1"])
        #expect(try core.oldestCallView.policyIndex == 0)
    }

    @Test func `A deferred command whose policy was removed follows its app's default policy`() throws {
        let core = CoreHarness {
            $0.reloadable.policies.append(Policy(name: "quick"))
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 30_000
        }
        core.receive(.update(1, beside: #""policy":"quick","#))
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        let nextCore = CoreHarness()
        nextCore.receive(try #require(core.deferrals.first))
        #expect(nextCore.outstandingCalls == ["admit u1"] && nextCore.deadLetters.isEmpty)
        #expect(try nextCore.oldestCallView.policyIndex == 0)
    }

    @Test func `Each budget knows the longest time in which a budget of any policy fills`() {
        var (slow, quick) = (Policy(name: "slow"), Policy(name: "quick"))
        slow.frequentBudget = Policy.Bucket(pushes: 10, refillPerHour: 1, reservedForAlerts: 0)
        slow.startBudget = Policy.Bucket(pushes: 2, refillPerHour: 60, reservedForAlerts: 0)
        quick.budget = Policy.Bucket(pushes: 1, refillPerHour: 7, reservedForAlerts: 0)
        let table = PolicyTable([slow, quick])
        for index in UInt8(0)...1 {
            #expect(table[index].pace.budget.longestFillSeconds == 36_000)
            #expect(table[index].pace.frequentBudget.longestFillSeconds == 36_000)
            #expect(table[index].startBudget.longestFillSeconds == 3_600)
        }
        #expect(quick.budget.fillSeconds == 515, "3,600 s / 7, rounded up")
    }

    private func heldCommand(of core: CoreHarness) throws -> String {
        String(decoding: try #require(try core.oldestCall.heldCommand), as: UTF8.self)
    }
}
