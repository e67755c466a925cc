import Delivery
import LiveActivity
import Testing

/// A failed push is sent again soon in three cases: its pool's retry budget permits the retry; APNs accepted at least
/// half of the last pushes; the pool has sent nothing for a second. In all other cases the push waits longer. (R21)
@Suite struct RetryBudgetTests {
    @Test func `Without permission, an update waits long and is admitted again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.sendWithoutBudget()
        core.elapse(14_990)
        #expect(core.outstandingCalls == [])
        core.elapse(15_020)
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.send)
        // The budget is still empty, so the push waits again. The core does not count this wait as an attempt.
        #expect(core.sendPush(permitsRetry: false) == nil)
        core.elapseBudgetPause()
        core.reply(.send)
        let record = core.sendPush()
        #expect(record.map { core.delivery.view($0).attemptCount } == 2)
        #expect(record.map { core.delivery.view($0).isRetry } == true)
    }

    @Test func `The first attempt of a push needs no permission`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        let record = core.sendPush(permitsRetry: false)
        #expect(record.map { core.delivery.view($0).isRetry } == false)
    }

    @Test func `Without permission, a start waits long and is admitted again`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.sendWithoutBudget()
        core.elapse(14_990)
        #expect(core.sendPush() == nil)
        core.elapseBudgetPause()
        core.reply(.send)
        #expect(core.sendPush(permitsRetry: false) == nil)
        core.elapseBudgetPause()
        core.reply(.send)
        #expect(core.sendPush().map { core.delivery.view($0).attemptCount } == 2)
    }

    @Test func `A newer state does not wait for the budget`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.sendWithoutBudget()
        core.elapse(2_000)
        core.receive(.update(3))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit u3"], "at once: the spacing is over")
    }

    @Test func `A push expires while it waits for the budget`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: #""expiration":\#(CoreHarness.startSeconds + 10),"#))
        core.reply(.send)
        core.sendWithoutBudget()
        core.elapseBudgetPause()
        #expect(core.outcomes == ["u1 expired"])
    }

    @Test func `A push that waits for the budget is left to the partition's next owner`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.sendWithoutBudget()
        core.beginRevoking(core.commandsPartition)
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.outcomes == [])
    }

    @Test func `A push that waits for the budget does not count as in flight`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.update(1), .update(2, of: "b"))
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.send)
        core.sendWithoutBudget()
        #expect(core.outstandingCalls == ["admit b.u2"])
        core.reply(.send)
        core.sendWithoutBudget()
        core.elapseBudgetPause()
        #expect(core.outstandingCalls.count == 1, "the pool has one credit, so only one of the two is admitted again")
    }

    @Test func `A start that waited for the budget needs a credit again`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.start(1), .update(2, of: "b"), .update(2, of: "c"))
        core.reply(.tokenFound)
        core.reply(.send)
        core.sendWithoutBudget()
        core.reply(.send)
        core.elapseBudgetPause()
        let otherPush = core.sendPush()
        #expect(otherPush.map { core.delivery.view($0).name } == "b.u2")
        #expect(core.sendPush() == nil, "b's push has the only credit")
        if let otherPush { core.respond(otherPush, .accepted, isRetryPermitted: true) }
        #expect(
            core.outstandingCalls == ["admit c.u2"],
            "c gets the credit, because it has waited longer than the start"
        )
        #expect(core.sendPush() == nil)
        core.reply(.unchanged)
        core.reply(.send)
        let start = core.sendPush()
        #expect(start.map { core.delivery.view($0).name } == "s1")
        core.receive(.update(3, of: "d"))
        #expect(core.outstandingCalls == [], "the start has the only credit")
        if let start { core.respond(start, .accepted, isRetryPermitted: true) }
        #expect(core.outstandingCalls == ["admit d.u3"])
    }

    @Test func `A start that must wait for a credit again expires`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.start(1, beside: #""expiration":\#(CoreHarness.startSeconds + 60),"#), .update(2, of: "b"))
        core.reply(.tokenFound)
        core.reply(.send)
        core.sendWithoutBudget()
        core.reply(.send)
        let otherPush = core.sendPush()
        core.elapseBudgetPause()
        core.elapse(31_000)
        #expect(core.outcomes == [], "the start is checked only when its turn comes")
        if let otherPush { core.respond(otherPush, .accepted, isRetryPermitted: true) }
        #expect(core.outcomes == ["b.u2 accepted", "s1 expired"])
        core.receive(.update(3, of: "d"))
        #expect(core.outstandingCalls == ["admit d.u3"])
    }

    @Test func `Permission comes from the budget or from accepted pushes`() {
        var permission = RetryPermission()
        func moment(_ milliseconds: Int64) -> Moment {
            Moment(monotonicMilliseconds: milliseconds, wallMilliseconds: 0)
        }
        permission.noteSentPush(now: moment(5_000))
        #expect(permission.permitsRetry(isWithinBudget: true, now: moment(5_000)))
        #expect(!permission.permitsRetry(isWithinBudget: false, now: moment(5_999)))
        #expect(
            permission.permitsRetry(isWithinBudget: false, now: moment(6_000)),
            "after a second without pushes, one retry may show whether APNs is back"
        )
        permission.noteSentPush(now: moment(6_000))
        for _ in 0..<9 { permission.noteResponse(.accepted, now: moment(6_000)) }
        permission.noteResponse(.tokenDead, now: moment(6_000))
        #expect(!permission.permitsRetry(isWithinBudget: false, now: moment(6_000)))
        permission.noteResponse(.accepted, now: moment(6_000))
        #expect(permission.permitsRetry(isWithinBudget: false, now: moment(6_000)))
        for _ in 0..<10 { permission.noteResponse(.retryLater, now: moment(6_000)) }
        #expect(
            permission.permitsRetry(isWithinBudget: false, now: moment(6_000)),
            "half of the last twenty were accepted"
        )
        permission.noteResponse(.retryLater, now: moment(6_000))
        #expect(!permission.permitsRetry(isWithinBudget: false, now: moment(6_000)))
    }

    /// The pool also sends broadcasts, and a proxy refuses their path. APNs accepts the pushes to devices.
    @Test func `Refused broadcasts delay no retry of a push to a device`() {
        var permission = RetryPermission()
        let now = Moment(monotonicMilliseconds: 5_000, wallMilliseconds: 0)
        permission.noteSentPush(now: now)
        for _ in 0..<RetryPermission.acceptedResponsesMin { permission.noteResponse(.accepted, now: now) }
        for _ in 0..<100 { permission.noteResponse(.retryLater, concernsOnlyBroadcasts: true, now: now) }
        #expect(permission.permitsRetry(isWithinBudget: false, now: now))
        for _ in 0..<20 { permission.noteResponse(.retryLater, now: now) }
        #expect(!permission.permitsRetry(isWithinBudget: false, now: now))
    }

    /// Every second, 100 pushes are sent at once. The responses to the refused ones come first.
    @Test(arguments: [(refusedCount: 30, isPermitted: true), (refusedCount: 60, isPermitted: false)])
    func `A burst of refusals stops no retries if APNs accepts half of the pushes`(
        refusedCount: Int,
        isPermitted: Bool
    ) {
        var permission = RetryPermission()
        for second in 0..<20 {
            let now = Moment(monotonicMilliseconds: Int64(second) * 1_000, wallMilliseconds: 0)
            permission.noteSentPush(now: now)
            for _ in 0..<refusedCount { permission.noteResponse(.retrySoon, now: now) }
            if second > 0 { #expect(permission.permitsRetry(isWithinBudget: false, now: now) == isPermitted) }
            for _ in refusedCount..<100 { permission.noteResponse(.accepted, now: now) }
        }
    }

    @Test func `Earlier accepted pushes permit retries for two seconds of an outage at most`() {
        var permission = RetryPermission()
        func note(_ disposition: PushResult.Disposition, atMilliseconds milliseconds: Int64) -> Bool {
            let now = Moment(monotonicMilliseconds: milliseconds, wallMilliseconds: 0)
            permission.noteSentPush(now: now)
            for _ in 0..<20 { permission.noteResponse(disposition, now: now) }
            return permission.permitsRetry(isWithinBudget: false, now: now)
        }
        for second in 0..<60 { #expect(note(.accepted, atMilliseconds: Int64(second) * 1_000)) }
        #expect(note(.retryLater, atMilliseconds: 61_000))
        #expect(!note(.retryLater, atMilliseconds: 61_001))
    }

    /// A server that is about to close refuses streams, and does not process their pushes. APNs accepts the other
    /// pushes, so the core sends the refused ones again soon, even without budget.
    @Test func `With a third of the streams refused, no push waits for the budget`() {
        let core = OutagePool.makeCore()
        var pool = OutagePool()
        let activityCount = pool.feedStates(60, to: core, responses: .accepted, refusingEachOf: 3)
        pool.passTime(5_000, with: core, responses: .accepted)
        #expect(core.acceptedResultCount == activityCount)
        #expect(pool.sentPushCount > activityCount * 4 / 3)
        #expect(pool.sentPushCount < activityCount * 2)
    }

    /// APNs responds with 503 to everything for two minutes, while each second 50 activities get a state. Then APNs
    /// accepts everything, and no new commands come.
    @Test func `An outage causes few retries, and loses nothing`() {
        let core = OutagePool.makeCore()
        var pool = OutagePool()
        let activityCount = pool.feedStates(120, to: core, responses: .retryLater)
        #expect(pool.firstAttemptCount == activityCount)
        #expect(pool.sentPushCount <= activityCount * 110 / 100 + OutagePool.savedRetriesMax)
        #expect(pool.sentPushCount > activityCount, "some are sent again")
        // The pool first sends ten pushes as probes, one a second. Then it sends the other pushes as their
        // waits end.
        pool.passTime(60_000, with: core, responses: .accepted)
        #expect(core.acceptedResultCount == activityCount)
        #expect(core.outcomes.count == activityCount)
    }
}

/// One pool with its retry budget, and the streams that the test offers. It counts like `RetryBudget` of the module
/// APNs, which the core's tests do not import.
private struct OutagePool {
    static let savedRetriesMax = 100

    var firstAttemptCount = 0
    var sentPushCount = 0
    private var budgetHundredths = savedRetriesMax * 100
    private var permission = RetryPermission()

    private func permitsRetry(_ now: Moment) -> Bool {
        permission.permitsRetry(isWithinBudget: budgetHundredths >= 100, now: now)
    }

    /// A core with room for all activities of a test.
    static func makeCore() -> CoreHarness {
        CoreHarness {
            $0.recordsMax = 16_384
            $0.ledgerSpanOffsetCount = 16_384
        }
    }

    /// Sends one state to 50 new activities in each second.
    ///
    /// - Returns: the number of activities that got a state.
    mutating func feedStates(
        _ seconds: Int,
        to core: CoreHarness,
        responses: PushResult.Disposition,
        refusingEachOf interval: Int = .max
    ) -> Int {
        let activitiesPerSecond = 50
        for second in 0..<seconds {
            for number in 0..<activitiesPerSecond {
                core.receive(.update(Int64(second), of: "x\(second * activitiesPerSecond + number)"))
            }
            passTime(1_000, with: core, responses: responses, refusingEachOf: interval)
        }
        return seconds * activitiesPerSecond
    }

    /// - Parameter refusingEachOf: if this is n, APNs refuses every nth stream and does not process its push.
    mutating func passTime(
        _ milliseconds: Int64,
        with core: CoreHarness,
        responses: PushResult.Disposition,
        refusingEachOf interval: Int = .max
    ) {
        for _ in 0..<(milliseconds / 100) {
            core.elapse(100)
            while core.hasAdmissionCall { core.reply(.send) }
            while let record = core.sendPush(permitsRetry: permitsRetry(core.now)) {
                sentPushCount += 1
                let isRetry = core.delivery.view(record).isRetry
                if !isRetry { firstAttemptCount += 1 }
                budgetHundredths =
                    isRetry ? max(0, budgetHundredths - 100) : min(budgetHundredths + 10, Self.savedRetriesMax * 100)
                permission.noteSentPush(now: core.now)
                let disposition = sentPushCount % interval == 0 ? PushResult.Disposition.retrySoon : responses
                permission.noteResponse(disposition, now: core.now)
                core.respond(record, disposition, isRetryPermitted: permitsRetry(core.now))
            }
            core.acknowledgeAll()
        }
    }
}

extension CoreHarness {
    fileprivate var hasAdmissionCall: Bool { calls.contains { $0.ticket.purpose == .admit } }

    /// Offers one free stream. `permitsRetry` says whether a push that was sent before may use it.
    @discardableResult
    fileprivate func sendPush(permitsRetry: Bool = true) -> RecordIndex? {
        let pool = PoolTarget(appIndex: 0, environment: .production)
        let record = delivery.takeNextPush(pool, permitsRetry: permitsRetry, now: now)
        elapse(0)
        return record
    }

    fileprivate func respond(_ record: RecordIndex, _ disposition: PushResult.Disposition, isRetryPermitted: Bool) {
        delivery.handlePushResponse(
            record,
            PushResult(
                disposition: disposition,
                status: disposition == .accepted ? 200 : 503,
                reason: UnsafeRawBufferPointer(start: nil, count: 0),
                invalidAtWallMilliseconds: nil,
                sentAtWallMilliseconds: nil,
                responseAtWallMilliseconds: now.wallMilliseconds,
                isRetryPermitted: isRetryPermitted
            ),
            now: now
        )
        elapse(0)
    }

    /// Lets the pause of a push without budget pass. Jitter makes it 15 to 30 s long.
    fileprivate func elapseBudgetPause() { elapse(30_010) }

    /// Sends the next push with an empty retry budget. APNs responds with 503.
    fileprivate func sendWithoutBudget() {
        guard let record = sendPush() else {
            Issue.record("no push waits")
            return
        }
        respond(record, .retryLater, isRetryPermitted: false)
    }
}
