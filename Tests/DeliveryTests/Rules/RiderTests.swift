import Delivery
import LiveActivity
import Testing

/// A newer state carries an alert that APNs has not accepted, even if the two commands belong to different workers or
/// partitions. If no newer state comes in time, the alert's command ends as superseded. (R14)
@Suite struct RiderTests {
    // MARK: - The alert of the command that Redis holds

    @Test func `A newer state carries the alert of the held command`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == false)
        core.reply(.alertHeld, held: .alert(1))
        #expect(core.outstandingCalls == ["admit u2"])
        #expect(
            try core.oldestCall.admission?.mayReplaceHeldAlert == true
                && core.oldestCall.admission?.requestsHighPriority == true
        )
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(AlertTests.bodyPrefix(withAlert: 1)))
        core.respond(.accepted)
        #expect(core.outcomes == ["u2 accepted"])
    }

    @Test func `A newer state does not carry the alert of a held command that has expired`() throws {
        let core = CoreHarness()
        core.elapse(1_000)
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(1, beside: ExpirationTests.expirationAtStart))
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == true)
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert") && push.priority == 5)
    }

    @Test func `A held alert that does not fit is reported in the newer state's result`() throws {
        let core = CoreHarness()
        let filler = String(repeating: "x", count: 3_990)
        core.receive(.update(2, beside: #""payload":{"x":"\#(filler)"},"#))
        core.reply(.alertHeld, held: .alert(1))
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == true)
        #expect(
            try core.oldestCall.admission?.mayUseReserve == false
                && core.oldestCall.admission?.requestsHighPriority == false
        )
        core.admitAndRespond()
        #expect(core.results.first?.outcome == "accepted")
        #expect(core.results.first?.reason == "alertDidNotFit")
    }

    @Test(arguments: ["", "{}", "not a command", .update(1)])
    func `If the held command has no alert, the newer state is admitted without one`(held: String) throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: held)
        #expect(core.outstandingCalls == ["admit u2"])
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == true)
    }

    /// Another program wrote the held command, or a newer release. The lane logs the fault.
    @Test func `A held command that cannot be read is reported once`() {
        let (core, registeringCore) = (CoreHarness(), CoreHarness())
        core.receive(.update(2))
        core.reply(.alertHeld, held: "not a command")
        registeringCore.register(CommandText.registration())
        registeringCore.reply(.registered, held: "not a command")
        for core in [core, registeringCore] {
            let (fault, nextFault) = (core.delivery.takeHeldCommandFault(), core.delivery.takeHeldCommandFault())
            #expect(fault != nil && nextFault == nil)
        }
    }

    /// If Redis held the newer state as one with an alert, each later state would need a second admission.
    @Test(arguments: [.alert(-301), .update(1)] as [String])
    func `A state that does not carry the held alert is held without an alert`(held: String) throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: held)
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold u2"])
        #expect(try !core.oldestCall.holdsAlert)
    }

    @Test func `A state that carries the held alert is held with it`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(1))
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold u2"])
        #expect(try core.oldestCall.holdsAlert)
    }

    @Test func `If Redis offers a held alert twice, the newer state fails`() {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(1))
        core.reply(.alertHeld, held: .alert(1))
        #expect(core.outcomes == ["u2 failed"])
    }

    @Test func `A held alert that a state carries moves to the next newer state`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(1))
        core.receive(.update(3))
        core.reply(.wait, waitMilliseconds: 100)
        #expect(core.outcomes == [], "u2 carries the alert now")
        core.elapse(100 + PaceTests.timerPrecisionMilliseconds)
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(AlertTests.bodyPrefix(withAlert: 1)))
        core.respond(.accepted)
        #expect(core.outcomes == ["u3 accepted", "u2 superseded"])
    }

    // MARK: - Superseded by a state that another worker admitted

    /// The update u9 waits behind the start s7, and gets two riders one after the other:
    /// 1. The token of u2 releases the held state u8. This state carries the alert of u2, and becomes the rider of u9.
    /// 2. The alert u5 has waited for a carrier, and is newer. So u5 replaces u8 as the rider of u9.
    ///
    /// Then the update u10 replaces u9, and carries the alert of u5.
    @Test func `A newer alert becomes the rider of a state that already has a rider`() throws {
        let core = CoreHarness()
        supersedeAlertWithToken(2, byHeldUpdate: 8, core)
        core.receive(.alert(5))
        core.receive(.start(7))
        core.receive(.update(9))
        core.reply(.alertAwaitsCarrier)
        releaseHeldUpdate(8, core)
        core.receive(.update(10))
        #expect(core.outcomes == ["u2 superseded", "u8 superseded", "u9 superseded"])
        sendStart(core)
        #expect(core.outcomes.last == "s7 accepted")
        core.elapse(60_000)
        core.reply(.send)
        #expect(
            try #require(core.push()).body.hasPrefix(AlertTests.bodyPrefix(withAlert: 5)),
            "the newer of the two alerts"
        )
    }

    /// Receives an alert with a token. Redis replies that it holds a newer update for this token.
    private func supersedeAlertWithToken(_ second: Int64, byHeldUpdate heldSecond: Int64, _ core: CoreHarness) {
        core.receive(.alert(second, beside: #""token":"ABCDEF0123456789","environment":"production","#))
        core.reply(.alertAwaitsCarrier)
        core.reply(.registered, held: .update(heldSecond))
    }

    /// Lets the superseded alert's record register its token. Redis then releases the held update.
    private func releaseHeldUpdate(_ second: Int64, _ core: CoreHarness) {
        core.acknowledgeAll()
        core.reply(.registered, held: .update(second), toNewest: true)
    }

    private func sendStart(_ core: CoreHarness) {
        core.reply(.tokenFound)
        core.admitAndRespond()
        core.acknowledgeAll()
    }

    @Test func `A superseded alert waits for the state that superseded it`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == [])
        core.elapse(4_000)
        core.receive(.update(2))
        #expect(core.outstandingCalls == ["admit u2"], "u2 is admitted before the rider's time is over")
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(AlertTests.bodyPrefix(withAlert: 1)))
        core.respond(.accepted)
        #expect(core.outcomes == ["u2 accepted", "u1 superseded"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 2)
    }

    @Test func `A superseded alert waits for a carrier only for a limited time`() {
        let core = CoreHarness { $0.carrierWaitMillisecondsMax = 7_000 }
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        core.elapse(6_999)
        #expect(core.outcomes == [])
        #expect(core.nextDueMilliseconds != nil)
        core.elapse(1 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes == ["u1 superseded"])
        core.acknowledgeAll()
        #expect(core.inProgressRecordCount == 0 && core.nextDueMilliseconds == nil)
    }

    @Test func `A spacing does not prolong the wait for a carrier`() {
        let core = CoreHarness { $0.reloadable.policies[0].spacingMilliseconds = 60_000 }
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.alert(2))
        core.respond(.throttled)
        core.acknowledgeSettlements()
        core.elapse(60_000 + PaceTests.timerPrecisionMilliseconds)
        core.reply(.alertAwaitsCarrier)
        core.elapse(10_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes.last == "u2 superseded")
    }

    @Test func `A waiting state carries a superseded alert at once`() {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.receive(.update(2))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == [])
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `Of two superseded alerts, the newer one waits for a carrier`() {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.receive(.alert(2))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == ["u1 superseded"], "u2 has an alert of its own")
        core.reply(.alertAwaitsCarrier)
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == ["u1 superseded", "u1 superseded"])
        core.receive(.alert(3))
        #expect(core.outcomes.last == "u2 superseded")
    }

    @Test func `A superseded alert that comes again is a duplicate`() {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        core.receive(CommandText.update(1, id: "again", alert: true))
        #expect(core.outcomes == ["again duplicate"])
    }

    @Test func `An older state does not take a rider`() throws {
        let core = CoreHarness()
        core.receive(.alert(2))
        core.reply(.alertAwaitsCarrier)
        core.receive(.update(1))
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == false)
        core.reply(.superseded)
        #expect(core.outcomes == ["u1 superseded"])
        core.elapse(10_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outcomes == ["u1 superseded", "u2 superseded"])
    }

    @Test func `A start supersedes an alert of the earlier life that waits for a carrier`() {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        core.receive(.start(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["takeStartToken s2"])
    }

    @Test func `A superseded command without an alert waits for no carrier`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == ["u1 superseded"])
    }

    // MARK: - Partitions

    @Test func `A rider is dropped with its carrier`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.alert(2))
        core.receive(.update(3))
        core.beginRevoking(core.commandsPartition)
        #expect(core.unsettledRecordCount(core.commandsPartition) == 1)
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.isDrained(core.commandsPartition) && core.inProgressRecordCount == 0)
        #expect(core.committableOffset == 1)
    }

    @Test func `A waiting rider is dropped with its partition`() {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.alertAwaitsCarrier)
        core.beginRevoking(core.commandsPartition)
        #expect(core.isDrained(core.commandsPartition) && core.inProgressRecordCount == 0)
        core.elapse(20_000)
        #expect(core.outcomes == [] && core.nextDueMilliseconds == nil)
    }

    @Test func `A superseded alert whose partition leaves is left to the next owner`() {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.beginRevoking(core.commandsPartition)
        core.reply(.alertAwaitsCarrier)
        #expect(core.outcomes == [])
        #expect(core.isDrained(core.commandsPartition) && core.inProgressRecordCount == 0)
        #expect(core.committableOffset == 0)
    }

    /// The rider is the released command u2. It belongs to the registration's record, whose partition stays. Its
    /// carrier u3 is in the partition that is revoked.
    @Test func `A rider whose carrier's partition leaves is sent by itself`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.register(CommandText.registration())
        core.receive(.update(3))
        core.reply(.registered, held: .alert(2), toNewest: true)
        core.beginRevoking(core.commandsPartition)
        core.reply(.unchanged)
        #expect(core.outstandingCalls == ["admit u2"])
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == true)
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 unchanged", "u2 accepted"])
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A carrier continues without a rider whose partition leaves`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.register(CommandText.registration())
        core.receive(.update(3))
        core.reply(.registered, held: .alert(2), toNewest: true)
        core.beginRevoking(core.registrationsPartition)
        #expect(core.isDrained(core.registrationsPartition))
        core.reply(.unchanged)
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(AlertTests.bodyPrefix(withAlert: 2)))
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 unchanged", "u3 accepted"])
        #expect(core.committableOffset(core.registrationsPartition) == 0, "the next owner reads the registration again")
    }

    /// The update u4 carries the alert of u3, and APNs limits the push of u4. Then the partition is revoked and
    /// assigned again, and u3 and u4 are read again. When the old record of u4 ends, the new record of u3 must not
    /// settle with it.
    @Test func `A push that carries an alert of an earlier assignment does not finish its record`() throws {
        let core = CoreHarness()
        core.receive(.alert(3), .update(4))
        core.admitAndRespond(.throttled)
        core.beginRevoking(core.commandsPartition)
        core.release(core.commandsPartition)
        let reassignedPartition = core.assign(.commands)
        core.receive(.alert(3), .update(4), .update(5), partition: reassignedPartition)
        core.acknowledgeSettlements()
        #expect(core.outcomes == ["u4 superseded", "u4 superseded"])
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(core.outcomes.suffix(2) == ["u5 accepted", "u3 superseded"])
    }

    /// Two records have the alert u2: the command's own record, and the registration that released the command. The
    /// newer state u4 carries the alert and is not sent yet. If the core settled u2 in Redis now, the alert could be
    /// lost.
    @Test func `An alert that a newer state already carries is not settled`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: .alert(2))
        core.receive(.alert(2), .update(4))
        core.admitAndRespond(.throttled)
        core.acknowledgeSettlements()
        core.elapseSpacing()
        #expect(core.outcomes.first == "u2 superseded")
        #expect(!core.settlements.contains("u2 notShown"))
        core.admitAndRespond()
        #expect(core.settlements.last == "u4 accepted")
    }

    /// The command u2 superseded u1 while u1 waited for a stream. Then the partition of u2 is revoked, and the core
    /// drops u2. Now u1 must wait for a token like any other command, and must not settle as superseded.
    @Test func `A rider that is sent by itself again is held like any other command`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: .alert(1))
        core.reply(.send)
        core.receive(.update(2))
        core.elapse(1_000)
        #expect(core.push() == nil, "the newer u2 can be sent at once, so u1 is not sent")
        #expect(core.outstandingCalls == ["admit u2"])
        core.reply(.wait, waitMilliseconds: 500)
        core.beginRevoking(core.commandsPartition)
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.noToken)
        core.reply(.held)
        #expect(core.outcomes == ["u1 held"])
        #expect(core.settlements == [])
    }
}
