import Delivery
import LiveActivity
import Testing

/// What an answer other than *accepted* comes to: what goes again, when, and with what.
@Suite struct RetryTests {
    @Test func whatAPNsNeverProcessedGoesAgainByItselfAsItWas() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, number: CoreHarness.startSeconds + 5)
        let first = try #require(core.push())
        core.answer(.retryNow, connection: 3)
        #expect(core.push() == nil, "not without a back-off")
        core.elapse(200 + 8)
        #expect(core.waiting == [], "Redis is not asked again")
        let second = try #require(core.push())
        #expect(second.body == first.body)
        #expect(second.apnsIdentifier == first.apnsIdentifier)
        #expect(second.attempts == 2)
        #expect(second.avoidedConnection == 3)
        core.answer(.accepted, status: 200)
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.results.first?.attempts == 2)
        #expect(core.counters.retries == 1)
    }

    @Test(arguments: [PushResult.Disposition.retryLater, .ambiguous])
    func whatMayHaveBeenOvertakenElsewhereIsAdmittedAgain(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.carry(disposition)
        #expect(core.outcomes == [])
        core.elapse(1_010)
        #expect(core.waiting == ["admit u1"])
        core.carry()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.results.first?.attempts == 2)
    }

    @Test func aBackOffIsRandomBelowAnEdgeThatDoubles() {
        var pauses: Set<Int64> = []
        for seed in 1...20 {
            let core = CoreHarness(seed: UInt64(seed))
            core.receive(.update(1))
            core.reply(.send)
            core.push()
            core.elapse(1_000)
            core.answer(.retryLater)
            var pause: Int64 = 0
            while core.waiting.isEmpty, pause <= 1_000 {
                core.elapse(8)
                pause += 8
            }
            #expect(pause <= 400 + 8)
            pauses.insert(pause)
        }
        #expect(pauses.count > 5)
    }

    @Test func aBackOffIsNeverAboveItsCap() {
        let core = CoreHarness {
            $0.attemptsMax = 255
            $0.retryCapMilliseconds = 1_000
        }
        core.receive(.update(1, beside: #""expiration":1790009999,"#))
        for _ in 0..<100 {
            core.carry(.retryLater)
            core.elapse(1_010)
            #expect(core.waiting == ["admit u1"])
        }
    }

    @Test(arguments: [PushResult.Disposition.retryNow, .retryLater, .ambiguous])
    func attemptsAreLimited(disposition: PushResult.Disposition) {
        let core = CoreHarness { $0.attemptsMax = 3 }
        core.receive(.update(1))
        for attempt in 1...3 {
            if !core.waiting.isEmpty { core.reply(.send) }
            core.push()
            core.answer(disposition, status: 503, reason: "Try\(attempt)")
            core.elapse(2_000)
        }
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.attempts == 3)
        #expect(core.results.first?.status == 503)
        #expect(core.results.first?.reason == "Try3")
        #expect(core.settlements == ["u1 notShown"])
    }

    @Test func whatAPNsRefusesForGoodFails() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.answer(.rejected, status: 400, reason: "BadTopic")
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.reason == "BadTopic")
        #expect(core.settlements == ["u1 notShown"])
        #expect(core.invalidations.isEmpty)
    }

    @Test func aReasonIsCutToItsRoom() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.answer(.rejected, reason: String(repeating: "x", count: 1_000))
        #expect(core.results.first?.reason == String(repeating: "x", count: 64))
    }

    // MARK: - Starts

    @Test func aStartWhoseAnswerWasLostIsUnknownAndNeverRepeated() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.address)
        core.carry(.ambiguous)
        #expect(core.outcomes == ["s1 unknown"])
        #expect(core.settlements == ["s1 unknown", "s1 unknown (device)"])
        core.elapse(100_000)
        #expect(core.push() == nil)
        #expect(core.waiting == [])
    }

    @Test(arguments: [PushResult.Disposition.retryLater, .retryNow])
    func aStartThatWasNotProcessedGoesAgainWhenRedisRepeatsItsWord(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.address)
        core.reply(.send)
        let first = core.push()
        core.answer(disposition)
        core.elapse(408)
        #expect(core.waiting == ["admit s1"], "the address and the draw it has")
        core.elapse(60_000)
        core.reply(.send)
        let second = core.push()
        #expect(second?.command == "s1" && second?.apnsIdentifier == first?.apnsIdentifier)
        #expect(second?.expiration == first?.expiration, "a start that comes late is worse than none")
        core.answer(.accepted)
        #expect(core.outcomes == ["s1 accepted"])
    }

    @Test func anUpdateDoesNotCancelTheRetryOfItsStart() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.address)
        core.carry(.retryNow)
        core.receive(.update(2))
        core.elapse(208)
        core.reply(.send)
        #expect(core.push()?.command == "s1")
        #expect(core.outcomes == [])
    }

    // MARK: - Newer states

    @Test func aNewerStateCancelsARetryThatBacksOff() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.carry(.retryNow)
        core.receive(.update(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.settlements == ["u1 notShown"])
        core.elapse(1_010)
        #expect(core.push() == nil)
        #expect(core.waiting == ["admit u2"])
    }

    @Test(arguments: [PushResult.Disposition.retryNow, .retryLater, .ambiguous])
    func aRetryIsNotBegunWhenANewerStateWaits(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2))
        core.answer(disposition)
        #expect(core.outcomes == ["u1 superseded"])
        core.elapse(1_010)
        #expect(core.waiting == ["admit u2"])
    }

    @Test func aNewerStateReplacesOneThatWaitsToBeAdmittedAgain() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.carry(.retryLater)
        core.receive(.update(2))
        #expect(core.outcomes == ["u1 superseded"])
        core.elapse(1_010)
        #expect(core.waiting == ["admit u2"])
    }

    @Test func anUpdateDoesNotCancelTheRetryOfAnEnd() {
        let core = CoreHarness()
        core.receive(.end(1))
        core.carry(.retryLater)
        core.receive(.update(2))
        #expect(core.outcomes == ["u2 ended"])
        core.elapse(1_010)
        #expect(core.waiting == ["admit e1"])
    }
}
