import Delivery
import LiveActivity
import Testing

/// A start is deferred because its pool accepts nothing. Perhaps Redis does not know the start yet. If the activity's
/// earlier life has ended, Redis would then refuse newer updates and ends as `ended`. So they wait for the start.
@Suite struct DeferredStartTests {
    private static let delayMilliseconds: Int64 = 30_000

    @Test func `A newer command waits for the deferred start, and is admitted after it`() throws {
        let (core, start) = try coreWithDeferredStart()
        core.receive(.update(2))
        core.elapseInSteps(Self.delayMilliseconds - 1_000)
        #expect(core.outstandingCalls == [] && core.outcomes == [])
        core.receive(start)
        #expect(core.outstandingCalls == ["takeStartToken s1"])
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.push()
        core.respond(.accepted)
        core.acknowledgeAll()
        core.elapseInSteps(2_000)
        #expect(core.outcomes == ["s1 accepted"] && core.outstandingCalls == ["admit u2"])
    }

    @Test func `A newer start does not wait for the deferred one`() throws {
        let (core, _) = try coreWithDeferredStart()
        core.receive(.start(4))
        #expect(core.outstandingCalls == ["takeStartToken s4"])
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.push()
        core.respond(.accepted)
        core.acknowledgeAll()
        core.receive(.update(5))
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u5"], "the update after s4 does not wait either")
    }

    @Test func `A command waits no longer than the delay`() throws {
        let (core, _) = try coreWithDeferredStart()
        core.receive(.update(2))
        core.elapseInSteps(Self.delayMilliseconds + 5_000)
        #expect(core.outstandingCalls == ["admit u2"])
        core.reply(.ended)
        #expect(core.outcomes == ["u2 ended"])
    }

    /// If the update stayed in the lane, the committed offset could not pass it while the start is deferred again and
    /// again.
    @Test func `The overdue command behind a start is deferred with the start`() throws {
        let (core, start) = try coreWithDeferredStart()
        core.receive(.update(2))
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(start)
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.elapseInSteps(2_200)
        #expect(core.deferrals.map(\.command) == ["b.u1", "s1", "s1", "u2"])
        core.acknowledgeAll()
        #expect(core.inProgressRecordCount == 0 && core.committableOffset == 3)
    }

    /// An end with the version of a start comes after the start, and ends the activity that the start begins.
    @Test func `An end with the version of the deferred start waits too`() throws {
        let (core, _) = try coreWithDeferredStart()
        core.receive(.end(1))
        #expect(core.outstandingCalls == [] && core.outcomes == [])
    }

    @Test func `A command that expires behind the start is expired, not deferred`() throws {
        let (core, start) = try coreWithDeferredStart()
        core.receive(.update(2, beside: #""expiration":\#(CoreHarness.startSeconds + 40),"#))
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(start)
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.elapseInSteps(2_200)
        #expect(core.deferrals.map(\.command) == ["b.u1", "s1", "s1"] && core.outcomes == ["u2 expired"])
    }

    /// While the pool is blocked, the end is deferred again each time that it is read. If the start stayed in the lane,
    /// it would wait there all this time, and the committed offset could not pass it.
    @Test func `The overdue start and update behind a deferred end are deferred with it`() throws {
        let core = try coreWithBlockedPool()
        core.receive(.end(2))
        core.reply(.send)
        core.receive(.start(3), .update(4))
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        #expect(core.deferrals.map(\.command) == ["b.u1", "e2", "s3", "u4"])
        core.acknowledgeAll()
        #expect(core.inProgressRecordCount == 0 && core.committableOffset == 4)
    }

    /// The end of the earlier life is newer than the start, so it would supersede the start in Redis.
    @Test func `The end of a lifetime is superseded while a start is deferred`() throws {
        let (core, start) = try coreWithDeferredStart()
        let identifier = "lifetime:\(CoreHarness.startSeconds * 1_000)"
        core.receive(CommandText.end(9, id: identifier))
        core.reply(.retry)
        #expect(core.outcomes == ["\(identifier) superseded"] && core.outstandingCalls == [])
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(start)
        #expect(core.outstandingCalls == ["takeStartToken s1"])
    }

    /// The update is deferred with the start, and comes back after it. Without the wait, the phone would show the newer
    /// state and not ring.
    @Test func `A newer state waits for a deferred alert, also when the deferred start has come back`() throws {
        let core = try coreWithBlockedPool()
        core.receive(.start(1), .alert(2))
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.map(\.command) == ["b.u1", "s1", "u2"] && core.inProgressRecordCount == 0)
        core.elapseInSteps(Self.delayMilliseconds - 1_000)
        core.receive(core.deferrals[1])
        core.reply(.tokenFound, draw: 78)
        core.admitAndRespond()
        core.acknowledgeAll()
        core.receive(.update(3))
        core.elapseInSteps(2_000)
        #expect(core.outstandingCalls == [])
        core.receive(core.deferrals[2])
        #expect(core.outstandingCalls == ["admit u3"])
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(CommandText.alertText(2)))
    }

    /// The start comes while Redis decides about the update: for example, a registration has released the start.
    @Test func `A command that Redis calls ended waits for a start that came meanwhile`() throws {
        let core = CoreHarness()
        core.receive(.update(5))
        core.receive(.end(2))
        core.receive(.start(4))
        core.reply(.ended)
        #expect(core.outcomes == [])
        core.reply(.duplicate)
        #expect(core.outcomes == ["e2 duplicate"] && core.outstandingCalls == ["takeStartToken s4"])
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.push()
        core.respond(.accepted)
        core.acknowledgeAll()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u5"])
    }

    /// 1. Kafka wrote the start's deferred record but did not acknowledge it.
    /// 2. So a worker wrote a second deferred record, with the same claim.
    /// 3. A worker read one of the two. The start was admitted and deferred again, with another claim. Redis has this
    ///    claim now.
    @Test(arguments: [false, true])
    func `Of two deferred records of a start, the later deferral stays`(isLaterFirst: Bool) throws {
        let earlierDeferral = try coreWithDeferredStart().start
        var laterDeferral = earlierDeferral
        (laterDeferral.deferral.count, laterDeferral.deferral.claim) = (2, 22)
        let core = CoreHarness()
        core.receive(.update(5))
        let records = isLaterFirst ? [laterDeferral, earlierDeferral] : [earlierDeferral, laterDeferral]
        for record in records { core.receive(record) }
        #expect(core.outcomes == ["s1 duplicate"])
        core.reply(.ended)
        core.reply(.tokenFound, draw: 77)
        #expect(try core.oldestCall.previousClaim == 22)
    }

    /// Returns a core whose pool accepts nothing, and a start that it has deferred.
    private func coreWithDeferredStart() throws -> (core: CoreHarness, start: SeenDeferral) {
        let core = try coreWithBlockedPool()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.map(\.command) == ["b.u1", "s1"] && core.inProgressRecordCount == 0)
        return (core, core.deferrals[1])
    }

    private func coreWithBlockedPool() throws -> CoreHarness {
        let core = CoreHarness {
            ($0.reloadable.deferAfterMilliseconds, $0.reloadable.deferredDelayMilliseconds) = (10_000, 30_000)
        }
        core.receive(.update(1, of: "b"))
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.map(\.command) == ["b.u1"])
        return core
    }
}
