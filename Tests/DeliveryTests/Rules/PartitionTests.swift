import Delivery
import LiveActivity
import Testing

/// When a partition is revoked, the core drops its waiting records, and the next owner reads them again. The core
/// continues the records that Redis or APNs already has, until they need another attempt. It finishes a start that
/// Redis has admitted, or defers it if its pool accepts nothing. (R9, R10)
@Suite struct PartitionTests {
    @Test func `Waiting records are dropped without an outcome when their partition is revoked`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2))
        core.receive(.update(1, of: "b"))
        core.reply(.wait, waitMilliseconds: 900)
        core.beginRevoking(core.commandsPartition)
        #expect(core.unsettledRecordCount(core.commandsPartition) == 1)
        core.elapseSpacing()
        #expect(core.outstandingCalls == [])
        #expect(core.outcomes == [])
    }

    @Test func `Pushes in flight settle before the partition leaves`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.beginRevoking(core.commandsPartition)
        #expect(!core.isDrained(core.commandsPartition))
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.committableOffset == 1)
    }

    @Test func `A command that Redis decides about continues to its result`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.beginRevoking(core.commandsPartition)
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
    }

    @Test func `A revoked partition receives nothing`() {
        let core = CoreHarness()
        core.beginRevoking(core.commandsPartition)
        core.receive(.update(1))
        #expect(core.inProgressRecordCount == 0)
        #expect(core.isDrained(core.commandsPartition))
    }

    @Test(arguments: [PushResult.Disposition.retrySoon, .retryLater, .ambiguous])
    func `A push of a revoked partition is not repeated by this worker`(disposition: PushResult.Disposition) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.beginRevoking(core.commandsPartition)
        core.respond(disposition)
        #expect(core.outcomes == [])
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.committableOffset == 0, "the next owner reads u1 again")
        core.elapse(60_000)
        #expect(core.push() == nil)
        #expect(core.outstandingCalls == [])
    }

    @Test func `A push that backs off is dropped at once`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.admitAndRespond(.retrySoon)
        core.beginRevoking(core.commandsPartition)
        #expect(core.isDrained(core.commandsPartition))
        core.elapseSpacing()
        #expect(core.push() == nil)
        #expect(core.inProgressRecordCount == 0)
    }

    /// Redis permits the start to this worker alone, so this worker must finish it. The next owner would only
    /// report `unknown`.
    @Test(arguments: [PushResult.Disposition.retrySoon, .retryLater])
    func `A start that backs off is finished by the worker that Redis permitted to send it`(
        disposition: PushResult.Disposition
    ) {
        let core = CoreHarness()
        core.receive(.start(1), .update(2))
        core.reply(.tokenFound)
        core.admitAndRespond(disposition)
        core.beginRevoking(core.commandsPartition)
        #expect(core.unsettledRecordCount(core.commandsPartition) == 1, "the update is dropped")
        // The first back-off is at most 400 ms, the second one at most 800 ms.
        core.elapse(410)
        core.admitAndRespond(disposition)
        core.elapse(810)
        core.admitAndRespond()
        #expect(core.outcomes == ["s1 accepted"])
        core.acknowledgeAll()
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.committableOffset == 1)
    }

    /// While the start backed off, the next owner reported it as `unknown`, and a later command reached the activity.
    /// If this worker now sent the start, the phone would get a second activity.
    @Test func `A start that backs off is not sent when Redis no longer admits it`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.admitAndRespond(.throttled)
        core.beginRevoking(core.commandsPartition)
        core.delivery.release(partition: core.commandsPartition, now: core.now)
        core.elapse(410)
        #expect(core.outstandingCalls == ["admit s1"])
        core.reply(.superseded)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["s1 superseded"])
        #expect(
            core.settlements == ["s1 notShown", "s1 notShown (device)"],
            "the start keeps its draw, and is settled for the activity and the device"
        )
    }

    @Test func `A revocation does not stop the activity's command in another partition`() {
        let core = CoreHarness()
        let secondPartition = core.assign(.commands, number: 1)
        core.receive(.update(1))
        core.admitAndRespond(.retrySoon)
        core.receive(.start(2), partition: secondPartition)
        core.beginRevoking(core.commandsPartition)
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["takeStartToken s2"])
    }

    @Test func `A released command is left to the next owner of its registration`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.beginRevoking(core.registrationsPartition)
        core.reply(.registered, held: .update(1))
        #expect(core.outstandingCalls == [])
        #expect(core.isDrained(core.registrationsPartition))
        #expect(core.committableOffset(core.registrationsPartition) == 0)
    }

    @Test func `A command released for a lost registration is not mixed up with the new registration`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.update(1, of: "b"))
        core.register(CommandText.deviceRegistration())
        core.release(core.registrationsPartition)
        let reassignedPartition = core.assign(.registrations)
        core.receiveOne(CommandText.deviceRegistration(), partition: reassignedPartition)
        core.endBatch()
        core.receive(.update(2))
        core.reply(.unchanged)
        core.reply(.registered, held: .start(1))
        core.reply(.registered, held: .start(1))
        core.reply(.noToken)
        core.reply(.held)
        #expect(core.outcomes == ["b.u1 unchanged", "u2 held"])
        #expect(core.outstandingCalls == ["takeStartToken s1"])
    }

    /// The push names the record's slot until its response comes, so the next assignment must not use this
    /// slot. (R8)
    @Test func `A push that completes after its partition was lost does not count for the next assignment`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.release(core.commandsPartition)
        #expect(core.committableOffset == nil)
        let reassignedPartition = core.assign(.commands)
        #expect(reassignedPartition == core.commandsPartition, "the core uses the index again")
        core.receive(.update(1, of: "b"))
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.committableOffset == 0)
        #expect(core.unsettledRecordCount(core.commandsPartition) == 1)
        core.reply(.unchanged)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
    }

    @Test func `A lost partition leaves no records and no timers in the core`() {
        let core = CoreHarness()
        core.receive(.update(1), .start(1, of: "b"), .update(2, of: "b"))
        core.release(core.commandsPartition)
        core.reply(.noToken)
        core.reply(.tokenFound)
        core.reply(.held)
        core.admitAndRespond(.rejected)
        core.acknowledgeAll()
        core.elapse(60_000)
        #expect(core.inProgressRecordCount == 0)
        #expect(core.nextDueMilliseconds == nil)
    }

    @Test func `A record that is delivered again is dropped`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receiveOne(.update(1, of: "b"), partition: core.commandsPartition, offset: 0)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit u1"])
        #expect(core.unsettledRecordCount(core.commandsPartition) == 1)
    }

    @Test func `A record of a partition that is not assigned is dropped`() {
        let core = CoreHarness()
        let unassignedPartition: UInt32 = 77
        core.receive(.update(1), partition: unassignedPartition)
        #expect(core.inProgressRecordCount == 0)
        #expect(core.hasRoom(for: 5, partition: unassignedPartition))
        #expect(core.committableOffset(unassignedPartition) == nil)
    }

    @Test func `A lane accepts a limited number of partitions`() {
        let core = CoreHarness { $0.ledgerSpanOffsetCount = 64 }
        for number in 2..<4_096 { _ = core.assign(.commands, number: Int32(number)) }
        #expect(core.delivery.assign(topic: .commands, number: 4_096) == nil)
    }
}
