import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A producer need not key its records by audience, so commands of one audience may come from several partitions. If
/// some of these partitions are revoked, the core drops only the waiting commands from these partitions.
@Suite struct DroppedCommandTests {
    private struct ReturnedRecord: Equatable {
        var record: UInt32
        var ending: HandoverResult
    }

    private func takeReturnedRecords(_ harness: RoundHarness) -> [ReturnedRecord] {
        var returnedRecords: [ReturnedRecord] = []
        while let command = harness.core.takeReturnedCommand() {
            returnedRecords.append(ReturnedRecord(record: command.record.rawValue, ending: command.handoverResult))
        }
        return returnedRecords
    }

    /// Two commands that wait; the newer one carries the alert of the older one.
    private func harnessWithCarriedAlert() -> RoundHarness {
        let harness = RoundHarness()
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(2, .update)
        return harness
    }

    @Test func `If only the carrier of an alert is dropped, the alert's command is sent itself`() throws {
        let harness = harnessWithCarriedAlert()
        harness.core.dropWaitingCommands { $0.rawValue == 2 }
        #expect(takeReturnedRecords(harness) == [ReturnedRecord(record: 2, ending: .dropped)])
        harness.performPendingWork()
        #expect(takeReturnedRecords(harness) == [ReturnedRecord(record: 1, ending: .fannedOut)])
        let record = try #require(harness.producedRecords.first)
        #expect(record.contains(#""c":1"#) && record.contains(#""alert""#))
    }

    /// The carrier waits before a start. Behind the start, the older command would be superseded, and its alert lost.
    @Test func `An alert's command takes over its carrier's position before a start`() {
        let harness = harnessWithCarriedAlert()
        harness.handOver(3, .start, expirationSeconds: harness.nowMilliseconds / 1_000 + 3_600)
        harness.core.dropWaitingCommands { $0.rawValue == 2 }
        #expect(takeReturnedRecords(harness) == [ReturnedRecord(record: 2, ending: .dropped)])
        harness.performPendingWork()
        harness.advanceClock(milliseconds: 60_000)
        let returns = takeReturnedRecords(harness)
        #expect(returns.map(\.record) == [1, 3] && returns.allSatisfy { $0.ending == .fannedOut })
    }

    @Test func `A command and the carrier of its alert are dropped together`() {
        let harness = harnessWithCarriedAlert()
        harness.core.dropWaitingCommands { _ in true }
        let returns = takeReturnedRecords(harness)
        #expect(Set(returns.map(\.record)) == [1, 2] && returns.allSatisfy { $0.ending == .dropped })
        harness.performPendingWork()
        #expect(harness.instructions.isEmpty)
    }

    @Test func `A carrier whose partition stays keeps the alert`() throws {
        let harness = harnessWithCarriedAlert()
        harness.core.dropWaitingCommands { $0.rawValue == 1 }
        #expect(takeReturnedRecords(harness) == [])
        harness.performPendingWork()
        let endings = takeReturnedRecords(harness)
        #expect(endings.contains(ReturnedRecord(record: 2, ending: .fannedOut)))
        #expect(endings.contains(ReturnedRecord(record: 1, ending: .outcome(.superseded))))
        #expect(try #require(harness.producedRecords.first).contains(#""alert""#))
    }

    /// Returns a harness in which the carrier of an alert is admitted, and waits for its audience's channel.
    private func harnessWithCarrierAwaitingChannel(isChannelPossiblyLost: Bool) -> RoundHarness {
        let harness = RoundHarness(channelRule: AudienceChannelRule(patterns: ["*"], environments: [.production]))
        if isChannelPossiblyLost { harness.core.membersLastCompleteAtMilliseconds = .min }
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(2, .update)
        harness.performPendingWork()
        #expect(harness.instructions.isEmpty && harness.core.commandsAwaitingChannelCount == 1)
        return harness
    }

    /// Redis would supersede the alert's command, and the next owner of the carrier does not know the alert.
    @Test func `A carrier that waits for its channel is sent if the alert's command stays`() throws {
        let harness = harnessWithCarrierAwaitingChannel(isChannelPossiblyLost: false)
        harness.core.dropWaitingCommands { $0.rawValue == 2 }
        harness.performPendingWork()
        let endings = takeReturnedRecords(harness)
        #expect(endings.contains(ReturnedRecord(record: 2, ending: .fannedOut)))
        #expect(endings.contains(ReturnedRecord(record: 1, ending: .outcome(.superseded))))
        #expect(try #require(harness.producedRecords.first).contains(#""alert""#))
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    /// The activities on the channel would miss the state. The next owner waits until the channel is restored.
    @Test func `A carrier whose channel is perhaps lost is dropped although the alert's command stays`() {
        let harness = harnessWithCarrierAwaitingChannel(isChannelPossiblyLost: true)
        harness.core.dropWaitingCommands { $0.rawValue == 2 }
        #expect(takeReturnedRecords(harness) == [ReturnedRecord(record: 2, ending: .dropped)])
        #expect(harness.core.commandsAwaitingChannelCount == 0)
    }

    /// The partition was lost and came back while Redis decided about the command, or while the command waited.
    @Test(arguments: [true, false])
    func `A command whose record is read again continues for the new copy of the record`(isUnderWay: Bool) {
        let harness = RoundHarness()
        harness.handOver(7, .update)
        if isUnderWay { harness.core.endBatch(now: harness.moment) }
        harness.handOver(7, .update, record: 8)
        #expect(takeReturnedRecords(harness) == [ReturnedRecord(record: 7, ending: .outcome(.duplicate))])
        harness.performPendingWork()
        #expect(takeReturnedRecords(harness) == [ReturnedRecord(record: 8, ending: .fannedOut)])
    }

    /// The lane keeps further commands in the core for single activities. (R4)
    @Test func `A core whose commands use too many bytes takes no more until one has ended`() {
        let harness = RoundHarness(commandBytesMax: 1_000)
        harness.handOver(1, .update)
        let canReceiveSecond = harness.core.canReceiveCommand
        harness.handOver(2, .update, channel: "dHN0LXNyY2gtY2hubA==")
        let canReceiveThird = harness.core.canReceiveCommand
        #expect(canReceiveSecond && !canReceiveThird, "a command counts its body three times, and 512 bytes more")
        harness.performPendingWork()
        #expect(takeReturnedRecords(harness).count == 2)
        let canReceiveLater = harness.core.canReceiveCommand
        #expect(canReceiveLater && harness.core.commandBytes == 0)
    }

    /// Two partitions are revoked, one after the other, before the batch ends. The audience then has no command, but
    /// keeps its slot until the batch ends.
    @Test func `A core without a slot for another audience takes no command until the batch ends`() {
        let harness = RoundHarness(commandsMax: 2)
        harness.handOver(1, .update, hasAlert: true)
        harness.handOver(2, .update)
        harness.core.dropWaitingCommands { $0.rawValue == 2 }
        harness.core.dropWaitingCommands { $0.rawValue == 1 }
        #expect(takeReturnedRecords(harness).map(\.record) == [2, 1])
        harness.handOver(3, .update, channel: "dHN0LXNyY2gtY2hubA==")
        let canReceiveBeforeBatchEnd = harness.core.canReceiveCommand
        harness.core.endBatch(now: harness.moment)
        let canReceiveAfterBatchEnd = harness.core.canReceiveCommand
        #expect(!canReceiveBeforeBatchEnd && canReceiveAfterBatchEnd)
        harness.handOver(4, .update, channel: "b3RoZXItY2hhbm5lbDE=")
        harness.performPendingWork()
        let endings = takeReturnedRecords(harness)
        #expect(Set(endings.map(\.record)) == [3, 4] && endings.allSatisfy { $0.ending == .fannedOut })
    }
}
