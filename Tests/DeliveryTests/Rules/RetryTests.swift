import Delivery
import LiveActivity
import Testing

/// A push fails only for a reason of its own. Otherwise it is sent again after growing pauses, until it expires or a
/// newer state replaces it. A start whose response is lost is not sent again. (R18)
@Suite struct RetryTests {
    @Test func `A push that APNs never processed is sent again unchanged`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, timestamp: CoreHarness.startSeconds + 5)
        let firstPush = try #require(core.push())
        core.respond(.retrySoon, connection: 3)
        #expect(core.push() == nil, "the retry waits for its back-off")
        core.elapse(200 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == [], "Redis is not asked again")
        let secondPush = try #require(core.push())
        #expect(secondPush.body == firstPush.body)
        #expect(secondPush.apnsId == firstPush.apnsId)
        #expect(secondPush.attempts == 2)
        #expect(secondPush.avoidedConnectionNumber == 3)
        core.respond(.accepted, status: 200)
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.results.first?.attempts == 2)
    }

    @Test(arguments: [PushResult.Disposition.retryLater, .ambiguous])
    func `A push that another worker may have superseded is admitted again`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(disposition)
        #expect(core.outcomes == [])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u1"])
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.results.first?.attempts == 2)
    }

    @Test func `The first back-off is random, and at most 400 ms`() {
        var pausesMilliseconds: Set<Int64> = []
        for seed in 1...20 {
            let core = CoreHarness(seed: UInt64(seed))
            core.receive(.update(1))
            core.reply(.send)
            core.push()
            core.elapse(1_000)
            core.respond(.retryLater)
            var pauseMilliseconds: Int64 = 0
            while core.outstandingCalls.isEmpty, pauseMilliseconds <= 1_000 {
                core.elapse(8)
                pauseMilliseconds += 8
            }
            #expect(pauseMilliseconds <= 400 + PaceTests.timerPrecisionMilliseconds)
            pausesMilliseconds.insert(pauseMilliseconds)
        }
        #expect(pausesMilliseconds.count > 5)
    }

    @Test func `The waits before retries grow up to five minutes`() {
        let core = CoreHarness()
        core.receive(.update(1))
        for fault in 1...14 {
            core.admitAndRespond(.retryLater)
            // The first waits may be shorter than the spacing, so the test checks the minimum only of the later ones.
            let waitMillisecondsMax = max(Int64(2_000), min(300_000, 200 << Int64(fault)))
            core.elapse(waitMillisecondsMax / 2 - 8)
            if fault > 3 { #expect(core.outstandingCalls == [], "fault \(fault)") }
            core.elapse(waitMillisecondsMax / 2 + 16)
            #expect(core.outstandingCalls == ["admit u1"], "fault \(fault)")
        }
    }

    /// The pool's other pushes show that APNs works, so a push that was refused several times waits no longer.
    @Test func `The waits of a push that APNs never processed stay short`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.retrySoon)
        for fault in 2...6 {
            core.elapse(1_600 + PaceTests.timerPrecisionMilliseconds)
            if fault > 3 { core.reply(.send) }
            #expect(core.push() != nil, "fault \(fault)")
            core.respond(.retrySoon)
        }
        #expect(core.outcomes == [])
    }

    /// A newer state does not repair the service, so the waits continue to grow.
    @Test func `A newer state does not make the waits of its activity short again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        for fault in 1...14 {
            core.reply(.send)
            core.push()
            if fault < 14 { core.receive(.update(Int64(fault + 1))) }
            core.respond(.retryLater)
            if fault < 14 { core.elapseSpacing() }
        }
        core.elapse(149_900)
        #expect(core.outstandingCalls == [])
        core.elapse(151_000)
        #expect(core.outstandingCalls == ["admit u14"])
    }

    @Test func `An accepted push makes the waits short again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        for _ in 1...5 {
            core.admitAndRespond(.retryLater)
            core.elapse(13_000)
        }
        core.admitAndRespond()
        core.receive(.update(20))
        core.elapseSpacing()
        core.admitAndRespond(.retryLater)
        core.elapse(1_000)
        #expect(core.outstandingCalls == ["admit u20"])
    }

    @Test func `A newer state does not wait for the retry of an older one`() {
        let core = CoreHarness()
        core.receive(.update(1))
        for _ in 1...8 {
            core.admitAndRespond(.retryLater)
            core.elapse(52_000)
        }
        core.admitAndRespond(.retryLater)
        core.elapse(1_000)
        core.receive(.update(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test(arguments: [PushResult.Disposition.retrySoon, .retryLater, .throttled, .ambiguous])
    func `Faults of the service use up no attempts`(disposition: PushResult.Disposition) {
        let core = CoreHarness { $0.reloadable.retryMillisecondsMax = 1_000 }
        core.receive(.update(1, beside: ExpirationTests.farExpiration))
        for _ in 0..<400 {
            if !core.outstandingCalls.isEmpty { core.reply(.send) }
            core.push()
            core.respond(disposition, status: 503)
            core.acknowledgeSettlements()
            core.elapse(1_010)
        }
        #expect(core.outcomes == [])
        if !core.outstandingCalls.isEmpty { core.reply(.send) }
        core.push()
        core.respond(.accepted, status: 200)
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.results.first?.attempts == 255, "the count stops at its maximum")
    }

    @Test func `A pause is never longer than its limit, even if the limit is an odd number`() {
        let core = CoreHarness {
            ($0.retryBaseMilliseconds, $0.reloadable.retryMillisecondsMax) = (3, 3)
            $0.reloadable.deferredDelayMilliseconds = 1
        }
        var pausesMilliseconds: Set<Int64> = []
        for number in 1...50 {
            core.receive(.update(Int64(number)))
            core.admitAndRespond(.retryLater)
            if let endMilliseconds = core.deferrals.last?.deferral.pauseEndWallMilliseconds {
                pausesMilliseconds.insert(endMilliseconds - core.now.wallMilliseconds)
            }
            core.acknowledgeAll()
            core.elapse(10_000)
        }
        #expect(pausesMilliseconds == [2, 3])
    }

    @Test(arguments: [PushResult.Disposition.retrySoon, .retryLater, .ambiguous])
    func `A push that waits for the service expires`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1, beside: #""expiration":\#(CoreHarness.startSeconds + 600),"#))
        for second in 0..<700 {
            if !core.outstandingCalls.isEmpty { core.reply(.send) }
            while core.push() != nil { core.respond(disposition, status: 500, reason: "InternalServerError") }
            core.elapse(1_000)
            if second < 600 { #expect(core.outcomes == []) }
        }
        core.elapse(300_000)
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.results.first?.status == 500)
        #expect(core.results.first?.reason == "InternalServerError")
        #expect(core.settlements == ["u1 notShown"])
    }

    @Test func `An end waits for the service until it is too old`() {
        let core = CoreHarness()
        core.receive(.end(1))
        for _ in 0..<143 {
            core.admitAndRespond(.retryLater)
            core.elapse(300_100)
        }
        #expect(core.outstandingCalls == ["admit e1"], "the end has waited for nearly twelve hours")
        core.admitAndRespond()
        #expect(core.outcomes == ["e1 accepted"])
    }

    /// The push was a probe of a pool that accepts no token at all. Its refusal says nothing about the push,
    /// which waits and is sent again.
    @Test(arguments: [PushResult.Disposition.tokenSuspect, .topicSuspect, .retryLater])
    func `A refused probe waits like any other push`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(disposition, status: 400, reason: "BadDeviceToken", isTokenRefusalTrusted: false)
        #expect(core.outcomes == [] && core.invalidations.isEmpty && core.settlements == [])
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
    }

    @Test func `A push fails if its topic is refused while others are accepted`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.topicSuspect, status: 400, reason: "DeviceTokenNotForTopic")
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.invalidations.isEmpty)
    }

    // MARK: - The text of results

    @Test(arguments: [
        (PushResult.Disposition.rejected, UInt16(413), "noReason"), (.rejected, 0, "malformedPush"),
        (.topicSuspect, 400, "noReason"),
    ])
    func `A failed command has a reason even if APNs gives none`(
        disposition: PushResult.Disposition,
        status: UInt16,
        reason: String
    ) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(disposition, status: status)
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.reason == reason)
    }

    @Test(arguments: [(PushResult.Disposition.ambiguous, "noResponse"), (.retrySoon, "notProcessed")])
    func `The result of an expired command says why its push failed`(
        disposition: PushResult.Disposition,
        reason: String
    ) {
        let core = CoreHarness()
        core.receive(.update(1, beside: #""expiration":\#(CoreHarness.startSeconds),"#))
        core.admitAndRespond(disposition)
        core.elapse(1_010)
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.results.first?.reason == reason)
        let wasSent = core.results.first?.sentAtMilliseconds ?? 0 >= 0
        #expect(wasSent == (disposition == .ambiguous), "a push that APNs never processed has no time of sending")
    }

    @Test func `The result has the times of the last push, and no later admission`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.elapse(20)
        core.reply(.send)
        core.elapse(20)
        core.push()
        core.elapse(20)
        core.respond(.retryLater, status: 503)
        core.elapseSpacing()
        core.reply(.superseded)
        let result = try #require(core.results.first)
        #expect(result.admittedAtMilliseconds == CoreHarness.startSeconds * 1_000 + 20)
        #expect(result.responseAtMilliseconds == CoreHarness.startSeconds * 1_000 + 60)
    }

    @Test func `A push that APNs refuses permanently fails`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.rejected, status: 400, reason: "BadPriority")
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.reason == "BadPriority")
        #expect(core.settlements == ["u1 notShown"])
        #expect(core.invalidations.isEmpty)
    }

    @Test func `A reason that is longer than 64 bytes is cut`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.rejected, reason: String(repeating: "x", count: 1_000))
        #expect(core.results.first?.reason == String(repeating: "x", count: 64))
    }

    // MARK: - Starts

    @Test func `A start whose response was lost is unknown, and never repeated`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond(.ambiguous)
        #expect(core.outcomes == ["s1 unknown"])
        #expect(core.settlements == ["s1 unknown", "s1 unknown (device)"])
        core.elapse(100_000)
        #expect(core.push() == nil)
        #expect(core.outstandingCalls == [])
    }

    @Test(arguments: [PushResult.Disposition.retryLater, .retrySoon])
    func `An unprocessed start is sent again when Redis admits it again`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        let firstPush = core.push()
        core.respond(disposition)
        core.elapse(408)
        #expect(core.outstandingCalls == ["admit s1"], "the start keeps its token and its draw")
        core.elapse(60_000)
        core.reply(.send)
        let secondPush = core.push()
        #expect(secondPush?.command == "s1" && secondPush?.apnsId == firstPush?.apnsId)
        #expect(
            secondPush?.sentExpirationSeconds == firstPush?.sentExpirationSeconds,
            "a start that comes late is worse than none"
        )
        core.respond(.accepted)
        #expect(core.outcomes == ["s1 accepted"])
    }

    @Test func `An update does not cancel the retry of its start`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond(.retrySoon)
        core.receive(.update(2))
        core.elapse(208)
        core.reply(.send)
        #expect(core.push()?.command == "s1")
        #expect(core.outcomes == [])
    }

    // MARK: - Newer states

    @Test func `A newer state cancels a retry that backs off`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.retrySoon)
        core.receive(.update(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.settlements == ["u1 notShown"])
        core.elapseSpacing()
        #expect(core.push() == nil)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test(arguments: [PushResult.Disposition.retrySoon, .retryLater, .ambiguous])
    func `No retry begins while a newer state waits`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2))
        core.respond(disposition)
        #expect(core.outcomes == ["u1 superseded"])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `A newer state replaces one that waits to be admitted again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.retryLater)
        core.receive(.update(2))
        #expect(core.outcomes == ["u1 superseded"])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `An update does not cancel the retry of an end`() {
        let core = CoreHarness()
        core.receive(.end(1))
        core.admitAndRespond(.retryLater)
        core.receive(.update(2))
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit e1"])
        core.admitAndRespond()
        core.elapseSpacing()
        core.reply(.ended)
        #expect(core.outcomes == ["e1 accepted", "u2 ended"])
    }
}
