import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Rounds and channels that have records of several partitions, as after partitions were added to the fan-out topic, and
/// rounds whose newest record does not fit into the ledger: no state and no alert is lost, and all records settle.
@Suite struct OtherPartitionRecordTests {
    private static func channel() throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: .newest,
            identifier: try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        )
    }

    private func record(
        _ number: Int,
        hasAlert: Bool = false,
        channel: AudienceChannel? = nil,
        laterBy milliseconds: Int64 = 0
    ) throws -> SimulatedFanout {
        let other = RoundHarness()
        other.nowMilliseconds += milliseconds
        other.appendCommand(number, hasAlert: hasAlert, channel: channel)
        return try #require(other.log.first)
    }

    @Test func `A round does not wait for a record that the full ledger has no room for`() throws {
        let harness = RoundHarness(ledgerWindowOffsets: 64)
        for name in SimulatedNames.names[0].prefix(4) { harness.join(name) }
        harness.appendCommand(10)
        harness.performPendingWork()
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        harness.log += Array(repeating: unreadable, count: 63)
        harness.readLog()
        harness.admit(0, timestamp: 1_790_000_011)
        harness.appendCommand(11)
        #expect(harness.send(atMost: 1).map(\.content) == [10] && harness.committableOffset == 0)
        harness.respondToPushes()
        // The partition is read again every 5 s, and no such reading may begin the wait again.
        for _ in 0..<60 {
            harness.advanceClock(milliseconds: 1_000)
            harness.readLog()
            harness.sendAndAcceptPushes()
        }
        #expect(harness.committableOffset == 65)
    }

    @Test func `A broadcast and its rider of a partition that was lost and assigned again survive the channel`() throws
    {
        let channel = try Self.channel()
        let older = try record(2, hasAlert: true, channel: channel)
        let newest = try record(3, channel: channel)
        let harness = RoundHarness()
        harness.appendCommand(1, channel: channel)
        harness.performPendingWork()
        let added = harness.addPartition()
        harness.read(older, from: added)
        harness.read(newest, at: 1, from: added)
        harness.performPendingWork()
        harness.core.release(partition: added, now: harness.moment)
        let again = harness.addPartition()
        harness.read(older, from: again)
        harness.read(newest, at: 1, from: again)
        harness.performPendingWork()
        #expect(harness.core.committableOffset(again) == 0)
        #expect(harness.revoke())
        harness.core.release(partition: 0, now: harness.moment)
        harness.core.rereadingBegan(again, from: 0, now: harness.moment)
        harness.read(older, from: again)
        harness.read(newest, at: 1, from: again)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.content) == [3] && sent.map(\.alert) == [2])
    }

    /// Redis had lost the audience, so the core raised the broadcast's timestamp above the one of its record.
    @Test func `A broadcast with a raised timestamp survives a new assignment of its partition`() throws {
        let channel = try Self.channel()
        let newest = try record(2, channel: channel, laterBy: 1_000)
        let harness = RoundHarness()
        harness.appendCommand(1, channel: channel, grantedTimestamp: 1_790_000_100)
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
        harness.core.rereadingBegan(again, from: 0, now: harness.moment)
        harness.read(newest, from: again)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
    }

    /// The round's partition is released while a push is in flight. The round drops the older version only with the
    /// response to this push, which comes before or after the newer version.
    @Test(arguments: [false, true])
    func `A newer version waits for an older one that an abandoned round still has`(isReadAfterResponse: Bool) throws {
        let older = try record(2, hasAlert: true)
        let newest = try record(3)
        let harness = RoundHarness()
        for name in SimulatedNames.names[0].prefix(3) { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send(atMost: 1).count == 1)
        let added = harness.addPartition()
        harness.read(older, from: added)
        harness.performPendingWork()
        harness.core.beginRevoking(0, now: harness.moment)
        harness.performPendingWork()
        harness.core.release(partition: 0, now: harness.moment)
        if isReadAfterResponse { harness.respondToPushes() }
        harness.read(newest, at: 1, from: added)
        harness.performPendingWork()
        if !isReadAfterResponse { harness.respondToPushes() }
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<40 {
            harness.advanceClock(milliseconds: 1_000)
            if let request = harness.rereadRequest(added) {
                harness.core.rereadingBegan(added, from: request.offset, now: harness.moment)
                if request.offset == 0 { harness.read(older, from: added) }
                harness.read(newest, at: 1, from: added)
            }
            sent += harness.sendAndAcceptPushes()
        }
        #expect(sent.map(\.content) == [3, 3, 3] && sent.map(\.alert) == [2, 2, 2])
        #expect(harness.core.committableOffset(added) == 2)
    }

    /// The round's last checkpoint is being recorded when the round's partition is revoked.
    @Test func `A closing round of a revoked partition takes no record`() throws {
        let newest = try record(2, hasAlert: true)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        harness.respondToPushes(performsWork: false)
        let lastCheckpoint = try #require(harness.performWorkUntilClosing())
        let added = harness.addPartition()
        harness.core.beginRevoking(0, now: harness.moment)
        harness.read(newest, from: added)
        #expect(harness.core.passedOverCount(added) == 1)
        harness.reply(to: lastCheckpoint)
        harness.performPendingWork()
        #expect(harness.send().isEmpty && harness.isDrained(0))
        harness.core.release(partition: 0, now: harness.moment)
        let request = try #require(harness.rereadRequest(added))
        harness.core.rereadingBegan(added, from: request.offset, now: harness.moment)
        harness.read(newest, from: added)
        #expect(harness.sendAndAcceptPushes().map(\.alert) == [2])
    }

    /// The record has no room while the round is being claimed, and the round's partition brings records all the time.
    @Test func `A restored round does not wait for a version that was passed over in another partition`() throws {
        let lap = UInt64(1) << 40
        var checkpoint = Checkpoint(watermark: lap / 2, newestSettledVersion: Version(timestamp: 0, sequence: 0))
        checkpoint.entries = [
            Checkpoint.Entry(version: Version(timestamp: 1_790_000_001, sequence: 0), startPosition: 0),
            Checkpoint.Entry(version: Version(timestamp: 1_790_000_002, sequence: 0), startPosition: lap / 4),
        ]
        let text = try #require(checkpoint.encode())
        let newest = try record(2)
        let measured = RoundHarness()
        measured.appendCommand(1)
        let harness = RoundHarness(recordBytesMax: 2 * measured.core.recordBytes)
        let names = SimulatedNames.names[0]
        for name in names.prefix(8) { harness.join(name) }
        harness.join(names[9], appIndex: 1)
        harness.storeCheckpoint(text)
        harness.appendCommand(1, appIndex: 1)
        harness.performPendingWork()
        harness.appendCommand(1)
        let added = harness.addPartition()
        harness.read(newest, from: added)
        #expect(harness.core.passedOverCount(added) == 1)
        harness.performPendingWork()
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        var sent: [Int] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 5_000)
            harness.log.append(unreadable)
            harness.readLog()
            if let request = harness.rereadRequest(added) {
                harness.core.rereadingBegan(added, from: request.offset, now: harness.moment)
                harness.read(newest, from: added)
            }
            sent += harness.sendAndAcceptPushes().map(\.content)
        }
        #expect(sent.contains(2))
    }
}

extension RoundHarness {
    /// Replies to the core's calls and acknowledges its records until the first record has settled. Returns the next
    /// call without a reply: it records the round's last checkpoint. Returns nil if the core makes no such call.
    fileprivate func performWorkUntilClosing() -> AudienceCall<[UInt8]>? {
        for _ in 0..<20 {
            core.endBatch(now: moment)
            core.advance(now: moment)
            while let call = nextCall() {
                if committableOffset == 1 { return call }
                reply(to: call)
            }
            acknowledgeOutgoingRecords()
        }
        return nil
    }
}
