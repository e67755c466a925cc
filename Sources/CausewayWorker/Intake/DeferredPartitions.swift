import Delivery
import Kafka

/// Partitions of the deferred topic whose next record is not due, and of the fan-out topic whose lane had no room.
///
/// They are paused, and the record is read again later. If the record were kept here, it would keep its whole fetched batch in memory.
///
/// All deferred records have the same delay, so those of a partition lie in the order in which they are due.
///
/// Times are monotonic. A record names its due time by the wall clock, and only the remaining wait is kept, so that later changes of the
/// wall clock have no effect.
struct DeferredPartitions {
    /// Partitions are resumed at whole multiples of this. Pausing discards what was fetched, so each pause must let a second's records
    /// come due.
    static let stepMilliseconds: Int64 = 1_000
    /// No record waits longer than the longest delay that can be configured.
    static let delayMillisecondsMax: Int64 = 600_000
    /// How far the clock of another worker may be ahead.
    private static let skewMilliseconds: Int64 = 5_000

    /// When the next record of each partition is due.
    private var due: [TopicPartition: Int64] = [:]

    var partitions: Set<TopicPartition> { Set(due.keys) }

    func contains(_ partition: TopicPartition) -> Bool { due[partition] != nil }

    /// When a record must be read.
    ///
    /// A record that names no time is read at once. So is a record from a clock that is ahead. Whatever a record says, it cannot hold
    /// back the records behind it for longer than ``delayMillisecondsMax``.
    ///
    /// - Parameters:
    ///   - wallMilliseconds: when the record is due, from its header.
    ///   - writtenMilliseconds: the timestamp of the record.
    static func due(atWallMilliseconds wallMilliseconds: Int64?, writtenMilliseconds: Int64, now: Moment) -> Int64 {
        guard let wallMilliseconds, writtenMilliseconds <= now.wallMilliseconds + skewMilliseconds else {
            return now.monotonicMilliseconds
        }
        let due = min(wallMilliseconds, writtenMilliseconds + delayMillisecondsMax)
        return now.monotonicMilliseconds + max(due, now.wallMilliseconds) - now.wallMilliseconds
    }

    mutating func wait(_ partition: TopicPartition, untilMilliseconds: Int64) {
        due[partition] = Self.step(untilMilliseconds)
    }

    /// The first multiple of ``stepMilliseconds`` at or after the due time.
    static func step(_ dueMilliseconds: Int64) -> Int64 {
        (dueMilliseconds + stepMilliseconds - 1) / stepMilliseconds * stepMilliseconds
    }

    /// Takes the partitions whose time has come.
    mutating func takeDue(nowMilliseconds: Int64) -> [TopicPartition] {
        due.isEmpty ? [] : remove { $1 <= nowMilliseconds }
    }

    /// Takes waiting partitions, even if their time has not come.
    mutating func take(where isTaken: (TopicPartition) -> Bool) -> [TopicPartition] {
        remove { partition, _ in isTaken(partition) }
    }

    private mutating func remove(where isTaken: (TopicPartition, Int64) -> Bool) -> [TopicPartition] {
        let taken = due.filter { isTaken($0.key, $0.value) }.map(\.key)
        for partition in taken { due[partition] = nil }
        return taken
    }

    /// The partition belongs to another worker now.
    mutating func remove(_ partition: TopicPartition) { due[partition] = nil }
}
