import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A round or channel belongs to the partition of its first record. After partitions were added to the fan-out topic,
/// it may have records of another partition too.
@Suite struct PartitionAdditionTests {
    private func read(_ record: SimulatedFanout, from partition: UInt32, by harness: RoundHarness) {
        record.value.withUnsafeBytes { value in
            harness.core.receive(
                IncomingRecord(
                    partition: partition,
                    offset: 0,
                    timestampMilliseconds: harness.nowMilliseconds,
                    key: nil,
                    value: value
                ),
                instruction: record.instruction,
                now: harness.moment
            )
        }
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
        let channel = AudienceChannel(
            environment: .production,
            storage: .newest,
            identifier: try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        )
        let other = RoundHarness()
        other.appendCommand(2, channel: usesChannel ? channel : nil)
        let newest = try #require(other.log.first)
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1, channel: usesChannel ? channel : nil)
        harness.performPendingWork()
        let assigned = harness.core.assign(number: 1)
        let added = try #require(assigned)
        if isDraining {
            #expect(harness.send().map(\.content) == [1])
            #expect(!harness.revoke())
        }
        read(newest, from: added, by: harness)
        if isDraining { harness.respondToPushes() }
        #expect(harness.revoke())
        harness.core.release(partition: 0, now: harness.moment)
        #expect(harness.core.passedOverCount(added) == 1 && harness.core.committableOffset(added) == 0)
        let rereading = harness.core.rereadRequest(added, now: harness.moment)
        #expect(rereading == FanoutRereading(offset: 0, pauseMilliseconds: 0))
        harness.core.rereadingBegan(added, from: 0, now: harness.moment)
        read(newest, from: added, by: harness)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [2])
        #expect(harness.core.passedOverCount(added) == 0 && harness.core.committableOffset(added) == 1)
    }

    /// The last owner read the newest version's record from another partition, so the next owner waits for a record that
    /// does not come. The result of an older version is acknowledged after this wait, but before the round's timer fires.
    /// Then nothing is left, and the round ends within the acknowledgement.
    @Test func `A round whose wait is over ends with its last acknowledgement`() throws {
        var checkpoint = Checkpoint(watermark: 0, newestSettledVersion: Version(timestamp: 0, sequence: 0))
        let newestVersion = Version(timestamp: 1_790_000_002, sequence: 0)
        checkpoint.entries = [Checkpoint.Entry(version: newestVersion, startPosition: 0)]
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.storeCheckpoint(try #require(checkpoint.encode()))
        harness.appendCommand(1)
        harness.core.endBatch(now: harness.moment)
        while let call = harness.nextCall() { harness.reply(to: call) }
        var results: [OutgoingAudienceRecord] = []
        while let result = harness.core.nextOutgoingRecord(now: harness.moment) {
            results.append(result)
            harness.core.outgoingRecordTaken()
        }
        #expect(results.count == 2 && harness.nextCall() == nil && harness.core.roundsInProgress == 1)
        harness.nowMilliseconds += 60_000
        for result in results { harness.core.outgoingRecordReported(result, .acknowledged, now: harness.moment) }
        harness.performPendingWork()
        #expect(harness.core.roundsInProgress == 0 && harness.core.recordsInProgress == 0)
        #expect(harness.committableOffset == 1)
    }
}
