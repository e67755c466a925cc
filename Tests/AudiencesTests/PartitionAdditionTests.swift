import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A round or channel belongs to the partition of its first record. After partitions were added to the fan-out topic,
/// it may have records of another partition too.
@Suite struct PartitionAdditionTests {
    private static func channel() throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: .newest,
            identifier: try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        )
    }

    /// Returns a command's record for an added partition. The log of the test's harness, which is for its own
    /// partition, does not have this record.
    private func record(
        _ number: Int,
        hasAlert: Bool = false,
        channel: AudienceChannel? = nil
    ) throws -> SimulatedFanout {
        let other = RoundHarness()
        other.appendCommand(number, hasAlert: hasAlert, channel: channel)
        return try #require(other.log.first)
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
        let channel = usesChannel ? try Self.channel() : nil
        let newest = try record(2, channel: channel)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1, channel: channel)
        harness.performPendingWork()
        let added = harness.addPartition()
        if isDraining {
            #expect(harness.send().map(\.content) == [1])
            #expect(!harness.revoke())
        }
        harness.read(newest, from: added)
        if isDraining { harness.respondToPushes() }
        #expect(harness.revoke())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(added) == 1 && harness.core.committableOffset(added) == 0)
        let rereading = harness.rereadRequest(added)
        #expect(rereading == FanoutRereading(offset: 0, pauseMilliseconds: 0))
        harness.core.rereadingBegan(added, from: 0, now: harness.moment)
        harness.read(newest, from: added)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(harness.core.passedOverCount(added) == 0 && harness.core.committableOffset(added) == 1)
    }

    /// The channel's partition is being revoked while the older version is in flight, so the channel drops the newer
    /// version. The newer version's record is then read again before the older version has its response. The channel
    /// must not take this record for a repeated one, because the channel sends nothing more.
    @Test func `A broadcast that is read again while its channel drains is sent later`() throws {
        let newest = try record(2, channel: try Self.channel())
        let harness = RoundHarness()
        harness.appendCommand(1, channel: try Self.channel())
        harness.performPendingWork()
        #expect(harness.send().map(\.content) == [1])
        let added = harness.addPartition()
        harness.read(newest, from: added)
        #expect(!harness.revoke())
        #expect(harness.core.passedOverCount(added) == 1)
        harness.core.rereadingBegan(added, from: 0, now: harness.moment)
        harness.read(newest, from: added)
        harness.performPendingWork()
        #expect(harness.core.passedOverCount(added) == 1 && harness.core.committableOffset(added) == 0)
        harness.respondToPushes()
        #expect(harness.revoke())
        harness.core.release(partition: 0, now: harness.moment)
        harness.core.rereadingBegan(added, from: 0, now: harness.moment)
        harness.read(newest, from: added)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(harness.core.passedOverCount(added) == 0 && harness.core.committableOffset(added) == 1)
    }

    /// The round is revoked before the store has replied to its claim, so it does not know the last owner's
    /// checkpoint. A version that joined it would make it record a checkpoint of its own.
    @Test func `A record that comes while a round drains leaves the last checkpoint as it is`() throws {
        let lap = UInt64(1) << 40
        var checkpoint = Checkpoint(watermark: 2 * lap, newestSettledVersion: Version(timestamp: 0, sequence: 0))
        checkpoint.entries = [
            Checkpoint.Entry(version: Version(timestamp: 1_790_000_001, sequence: 0), startPosition: lap)
        ]
        let text = try #require(checkpoint.encode())
        let newest = try record(2)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.storeCheckpoint(text)
        harness.appendCommand(1)
        let added = harness.addPartition()
        harness.core.beginRevoking(0, now: harness.moment)
        harness.read(newest, from: added)
        harness.performPendingWork()
        #expect(harness.isDrained(0))
        harness.core.release(partition: 0, now: harness.moment)
        let range = try #require(SegmentRange(index: 0, rangeCount: 1))
        #expect(harness.store.perform(harness.call(.claim(range, claim: 2))).bytes == text)
    }

    /// Version 2 was dropped with a round of the first partition, which this worker then gets again. The next round of
    /// that partition must not take version 3 before version 2 is read again, because members would miss the alert of
    /// version 2. (R14, R30)
    @Test func `A newer version waits for an older one that was dropped`() throws {
        let older = try record(2, hasAlert: true)
        let newest = try record(3)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        let added = harness.addPartition()
        harness.read(older, from: added)
        #expect(harness.revoke())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(added) == 1)
        harness.read(harness.log[0], from: harness.addPartition())
        harness.performPendingWork()
        harness.read(newest, at: 1, from: added)
        #expect(harness.core.passedOverCount(added) == 2)
        harness.core.rereadingBegan(added, from: 0, now: harness.moment)
        harness.read(older, from: added)
        harness.read(newest, at: 1, from: added)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.content) == [3] && sent.map(\.alert) == [2])
        #expect(harness.core.passedOverCount(added) == 0 && harness.core.committableOffset(added) == 2)
    }

    /// There is no room for version 2, and then its partition is revoked. So this worker does not get version 2 any
    /// more, and version 3 must not wait for it.
    @Test func `A record that was passed over in another partition holds back no version`() throws {
        let older = try record(2)
        let measured = RoundHarness()
        measured.appendCommand(1)
        let harness = RoundHarness(recordBytesMax: 2 * measured.core.recordBytes)
        let names = SimulatedNames.names[0]
        harness.join(names[0])
        harness.join(names[1], appIndex: 1)
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().map(\.content) == [1])
        harness.respondToPushes(.throttled)
        harness.appendCommand(1, appIndex: 1)
        harness.performPendingWork()
        let added = harness.addPartition()
        harness.read(older, from: added)
        #expect(harness.core.passedOverCount(added) == 1, "the other app has the room")
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [1])
        harness.core.beginRevoking(added, now: harness.moment)
        #expect(harness.isDrained(added))
        harness.core.release(partition: added, now: harness.moment)
        harness.appendCommand(3)
        #expect(harness.passedOverCount == 0)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [3])
        #expect(harness.committableOffset == 3)
    }

    /// The lane loses the added partition and gets it again. A round or channel of the first partition still has the
    /// record that was read before. If the record now settled as a repeated one, a later revocation of the first
    /// partition would drop its state, and nobody would read the record again.
    @Test(arguments: [false, true])
    func `A record stays unsettled while a record of an earlier assignment stands for it`(usesChannel: Bool) throws {
        let channel = usesChannel ? try Self.channel() : nil
        let newest = try record(2, channel: channel)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1, channel: channel)
        harness.performPendingWork()
        let added = harness.addPartition()
        harness.read(newest, from: added)
        harness.core.release(partition: added, now: harness.moment)
        let again = harness.addPartition()
        harness.read(newest, from: again)
        harness.performPendingWork()
        #expect(harness.core.committableOffset(again) == 0)
        #expect(harness.revoke())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(again) == 1)
        harness.core.rereadingBegan(again, from: 0, now: harness.moment)
        harness.read(newest, from: again)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(harness.core.passedOverCount(again) == 0 && harness.core.committableOffset(again) == 1)
    }
}
