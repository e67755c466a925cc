import Delivery
import Kafka

/// Partitions that are paused for a time: a partition of the deferred topic until its next record is due, and any
/// partition after its lane had no room for a record. That record is read from Kafka again later. If it were kept here,
/// it would keep its whole fetched batch in memory.
///
/// All workers defer by the same delay, so the records of a partition are nearly in the order of their due times. If an
/// operator shortens the delay, for example from 60 s to 10 s, a record may wait behind an older one that is due later.
/// So the record is late, but by less than 60 s.
///
/// Times are monotonic. A record's header names its due time by the wall clock. Only the remaining wait is kept, so
/// later changes of the wall clock have no effect.
struct PausedPartitions {
    /// A pause usually ends at a whole multiple of this time. A pause discards fetched records, so one resume should
    /// find all records that become due within one second.
    static let resumeIntervalMilliseconds: Int64 = 1_000
    /// The longest delay that can be configured. No record waits longer after its timestamp, so a wrong header cannot
    /// stop its partition forever.
    static let delayMillisecondsMax: Int64 = 600_000
    /// How far the clock of another worker may be ahead. A timestamp that is further ahead is not trusted.
    private static let clockSkewMillisecondsMax: Int64 = 5_000

    /// When reading of each partition continues.
    private var dueMillisecondsByPartition: [TopicPartition: Int64] = [:]

    var partitions: Set<TopicPartition> { Set(dueMillisecondsByPartition.keys) }

    func contains(_ partition: TopicPartition) -> Bool { dueMillisecondsByPartition[partition] != nil }

    /// Returns the monotonic time at which a record must be read.
    ///
    /// A record without a due time is read at once. A record whose timestamp is more than five seconds in the future is
    /// read at once too, because the clock of the worker that wrote the record was wrong. ``delayMillisecondsMax``
    /// limits how long after its timestamp a record can be due.
    ///
    /// - Parameters:
    ///   - wallDueMilliseconds: when the record is due, from its header.
    ///   - writtenAtMilliseconds: the timestamp of the record.
    ///   - poolRecoveredAtWallMilliseconds: when a pool of the record's lane last began to work again; 0: never. A record
    ///     that was written before is read at once.
    static func computeMonotonicDueMilliseconds(
        wallDueMilliseconds: Int64?,
        writtenAtMilliseconds: Int64,
        poolRecoveredAtWallMilliseconds: Int64,
        now: Moment
    ) -> Int64 {
        guard let wallDueMilliseconds, writtenAtMilliseconds <= now.wallMilliseconds + clockSkewMillisecondsMax else {
            return now.monotonicMilliseconds
        }
        // Ignore a recovery in the future: the clock was set back after it. Otherwise each record that is deferred now
        // would count as older than the recovery, and would be read and deferred again and again.
        let isRecoveryPast = poolRecoveredAtWallMilliseconds <= now.wallMilliseconds
        if isRecoveryPast, writtenAtMilliseconds <= poolRecoveredAtWallMilliseconds { return now.monotonicMilliseconds }
        let limitedDueMilliseconds = min(wallDueMilliseconds, writtenAtMilliseconds + delayMillisecondsMax)
        return now.monotonicMilliseconds + max(limitedDueMilliseconds, now.wallMilliseconds) - now.wallMilliseconds
    }

    mutating func add(_ partition: TopicPartition, untilMilliseconds: Int64) {
        dueMillisecondsByPartition[partition] = Self.computeResumptionDueMilliseconds(atOrAfter: untilMilliseconds)
    }

    /// Returns the first multiple of ``resumeIntervalMilliseconds`` at or after the due time.
    static func computeResumptionDueMilliseconds(atOrAfter dueMilliseconds: Int64) -> Int64 {
        (dueMilliseconds + resumeIntervalMilliseconds - 1) / resumeIntervalMilliseconds * resumeIntervalMilliseconds
    }

    mutating func takeDuePartitions(nowMilliseconds: Int64) -> [TopicPartition] {
        dueMillisecondsByPartition.isEmpty ? [] : removeEntries { $1 <= nowMilliseconds }
    }

    /// Removes and returns the waiting partitions that match, even if they are not due.
    mutating func remove(where isRemoved: (TopicPartition) -> Bool) -> [TopicPartition] {
        removeEntries { partition, _ in isRemoved(partition) }
    }

    private mutating func removeEntries(where isRemoved: (TopicPartition, Int64) -> Bool) -> [TopicPartition] {
        let removedPartitions = dueMillisecondsByPartition.filter { isRemoved($0.key, $0.value) }.map(\.key)
        for partition in removedPartitions { dueMillisecondsByPartition[partition] = nil }
        return removedPartitions
    }

    /// Forgets a partition that was revoked.
    mutating func remove(_ partition: TopicPartition) { dueMillisecondsByPartition[partition] = nil }
}
