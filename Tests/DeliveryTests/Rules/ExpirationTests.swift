import Delivery
import Testing

/// Rule 2: what is past its expiration is not sent, wherever it was when it passed.
@Suite struct ExpirationTests {
    /// The second of the test's start is still allowed, the next one is not.
    static let untilStart = #""expiration":1790000000,"#

    @Test func aCommandThatComesTooLateIsNotAdmitted() {
        let core = CoreHarness()
        core.receive(.update(1, beside: #""expiration":1789999999,"#))
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.calls.isEmpty)
        core.acknowledgeProductions()
        #expect(core.committableOffset == 1)
    }

    @Test func theSecondOfTheExpirationIsStillInTime() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.untilStart))
        core.elapse(999)
        core.reply(.send)
        #expect(core.push()?.command == "u1")
    }

    @Test func aCommandExpiresWhileAnotherOfItsActivityIsInFlight() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2, beside: Self.untilStart))
        core.elapse(1_000)
        core.answer(.accepted)
        #expect(core.outcomes == ["u1 accepted", "u2 expired"])
        #expect(core.waiting == [])
    }

    @Test func whatWaitsBehindAnExpiredCommandGoes() {
        let core = CoreHarness()
        core.receive(.start(1, beside: #""expiration":1789999999,"#), .update(2))
        #expect(core.outcomes == ["s1 expired"])
        #expect(core.waiting == ["admit u2"])
    }

    @Test func aPushExpiresWhileItWaitsForAStream() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.untilStart))
        core.reply(.send)
        core.elapse(1_000)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.settlements == ["u1 final"])
    }

    @Test func aPushExpiresWhileItBacksOff() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.untilStart))
        core.carry(.retryNow)
        core.elapse(1_000)
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.settlements == ["u1 final"])
        #expect(core.push() == nil)
    }
}
