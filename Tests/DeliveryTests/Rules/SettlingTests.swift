import Delivery
import LiveActivity
import Testing

/// A record is settled only when Kafka has acknowledged its result and Redis its settlement. The core repeats calls and
/// outgoing records that fail temporarily. A call that Redis refuses for good, or a result or dead letter that is
/// too large for Kafka, does not keep its offset from settling. (R9)
@Suite struct SettlingTests {
    @Test func `An accepted command has a result and is settled in Redis`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.settlements == ["u1 accepted"])
        #expect(core.results.first?.attempts == 1)
    }

    @Test(arguments: [false, true])
    func `An offset is settled when its result and its settlement are acknowledged`(isResultFirst: Bool) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        if isResultFirst { core.acknowledgeOutgoingRecords() } else { core.acknowledgeSettlements() }
        #expect(core.committableOffset == 0)
        #expect(core.inProgressRecordCount == 1)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `An offset is committed only when all below it are settled`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"), .update(1, of: "c"))
        core.reply(.wait, waitMilliseconds: 500)
        core.reply(.unchanged)
        core.reply(.unchanged)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 0, "u1 waits for its pace")
        core.elapse(508)
        core.reply(.unchanged)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 3)
    }

    // MARK: - Kafka

    @Test func `A result that was not acknowledged is produced again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        core.acknowledgeSettlements()
        core.report(.failed, on: .result)
        #expect(core.outgoingRecords.isEmpty, "the core waits, because the result would probably fail again")
        #expect(core.nextDueMilliseconds != nil)
        core.elapse(250)
        #expect(core.outcomes == ["u1 accepted", "u1 accepted"])
        #expect(core.committableOffset == 0)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    /// While the producer is full, the lane takes no outgoing records. The next delivery report wakes the lane, so
    /// the core needs no timer.
    @Test func `The end of a pause of outgoing records is not due again while the producer is full`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.unchanged)
        core.report(.failed, on: .result)
        var pauseEnd = core.now
        pauseEnd.monotonicMilliseconds += 250
        pauseEnd.wallMilliseconds += 250
        #expect((core.nextDueMilliseconds ?? .max) <= pauseEnd.monotonicMilliseconds)
        core.delivery.advance(now: pauseEnd)
        let outgoingRecord = core.delivery.nextOutgoingRecord(now: pauseEnd)
        #expect(outgoingRecord?.kind == .result)
        #expect((core.nextDueMilliseconds ?? .max) > pauseEnd.monotonicMilliseconds)
    }

    @Test func `Failed outgoing records are repeated in their order`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(2), .update(3))
        core.reply(.unchanged)
        for _ in 0..<3 { core.report(.failed, on: .result) }
        core.elapse(250)
        #expect(core.outcomes.suffix(3) == ["u1 superseded", "u2 superseded", "u3 unchanged"])
    }

    /// librdkafka refuses each record of such a topic at once, for example if the topic is deleted.
    @Test(arguments: [OutgoingRecord.Kind.invalidation, .deadLetter])
    func `A topic that accepts nothing does not delay results`(kind: OutgoingRecord.Kind) {
        let core = CoreHarness()
        if kind == .invalidation {
            core.receive(.update(1, of: "b"))
            core.reply(.send)
            core.push()
            core.respond(.tokenDead, status: 410)
        } else {
            core.receive("{")
        }
        core.report(.failed, on: kind)
        core.receive(.update(2))
        core.reply(.unchanged)
        #expect(core.outcomes.last == "u2 unchanged")
        #expect(!core.outgoingRecords.contains { $0.kind == kind }, "this topic still pauses")
        core.elapse(250)
        #expect(core.outgoingRecords.contains { $0.kind == kind })
    }

    @Test func `A results topic that accepts nothing does not delay invalidations`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.unchanged)
        core.report(.failed, on: .result)
        core.receive(.update(1, of: "b"))
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        #expect(core.invalidations.map(\.activity) == ["b"])
        core.elapse(250)
        #expect(core.outcomes == ["u1 unchanged", "u1 unchanged"])
    }

    @Test func `A result that is too large for Kafka does not keep its offset from settling`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.unchanged)
        for _ in 0..<OutgoingRecord.retriesAfterRefusalMax {
            core.report(.tooLarge, on: .result)
            #expect(core.committableOffset == 0)
            core.elapse(250)
        }
        core.report(.tooLarge, on: .result)
        #expect(core.outgoingRecords.isEmpty)
        #expect(core.committableOffset == 1)
    }

    // MARK: - Redis

    @Test func `Calls without a reply are repeated in their order`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"), .start(1, of: "c"))
        core.loseRedis()
        #expect(core.outstandingCalls == ["admit u1", "admit b.u1", "takeStartToken c.s1"])
        core.reply(.send)
        #expect(core.push()?.command == "u1")
    }

    @Test func `A settlement without a reply is repeated`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        core.acknowledgeOutgoingRecords()
        core.loseRedis()
        #expect(core.settlements == ["u1 accepted", "u1 accepted"])
        #expect(core.committableOffset == 0)
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 1)
    }

    @Test func `After a temporary refusal Redis gets no call for 100 ms`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.loseRedis(isBusy: true)
        core.receive(.update(1, of: "b"))
        #expect(core.outstandingCalls == [])
        let startMilliseconds = CoreHarness.startMonotonicMilliseconds
        #expect(core.nextDueMilliseconds == startMilliseconds + 100)
        core.elapse(99)
        #expect(core.outstandingCalls == [])
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u1", "admit b.u1"])
    }

    /// While the lane has no connection to Redis, it takes no calls from the core. The next connection wakes the lane.
    /// So the core needs no timer for a pause of calls that has ended.
    @Test func `The end of a pause of calls is not due again while Redis is away`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"))
        core.failOldestCallForUnknownReason()
        core.loseRedis(isBusy: true)
        let startMilliseconds = CoreHarness.startMonotonicMilliseconds
        #expect(core.nextDueMilliseconds == startMilliseconds + 100)
        core.elapseWithoutTakingActions(100)
        #expect(core.nextDueMilliseconds == startMilliseconds + 1_000)
        core.elapseWithoutTakingActions(900)
        #expect(core.nextDueMilliseconds == nil)
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit b.u1", "admit u1"])
    }

    @Test func `A postponed call does not delay other calls`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.receive(.update(1, of: "b"))
        core.loseRedis(isBusy: true)
        core.delivery.delayNextStoreCallForUnavailableServer(now: core.now)
        core.elapse(100)
        #expect(core.outstandingCalls == ["admit b.u1"])
        core.elapse(900)
        #expect(core.outstandingCalls == ["admit b.u1", "registerToken a"])
    }

    /// - Parameter step: the call that Redis refuses: 0 is the one for the token, 1 the admission, 2 the hold.
    @Test(arguments: [0, 1, 2])
    func `A command that Redis refuses permanently fails with the reason`(step: Int) {
        let core = CoreHarness()
        core.receive(.start(1))
        if step == 1 { core.reply(.tokenFound) }
        if step == 2 { core.reply(.noToken) }
        core.refuseOldestCall("NOPERM no permission")
        #expect(core.outcomes == ["s1 failed"])
        #expect(core.results.first?.reason == "NOPERM no permission")
        #expect(core.settlements == (step == 1 ? ["s1 refunded"] : []))
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
    }

    @Test func `A call that fails for an unknown reason is repeated, and delays nothing else`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.failOldestCallForUnknownReason()
        #expect(core.outstandingCalls.isEmpty && core.committableOffset(core.registrationsPartition) == 0)
        core.receive(CommandText.update(1, of: "b"))
        #expect(core.outstandingCalls == ["admit b.u1"])
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
        core.elapse(1_000)
        core.reply(.registered)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A settlement that Redis refuses does not keep its offset from settling`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond()
        core.acknowledgeOutgoingRecords()
        core.refuseOldestCall("NOPERM")
        #expect(core.committableOffset == 1)
    }

    @Test func `A registration that Redis refuses does not keep its offset from settling`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.refuseOldestCall("NOPERM")
        #expect(core.results.isEmpty)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A tombstone is settled with its last call, refused or not`() {
        let core = CoreHarness()
        core.unregister(key: "a")
        core.reply(.unregistered)
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.refuseOldestCall("NOPERM")
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    // MARK: - Numbers that identify a request and return with its reply

    @Test func `A call's number identifies its ticket`() {
        for purpose in StoreTicket.Purpose.allCases {
            let tag = UInt64(purpose.rawValue) << 48 | 0xABCD << 32 | 0xFEDC_BA98
            let ticket = StoreTicket(tag: tag)
            #expect(ticket?.tag == tag && ticket?.purpose == purpose)
            #expect(ticket?.appIndex == 0xABCD && ticket?.record == 0xFEDC_BA98)
        }
        #expect(StoreTicket(tag: 0xFF << 48) == nil)
    }

    @Test func `The number of an outgoing record identifies it`() {
        for kind in [OutgoingRecord.Kind.result, .invalidation, .deadLetter, .traceOnly] {
            let outgoingRecord = OutgoingRecord(kind: kind, record: 0xFEDC_BA98)
            #expect(OutgoingRecord(tag: outgoingRecord.tag) == outgoingRecord)
        }
        #expect(OutgoingRecord(tag: 0xFF << 32) == nil)
    }
}
