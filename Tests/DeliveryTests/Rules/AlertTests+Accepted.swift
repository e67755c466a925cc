import Delivery
import LiveActivity
import Testing

/// Alerts that APNs has accepted.
extension AlertTests {
    @Test func `A carried alert that APNs has already accepted is left out`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .update(2))
        #expect(try core.oldestCall.admission?.carriedAlertVersion?.timestamp == CoreHarness.startSeconds + 1)
        let digest = try #require(try core.oldestCall.admission?.digest)
        core.reply(.alertAlreadyAccepted)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit u2"])
        let secondAdmission = try #require(try core.oldestCall.admission)
        #expect(
            secondAdmission.carriedAlertVersion == nil && !secondAdmission.mayReplaceHeldAlert
                && !secondAdmission.mayUseReserve
        )
        #expect(secondAdmission.digest != digest, "the digest is that of the state without the alert")
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body == #"{"aps":{"timestamp":1790000002,"event":"update","content-state":{"n":2}}}"#)
        core.respond(.accepted)
        #expect(core.outcomes == ["u1 superseded", "u2 accepted"])
        #expect(core.settledAlertVersions == [nil])
    }

    @Test func `The settlement tells Redis whose alert APNs accepted`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .update(2))
        core.admitAndRespond()
        core.elapseSpacing()
        core.receive(.alert(3))
        #expect(try core.oldestCall.admission?.carriedAlertVersion == nil, "a command's own alert is not carried")
        core.admitAndRespond()
        core.elapseSpacing()
        core.receive(.update(4))
        core.admitAndRespond()
        core.elapseSpacing()
        core.receive(.alert(5))
        core.admitAndRespond(.rejected)
        let settledAlertSeconds = core.settledAlertVersions.map { $0.map { $0.timestamp - CoreHarness.startSeconds } }
        #expect(settledAlertSeconds == [1, 3, nil, nil])
    }

    @Test func `A held alert that APNs has accepted is left out, and not offered again`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(1))
        #expect(try core.oldestCall.admission?.carriedAlertVersion?.timestamp == CoreHarness.startSeconds + 1)
        core.reply(.alertAlreadyAccepted)
        let secondAdmission = try #require(try core.oldestCall.admission)
        #expect(
            secondAdmission.carriedAlertVersion == nil && secondAdmission.mayReplaceHeldAlert
                && !secondAdmission.mayUseReserve
        )
        core.reply(.send)
        #expect(try #require(core.push()).body.contains("alert") == false)
    }
}
