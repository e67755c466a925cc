import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Records that were passed over leave no trace when they no longer wait. (R30)
@Suite struct PassedOverRecordTests {
    private static let names = SimulatedNames.names[0]
    // Audiences with ids of the same length, so that their records have the same size.
    private static let audience = "match-10"
    private static let passedOverAudience = "match-11"
    private static let laterAudience = "match-13"

    /// The bytes that one record of these tests occupies.
    private static var recordBytes: Int {
        let harness = RoundHarness()
        harness.appendCommand(10, audience)
        return harness.core.fanoutRecordBytes
    }

    /// A round of the first partition has the second record of the added partition. The added partition begins to be
    /// read again, from its first record on. Then the first partition is revoked, and the round drops the second record
    /// before it is read again.
    @Test func `A record that was passed over leaves no trace if it is dropped before it is read again`() {
        // The log of the added partition: a record of app 1, then two records of app 0.
        let addedLogWriter = RoundHarness()
        addedLogWriter.appendCommand(11, Self.passedOverAudience, appIndex: 1)
        addedLogWriter.appendCommand(12, Self.audience)
        addedLogWriter.appendCommand(13, Self.laterAudience)
        let harness = RoundHarness(recordBytesMax: 2 * Self.recordBytes)
        for audience in [Self.audience, Self.laterAudience] { harness.join(Self.names[0], audience) }
        for audience in [Self.audience, Self.passedOverAudience] { harness.join(Self.names[1], audience, appIndex: 1) }

        // Each app begins a round of the first partition. The two records use all the room.
        harness.appendCommand(10, Self.audience)
        harness.appendCommand(10, Self.audience, appIndex: 1)
        harness.performPendingWork()

        // The first record of the added partition is passed over. App 1's round then ends, which makes room for the
        // second record: it joins the round of app 0.
        let addedPartition = harness.addPartition()
        harness.read(addedLogWriter.log[0], at: 0, from: addedPartition)
        #expect(harness.core.passedOverCount(addedPartition) == 1, "there is no room")
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [10])
        harness.read(addedLogWriter.log[1], at: 1, from: addedPartition)
        harness.performPendingWork()
        #expect(harness.core.passedOverCount(addedPartition) == 1, "the round is under way")

        // The added partition begins to be read again. The revocation of the first partition drops the second record.
        #expect(harness.rewindRequest(addedPartition) == PartitionRewind(offset: 0, pauseMilliseconds: 0))
        harness.core.handleRewind(addedPartition, from: 0, now: harness.moment)
        #expect(harness.beginRevoking())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(addedPartition) == 2)

        // The reading goes on from the first record, and the two records are sent.
        harness.advanceClock(milliseconds: 5_000)
        // If the partition was now read from the second record on, the first one would never be read.
        #expect(harness.rewindRequest(addedPartition) == nil)
        harness.read(addedLogWriter.log[0], at: 0, from: addedPartition)
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [11])
        harness.read(addedLogWriter.log[1], at: 1, from: addedPartition)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [12])
        #expect(harness.core.passedOverCount(addedPartition) == 0)
        #expect(harness.gauges.oldestRoundWaitingSinceWallMilliseconds == nil)

        // The third record has room at once, and all three records settle.
        harness.read(addedLogWriter.log[2], at: 2, from: addedPartition)
        #expect(harness.core.passedOverCount(addedPartition) == 0)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [13])
        #expect(harness.core.committableOffset(addedPartition) == 3)
    }

    /// Returns a core that has settled all records below offset 1. The record at offset 1 was passed over, because the
    /// app's other audience takes the room, and the app's host accepts no push. The ledger is full: it has no room for
    /// the record at offset 65.
    private func harnessWithFullLedger() -> RoundHarness {
        let harness = RoundHarness(recordBytesMax: 2 * Self.recordBytes, ledgerSpanOffsetCount: 64)
        for number in [10, 11] { harness.join(Self.names[0], "match-\(number)") }
        harness.join(Self.names[1], appIndex: 1)
        harness.appendCommand(10, "match-10")
        harness.performPendingWork()
        harness.appendCommand(11, "match-11")
        harness.appendCommand(12, "match-10")
        harness.performPendingWork()
        #expect(harness.committableOffset == 1 && harness.passedOverCount == 1)
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        harness.log += Array(repeating: unreadable, count: 62)
        harness.appendCommand(200, appIndex: 1)
        return harness
    }

    /// ``PassedOverRecords`` has only 64 bits here, so offsets 1 and 65 have the same bit. The record at offset 1 was
    /// passed over. Offset 65 does not fit into the ledger, so the core must not read its bit.
    @Test func `A record beyond the ledger is not taken for one that was passed over`() {
        let harness = harnessWithFullLedger()
        harness.performPendingWork()
        #expect(harness.send(appIndex: 1) == [])
        #expect(harness.passedOverCount == 1 && harness.committableOffset == 1)
        var sent: [Int] = []
        for _ in 0..<10 where harness.committableOffset != 66 {
            sent += (harness.sendAndAcceptPushes() + harness.sendAndAcceptPushes(appIndex: 1)).map(\.content)
            harness.advanceClock(milliseconds: 5_000)
            harness.readLog()
        }
        #expect(sent == [12, 11, 200])
        #expect(harness.committableOffset == 66 && harness.passedOverCount == 0)
        #expect(harness.gauges.oldestRoundWaitingSinceWallMilliseconds == nil)
    }

    /// Kafka has deleted the records from offset 65 to 129.
    @Test func `Deleted records beyond the ledger are not taken for ones that were passed over`() {
        let harness = harnessWithFullLedger()
        #expect(harness.rewindRequest(0) == PartitionRewind(offset: 65, pauseMilliseconds: 5_000))
        harness.core.handleRewind(0, from: 65, now: harness.moment)
        harness.read(harness.log[65], at: 130, from: 0)
        #expect(harness.passedOverCount == 1 && harness.committableOffset == 1)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [12])
        harness.advanceClock(milliseconds: 5_000)
        harness.core.handleRewind(0, from: 1, now: harness.moment)
        harness.read(harness.log[1], at: 1, from: 0)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [11])
        harness.read(harness.log[65], at: 130, from: 0)
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [200])
        #expect(harness.committableOffset == 131 && harness.passedOverCount == 0)
    }

    /// The ledger is full, so the partition has stopped at offset 65. The ledger gets room only when the record at
    /// offset 1 settles. So as soon as the core has room for this record, the partition is read again from offset 1 on.
    @Test func `A full ledger does not keep its partition from being read again`() {
        let harness = harnessWithFullLedger()
        #expect(harness.rewindRequest(0) == PartitionRewind(offset: 65, pauseMilliseconds: 5_000))
        harness.core.handleRewind(0, from: 65, now: harness.moment)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [12])
        harness.advanceClock(milliseconds: 5_000)
        harness.read(harness.log[65], at: 65, from: 0)
        #expect(harness.rewindRequest(0) == PartitionRewind(offset: 1, pauseMilliseconds: 0))
    }
}
