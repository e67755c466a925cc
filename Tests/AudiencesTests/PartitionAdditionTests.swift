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

    /// Returns the record of a command, which the harness's own partition does not have.
    private func record(
        _ number: Int,
        hasAlert: Bool = false,
        channel: AudienceChannel? = nil
    ) throws -> SimulatedFanout {
        let other = RoundHarness()
        other.appendCommand(number, hasAlert: hasAlert, channel: channel)
        return try #require(other.log.first)
    }

    /// The worker keeps the added partition, so no other worker reads the newest version's record. (R30)
    ///
    /// - Parameter isDraining: the newest version comes while the older one is in flight and its partition is being
    ///   revoked.
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

    /// The newer version is dropped while the older one is in flight. It is read again before the older one has its
    /// response. In the slot of the channel that drains, it must not be taken for a repeated record.
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

    /// A partition is lost, and the lane gets it again while a round or channel of another partition still has its
    /// record. If the record settled as a repeated one, and then the other partition was revoked, nobody would read the
    /// record again.
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
