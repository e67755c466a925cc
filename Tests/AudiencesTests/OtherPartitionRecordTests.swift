import ActivityStore
import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// After partitions were added to the fan-out topic, a round or channel may have records of several partitions. It
/// still loses no state and no alert, and all its records settle. The first test has only one partition, whose ledger
/// has no room for the newest record.
@Suite struct OtherPartitionRecordTests {
    private static func makeChannel() throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: .newest,
            identifier: try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        )
    }

    private func makeRecord(
        _ number: Int,
        hasAlert: Bool = false,
        channel: AudienceChannel? = nil,
        laterBy milliseconds: Int64 = 0
    ) throws -> SimulatedFanout {
        let recordWriter = RoundHarness()
        recordWriter.nowMilliseconds += milliseconds
        recordWriter.appendCommand(number, hasAlert: hasAlert, channel: channel)
        return try #require(recordWriter.log.first)
    }

    @Test func `A round does not wait for a record that the full ledger has no room for`() throws {
        let harness = RoundHarness(ledgerSpanOffsetCount: 64)
        for name in SimulatedNames.names[0].prefix(4) { harness.join(name) }
        harness.appendCommand(10)
        harness.performPendingWork()
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        harness.log += Array(repeating: unreadable, count: 63)
        harness.readLog()
        harness.admit(0, timestamp: RoundHarness.startSeconds + 11)
        harness.appendCommand(11)
        #expect(harness.send(atMost: 1).map(\.content) == [10] && harness.committableOffset == 0)
        harness.respondToPushes()
        // The partition is read again every 5 s. This must not make the round wait again.
        for _ in 0..<60 {
            harness.advanceClock(milliseconds: 1_000)
            harness.readLog()
            harness.sendAndAcceptPushes()
        }
        #expect(harness.committableOffset == 65)
    }

    /// The previous owner had version 2 under way, but read its record in another partition. Meanwhile records of this
    /// partition come all the time. (R4)
    @Test func `In a busy partition, a round waits ten minutes for the versions of its previous owner`() throws {
        var checkpoint = Checkpoint(completedPosition: 0, newestSettledVersion: Version.zero)
        checkpoint.entries = ([1, 2] as [Int64])
            .map { Version(timestamp: RoundHarness.startSeconds + $0, sequence: 0) }
            .map { Checkpoint.Entry(version: $0, startPosition: 0) }
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.storeCheckpoint(try #require(checkpoint.encode()))
        harness.appendCommand(1)
        harness.performPendingWork()
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        func passTime(seconds: Int) {
            for _ in 0..<seconds / 5 {
                harness.advanceClock(milliseconds: 5_000)
                harness.log.append(unreadable)
                harness.readLog()
            }
        }
        passTime(seconds: 595)
        let phase = harness.core.rounds[harness.firstRound].phase
        #expect(phase == .awaitingVersions && harness.committableOffset == 0)
        passTime(seconds: 10)
        #expect(harness.sendAndAcceptPushes().isEmpty, "the members of version 1 get version 2 from another worker")
        #expect(harness.core.roundCount == 0 && harness.committableOffset == Int64(harness.log.count))
    }

    @Test func `A broadcast and its rider survive when their partition is reassigned and the channel's is revoked`()
        throws
    {
        let channel = try Self.makeChannel()
        let older = try makeRecord(2, hasAlert: true, channel: channel)
        let newest = try makeRecord(3, channel: channel)
        let harness = RoundHarness()
        harness.appendCommand(1, channel: channel)
        harness.performPendingWork()
        let addedPartition = harness.addPartition()
        harness.read(older, from: addedPartition)
        harness.read(newest, at: 1, from: addedPartition)
        harness.performPendingWork()
        harness.core.release(partition: addedPartition, now: harness.moment)
        let reassignedPartition = harness.addPartition()
        harness.read(older, from: reassignedPartition)
        harness.read(newest, at: 1, from: reassignedPartition)
        harness.performPendingWork()
        #expect(harness.core.committableOffset(reassignedPartition) == 0)
        #expect(harness.beginRevoking())
        harness.core.release(partition: 0, now: harness.moment)
        harness.core.handleRewind(reassignedPartition, from: 0, now: harness.moment)
        harness.read(older, from: reassignedPartition)
        harness.read(newest, at: 1, from: reassignedPartition)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.content) == [3] && sent.map(\.alert) == [2])
    }

    /// Redis had lost the audience. So the core sends the broadcast with a higher timestamp than its record has.
    @Test func `A broadcast with a raised timestamp survives a new assignment of its partition`() throws {
        let channel = try Self.makeChannel()
        let newest = try makeRecord(2, channel: channel, laterBy: 1_000)
        let harness = RoundHarness()
        harness.appendCommand(1, channel: channel, grantedTimestamp: RoundHarness.startSeconds + 100)
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
        harness.core.handleRewind(reassignedPartition, from: 0, now: harness.moment)
        harness.read(newest, from: reassignedPartition)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
    }

    /// The round's partition is released while a push is in flight. The round drops the older version only when the
    /// response to this push comes: before or after the newer version.
    @Test(arguments: [false, true])
    func `A newer version waits for an older one that an abandoned round still has`(isReadAfterResponse: Bool) throws {
        let older = try makeRecord(2, hasAlert: true)
        let newest = try makeRecord(3)
        let harness = RoundHarness()
        for name in SimulatedNames.names[0].prefix(3) { harness.join(name) }
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send(atMost: 1).count == 1)
        let addedPartition = harness.addPartition()
        harness.read(older, from: addedPartition)
        harness.performPendingWork()
        harness.core.beginRevoking(0, now: harness.moment)
        harness.performPendingWork()
        harness.core.release(partition: 0, now: harness.moment)
        if isReadAfterResponse { harness.respondToPushes() }
        harness.read(newest, at: 1, from: addedPartition)
        harness.performPendingWork()
        if !isReadAfterResponse { harness.respondToPushes() }
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<40 {
            harness.advanceClock(milliseconds: 1_000)
            if let rewind = harness.rewindRequest(addedPartition) {
                harness.core.handleRewind(addedPartition, from: rewind.offset, now: harness.moment)
                if rewind.offset == 0 { harness.read(older, from: addedPartition) }
                harness.read(newest, at: 1, from: addedPartition)
            }
            sent += harness.sendAndAcceptPushes()
        }
        #expect(sent.map(\.content) == [3, 3, 3] && sent.map(\.alert) == [2, 2, 2])
        #expect(harness.core.committableOffset(addedPartition) == 2)
    }

    /// The round's last checkpoint is being recorded when the round's partition is revoked.
    @Test func `A closing round of a revoked partition takes no record`() throws {
        let newest = try makeRecord(2, hasAlert: true)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        harness.respondToPushes(performsWork: false)
        let lastCheckpoint = try #require(harness.performWorkUntilClosing())
        let addedPartition = harness.addPartition()
        harness.core.beginRevoking(0, now: harness.moment)
        harness.read(newest, from: addedPartition)
        #expect(harness.core.passedOverCount(addedPartition) == 1)
        harness.reply(to: lastCheckpoint)
        harness.performPendingWork()
        #expect(harness.send().isEmpty && harness.isDrained(0))
        harness.core.release(partition: 0, now: harness.moment)
        let rewind = try #require(harness.rewindRequest(addedPartition))
        harness.core.handleRewind(addedPartition, from: rewind.offset, now: harness.moment)
        harness.read(newest, from: addedPartition)
        #expect(harness.sendAndAcceptPushes().map(\.alert) == [2])
    }

    /// While the worker claims the round, the core has no room for the other partition's record. Later the round's own
    /// partition brings new records all the time.
    @Test func `A restored round does not wait for a version that was passed over in another partition`() throws {
        // The only range has all 256 segments, each with `1 << 32` positions.
        let positionsPerLap = UInt64(1) << 40
        var checkpoint = Checkpoint(
            completedPosition: positionsPerLap / 2,
            newestSettledVersion: Version.zero
        )
        checkpoint.entries = [
            Checkpoint.Entry(version: Version(timestamp: RoundHarness.startSeconds + 1, sequence: 0), startPosition: 0),
            Checkpoint.Entry(
                version: Version(timestamp: RoundHarness.startSeconds + 2, sequence: 0),
                startPosition: positionsPerLap / 4
            ),
        ]
        let text = try #require(checkpoint.encode())
        let newest = try makeRecord(2)
        // This harness only shows how many bytes a record takes.
        let measuringHarness = RoundHarness()
        measuringHarness.appendCommand(1)
        let harness = RoundHarness(recordBytesMax: 2 * measuringHarness.core.fanoutRecordBytes)
        let names = SimulatedNames.names[0]
        for name in names.prefix(8) { harness.join(name) }
        harness.join(names[9], appIndex: 1)
        harness.storeCheckpoint(text)
        harness.appendCommand(1, appIndex: 1)
        harness.performPendingWork()
        harness.appendCommand(1)
        let addedPartition = harness.addPartition()
        harness.read(newest, from: addedPartition)
        #expect(harness.core.passedOverCount(addedPartition) == 1)
        harness.performPendingWork()
        let unreadable = SimulatedFanout(value: [], instruction: harness.log[0].instruction)
        var sent: [Int] = []
        for _ in 0..<10 {
            harness.advanceClock(milliseconds: 5_000)
            harness.log.append(unreadable)
            harness.readLog()
            if let rewind = harness.rewindRequest(addedPartition) {
                harness.core.handleRewind(addedPartition, from: rewind.offset, now: harness.moment)
                harness.read(newest, from: addedPartition)
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
