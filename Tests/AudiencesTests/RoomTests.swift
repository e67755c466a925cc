import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Apps share the room for fan-out records. An app whose host does not respond must leave room for the others.
/// (R30)
@Suite struct RoomTests {
    private static let names = Array(SimulatedNames.names[0].prefix(4))
    /// So few bytes that the records of 60 audiences do not fit, and some are passed over.
    private static let recordBytesMax = 40_000

    private func audienceName(_ number: Int) -> String { "match-\(number)" }

    @Test func `Each outcome of a member and each change of a membership has a counter`() {
        #expect(MemberOutcomeCounts().counts.count == MemberOutcome.allCases.count)
        #expect(CountsByMemberOutcome(repeating: 0).count == MemberOutcome.allCases.count)
        #expect(CountsByMembershipChangeKind(repeating: 0).count == MembershipChangeKind.allCases.count)
    }

    /// A full table of fan-out records needs full tables of rounds and channels beside it. The memory budget of a
    /// worker must include them.
    @Test func `The planned memory of a fan-out record includes its rounds and channels`() {
        let slotBytes =
            MemoryLayout<RangeVersionSlot>.size + MemoryLayout<BroadcastSlot>.size
            + 2 * (MemoryLayout<RoundSlot>.size + MemoryLayout<ChannelSlot>.size)
        #expect(Audiences.bytesPerFanoutRecord >= slotBytes + 4 * Limits.identifierBytesMax)
    }

    /// Returns a core with two apps. The first app's host does not respond; each of its audiences has one
    /// member. The second app has one audience.
    private func makeHarness(audienceCount: Int, ledgerSpanOffsetCount: Int = 1 << 16) -> RoundHarness {
        let harness = RoundHarness(
            recordBytesMax: Self.recordBytesMax,
            ledgerSpanOffsetCount: ledgerSpanOffsetCount
        )
        for number in 1...audienceCount { harness.join(Self.names[0], audienceName(number)) }
        harness.join(Self.names[1], appIndex: 1)
        return harness
    }

    @Test func `An app whose host is away leaves room for the other apps`() {
        let harness = makeHarness(audienceCount: 200)
        for number in 1...200 {
            harness.appendCommand(number, audienceName(number))
            harness.performPendingWork()
        }
        #expect(harness.passedOverCount > 0)
        #expect(harness.core.fanoutRecordCount + harness.passedOverCount == 200)
        #expect(harness.gauges.oldestRoundWaitingSinceWallMilliseconds == RoundHarness.startMilliseconds)
        for number in 201...260 {
            harness.appendCommand(number, appIndex: 1)
            #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [number])
            harness.advanceClock(milliseconds: 1_000)
        }
        #expect(harness.core.fanoutRecordBytes <= Self.recordBytesMax)
        #expect(harness.committableOffset == 0)
    }

    /// Audiences with a round in progress get their newer versions. The records of the other audiences are neither lost
    /// nor reordered.
    @Test func `Records that were passed over are read again in their order`() {
        let harness = makeHarness(audienceCount: 60)
        for round in 0..<5 {
            for number in 1...60 {
                harness.appendCommand(round * 60 + number, hasAlert: round == 3, audienceName(number))
                harness.performPendingWork()
            }
            harness.nowMilliseconds += 15_000
        }
        #expect(harness.passedOverCount > 0)
        #expect(harness.rewinds.isEmpty, "there was no room")
        var sent: [RoundHarness.SentPush] = []
        for _ in 0..<100 where harness.core.fanoutRecordCount + harness.passedOverCount > 0 {
            sent += harness.sendAndAcceptPushes()
            harness.nowMilliseconds += 5_000
            harness.readLog()
        }
        #expect(harness.core.fanoutRecordCount + harness.passedOverCount == 0)
        #expect(harness.rewinds.count > 1)
        #expect(harness.committableOffset == 300)
        // Each audience shows its last version, and each alert rings once.
        #expect(Set(sent.map(\.content)).isSuperset(of: 241...300))
        var heard: [Int: Int] = [:]
        for push in sent { if let alert = push.alert { heard[alert, default: 0] += 1 } }
        #expect(heard == Dictionary(uniqueKeysWithValues: (181...240).map { ($0, 1) }))
    }

    /// A newer version uses the room of the version that it replaces, so 720 versions of each of eight audiences need
    /// room for eight records.
    @Test func `Newer versions of the same ranges need no more room`() {
        let harness = makeHarness(audienceCount: 8)
        var number = 0
        for _ in 0..<720 {
            for audience in 1...8 {
                number += 1
                harness.appendCommand(number, self.audienceName(audience))
            }
            harness.advanceClock(milliseconds: 5_000)
        }
        #expect(harness.passedOverCount == 0)
        #expect(harness.core.fanoutRecordCount == 8)
        #expect(harness.committableOffset == Int64(number - 8))
    }

    /// A worker died with two versions in progress. The next owner has room for the first version only. Later
    /// it has room again, and the second version continues at its recorded position.
    @Test(arguments: [false, true])
    func `A version that is passed over after a crash continues later`(hasParked: Bool) throws {
        // The only range has all 256 segments, each with `1 << 32` positions.
        let positionsPerLap = UInt64(1) << 40
        let parked = positionsPerLap + UInt64(SimulatedNames.location(of: Self.names[2]).ordinal)
        var counts = MemberOutcomeCounts()
        counts[.delivered] = 4
        var checkpoint = Checkpoint(
            completedPosition: 2 * positionsPerLap,
            newestSettledVersion: Version.zero
        )
        checkpoint.entries = [1, 2]
            .map { number in
                let version = Version(timestamp: RoundHarness.startSeconds + Int64(number), sequence: 0)
                return Checkpoint.Entry(
                    version: version,
                    startPosition: UInt64(number - 1) * positionsPerLap,
                    counts: counts
                )
            }
        if hasParked {
            checkpoint.entries[1].counts[.delivered] = 3
            checkpoint.parkedPositions = [parked]
        }
        let harness = RoundHarness(recordBytesMax: 100)
        for name in Self.names { harness.join(name) }
        harness.storeCheckpoint(try #require(checkpoint.encode()))
        harness.appendCommand(1)
        harness.appendCommand(2)
        #expect(harness.passedOverCount == 1)
        #expect(harness.sendAndAcceptPushes() == [])
        harness.advanceClock(milliseconds: 5_000)
        harness.readLog()
        #expect(harness.sendAndAcceptPushes().map(\.member) == (hasParked ? [Self.names[2]] : []))
        let results = try [1, 2].map { try #require(harness.result(of: $0)) }
        for result in results { #expect(SimulatedText.contains("\"members\":{\"delivered\":4}", in: result)) }
        #expect(harness.committableOffset == 2)
    }

    /// A record whose offset does not fit into the ledger pauses its partition.
    @Test func `A partition whose ledger is full is read again every few seconds`() {
        let harness = makeHarness(audienceCount: 1, ledgerSpanOffsetCount: 64)
        harness.appendCommand(1, audienceName(1))
        harness.performPendingWork()
        for number in 2...100 {
            harness.appendCommand(number, appIndex: 1)
            _ = harness.sendAndAcceptPushes(appIndex: 1)
            harness.advanceClock(milliseconds: 1_000)
        }
        #expect(harness.committableOffset == 0)
        #expect(harness.rewinds.allSatisfy { $0 == PartitionRewind(offset: 64, pauseMilliseconds: 5_000) })
        #expect((3...20).contains(harness.rewinds.count))
        _ = harness.sendAndAcceptPushes()
        harness.advanceClock(milliseconds: 10_000)
        harness.readLog()
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [100])
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.committableOffset == 100)
    }

    /// Kafka may delete records (retention) before the core has room for them.
    @Test func `Records that Kafka has deleted are settled`() {
        let harness = makeHarness(audienceCount: 60)
        for number in 1...60 {
            harness.appendCommand(number, audienceName(number))
            harness.performPendingWork()
        }
        let firstPassedOverOffset = 60 - harness.passedOverCount
        _ = harness.sendAndAcceptPushes()
        harness.advanceClock(milliseconds: 5_000)
        harness.rewindAfterDeletion(from: firstPassedOverOffset + 10)
        for _ in 0..<100 where harness.core.fanoutRecordCount + harness.passedOverCount > 0 {
            _ = harness.sendAndAcceptPushes()
            harness.nowMilliseconds += 5_000
            harness.readLog()
        }
        #expect(harness.committableOffset == 60)
    }

    private func makeChannel() throws -> AudienceChannel {
        AudienceChannel(
            environment: .production,
            storage: .newest,
            identifier: try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        )
    }

    /// A channel keeps its slot in the core after its broadcast, so that the core recognizes a repeated record. The
    /// first app has more channels than the core has slots. A new channel gets the slot that was idle for the longest
    /// time.
    @Test func `Idle channels make room for the next channels of every app`() throws {
        let harness = RoundHarness(recordsMax: 8)
        for number in 1...40 {
            harness.appendCommand(number, audienceName(number), channel: try makeChannel())
            #expect(harness.sendAndAcceptPushes().map(\.content) == [number])
            harness.advanceClock(milliseconds: 1_000)
        }
        harness.appendCommand(41, appIndex: 1, channel: try makeChannel())
        #expect(harness.sendAndAcceptPushes(appIndex: 1).map(\.content) == [41])
        #expect(harness.core.channels.count == harness.core.channels.limit)
        // Kafka repeats the records of the ten channels that were used last.
        harness.log += harness.log.suffix(10)
        harness.readLog()
        #expect(harness.sendAndAcceptPushes().isEmpty && harness.sendAndAcceptPushes(appIndex: 1).isEmpty)
        #expect(harness.passedOverCount == 0 && harness.committableOffset == 51)
    }

    /// Each push sets a timer for the end of the channel's idle time, 300 s later. The timers of earlier pushes stay in
    /// the queue until the queue is full. (R4)
    @Test func `The timers of a busy channel stay within their limit`() throws {
        let harness = RoundHarness(recordsMax: 4, membershipChangesMax: 4, commandsMax: 4)
        for number in 1...200 {
            harness.appendCommand(number, channel: try makeChannel())
            #expect(harness.sendAndAcceptPushes().map(\.content) == [number])
            harness.advanceClock(milliseconds: 1_000)
        }
        // Twice the number of slots that may have a timer.
        #expect(harness.core.timers.timersMax == 2 * (4 + 4 + 8 + 8 + 4))
        #expect(harness.core.channels.count == 1)
        harness.advanceClock(milliseconds: ChannelPace.idleMillisecondsMax)
        #expect(harness.core.channels.count == 0, "the timer of the last push was kept")
    }

    /// Without the slot the core would not know when the channel got its last push. APNs may respond with 429 to a
    /// second push within a second. (R31)
    @Test func `A channel keeps its slot during the spacing after its push`() throws {
        let harness = RoundHarness(recordsMax: 4)
        for number in 1...8 {
            harness.appendCommand(number, audienceName(number), channel: try makeChannel())
            #expect(harness.sendAndAcceptPushes().map(\.content) == [number])
        }
        harness.appendCommand(9, audienceName(1), channel: try makeChannel())
        #expect(harness.passedOverCount == 0, "the channel has a slot")
        harness.appendCommand(10, audienceName(10), channel: try makeChannel())
        #expect(harness.passedOverCount == 1)
        #expect(harness.sendAndAcceptPushes().isEmpty)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.sendAndAcceptPushes().map(\.content) == [9])
        harness.advanceClock(milliseconds: 5_000)
        harness.readLog()
        #expect(harness.sendAndAcceptPushes().map(\.content) == [10])
        #expect(harness.passedOverCount == 0 && harness.committableOffset == 10)
    }
}
