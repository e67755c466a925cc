import Delivery
import LiveActivity
import Testing

/// Starts of several activities are held for one push-to-start token. A registration releases them one after the other,
/// and each start gets its outcome.
@Suite struct HeldStartTests {
    @Test func `A start beyond the limit of held starts fails at once`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.noToken)
        core.reply(.full)
        #expect(core.outcomes == ["s1 failed"])
        #expect(core.results.first?.reason == "heldStartsFull")
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
    }

    @Test func `A registration releases held starts one after the other`() throws {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        for activity in ["x", "y"] {
            core.reply(.registered, held: .start(1, of: activity))
            #expect(
                core.outstandingCalls == ["takeStartToken \(activity).s1"],
                "each start draws on the device's budget"
            )
            core.reply(.tokenFound)
            core.admitAndRespond()
            core.acknowledgeOutgoingRecords()
            #expect(core.outstandingCalls == [], "Redis still holds this start")
            core.acknowledgeSettlements()
            #expect(core.outstandingCalls == ["registerToken \(activity)"])
            let call = try core.oldestCall
            #expect(call.subject.kind == .device && call.subject.identifier == Array("d".utf8))
            #expect(call.previousHeldStart?.activity == Array(activity.utf8))
            #expect(call.registration?.token == Array(CoreHarness.token.utf8))
            #expect(call.registration?.registeredAtMilliseconds == TokenTests.startMilliseconds)
        }
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.reply(.registered)
        #expect(core.outcomes == ["x.s1 accepted", "y.s1 accepted"])
        #expect(core.settlements.filter { $0.hasSuffix("(device)") }.count == 2)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test(arguments: [StoreVerdict.duplicate, .superseded, .ended])
    func `A held start that is not sent is held no longer`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1))
        core.reply(.tokenFound)
        core.reply(verdict)
        core.acknowledgeSettlements()
        let isSettledForDevice = { core.settlements.contains { $0.hasSuffix("(device)") } }
        #expect(
            !isSettledForDevice(),
            "if the worker died now, another one would read the record again and write the result"
        )
        core.acknowledgeAll()
        #expect(isSettledForDevice())
        #expect(core.outstandingCalls == ["registerToken a"])
    }

    @Test func `A held start that finds no token after all stays held`() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1))
        core.reply(.noToken)
        core.reply(.held)
        #expect(core.settlements == [])
        core.acknowledgeAll()
        #expect(core.outstandingCalls == [])
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `Held starts of a dead token wait for the next token`() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410, invalidAt: TokenTests.startMilliseconds + 1)
        core.acknowledgeAll()
        #expect(core.outcomes == ["s1 unregistered"])
        #expect(core.outstandingCalls == [])
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A held start that waits for the budget is left to the next owner`() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1))
        core.reply(.wait, waitMilliseconds: 60_000)
        core.beginRevoking(core.registrationsPartition)
        #expect(core.isDrained(core.registrationsPartition))
        #expect(core.outcomes == [] && core.settlements == [])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `The token that a start brings releases the held starts after it`() {
        let core = CoreHarness()
        core.receive(.start(2, beside: #""token":"ABCDEF0123456789","environment":"production","#))
        core.reply(.tokenFound)
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(core.committableOffset == 0)
        core.reply(.registered, held: .start(1, of: "x"))
        core.reply(.tokenFound)
        core.admitAndRespond()
        core.acknowledgeAll()
        core.reply(.registered)
        #expect(core.outcomes == ["s2 accepted", "x.s1 accepted"])
        #expect(core.committableOffset == 1)
    }

    /// The first registration has released a start, which waits for the budget. A second registration releases the same
    /// start.
    @Test func `A held start that two records released is settled by only one of them`() throws {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1))
        core.reply(.wait, waitMilliseconds: 60_000)
        core.register(CommandText.deviceRegistration())
        core.reply(.registered, held: .start(1))
        #expect(core.outcomes == ["s1 duplicate"])
        #expect(core.settlements == [], "the start that waits for the budget is not sent yet")
        core.acknowledgeAll()
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(
            try core.oldestCall.previousHeldStart != nil,
            "the call asks for the next held start, not for this one again"
        )
    }

    /// Redis releases the same start again and again. The core ends this after 16 times, so that the
    /// registration can settle.
    @Test func `A held start that Redis releases again and again is dropped`() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        var resultCount = 0
        while core.inProgressRecordCount > 0, resultCount < 100 {
            core.reply(.registered, held: .start(1))
            core.reply(.tokenFound)
            core.reply(.duplicate)
            core.acknowledgeAll()
            resultCount += 1
        }
        #expect(core.outcomes.count == 16)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }
}
