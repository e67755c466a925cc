import Delivery
import LiveActivity
import Testing

/// Each pool defers separately.
extension DeferralTests {
    @Test func `A pool that accepts nothing holds back no other pool`() {
        let core = Self.makeCore { $0.creditsPerPoolMax = 2 }
        for activity in ["a", "b", "c", "d"] {
            core.receive(.update(1, of: activity))
            core.reply(.send, environment: .sandbox)
        }
        #expect(
            core.waitingPushCount(of: Self.sandbox) == 2,
            "the pool has two credits, and the other commands wait for one"
        )
        core.receive(.update(1, of: "e"))
        #expect(core.outstandingCalls == ["admit e.u1"])
        core.admitAndRespond()
        #expect(core.outcomes == ["e.u1 accepted"])
    }

    @Test func `While production accepts nothing, sandbox tokens are still found`() {
        let core = Self.makeCore { $0.creditsPerPoolMax = 2 }
        for activity in ["a", "b", "c"] {
            core.receive(.update(1, of: activity))
            if !core.outstandingCalls.isEmpty { core.reply(.send) }
        }
        core.elapseInSteps(Self.overdueMilliseconds)
        core.receive(.update(1, of: "e"))
        while core.outstandingCalls.first != "admit e.u1", !core.outstandingCalls.isEmpty { core.reply(.send) }
        core.reply(.send, environment: .sandbox)
        #expect(core.push(environment: .sandbox)?.command == "e.u1")
    }

    /// A pool is blocked while it accepts too few pushes for those that wait (`PoolThroughput`). With 20 waiting
    /// pushes, one response does not end the block. When all of them except `stayingPushCount` have expired, the block
    /// ends.
    @Test(arguments: [0, 1])
    func `The end of a block is also reported if the other waiting pushes expire`(stayingPushCount: Int) throws {
        let core = try CoreHarness.withBlockedPool()
        let expiration = #""expiration":\#(CoreHarness.startSeconds + 16),"#
        for number in 1..<20 { core.receive(.update(1, of: "x\(number)", beside: expiration)) }
        if stayingPushCount > 0 { core.receive(.update(1, of: "z")) }
        while !core.outstandingCalls.isEmpty { core.reply(.send) }
        core.elapseInSteps(2_000)
        core.push()
        core.respond(.accepted)
        let hasRecoveredEarly = core.takeDuePoolRecoveryReport()
        core.elapseInSteps(9_000)
        // Of the 19 pushes with this expiration, one was accepted.
        #expect(core.outcomes.count { $0.hasSuffix("expired") } == 18)
        let hasRecovered = core.takeDuePoolRecoveryReport()
        #expect(!hasRecoveredEarly && hasRecovered)
    }

    /// Returns a core that has deferred all pushes of its blocked pool. `deferredDelayMilliseconds` is so short that
    /// one response does not end the block while two pushes wait.
    private static func makeCoreWithSlowPool() throws -> CoreHarness {
        let core = makeCore { $0.reloadable.deferredDelayMilliseconds = 1_000 }
        receiveAndAdmit(core, "x")
        core.elapseInSteps(overdueMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.count == 20 && core.inProgressRecordCount == 0)
        return core
    }

    /// Receives updates of 20 activities, and lets Redis admit all of them.
    private static func receiveAndAdmit(_ core: CoreHarness, _ activityPrefix: String, beside: String = "") {
        for number in 0..<20 { core.receive(.update(1, of: "\(activityPrefix)\(number)", beside: beside)) }
        while !core.outstandingCalls.isEmpty { core.reply(.send) }
    }

    @Test func `A pool stays blocked if a review has just deferred its last waiting pushes`() throws {
        let core = try Self.makeCoreWithSlowPool()
        Self.receiveAndAdmit(core, "y")
        core.elapseInSteps(9_600)
        core.push()
        core.respond(.accepted)
        #expect(core.deferrals.count == 20, "the response comes shortly before the pushes are deferred")
        core.elapseInSteps(1_000)
        #expect(core.deferrals.count == 39, "20 of the activities x, and 19 of y")
        let hasRecovered = core.takeDuePoolRecoveryReport()
        #expect(!hasRecovered)
    }

    /// After the outage is noticed, the shell does not ask for pushes of the pool, because the pool has no room.
    @Test func `A push that is held back after an outage is deferred even if its pool never has room`() {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.send)
        core.noteLag(1)
        core.elapseInSteps(6_000)
        #expect(core.push() == nil)
        core.noteLag(0)
        core.elapseInSteps(Self.overdueMilliseconds)
        #expect(core.deferrals.map(\.cause) == ["pool"])
    }

    /// If all commands of a blocked pool are deferred, no response can show that the pool works again.
    @Test func `A connection of an idle blocked pool lets deferred commands be read at once`() throws {
        let core = try Self.makeCoreWithSlowPool()
        core.delivery.noteOpenedConnection(of: Self.sandbox)
        var recoveries = [core.takeDuePoolRecoveryReport()]
        core.delivery.noteOpenedConnection(of: Self.production)
        recoveries += [core.takeDuePoolRecoveryReport(), core.takeDuePoolRecoveryReport()]
        #expect(recoveries == [false, true, false])
    }

    /// A connection proves nothing: the pool of its app may still fail, while another pool works again.
    @Test func `Responses are reported soon after a connection, but not soon after other responses`() throws {
        let core = try CoreHarness.withBlockedPool()
        core.delivery.noteOpenedConnection(of: Self.production)
        var recoveries = [core.takeDuePoolRecoveryReport()]
        core.elapseInSteps(6_000)
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        recoveries += [core.takeDuePoolRecoveryReport(), core.takeDuePoolRecoveryReport()]
        #expect(recoveries == [true, true, false])
        core.acknowledgeAll()
        core.elapseInSteps(2_000)
        core.receive(.update(1, of: "c"))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        #expect(core.deferrals.count == 2, "the pool is blocked again")
        core.receive(.update(1, of: "d"))
        core.admitAndRespond()
        recoveries = [core.takeDuePoolRecoveryReport()]
        core.elapseInSteps(Self.delayMilliseconds - 2_000 - Self.overdueMilliseconds)
        recoveries += [core.takeDuePoolRecoveryReport(), core.takeDuePoolRecoveryReport()]
        #expect(recoveries == [false, true, false])
    }

    @Test func `A connection soon after a report is reported later, not forgotten`() throws {
        let core = try CoreHarness.withBlockedPool()
        core.delivery.noteOpenedConnection(of: Self.production)
        let hasRecovered = core.takeDuePoolRecoveryReport()
        let nextReportAtMilliseconds = core.now.monotonicMilliseconds + Self.delayMilliseconds
        core.elapseInSteps(6_000)
        core.delivery.noteOpenedConnection(of: Self.production)
        var laterRecoveries = [core.takeDuePoolRecoveryReport()]
        #expect(try #require(core.nextDueMilliseconds) <= nextReportAtMilliseconds)
        core.elapseInSteps(Self.delayMilliseconds - 6_000 - 1)
        laterRecoveries.append(core.takeDuePoolRecoveryReport())
        core.elapse(1)
        laterRecoveries += [core.takeDuePoolRecoveryReport(), core.takeDuePoolRecoveryReport()]
        #expect(hasRecovered && laterRecoveries == [false, false, true, false])
    }

    @Test func `A connection changes nothing while pushes wait for their pool`() throws {
        let core = try CoreHarness.withBlockedPool()
        core.receive(.update(1, of: "b"))
        core.reply(.send)
        core.delivery.noteOpenedConnection(of: Self.production)
        let hasRecovered = core.takeDuePoolRecoveryReport()
        #expect(!hasRecovered)
    }

    /// Regular reviews (`reviewPoolQueues`) remove expired pushes. A review also ends a measurement of the pool's rate
    /// that has lasted long enough.
    ///
    /// - Parameter second: when the last waiting pushes expire. 18: before the review that ends the measurement; 19: in
    ///   this review; 20: in a later review.
    @Test(arguments: [18, 19, 20])
    func `The block of an idle pool ends even if a measurement has just ended`(second: Int64) throws {
        let core = try Self.makeCoreWithSlowPool()
        let expiration = #""expiration":\#(CoreHarness.startSeconds + second),"#
        Self.receiveAndAdmit(core, "y", beside: expiration)
        core.elapseInSteps(2_000)
        core.push()
        core.respond(.accepted)
        let hasRecoveredEarly = core.takeDuePoolRecoveryReport()
        core.elapseInSteps((second - 18) * 1_000 + 8_500)
        #expect(core.outcomes.count { $0.hasSuffix("expired") } == 19)
        let hasRecovered = core.takeDuePoolRecoveryReport()
        #expect(!hasRecoveredEarly && hasRecovered)
    }

    @Test func `A ready push can be superseded, and can expire, while it waits`() {
        let core = Self.makeCore()
        core.receive(.update(1), .update(1, of: "b", beside: #""expiration":\#(CoreHarness.startSeconds + 2),"#))
        core.reply(.send)
        core.reply(.send)
        core.elapseInSteps(1_100)
        core.receive(.update(2))
        core.elapseInSteps(Self.poolReviewMilliseconds)
        #expect(core.outcomes == ["u1 superseded"])
        core.elapseInSteps(2_000)
        #expect(core.outcomes == ["u1 superseded", "b.u1 expired"])
    }
}
