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
/// Times are monotonic, although a record's header names its due time by the wall clock. So later changes of the wall
/// clock have no effect.
struct PausedPartitions {
    /// A pause usually ends at a whole multiple of this time. A pause discards fetched records, so one resume should
    /// find all records that become due within one second.
    static let resumeIntervalMilliseconds: Int64 = 1_000
    /// The longest delay that can be configured. No record waits longer after its timestamp, so a wrong header cannot
    /// stop its partition forever.
    static let delayMillisecondsMax: Int64 = 600_000
    /// How far the clock of another worker may be ahead. A timestamp that is further ahead is not trusted.
    private static let clockSkewMillisecondsMax: Int64 = 5_000

    /// A record of the deferred topic that is not due.
    struct DeferredRecord: Equatable {
        var offset: Int64
        /// When a lane first received the command, UNIX milliseconds; the record's timestamp if its headers do not name
        /// this time.
        var receivedAtWallMilliseconds: Int64
    }

    /// The commands that wait in the paused partitions of the deferred topic.
    struct DeferredBacklog: Equatable {
        var commandCount: Int64 = 0
        /// The earliest `receivedAtWallMilliseconds` of the paused partitions' first records; nil: no command waits.
        var receivedAtWallMilliseconds: Int64?
    }

    private struct Pause {
        /// When reading continues.
        var dueMilliseconds: Int64
        /// The record that reading continues with; nil: the partition is paused for another reason.
        var firstRecord: DeferredRecord?
    }

    private var pauses: [TopicPartition: Pause] = [:]

    var partitions: Set<TopicPartition> { Set(pauses.keys) }

    func contains(_ partition: TopicPartition) -> Bool { pauses[partition] != nil }

    /// Returns what waits in the deferred topic, as far as this worker has seen the logs' ends.
    ///
    /// - Parameter logEndOffset: returns the end of a partition's log; nil: not known.
    func countDeferred(logEndOffset: (TopicPartition) -> Int64?) -> DeferredBacklog {
        var backlog = DeferredBacklog()
        for (partition, pause) in pauses {
            guard let record = pause.firstRecord else { continue }
            // The known end of the log may be older than the record. Even then, the record itself waits.
            backlog.commandCount += max(1, (logEndOffset(partition) ?? 0) - record.offset)
            backlog.receivedAtWallMilliseconds = min(
                backlog.receivedAtWallMilliseconds ?? .max,
                record.receivedAtWallMilliseconds
            )
        }
        return backlog
    }

    /// Returns the monotonic time at which a record must be read.
    ///
    /// A record without a due time is read at once. A record whose timestamp is more than five seconds in the future is
    /// read at once too, because the clock of the worker that wrote the record was wrong. ``delayMillisecondsMax``
    /// limits how long after its timestamp a record can be due.
    ///
    /// - Parameters:
    ///   - dueWallMilliseconds: when the record is due, from its header.
    ///   - writtenAtWallMilliseconds: the timestamp of the record.
    ///   - poolRecoveredAtWallMilliseconds: when a pool of the record's lane last began to work again; 0: never. A
    ///     record that was written before is read at once.
    static func computeMonotonicDueMilliseconds(
        dueWallMilliseconds: Int64?,
        writtenAtWallMilliseconds: Int64,
        poolRecoveredAtWallMilliseconds: Int64,
        now: Moment
    ) -> Int64 {
        guard let dueWallMilliseconds, writtenAtWallMilliseconds <= now.wallMilliseconds + clockSkewMillisecondsMax
        else {
            return now.monotonicMilliseconds
        }
        // Ignore a recovery in the future: the clock was set back after it. Otherwise each record that is deferred now
        // would count as older than the recovery, and would be read and deferred again and again.
        let isRecoveryPast = poolRecoveredAtWallMilliseconds <= now.wallMilliseconds
        if isRecoveryPast, writtenAtWallMilliseconds <= poolRecoveredAtWallMilliseconds {
            return now.monotonicMilliseconds
        }
        let limitedDueWallMilliseconds = min(dueWallMilliseconds, writtenAtWallMilliseconds + delayMillisecondsMax)
        return now.monotonicMilliseconds + max(limitedDueWallMilliseconds, now.wallMilliseconds) - now.wallMilliseconds
    }

    /// Notes that the reading of a partition pauses until this monotonic time, or a little longer
    /// (``computeResumptionDueMilliseconds(atOrAfter:)``).
    ///
    /// - Parameter firstRecord: the record of the deferred topic that is not due; nil: the pause has another reason.
    mutating func add(_ partition: TopicPartition, untilMilliseconds: Int64, firstRecord: DeferredRecord? = nil) {
        pauses[partition] = Pause(
            dueMilliseconds: Self.computeResumptionDueMilliseconds(atOrAfter: untilMilliseconds),
            firstRecord: firstRecord
        )
    }

    /// Returns the first multiple of ``resumeIntervalMilliseconds`` at or after the due time.
    static func computeResumptionDueMilliseconds(atOrAfter dueMilliseconds: Int64) -> Int64 {
        (dueMilliseconds + resumeIntervalMilliseconds - 1) / resumeIntervalMilliseconds * resumeIntervalMilliseconds
    }

    mutating func takeDuePartitions(nowMilliseconds: Int64) -> [TopicPartition] {
        pauses.isEmpty ? [] : removeEntries { $1.dueMilliseconds <= nowMilliseconds }
    }

    /// Removes and returns the paused partitions for which the closure returns true, even if they are not due.
    mutating func remove(where isRemoved: (TopicPartition) -> Bool) -> [TopicPartition] {
        removeEntries { partition, _ in isRemoved(partition) }
    }

    private mutating func removeEntries(where isRemoved: (TopicPartition, Pause) -> Bool) -> [TopicPartition] {
        let removedPartitions = pauses.filter { isRemoved($0.key, $0.value) }.map(\.key)
        for partition in removedPartitions { pauses[partition] = nil }
        return removedPartitions
    }

    /// Forgets a partition that was revoked.
    mutating func remove(_ partition: TopicPartition) { pauses[partition] = nil }
}
