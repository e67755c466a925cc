import Delivery
import LiveActivity
import Testing

/// The core tells Redis which priority a command requests and whether the command may use the reserve, and sends with
/// the priority that Redis permits. The core reports each 429 of an update or end to Redis, and refunds the draw of a
/// start whose push was never attempted.
@Suite struct BudgetTests {
    /// The start of second 1 has expired when this time has passed since the test began. A start is valid for 600 s.
    private static let startExpiresAfterMilliseconds: Int64 = 602_010

    /// A command, and the admission that the core asks for.
    struct AdmissionCase: Sendable {
        var record: String
        var requestsHighPriority: Bool
        var mayUseReserve: Bool

        init(_ record: String, requestsHighPriority: Bool, mayUseReserve: Bool) {
            self.record = record
            self.requestsHighPriority = requestsHighPriority
            self.mayUseReserve = mayUseReserve
        }
    }

    @Test(arguments: [
        AdmissionCase(.update(1), requestsHighPriority: false, mayUseReserve: false),
        AdmissionCase(.alert(1), requestsHighPriority: true, mayUseReserve: true),
        AdmissionCase(.end(1), requestsHighPriority: true, mayUseReserve: true),
        AdmissionCase(.update(1, beside: #""priority":10,"#), requestsHighPriority: true, mayUseReserve: false),
        AdmissionCase(.end(1, beside: #""priority":5,"#), requestsHighPriority: false, mayUseReserve: true),
        AdmissionCase(.alert(1, beside: #""priority":5,"#), requestsHighPriority: false, mayUseReserve: true),
    ])
    func `A command requests its priority, and may use the reserve for an alert or an end`(
        admissionCase: AdmissionCase
    ) throws {
        let core = CoreHarness()
        core.receive(admissionCase.record)
        let admission = try #require(try core.oldestCall.admission)
        #expect(admission.requestsHighPriority == admissionCase.requestsHighPriority)
        #expect(admission.mayUseReserve == admissionCase.mayUseReserve)
    }

    @Test func `A push that the budget does not allow is sent with priority 5`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.send, priority: 5, isDemoted: true, budgetLeft: 0)
        #expect(try #require(core.push()).priority == 5)
        core.respond(.accepted)
        let result = try #require(core.results.first)
        #expect(result.priority == 5 && result.isDemoted && result.budgetLeft == 0)
    }

    @Test func `What is left of the budget is in the result`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.send, priority: 10, budgetLeft: 14)
        #expect(try #require(core.push()).priority == 10)
        core.respond(.accepted)
        let result = try #require(core.results.first)
        #expect(result.priority == 10 && !result.isDemoted && result.budgetLeft == 14)
    }

    @Test func `The result of a command without a draw names no budget`() {
        let core = CoreHarness()
        core.receive(.update(1), .start(1, of: "b"))
        core.reply(.unchanged)
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(core.results.map(\.budgetLeft) == [nil, nil])
    }

    @Test(arguments: [(0, 10), (7, 10), (255, 10)] as [(UInt8, UInt8)])
    func `Instead of an invalid priority, the requested one is used`(repliedPriority: UInt8, priority: UInt8) throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.send, priority: repliedPriority, budgetLeft: .max)
        #expect(try #require(core.push()).priority == priority)
    }

    @Test func `A demoted state requests its priority again`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.send, priority: 5, isDemoted: true)
        core.push()
        core.respond(.retryLater)
        core.elapseSpacing()
        #expect(try core.oldestCall.admission?.requestsHighPriority == true)
        core.reply(.send, priority: 10)
        #expect(try #require(core.push()).priority == 10)
    }

    // MARK: - 429

    @Test func `A 429 is recorded before the command is admitted again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.throttled)
        #expect(core.settlements == ["u1 throttled"])
        core.elapse(10_000)
        #expect(core.outstandingCalls == [], "Redis has not acknowledged the 429")
        core.acknowledgeSettlements()
        core.elapse(410)
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.wait, waitMilliseconds: 3_000)
        core.elapse(3_010)
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.settlements == ["u1 throttled", "u1 accepted"])
    }

    @Test func `A state that got a 429 is replaced by a newer one`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.throttled)
        core.receive(.update(2))
        #expect(core.outcomes == [])
        core.acknowledgeSettlements()
        #expect(core.outcomes == ["u1 superseded"])
    }

    @Test func `Every 429 is recorded`() {
        let core = CoreHarness()
        core.receive(.update(1))
        for _ in 1...3 {
            core.admitAndRespond(.throttled)
            core.acknowledgeSettlements()
            core.elapse(2_000)
        }
        #expect(core.outcomes == [])
        #expect(core.settlements == ["u1 throttled", "u1 throttled", "u1 throttled"])
    }

    @Test func `If Redis refuses to record a 429, the command is still admitted again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.throttled)
        core.refuseOldestCall("NOPERM")
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `A revoked partition is drained only when its 429 is recorded`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.throttled)
        core.beginRevoking(core.commandsPartition)
        #expect(!core.isDrained(core.commandsPartition))
        core.acknowledgeSettlements()
        #expect(core.isDrained(core.commandsPartition) && core.inProgressRecordCount == 0)
        #expect(core.outcomes == [])
    }

    /// The activity does not exist before its start is accepted, so there is no spacing to lengthen.
    @Test func `A start that got a 429 backs off, and Redis gets no report`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond(.throttled)
        #expect(core.settlements == [])
        core.elapse(410)
        core.reply(.send)
        #expect(core.push()?.command == "s1")
    }

    // MARK: - An activity that is too old

    @Test func `An update of an activity that is older than eight hours has the outcome ended`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.activityOver)
        #expect(core.outcomes == ["u1 ended"])
        #expect(core.results.first?.reason == "activityOver8Hours")
        #expect(core.settlements == [])
    }

    // MARK: - Starts of a device

    @Test func `A start waits for its device's budget`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.wait, waitMilliseconds: 200_000)
        core.elapse(199_990)
        #expect(core.outstandingCalls == [])
        core.elapse(10 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["takeStartToken s1"])
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(core.outcomes == ["s1 accepted"])
        #expect(core.results.first?.reason == "")
    }

    @Test(arguments: [Int64.min, 0, .max]) func `A wait for the budget has a limit`(milliseconds: Int64) {
        let core = CoreHarness { $0.reloadable.policies[0].startBudget.refillPerHour = 36_000 }
        core.receive(.start(1))
        core.reply(.wait, waitMilliseconds: milliseconds)
        core.elapse(100 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["takeStartToken s1"])
        #expect(core.counters(of: 0).startBudgetWaitCount == 1)
    }

    @Test func `A start that waits for the budget expires by its policy`() {
        let core = CoreHarness { $0.reloadable.policies[0].startBudget.refillPerHour = 1 }
        core.receive(.start(1), .update(2))
        core.reply(.wait, waitMilliseconds: 3_600_000)
        // The start has second 1, and its policy lets it wait for 600 s.
        core.elapse(601_990)
        #expect(core.outcomes == [])
        core.elapse(20)
        #expect(core.outcomes == ["s1 expired"])
        #expect(core.results.first?.reason == "startBudget")
        #expect(core.outstandingCalls == ["admit u2"], "the update behind the start continues")
        #expect(core.settlements == [])
    }

    @Test func `A start that waits for the budget expires by its own expiration`() {
        let core = CoreHarness()
        core.receive(.start(1, beside: #""expiration":1790000030,"#))
        core.reply(.wait, waitMilliseconds: 3_600_000)
        core.elapse(31_010)
        #expect(core.results.first?.outcome == "expired")
        #expect(core.results.first?.reason == "startBudget")
    }

    @Test(arguments: [StoreVerdict.duplicate, .superseded, .ended, .unknown, .activityOver, .settled])
    func `A start that is not sent gets its draw refunded`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(verdict)
        #expect(core.settlements.filter { $0 == "s1 refunded" }.count == 1)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
    }

    @Test func `A start that is sent keeps its draw`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond()
        #expect(core.settlements == ["s1 accepted", "s1 accepted (device)"])
    }

    @Test func `A start that expires before it finds a stream gets its draw refunded`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.elapse(Self.startExpiresAfterMilliseconds)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["s1 expired"])
        #expect(core.settlements.filter { $0 == "s1 refunded" }.count == 1)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
    }

    @Test func `A start that is superseded before it finds a stream gets its draw refunded`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.elapseSpacing()
        core.receive(.start(2))
        #expect(core.push() == nil)
        #expect(core.outcomes == ["s1 superseded"])
        #expect(core.settlements.filter { $0 == "s1 refunded" }.count == 1)
        #expect(core.outstandingCalls == ["takeStartToken s2"])
    }

    @Test func `A start that is held after its draw gets the draw refunded`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.noToken)
        core.reply(.held)
        #expect(core.outcomes == ["s1 held"])
        #expect(core.settlements.filter { $0 == "s1 refunded" }.count == 1)
    }

    /// A push of the start was attempted, so the core does not refund the start's draw.
    @Test(arguments: [PushResult.Disposition.retryLater, .retrySoon, .rejected, .tokenDead, .ambiguous])
    func `A start whose push was attempted keeps its draw`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond(disposition)
        core.acknowledgeOutgoingRecords()
        core.elapse(Self.startExpiresAfterMilliseconds)
        #expect(core.push() == nil)
        #expect(core.outcomes.count == 1)
        #expect(!core.settlements.contains("s1 refunded"))
    }

    /// The start found no free stream, and expires. It was never sent, so its draw is refunded.
    @Test func `A start that found no stream gets its draw refunded`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.push()
        core.returnPush()
        core.elapse(Self.startExpiresAfterMilliseconds)
        #expect(core.push() == nil)
        #expect(core.settlements.filter { $0 == "s1 refunded" }.count == 1)
    }

    @Test func `A start to an environment without a key gets its draw refunded`() {
        let core = CoreHarness(hasSandboxPool: false)
        core.receive(.start(1))
        core.reply(.tokenFound, environment: .sandbox)
        core.reply(.send)
        #expect(core.outcomes == ["s1 failed"])
        #expect(core.settlements.contains("s1 refunded"))
    }

    /// A start has drawn from the budget and waits. Its partition moves to another worker, where the start draws again.
    /// So the core refunds the first draw.
    @Test(arguments: [false, true]) func `A dropped start gets its draw refunded`(isLost: Bool) {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.wait, waitMilliseconds: 60_000)
        if isLost { core.release(core.commandsPartition) } else { core.beginRevoking(core.commandsPartition) }
        #expect(core.settlements == ["s1 refunded"])
        #expect(core.isDrained(core.commandsPartition) != isLost)
        core.acknowledgeAll()
        #expect(core.outcomes == [])
        #expect(core.inProgressRecordCount == 0 && core.unacknowledgedRecordCount == 0)
    }

    @Test func `A refund whose reply is lost is not repeated`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.superseded)
        core.loseRedis()
        #expect(core.calls.isEmpty)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    @Test func `A start that is delivered again while it waits is a duplicate`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.wait, waitMilliseconds: 200_000)
        core.receive(CommandText.start(1, id: "again"))
        #expect(core.outcomes == ["again duplicate"])
    }
}
