import Delivery
import LiveActivity
import Testing

/// Nothing old is sent (R20). Age counts from `aps.timestamp`, not from the time when the core receives the command or
/// when the command begins to wait.
@Suite struct AgeTests {
    // MARK: - Starts

    @Test(arguments: [(-600, true), (-601, false)] as [(Int64, Bool)])
    func `A start is valid for ten minutes`(second: Int64, isValid: Bool) {
        let core = CoreHarness()
        core.receive(.start(second))
        #expect(core.outstandingCalls == (isValid ? ["takeStartToken s\(second)"] : []))
        #expect(core.outcomes == (isValid ? [] : ["s\(second) expired"]))
    }

    @Test func `A start's own expiration can shorten its validity, not lengthen it`() {
        let core = CoreHarness()
        core.receive(.start(-601, beside: ExpirationTests.farExpiration))
        core.receive(.start(1, of: "b", beside: ExpirationTests.expirationBeforeStart))
        #expect(core.outcomes == ["s-601 expired", "b.s1 expired"])
    }

    @Test func `APNs stores a start no longer than it is valid`() throws {
        let core = CoreHarness { $0.reloadable.policies[0].expiration.startSeconds = 100 }
        core.receive(.start(-60))
        core.reply(.tokenFound)
        core.reply(.send)
        #expect(try #require(core.push()).sentExpirationSeconds == CoreHarness.startSeconds + 40)
    }

    @Test func `A start expires while it waits for a stream`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        // The start has second 1, and is valid for 600 s.
        core.elapse(602_000)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["s1 expired"])
        #expect(core.settlements.contains("s1 notShown"))
    }

    @Test func `A start expires while it backs off`() {
        let core = CoreHarness { $0.retryBaseMilliseconds = 30_000 }
        core.receive(.start(-590))
        core.reply(.tokenFound)
        core.admitAndRespond(.retryLater)
        core.elapse(120_000)
        #expect(core.outcomes == ["s-590 expired"])
    }

    @Test func `A start that was held for its token keeps its age`() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(-601))
        #expect(core.outcomes == ["s-601 expired"])
        #expect(core.outstandingCalls == [])
    }

    // MARK: - Alerts

    @Test func `An alert that is five minutes old still rings`() throws {
        let core = CoreHarness()
        core.receive(.alert(-300))
        core.reply(.send)
        #expect(try #require(core.push()).body.contains("alert"))
    }

    @Test func `A state is sent without an alert that is too old, and its result says so`() throws {
        let core = CoreHarness()
        core.receive(.alert(-301))
        let admission = try #require(try core.oldestCall.admission)
        #expect(!admission.mayReplaceHeldAlert && !admission.requestsHighPriority && !admission.mayUseReserve)
        let coreWithoutAlert = CoreHarness()
        coreWithoutAlert.receive(.update(-301))
        #expect(
            try coreWithoutAlert.oldestCall.admission?.digest == admission.digest,
            "the digest is that of a state without an alert"
        )
        core.reply(.send)
        coreWithoutAlert.reply(.send)
        let push = try #require(core.push())
        #expect(try push.body == #require(coreWithoutAlert.push()).body)
        #expect(push.priority == 5)
        core.respond(.accepted)
        #expect(core.outcomes == ["u-301 accepted"])
        #expect(core.results.first?.reason == "alertExpired")
    }

    @Test func `If APNs gives a reason, the result has it instead of alertExpired`() {
        let core = CoreHarness()
        core.receive(.alert(-301))
        core.reply(.send)
        core.push()
        core.respond(.rejected, status: 400, reason: "BadPriority")
        #expect(core.results.first?.reason == "BadPriority")
    }

    @Test func `A state that requests priority 10 keeps it without its alert`() throws {
        let core = CoreHarness()
        core.receive(.alert(-301, beside: #""priority":10,"#))
        #expect(try core.oldestCall.admission?.requestsHighPriority == true)
    }

    @Test func `An end is sent without an alert that is too old`() throws {
        let core = CoreHarness()
        core.receive(CommandText.end(-301, alert: true))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert") && push.priority == 10)
    }

    @Test func `An alert becomes too old while it waits for a stream`() throws {
        let core = CoreHarness()
        core.receive(.alert(-299))
        let digest = try core.oldestCall.admission?.digest
        core.reply(.send)
        core.elapse(2_000)
        #expect(try !#require(core.push()).body.contains("alert"))
        core.respond(.accepted)
        #expect(core.results.first?.reason == "alertExpired")
        guard case .settle(_, _, let settledDigest, _, nil) = try core.oldestCall.operation else {
            Issue.record("the push is not settled")
            return
        }
        #expect(settledDigest != digest, "the phone shows the state without its alert")
    }

    @Test func `A retry leaves out an alert that has become too old`() throws {
        let core = CoreHarness { $0.retryBaseMilliseconds = 10 }
        core.receive(.alert(-300))
        core.reply(.send)
        #expect(try #require(core.push()).body.contains("alert"))
        core.respond(.retrySoon)
        core.elapse(1_010)
        #expect(try !#require(core.push()).body.contains("alert"))
    }

    @Test func `A carried alert has the age of its own command`() throws {
        let core = CoreHarness()
        core.receive(.alert(-301), .update(2))
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == false)
        #expect(core.outcomes == ["u-301 superseded"])
        #expect(core.results.first?.reason == "alertExpired")
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert") && push.priority == 5)
        core.respond(.accepted)
        #expect(core.results.last?.reason == "", "u2 has no alert of its own that was left out")
    }

    @Test func `An alert may become too old while its carrier waits`() throws {
        let core = CoreHarness()
        core.receive(.alert(-300), .update(2))
        core.reply(.send)
        core.elapse(1_000)
        #expect(try !#require(core.push()).body.contains("alert"))
        #expect(core.outcomes == ["u-300 superseded"])
        #expect(core.results.first?.reason == "alertExpired")
        core.respond(.accepted)
        #expect(core.outcomes.last == "u2 accepted")
    }

    @Test func `An alert that was held keeps its age`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: .alert(-301))
        core.reply(.send)
        #expect(try !#require(core.push()).body.contains("alert"))
        core.respond(.accepted)
        #expect(core.results.first?.reason == "alertExpired")
    }

    /// An update that was held in Redis and carries the alert of an older command. The alert is 301 s old: one second
    /// too old.
    private static var heldUpdateWithOlderAlert: String {
        let alertMember = #""alertTimestamp":\#(CoreHarness.startSeconds - 301),"#
        return CommandText.update(2, alert: true, beside: alertMember)
    }

    @Test func `If Redis holds a carrier, the alert keeps its own timestamp`() throws {
        let core = CoreHarness()
        core.receive(.alert(-299), .update(2))
        core.reply(.noToken)
        guard case .hold(_, let command, true) = try core.oldestCall.operation else {
            Issue.record("nothing is held")
            return
        }
        let heldCommandText = String(decoding: command, as: UTF8.self)
        #expect(heldCommandText.contains(#""alertTimestamp":\#(CoreHarness.startSeconds - 299),"#))
        core.reply(.held)
        let nextCore = CoreHarness()
        nextCore.elapse(2_000)
        nextCore.register(CommandText.registration())
        nextCore.reply(.registered, held: heldCommandText)
        nextCore.reply(.send)
        #expect(try !#require(nextCore.push()).body.contains("alert"))
    }

    @Test func `An alert carried by a held command keeps its age`() throws {
        let releasingCore = CoreHarness()
        releasingCore.register(CommandText.registration())
        releasingCore.reply(.registered, held: Self.heldUpdateWithOlderAlert)
        releasingCore.reply(.send)
        #expect(try !#require(releasingCore.push()).body.contains("alert"))
        let carryingCore = CoreHarness()
        carryingCore.receive(.update(3))
        carryingCore.reply(.alertHeld, held: Self.heldUpdateWithOlderAlert)
        carryingCore.reply(.send)
        #expect(try !#require(carryingCore.push()).body.contains("alert"))
    }

    @Test func `No state carries a held alert that is too old`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(-301))
        #expect(
            try core.oldestCall.admission?.mayReplaceHeldAlert == true,
            "so that Redis does not offer the alert again"
        )
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert") && push.priority == 5)
        core.respond(.accepted)
        #expect(core.results.first?.reason == "alertExpired")
    }

    // MARK: - Activities that Redis does not know

    @Test(arguments: [(-28_800, false), (-28_801, true)] as [(Int64, Bool)])
    func `An update is old after eight hours`(second: Int64, isOld: Bool) throws {
        let core = CoreHarness()
        core.receive(.update(second))
        #expect(try core.oldestCall.admission?.isTooOld == isOld)
    }

    @Test(arguments: [(-43_200, false), (-43_201, true)] as [(Int64, Bool)])
    func `An end is old after twelve hours`(second: Int64, isOld: Bool) throws {
        let core = CoreHarness()
        core.receive(.end(second))
        #expect(try core.oldestCall.admission?.isTooOld == isOld)
    }

    @Test func `An old command of an unknown activity expires`() {
        let core = CoreHarness()
        core.receive(.alert(-90_000), .update(-89_999))
        core.reply(.expired)
        #expect(core.outcomes == ["u-90000 superseded", "u-89999 expired"])
        #expect(core.results.map(\.reason) == ["alertExpired", "activityUnknown"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 2)
    }

    @Test func `A policy has its own ages`() throws {
        let core = CoreHarness {
            $0.reloadable.policies[0].expiration.alertSeconds = 10
            $0.reloadable.policies[0].expiration.startSeconds = 20
        }
        core.receive(.alert(-11), .start(-21, of: "b"))
        #expect(core.outcomes == ["b.s-21 expired"])
        core.reply(.send)
        #expect(try !#require(core.push()).body.contains("alert"))
    }
}
