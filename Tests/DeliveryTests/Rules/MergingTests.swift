import Delivery
import LiveActivity
import Testing

/// A newer state replaces an older one of its activity that still waits in the lane, before Redis learns of the older
/// one. (R12)
@Suite struct MergingTests {
    @Test func `Only the newest state of a batch reaches Redis`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(2), .update(3))
        #expect(core.outcomes == ["u1 superseded", "u2 superseded"])
        #expect(core.outstandingCalls == ["admit u3"])
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 2)
    }

    @Test func `A state older than one that waits is superseded`() {
        let core = CoreHarness()
        core.receive(.update(3), .update(1))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit u3"])
    }

    @Test func `The sequence orders commands with equal timestamps`() {
        let core = CoreHarness()
        core.receive(
            CommandText.update(1, id: "second", beside: #""sequence":2,"#),
            CommandText.update(1, id: "first", beside: #""sequence":1,"#)
        )
        #expect(core.outcomes == ["first superseded"])
        #expect(core.outstandingCalls == ["admit second"])
    }

    @Test func `A version that already waits is a duplicate`() {
        let core = CoreHarness()
        core.receive(.update(1), CommandText.update(1, id: "again"))
        #expect(core.outcomes == ["again duplicate"])
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `Activities do not affect each other`() {
        let core = CoreHarness()
        core.receive(.update(2), .update(1, of: "b"))
        #expect(core.outstandingCalls == ["admit u2", "admit b.u1"])
    }

    @Test func `The same activity of another app is another activity`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"])
        core.receive(.update(2), CommandText.update(1, app: "com.example.other", id: "other"))
        #expect(core.outstandingCalls == ["admit u2", "admit other"])
    }

    @Test func `The end replaces the states before it`() {
        let core = CoreHarness()
        core.receive(.update(1), .end(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit e2"])
    }

    /// Redis decides about the end first (R13). ``EarlierLifeTests`` tests what the core does after Redis' verdict.
    @Test(arguments: [false, true])
    func `An end is admitted before a newer update, whichever comes first`(isUpdateFirst: Bool) {
        let core = CoreHarness()
        if isUpdateFirst { core.receive(.update(2), .end(1)) } else { core.receive(.end(1), .update(2)) }
        #expect(core.outcomes == [])
        #expect(core.outstandingCalls == ["admit e1"])
    }

    /// The producer gave both commands the same second and no sequence.
    @Test func `An end replaces a waiting update of the same version`() {
        let core = CoreHarness()
        core.receive(.update(1), .end(1))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit e1"])
    }

    @Test func `Of two ends, the newer one is kept`() {
        let core = CoreHarness()
        core.receive(.end(1), .end(2))
        #expect(core.outcomes == ["e1 superseded"])
        #expect(core.outstandingCalls == ["admit e2"])
    }

    @Test func `Later updates do not replace a start`() {
        let core = CoreHarness()
        core.receive(.start(1), .update(2), .update(3))
        #expect(core.outcomes == ["u2 superseded"])
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(core.outstandingCalls == [], "the update waits for the spacing")
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u3"])
    }

    @Test func `A start opens the next life after an end`() {
        let core = CoreHarness()
        core.receive(.end(1), .start(2))
        #expect(core.outcomes == [])
        core.admitAndRespond()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["takeStartToken s2"])
    }

    @Test func `A newer start replaces one that waits`() {
        let core = CoreHarness()
        core.receive(.start(1), .start(2))
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.outstandingCalls == ["takeStartToken s2"])
    }

    @Test func `A start that comes after a newer update is sent before it`() {
        let core = CoreHarness()
        core.receive(.update(2), .start(1))
        #expect(core.outcomes == [])
        #expect(core.outstandingCalls == ["takeStartToken s1"])
        core.reply(.tokenFound)
        core.admitAndRespond()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `Of two late starts, the newer one is sent`() {
        let core = CoreHarness()
        core.receive(.update(3), .start(1), .start(2))
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.outstandingCalls == ["takeStartToken s2"])
    }

    @Test func `States that come while Redis decides about one replace each other`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(2))
        core.receive(.update(3))
        #expect(core.outcomes == ["u2 superseded"])
        #expect(core.outstandingCalls == ["admit u1"], "one command of an activity is worked on at a time")
    }

    @Test func `While Redis decides about a newer state, an older one waits for its own verdict`() {
        let core = CoreHarness()
        core.receive(.update(2))
        core.receive(.update(1))
        #expect(core.outcomes == [], "the core does not know yet how Redis decides about u2")
        core.reply(.unchanged)
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.superseded)
        #expect(core.outcomes == ["u2 unchanged", "u1 superseded"])
    }
}
