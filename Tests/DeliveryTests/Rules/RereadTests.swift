import Delivery
import LiveActivity
import Testing

/// After a loss of Redis, settled records are read again to write what Redis has lost. They ring no alert and start
/// nothing. They get a second result only if they are sent or held this time. (R25)
@Suite struct RereadTests {
    /// Returns a core that reads offsets 0 and 1 of the commands and of the registrations again.
    func makeRereadingCore() -> CoreHarness {
        let core = CoreHarness()
        core.reread(below: 2)
        return core
    }

    @Test func `A state that Redis does not know is sent without its alert`() throws {
        let core = makeRereadingCore()
        core.receive(.alert(1))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert"))
        core.respond(.accepted)
        #expect(core.outcomes == ["u1 accepted"])
    }

    /// Redis has lost the sent timestamps, so Redis must raise the next one (R11). The admission therefore says that
    /// the command is read again.
    @Test func `The admission of a command says that it is read again`() throws {
        let core = makeRereadingCore()
        core.receive(.update(1))
        #expect(try core.oldestCall.admission?.isReread == true)
        core.reply(.send)
        core.receive(.update(2, of: "b"), .update(3, of: "c"))
        #expect(core.calls.map { $0.admission?.isReread } == [true, false])
    }

    @Test func `An alert that was not settled rings`() throws {
        let core = makeRereadingCore()
        core.receive(.update(1), .update(2, of: "b"), CommandText.update(3, of: "c", alert: true))
        for _ in 0..<3 { core.reply(.send) }
        let bodies = [core.push(), core.push(), core.push()].compactMap { $0?.body }
        #expect(bodies.count { $0.contains("alert") } == 1)
    }

    /// The commit's metadata names the records that settled above a waiting record. These records also count as read
    /// again.
    @Test func `A record that settled above a waiting one counts as read again`() throws {
        let previousCore = CoreHarness()
        previousCore.receive(.update(1), .update(2, of: "b"))
        previousCore.reply(.duplicate, toNewest: true)
        previousCore.acknowledgeAll()
        let committedProgress = previousCore.delivery.composeProgress(previousCore.commandsPartition)
        let progress = try #require(committedProgress)
        #expect(progress.committableOffset == 0)
        let core = CoreHarness()
        core.reread(below: progress.committableOffset, metadata: progress.metadata)
        core.receive(CommandText.update(1, alert: true), CommandText.update(2, of: "b", alert: true))
        for _ in 0..<2 { core.reply(.send) }
        let bodies = [core.push(), core.push()].compactMap { $0?.body }
        #expect(bodies.map { $0.contains("alert") } == [true, false])
    }

    /// Another loss of Redis, or another owner, may come before the lane has read these records again. Without their
    /// names, they would then be new records: their starts would be sent twice.
    @Test func `A commit names the records that are not settled again yet`() throws {
        let core = CoreHarness()
        core.reread(below: 1, metadata: SettledOffsetsText.encode([2..<4], above: 1))
        func namedOffsets() throws -> (ranges: [Range<Int64>]?, areAllSettled: Bool) {
            let newestProgress = core.delivery.composeProgress(core.commandsPartition)
            let progress = try #require(newestProgress)
            let ranges = progress.metadata.withUnsafeBytes {
                SettledOffsetsText.decode($0, committedOffset: progress.committableOffset)
            }
            return (ranges, progress.areRereadRecordsSettled)
        }
        core.receive(.update(1))
        #expect(try namedOffsets() == ([2..<4], false))
        core.reply(.duplicate)
        core.acknowledgeAll()
        core.receive(.update(2, of: "b"), .update(3, of: "c"))
        #expect(core.committableOffset == 1)
        #expect(try namedOffsets() == ([2..<4], false))
        core.reply(.duplicate, toNewest: true)
        core.receive(.update(4, of: "d"))
        core.reply(.duplicate, toNewest: true)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
        #expect(try namedOffsets() == ([2..<4], true))
    }

    @Test func `A start that is read again is recorded, not sent`() {
        let core = makeRereadingCore()
        core.receive(.start(1))
        #expect(core.outstandingCalls.isEmpty && core.settlements == ["s1 recorded"] && core.committableOffset == 0)
        core.acknowledgeSettlement()
        #expect(core.outcomes.isEmpty && core.committableOffset == 1)
        core.receive(.update(2), .start(3, of: "b"))
        #expect(core.outstandingCalls == ["admit u2", "takeStartToken b.s3"])
    }

    /// Redis admits an update that is older than eight hours only if Redis knows a version of the activity. So this old
    /// start must not give Redis a version.
    @Test func `A start that is too old is not recorded`() {
        let core = makeRereadingCore()
        core.receive(.start(-28_801))
        #expect(core.settlements.isEmpty && core.committableOffset == 1)
    }

    @Test(arguments: [StoreVerdict.duplicate, .superseded, .unchanged, .ended])
    func `A command that Redis knows has no second result`(verdict: StoreVerdict) {
        let core = makeRereadingCore()
        core.receive(.update(1))
        core.reply(verdict)
        core.acknowledgeAll()
        #expect(core.outcomes.isEmpty && core.committableOffset == 1)
    }

    /// The command has a result already, or another command's result has counted it.
    @Test func `A command that is read again is not counted again`() {
        let core = CoreHarness { $0.supersededResults = .counted }
        core.reread(below: 2)
        core.receive(.update(1), .update(2), .update(3), .update(4))
        core.admitAndRespond()
        #expect(core.results.map { "\($0.command) \($0.outcome) \($0.supersededCount)" } == ["u4 accepted 1"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 4)
    }

    @Test func `A command that is held again has a result`() {
        let core = makeRereadingCore()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(.held)
        #expect(core.outcomes == ["u1 held"])
    }

    @Test func `An invalid record that is read again has no second dead letter`() {
        let core = makeRereadingCore()
        core.receive("{}")
        core.acknowledgeAll()
        #expect(core.deadLetters.isEmpty && core.outcomes.isEmpty && core.committableOffset == 1)
    }

    @Test func `A registration is written again if its activity can still be alive`() {
        let core = makeRereadingCore()
        core.register(CommandText.registration(at: -43_201))
        #expect(core.outstandingCalls.isEmpty && core.committableOffset(core.registrationsPartition) == 1)
        core.register(CommandText.registration(at: -43_199))
        #expect(core.outstandingCalls.count == 1)
        core.reply(.registered)
        // The same is true for a registration that is read for the first time, as offset 2 is.
        core.register(CommandText.registration(at: -43_201))
        #expect(core.outstandingCalls.isEmpty && core.committableOffset(core.registrationsPartition) == 3)
        core.register(CommandText.registration(at: -43_199))
        #expect(core.outstandingCalls.count == 1)
    }

    /// The phone's clock is a day behind, so the registration's own time is a day ago. Its record is recent.
    @Test(arguments: [false, true])
    func `A wrong clock of the phone makes no registration too old`(isReread: Bool) {
        let core = isReread ? makeRereadingCore() : CoreHarness()
        for recordAgeSeconds in [43_201, 43_200] as [Int64] {
            core.receiveOne(
                CommandText.registration(at: -86_400),
                partition: core.registrationsPartition,
                recordTimestampMilliseconds: (CoreHarness.startSeconds - recordAgeSeconds) * 1_000
            )
        }
        core.endBatch()
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    /// For each activity that Redis does not know, `unregisterActivity` would store a value: one for each activity that
    /// ever ended, if the whole topic is read.
    @Test(
        arguments: [
            (ageSeconds: 43_200, calls: ["unregisterActivity a", "unregisterDevice a"]),
            (43_201, ["unregisterDevice a"]), (90 * 86_400, ["unregisterDevice a"]), (90 * 86_400 + 1, []),
        ] as [(ageSeconds: Int64, calls: [String])],
        [false, true]
    )
    func `An old tombstone unregisters only what can still be alive`(
        tombstone: (ageSeconds: Int64, calls: [String]),
        isReread: Bool
    ) {
        let core = isReread ? makeRereadingCore() : CoreHarness()
        core.receiveOne(
            nil,
            key: "a",
            partition: core.registrationsPartition,
            recordTimestampMilliseconds: (CoreHarness.startSeconds - tombstone.ageSeconds) * 1_000
        )
        core.endBatch()
        #expect(core.outstandingCalls == tombstone.calls)
        for _ in tombstone.calls { core.reply(.unregistered) }
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.recordsAwaitingStoreCount == 0)
    }

    /// Redis has lost the token, so it has held a command that is newer than the registration after the loss. The alert
    /// has not rung yet, and `accepted` is a new result.
    @Test func `A newer command that a reread registration releases has a result, and keeps its alert`() throws {
        let core = makeRereadingCore()
        core.register(CommandText.registration())
        core.reply(.registered, held: .alert(1))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.contains("alert"))
        core.respond(.accepted)
        #expect(core.outcomes == ["u1 accepted"])
    }

    /// Redis was restored from a copy that is older than the registration, which has released the command already.
    @Test func `An older command that a reread registration releases again rings no second time`() throws {
        let core = makeRereadingCore()
        core.register(CommandText.registration(at: 2))
        core.reply(.registered, held: .alert(1))
        #expect(try core.oldestCall.admission?.isReread == true)
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert"))
    }

    /// Redis then gives such an alert to no later command. The record may be later than its `registeredAt`.
    @Test(arguments: [(recordAt: 1, releasedUntil: 2), (recordAt: 5, releasedUntil: 5)])
    func `A reread registration says until when it may have released alerts`(
        recordAt: Int64,
        releasedUntil: Int64
    ) throws {
        let core = makeRereadingCore()
        core.receiveOne(
            CommandText.registration(at: 2),
            partition: core.registrationsPartition,
            recordTimestampMilliseconds: (CoreHarness.startSeconds + recordAt) * 1_000
        )
        core.endBatch()
        let releasedUntilMilliseconds = (CoreHarness.startSeconds + releasedUntil) * 1_000
        guard case .register(_, _, _, let source, _) = try core.oldestCall.operation else {
            Issue.record("\(try core.oldestCall)")
            return
        }
        let expectedSource = RegistrationSource.reread(
            alertsReleasedUntilMilliseconds: releasedUntilMilliseconds,
            writtenAtMilliseconds: releasedUntilMilliseconds
        )
        #expect(source == expectedSource)
    }

    @Test func `An older start that a reread registration releases again is recorded, not sent`() {
        let core = makeRereadingCore()
        core.register(CommandText.deviceRegistration())
        for activity in ["x", "y"] {
            core.reply(.registered, held: .start(-1, of: activity))
            #expect(core.outstandingCalls.isEmpty && core.settlements.last == "\(activity).s-1 recorded")
            core.acknowledgeSettlements()
            #expect(core.settlements.last == "\(activity).s-1 notShown (device)")
            #expect(core.outstandingCalls == ["registerToken \(activity)"])
        }
        core.reply(.registered, held: .start(1, of: "z"))
        #expect(core.outstandingCalls == ["takeStartToken z.s1"], "this start was held after the loss")
        #expect(core.outcomes.isEmpty)
    }

    /// An older registration cannot have released the held command before the loss. For example, this lane held the
    /// command after the loss, and then the registration and the same command were read again.
    @Test(arguments: [(held: 1, carries: true), (held: 0, carries: false), (held: -1, carries: false)])
    func `A command that is read again carries a held alert only if it is newer than the registration`(
        held: Int64,
        carries: Bool
    ) throws {
        let core = makeRereadingCore()
        core.receive(.update(2))
        core.reply(.alertHeld, held: .alert(held))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.contains("alert") == carries)
    }

    /// The command was first held after the loss, and got an alert that Redis still held. A registration that is newer
    /// than the alert has released the alert before the loss.
    @Test(arguments: [(alert: 1, rings: false), (alert: 2, rings: false), (alert: 3, rings: true)])
    func `A newer command that a reread registration releases loses an alert that is older`(
        alert: Int64,
        rings: Bool
    ) throws {
        let core = makeRereadingCore()
        core.register(CommandText.registration(at: 2))
        core.reply(.registered, held: Self.makeCarrier(4, ofAlert: alert))
        let admission = try core.oldestCall.admission
        #expect(admission?.isReread == false)
        #expect(admission?.mayReplaceHeldAlert == true, "otherwise Redis could offer an alert that it still holds")
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.contains("alert") == rings)
        core.respond(.accepted)
        #expect(core.outcomes == ["u4 accepted"])
    }

    @Test(arguments: [(alert: 1, carries: true), (alert: 0, carries: false)])
    func `A command that is read again does not carry on an alert that is older than the registration`(
        alert: Int64,
        carries: Bool
    ) throws {
        let core = makeRereadingCore()
        core.receive(.update(3))
        core.reply(.alertHeld, held: Self.makeCarrier(2, ofAlert: alert))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.contains("alert") == carries)
    }

    /// Returns the update of this second as Redis holds it with the alert of an older command.
    private static func makeCarrier(_ second: Int64, ofAlert alertSecond: Int64) -> String {
        let alertTimestamp = CoreHarness.startSeconds + alertSecond
        return .alert(second, beside: #""alertTimestamp":\#(alertTimestamp),"alertSequence":0,"#)
    }
}
