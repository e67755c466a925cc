import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A round or channel belongs to the partition of its first record. After partitions were added to the fan-out topic,
/// it may have records of another partition too.
@Suite struct PartitionAdditionTests {
    private static func makeChannel() throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: .newest,
            identifier: try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        )
    }

    /// Returns a command's record for an added partition. The test's harness has only its own partition's log, so
    /// another harness writes this record.
    private func makeRecord(
        _ number: Int,
        hasAlert: Bool = false,
        channel: AudienceChannel? = nil
    ) throws -> SimulatedFanout {
        let recordWriter = RoundHarness()
        recordWriter.appendCommand(number, hasAlert: hasAlert, channel: channel)
        return try #require(recordWriter.log.first)
    }

    /// The first partition, which has the round or channel, is revoked. The newest version's record is in the added
    /// partition. The worker keeps this partition, so no other worker reads the record. (R30)
    ///
    /// - Parameter isDraining: whether the newest version comes while the first partition is being revoked and the
    ///   older version is in flight.
    @Test(arguments: [false, true], [false, true])
    func `A version is sent although the partition of its round or channel is revoked`(
        usesChannel: Bool,
        isDraining: Bool
    ) throws {
        let channel = usesChannel ? try Self.makeChannel() : nil
        let newest = try makeRecord(2, channel: channel)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1, channel: channel)
        harness.performPendingWork()
        let addedPartition = harness.addPartition()
        if isDraining {
            #expect(harness.send().map(\.content) == [1])
            #expect(!harness.beginRevoking())
        }
        harness.read(newest, from: addedPartition)
        if isDraining { harness.respondToPushes() }
        #expect(harness.beginRevoking())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(
            harness.core.passedOverCount(addedPartition) == 1 && harness.core.committableOffset(addedPartition) == 0
        )
        let rewind = harness.rewindRequest(addedPartition)
        #expect(rewind == PartitionRewind(offset: 0, pauseMilliseconds: 0))
        harness.core.handleRewind(addedPartition, from: 0, now: harness.moment)
        harness.read(newest, from: addedPartition)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(
            harness.core.passedOverCount(addedPartition) == 0 && harness.core.committableOffset(addedPartition) == 1
        )
    }

    /// 1. The channel's partition is being revoked while version 1 is in flight. So the channel drops version 2.
    /// 2. The record of version 2 is read again before APNs responds to version 1. The channel sends nothing more, so
    ///    it must not settle this record as a repeated one.
    @Test func `A broadcast that is read again while its channel drains is sent later`() throws {
        let newest = try makeRecord(2, channel: try Self.makeChannel())
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try Self.makeChannel())
        harness.performPendingWork()
        #expect(harness.send().map(\.content) == [1])
        let addedPartition = harness.addPartition()
        harness.read(newest, from: addedPartition)
        #expect(!harness.beginRevoking())
        #expect(harness.core.passedOverCount(addedPartition) == 1)
        harness.core.handleRewind(addedPartition, from: 0, now: harness.moment)
        harness.read(newest, from: addedPartition)
        harness.performPendingWork()
        #expect(
            harness.core.passedOverCount(addedPartition) == 1 && harness.core.committableOffset(addedPartition) == 0
        )
        harness.respondToPushes()
        #expect(harness.beginRevoking())
        harness.core.release(partition: 0, now: harness.moment)
        harness.core.handleRewind(addedPartition, from: 0, now: harness.moment)
        harness.read(newest, from: addedPartition)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(
            harness.core.passedOverCount(addedPartition) == 0 && harness.core.committableOffset(addedPartition) == 1
        )
    }

    /// The partition is revoked before the store has replied to the round's claim. So the round does not know the last
    /// owner's checkpoint. If it took the newest version, it would record a checkpoint of its own.
    @Test func `A record that comes while a round drains leaves the last checkpoint as it is`() throws {
        // The only range has all 256 segments, each with `1 << 32` positions.
        let positionsPerLap = UInt64(1) << 40
        var checkpoint = Checkpoint(
            completedPosition: 2 * positionsPerLap,
            newestSettledVersion: Version.zero
        )
        checkpoint.entries = [
            Checkpoint.Entry(
                version: Version(timestamp: RoundHarness.startSeconds + 1, sequence: 0),
                startPosition: positionsPerLap
            )
        ]
        let text = try #require(checkpoint.encode())
        let newest = try makeRecord(2)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.storeCheckpoint(text)
        harness.appendCommand(1)
        let addedPartition = harness.addPartition()
        harness.core.beginRevoking(0, now: harness.moment)
        harness.read(newest, from: addedPartition)
        harness.performPendingWork()
        #expect(harness.isDrained(0))
        harness.core.release(partition: 0, now: harness.moment)
        let range = try #require(SegmentRange(index: 0, rangeCount: 1))
        #expect(harness.store.perform(harness.makeCall(.claim(range, claim: 2))).bytes == text)
    }

    /// A round of the first partition dropped version 2. Then the worker gets this partition again. The next round must
    /// not take version 3 before version 2 is read again. Otherwise members would miss the alert of version 2. (R14,
    /// R30)
    @Test func `A newer version waits for an older one that was dropped`() throws {
        let older = try makeRecord(2, hasAlert: true)
        let newest = try makeRecord(3)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        let addedPartition = harness.addPartition()
        harness.read(older, from: addedPartition)
        #expect(harness.beginRevoking())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(addedPartition) == 1)
        harness.read(harness.log[0], from: harness.addPartition())
        harness.performPendingWork()
        harness.read(newest, at: 1, from: addedPartition)
        #expect(harness.core.passedOverCount(addedPartition) == 2)
        harness.core.handleRewind(addedPartition, from: 0, now: harness.moment)
        harness.read(older, from: addedPartition)
        harness.read(newest, at: 1, from: addedPartition)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.content) == [3] && sent.map(\.alert) == [2])
        #expect(
            harness.core.passedOverCount(addedPartition) == 0 && harness.core.committableOffset(addedPartition) == 2
        )
    }

    /// There is no room for version 2, and then its partition is revoked. So this worker never gets version 2, and
    /// version 3 must not wait for it.
    @Test func `A record that was passed over in another partition holds back no version`() throws {
        let older = try makeRecord(2)
        // This harness only shows how many bytes a record takes.
        let measuringHarness = RoundHarness()
        measuringHarness.appendCommand(1)
        let harness = RoundHarness(recordBytesMax: 2 * measuringHarness.core.fanoutRecordBytes)
        let names = SimulatedNames.names[0]
        harness.join(names[0])
        harness.join(names[1], appIndex: 1)
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().map(\.content) == [1])
        harness.respondToPushes(.throttled)
        harness.appendCommand(1, appIndex: 1)
        harness.performPendingWork()
        let addedPartition = harness.addPartition()
        harness.read(older, from: addedPartition)
        #expect(harness.core.passedOverCount(addedPartition) == 1, "the other app has the room")
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [1])
        harness.core.beginRevoking(addedPartition, now: harness.moment)
        #expect(harness.isDrained(addedPartition))
        harness.core.release(partition: addedPartition, now: harness.moment)
        harness.appendCommand(3)
        #expect(harness.passedOverCount == 0)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [3])
        #expect(harness.committableOffset == 3)
    }

    /// 1. A round or channel of the first partition has a record of the added partition.
    /// 2. The lane loses the added partition, gets it again, and reads the record again. This record must not settle as
    ///    a repeated one now.
    /// 3. The first partition may be revoked later, which drops the record's state. If the record had settled, nobody
    ///    would read it again.
    @Test(arguments: [false, true])
    func `A record stays unsettled while the same record of an earlier assignment is in progress`(usesChannel: Bool)
        throws
    {
        let channel = usesChannel ? try Self.makeChannel() : nil
        let newest = try makeRecord(2, channel: channel)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1, channel: channel)
        harness.performPendingWork()
        let addedPartition = harness.addPartition()
        harness.read(newest, from: addedPartition)
        harness.core.release(partition: addedPartition, now: harness.moment)
        let reassignedPartition = harness.addPartition()
        harness.read(newest, from: reassignedPartition)
        harness.performPendingWork()
        #expect(harness.core.committableOffset(reassignedPartition) == 0)
        #expect(harness.beginRevoking())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(reassignedPartition) == 1)
        harness.core.handleRewind(reassignedPartition, from: 0, now: harness.moment)
        harness.read(newest, from: reassignedPartition)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(
            harness.core.passedOverCount(reassignedPartition) == 0
                && harness.core.committableOffset(reassignedPartition) == 1
        )
    }
}
