import Delivery
import Kafka

/// Partitions of the deferred topic whose next record is not due, and of the fan-out topic whose lane had no room. They are paused, and the
/// record is read again: kept here, it would keep the whole batch that it was fetched in.
///
/// The delay of deferred records is the same for all, so those of a partition lie in the order in which they are due.
///
/// Times are monotonic: a record says by the wall clock when it is due, and what is left until then is waited for, whatever is done to that
/// clock meanwhile.
struct DeferredPartitions {
    /// Partitions go on at whole multiples of this: pausing throws away what was fetched, and with every pause a second of records has come due.
    static let stepMilliseconds: Int64 = 1_000
    /// No record waits for longer than the longest delay that can be configured.
    static let delayMillisecondsMax: Int64 = 600_000
    /// How far the clock of another worker may be ahead.
    private static let skewMilliseconds: Int64 = 5_000

    /// By partition: when its next record is due.
    private var due: [TopicPartition: Int64] = [:]

    var partitions: Set<TopicPartition> { Set(due.keys) }

    func contains(_ partition: TopicPartition) -> Bool { due[partition] != nil }

    /// When a record is to be read. One that says nothing is read at once, and so is one that comes from a clock which is ahead: whatever the
    /// records say, none keeps those behind it for good.
    ///
    /// - Parameters:
    ///   - wallMilliseconds: when the record is due, as its header says.
    ///   - writtenMilliseconds: the time of the record.
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

    /// The first step at which a record that is due then has come due.
    static func step(_ dueMilliseconds: Int64) -> Int64 {
        (dueMilliseconds + stepMilliseconds - 1) / stepMilliseconds * stepMilliseconds
    }

    /// The partitions whose time has come.
    mutating func takeDue(nowMilliseconds: Int64) -> [TopicPartition] {
        due.isEmpty ? [] : remove { $1 <= nowMilliseconds }
    }

    /// The partitions that wait, whenever their time comes.
    mutating func take(where isTaken: (TopicPartition) -> Bool) -> [TopicPartition] {
        remove { partition, _ in isTaken(partition) }
    }

    private mutating func remove(where isTaken: (TopicPartition, Int64) -> Bool) -> [TopicPartition] {
        let taken = due.filter { isTaken($0.key, $0.value) }.map(\.key)
        for partition in taken { due[partition] = nil }
        return taken
    }

    /// The partition is another worker's.
    mutating func forget(_ partition: TopicPartition) { due[partition] = nil }
}
