import LiveActivity
import Testing

@testable import Delivery

/// A partition moves to its next owner, which reads it from the committed offset on. For example, the record at offset
/// 0 waits, and the record at offset 1 is settled. Then the committed offset is 0, and the commit's metadata names
/// offset 1. The next owner works on the first record again, and skips the second. (R10)
///
/// The exception: the metadata does not name a settled record that must be read again together with another record.
@Suite struct NextOwnerTests {
    /// Revokes the partition of commands, and assigns it again with the committed offset and metadata, which `spoil`
    /// may change. Returns how many settled offsets the core took from the metadata; nil if it refused the metadata.
    private func passToNextOwner(
        _ core: CoreHarness,
        logEndOffset: Int64 = .max,
        spoil: (inout [UInt8]) -> Void = { _ in }
    )
        throws
        -> Int?
    {
        core.beginRevoking(core.commandsPartition)
        core.acknowledgeAll()
        #expect(core.isDrained(core.commandsPartition))
        let committedProgress = core.delivery.composeProgress(core.commandsPartition)
        var progress = try #require(committedProgress)
        spoil(&progress.metadata)
        core.release(core.commandsPartition)
        let reassignedPartition = core.assign(.commands)
        #expect(reassignedPartition == core.commandsPartition)
        core.elapse(60_000)
        let offset = progress.committableOffset
        return progress.metadata.withUnsafeBytes {
            core.delivery.restoreSettledOffsets(
                reassignedPartition,
                at: offset,
                metadata: $0,
                logEndOffset: logEndOffset
            )
        }
    }

    /// Returns a core in which `b` waits for its spacing. The committed offset cannot pass the record of `b`, although
    /// the next record, an alert, is settled.
    private func coreWithAlertSettledAboveWaitingRecord() -> CoreHarness {
        let core = CoreHarness()
        core.receive(.update(1, of: "b"))
        core.reply(.wait, waitMilliseconds: 900)
        core.receive(.alert(1))
        core.admitAndRespond()
        core.acknowledgeAll()
        core.receive(.update(2))
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.committableOffset == 0)
        return core
    }

    private func receiveAgain(_ core: CoreHarness) {
        core.receive(.update(1, of: "b"), .alert(1), .update(2))
    }

    @Test func `An alert that settled above a waiting record rings once`() throws {
        let core = coreWithAlertSettledAboveWaitingRecord()
        #expect(try passToNextOwner(core) == 1)
        receiveAgain(core)
        #expect(core.inProgressRecordCount == 2, "the settled record is skipped")
        #expect(core.outstandingCalls == ["admit b.u1", "admit u2"])
        core.admitAndRespond()
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted", "b.u1 accepted", "u2 accepted"])
        #expect(core.delivery.carriedAlertCount == 0)
        #expect(core.committableOffset == 3)
    }

    @Test func `Settled offsets beyond the end of the log are not trusted`() throws {
        let core = coreWithAlertSettledAboveWaitingRecord()
        #expect(try passToNextOwner(core, logEndOffset: 1) == 0)
        receiveAgain(core)
        #expect(core.inProgressRecordCount == 3)
    }

    @Test func `Unreadable metadata is refused, and everything is read again`() throws {
        let core = coreWithAlertSettledAboveWaitingRecord()
        #expect(try passToNextOwner(core) { $0[0] = UInt8(ascii: "9") } == nil)
        receiveAgain(core)
        #expect(core.inProgressRecordCount == 3)
    }

    @Test func `Skipped records stay settled for the owner after the next`() throws {
        let core = coreWithAlertSettledAboveWaitingRecord()
        #expect(try passToNextOwner(core) == 1)
        core.receive(.update(1, of: "b"))
        core.reply(.wait, waitMilliseconds: 900)
        #expect(
            try passToNextOwner(core) == 1,
            "this owner had not read the settled record, and still names its offset"
        )
        receiveAgain(core)
        #expect(core.inProgressRecordCount == 2)
    }

    /// The first registration released u1, and u1 is in progress. So the next owner must read both registrations again.
    /// If it read only the first one, u1 would be lost: Redis has a newer token, so the first one would release
    /// nothing.
    @Test func `A registration whose command is in progress is read again with the earlier one`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration(at: 1))
        core.reply(.registered, held: .update(1))
        core.reply(.wait, waitMilliseconds: 900)
        core.register(CommandText.registration(at: 2))
        core.reply(.registered, held: .update(1))
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 duplicate"])
        let progress = core.delivery.composeProgress(core.registrationsPartition)
        #expect(progress == PartitionProgress(committableOffset: 0, metadata: []))
    }

    /// The command u1 of activity `a` gave its token to u2 in memory only. If a worker read only u2 again, the token
    /// would be lost.
    @Test func `A command that passed on its token is read again with the newer command`() throws {
        let core = CoreHarness()
        let token = #""token":"\#(CoreHarness.token)","environment":"production","#
        core.receive(.update(1, of: "b"), .update(1, beside: token), .update(2))
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 superseded"])
        let progress = core.delivery.composeProgress(core.commandsPartition)
        #expect(progress == PartitionProgress(committableOffset: 0, metadata: []))
    }

    @Test func `A partition whose new owner has read no record has nothing to commit`() throws {
        let core = coreWithAlertSettledAboveWaitingRecord()
        #expect(try passToNextOwner(core) == 1)
        let progress = core.delivery.composeProgress(core.commandsPartition)
        #expect(progress == nil)
    }
}
