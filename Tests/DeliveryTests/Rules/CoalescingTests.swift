import Delivery
import LiveActivity
import Testing

/// Waiting commands: newer states replace older ones before Redis learns about them. (R12)
@Suite struct CoalescingTests {
    @Test func onlyTheNewestStateOfABatchReachesRedis() {
        let core = CoreHarness()
        core.receive(.update(1), .update(2), .update(3))
        #expect(core.outcomes == ["u1 superseded", "u2 superseded"])
        #expect(core.waiting == ["admit u3"])
        #expect(core.counters.coalesced == 2)
        core.acknowledgeProductions()
        #expect(core.committableOffset == 2)
    }

    @Test func aStateOlderThanOneThatWaitsIsSuperseded() {
        let core = CoreHarness()
        core.receive(.update(3), .update(1))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.waiting == ["admit u3"])
    }

    @Test func theSequenceOrdersEqualTimestamps() {
        let core = CoreHarness()
        core.receive(
            CommandText.update(1, id: "second", beside: #""sequence":2,"#),
            CommandText.update(1, id: "first", beside: #""sequence":1,"#)
        )
        #expect(core.outcomes == ["first superseded"])
        #expect(core.waiting == ["admit second"])
    }

    @Test func aVersionThatWaitsAlreadyIsADuplicate() {
        let core = CoreHarness()
        core.receive(.update(1), CommandText.update(1, id: "again"))
        #expect(core.outcomes == ["again duplicate"])
        #expect(core.waiting == ["admit u1"])
    }

    @Test func activitiesDoNotTouchEachOther() {
        let core = CoreHarness()
        core.receive(.update(2), .update(1, of: "b"))
        #expect(core.waiting == ["admit u2", "admit b.u1"])
    }

    @Test func theSameActivityOfAnotherAppIsAnotherActivity() {
        let core = CoreHarness(applications: [CommandText.app, "com.example.other"])
        core.receive(.update(2), CommandText.update(1, app: "com.example.other", id: "other"))
        #expect(core.waiting == ["admit u2", "admit other"])
    }

    @Test func theEndReplacesTheStatesBeforeIt() {
        let core = CoreHarness()
        core.receive(.update(1), .end(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.waiting == ["admit e2"])
    }

    @Test func anUpdateAfterAWaitingEndIsEnded() {
        let core = CoreHarness()
        core.receive(.end(1), .update(2))
        #expect(core.outcomes == ["u2 ended"])
        #expect(core.waiting == ["admit e1"])
    }

    @Test func anEndThatComesLateIsNotSupersededByAnUpdate() {
        let core = CoreHarness()
        core.receive(.update(2), .end(1))
        #expect(core.outcomes == ["u2 ended"])
        #expect(core.waiting == ["admit e1"])
    }

    @Test func ofTwoEndsTheFirstIsKept() {
        let core = CoreHarness()
        core.receive(.end(1), .end(2))
        #expect(core.outcomes == ["e2 ended"])
        #expect(core.waiting == ["admit e1"])
    }

    @Test func aStartIsKeptApartFromWhatFollowsIt() {
        let core = CoreHarness()
        core.receive(.start(1), .update(2), .update(3))
        #expect(core.outcomes == ["u2 superseded"])
        core.reply(.address)
        core.carry()
        #expect(core.waiting == [], "the update waits for the spacing")
        core.elapse(1_010)
        #expect(core.waiting == ["admit u3"])
    }

    @Test func aStartOpensTheNextLifeAfterAnEnd() {
        let core = CoreHarness()
        core.receive(.end(1), .start(2))
        #expect(core.outcomes == [])
        core.carry()
        core.elapse(1_010)
        #expect(core.waiting == ["address s2"])
    }

    @Test func aNewerStartReplacesOneThatWaits() {
        let core = CoreHarness()
        core.receive(.start(1), .start(2))
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.waiting == ["address s2"])
    }

    @Test func aStartThatComesLateGoesFirst() {
        let core = CoreHarness()
        core.receive(.update(2), .start(1))
        #expect(core.outcomes == [])
        #expect(core.waiting == ["address s1"])
        core.reply(.address)
        core.carry()
        core.elapse(1_010)
        #expect(core.waiting == ["admit u2"])
    }

    @Test func ofTwoLateStartsOneGoes() {
        let core = CoreHarness()
        core.receive(.update(3), .start(1), .start(2))
        #expect(core.outcomes == ["s2 superseded"])
        #expect(core.waiting == ["address s1"])
    }

    @Test func statesThatComeWhileOneIsWithRedisReplaceEachOther() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(2))
        core.receive(.update(3))
        #expect(core.outcomes == ["u2 superseded"])
        #expect(core.waiting == ["admit u1"], "one command of an activity is worked on at a time")
    }

    @Test func whatRedisHasAdmittedIsComparedByRedis() {
        let core = CoreHarness()
        core.receive(.update(2))
        core.receive(.update(1))
        #expect(core.outcomes == [], "the core does not know yet what became of u2")
        core.reply(.unchanged)
        #expect(core.waiting == ["admit u1"])
        core.reply(.superseded)
        #expect(core.outcomes == ["u2 unchanged", "u1 superseded"])
    }
}
