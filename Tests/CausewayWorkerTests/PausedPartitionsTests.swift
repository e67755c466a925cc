import Delivery
import Kafka
import Testing

@testable import CausewayWorker

/// A partition of the deferred topic is paused until its next record is due. The due time is a wall-clock time; the
/// rest of the wait is measured with the monotonic clock.
@Suite struct PausedPartitionsTests {
    private static let now = Moment(monotonicMilliseconds: 5_000_123, wallMilliseconds: 1_790_000_000_000)
    private static let partition = TopicPartition(topic: TopicIdentifier(index: 2), partition: 3)
    private static let delayMillisecondsMax = PausedPartitions.delayMillisecondsMax

    private func waitMilliseconds(
        untilWallMilliseconds due: Int64?,
        writtenAtWallMilliseconds: Int64 = now.wallMilliseconds,
        poolRecoveredAtWallMilliseconds: Int64 = 0
    ) -> Int64 {
        PausedPartitions.computeMonotonicDueMilliseconds(
            dueWallMilliseconds: due,
            writtenAtWallMilliseconds: writtenAtWallMilliseconds,
            poolRecoveredAtWallMilliseconds: poolRecoveredAtWallMilliseconds,
            now: Self.now
        )
            - Self.now.monotonicMilliseconds
    }

    /// The due time is a time of the wall clock, which may be set back while the record waits.
    @Test func `The rest of the delay is measured with the monotonic clock`() {
        #expect(waitMilliseconds(untilWallMilliseconds: Self.now.wallMilliseconds + 29_500) == 29_500)
        #expect(PausedPartitions.computeResumptionDueMilliseconds(atOrAfter: 5_000_123 + 29_500) == 5_030_000)
        #expect(
            PausedPartitions.computeResumptionDueMilliseconds(atOrAfter: 5_030_000) == 5_030_000,
            "partitions go on at the same times"
        )
    }

    @Test(arguments: [nil, Int64.min, -1, 0, now.wallMilliseconds]) func `A due record is read at once`(due: Int64?) {
        #expect(waitMilliseconds(untilWallMilliseconds: due) == 0)
    }

    @Test(arguments: [Int64.max, now.wallMilliseconds + 86_400_000]) func `No record waits forever`(due: Int64) {
        #expect(waitMilliseconds(untilWallMilliseconds: due) == Self.delayMillisecondsMax)
        let writtenAtWallMilliseconds = Self.now.wallMilliseconds - Self.delayMillisecondsMax
        #expect(
            waitMilliseconds(untilWallMilliseconds: due, writtenAtWallMilliseconds: writtenAtWallMilliseconds + 7) == 7,
            "the wait does not begin again at each reading"
        )
        #expect(
            waitMilliseconds(untilWallMilliseconds: due, writtenAtWallMilliseconds: -1) == 0,
            "the record has no time"
        )
        #expect(waitMilliseconds(untilWallMilliseconds: due, writtenAtWallMilliseconds: .min) == 0)
    }

    @Test func `A clock that is ahead delays no record`() {
        let ahead = Self.now.wallMilliseconds + 3_600_000
        #expect(waitMilliseconds(untilWallMilliseconds: ahead + 30_000, writtenAtWallMilliseconds: ahead) == 0)
        #expect(waitMilliseconds(untilWallMilliseconds: .max, writtenAtWallMilliseconds: .max) == 0)
    }

    /// If the recovery is later than now, the clock was set back. A record that is deferred now must pause.
    @Test(arguments: [(-30_000, 30_000), (-1, 30_000), (0, 0), (1, 30_000), (3_600_000, 30_000)] as [(Int64, Int64)])
    func `A recovery of a pool makes only records from before it due`(recovery: Int64, expectedMilliseconds: Int64) {
        let now = Self.now.wallMilliseconds
        let milliseconds = waitMilliseconds(
            untilWallMilliseconds: now + 30_000,
            poolRecoveredAtWallMilliseconds: now + recovery
        )
        #expect(milliseconds == expectedMilliseconds)
    }

    @Test func `Paused partitions continue at whole steps of time`() {
        var partitions = PausedPartitions()
        partitions.add(Self.partition, untilMilliseconds: 5_000_123)
        #expect(partitions.contains(Self.partition))
        #expect(partitions.takeDuePartitions(nowMilliseconds: 5_000_999) == [])
        #expect(partitions.takeDuePartitions(nowMilliseconds: 5_001_000) == [Self.partition])
        #expect(!partitions.contains(Self.partition))
    }

    @Test func `A pool that is back ends the wait only of its lane's partitions`() {
        var partitions = PausedPartitions()
        let partitionOfOtherLane = TopicPartition(topic: TopicIdentifier(index: 2), partition: 4)
        for partition in [Self.partition, partitionOfOtherLane] {
            partitions.add(partition, untilMilliseconds: 5_030_000)
        }
        // The lane has the partitions with odd numbers.
        #expect(partitions.remove { $0.partition % 2 == 1 } == [Self.partition])
        #expect(partitions.partitions == [partitionOfOtherLane])
        partitions.remove(partitionOfOtherLane)
        #expect(partitions.partitions.isEmpty)
    }

    @Test func `Deferred commands are counted, and are as old as their first receipt`() {
        func deferred(_ partition: Int32) -> TopicPartition {
            TopicPartition(topic: TopicIdentifier(index: 2), partition: partition)
        }
        var partitions = PausedPartitions()
        #expect(partitions.countDeferred { _ in 9 } == .init())
        let firstRecords: [Int32: PausedPartitions.DeferredRecord] = [
            3: .init(offset: 40, receivedAtWallMilliseconds: 7_000),
            4: .init(offset: 10, receivedAtWallMilliseconds: 5_000),
            5: .init(offset: 0, receivedAtWallMilliseconds: 6_000),
        ]
        for (partition, record) in firstRecords {
            partitions.add(deferred(partition), untilMilliseconds: 5_030_000, firstRecord: record)
        }
        // In this paused partition, no record waits until it is due.
        partitions.add(deferred(6), untilMilliseconds: 5_030_000)
        // The logs end at 42 and at 10; the end of the last one is not known.
        let logEndOffsets: [Int32: Int64] = [3: 42, 4: 10, 6: 1_000]
        let backlog = partitions.countDeferred { logEndOffsets[$0.partition] }
        #expect(backlog == .init(commandCount: 2 + 1 + 1, receivedAtWallMilliseconds: 5_000))
        partitions.remove(deferred(4))
        #expect(partitions.countDeferred { _ in nil } == .init(commandCount: 2, receivedAtWallMilliseconds: 6_000))
    }

    @Test func `The return of a pool is reported once`() throws {
        let mailbox = try LaneMailbox(recordsMax: 64)
        #expect(mailbox.takePoolRecoveryAtWallMilliseconds() == nil)
        mailbox.notePoolRecovery(atWallMilliseconds: Self.now.wallMilliseconds)
        #expect(mailbox.takePoolRecoveryAtWallMilliseconds() == Self.now.wallMilliseconds)
        #expect(mailbox.takePoolRecoveryAtWallMilliseconds() == nil)
    }
}
