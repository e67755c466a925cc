import Delivery
import Kafka

/// Partitions of the deferred topic whose next record is not due. They are paused, and that record waits here.
///
/// The delay is the same for all, so the records of a partition lie in the order in which they are due.
///
/// Times are monotonic: a record says by the wall clock when it is due, and what is left until then is waited for, whatever is done to that
/// clock meanwhile.
struct DeferredPartitions {
    /// A deferred record may be due in a year, by a clock that was wrong: it is not waited for any longer than the longest delay that can
    /// be configured.
    static let delayMillisecondsMax: Int64 = 600_000

    /// Partitions go on at whole multiples of this: pausing throws away what was fetched, and with every pause a second of records has come due.
    static let stepMilliseconds: Int64 = 1_000

    private struct Waiting {
        /// What was handed out before the pause took hold, in order.
        var messages: [UInt]
        var dueMilliseconds: Int64
    }

    private var waiting: [TopicPartition: Waiting] = [:]

    var partitions: Set<TopicPartition> { Set(waiting.keys) }

    func contains(_ partition: TopicPartition) -> Bool { waiting[partition] != nil }

    /// When a record is to be read that is due at a time of the wall clock; now, if it does not say.
    static func due(atWallMilliseconds milliseconds: Int64?, now: Moment) -> Int64 {
        let wall = min(max(milliseconds ?? 0, now.wallMilliseconds), now.wallMilliseconds + delayMillisecondsMax)
        return now.monotonicMilliseconds + (wall - now.wallMilliseconds)
    }

    /// Keeps a record until it is due, or behind those of its partition that wait already.
    mutating func append(_ message: consuming Message, of partition: TopicPartition, dueMilliseconds: Int64) {
        let pointer = UInt(bitPattern: message.take())
        waiting[partition, default: Waiting(messages: [], dueMilliseconds: Self.step(dueMilliseconds))].messages
            .append(pointer)
    }

    /// The first step at which a record that is due then has come due.
    static func step(_ dueMilliseconds: Int64) -> Int64 {
        (dueMilliseconds + stepMilliseconds - 1) / stepMilliseconds * stepMilliseconds
    }

    /// The partitions whose time has come; their records belong to the caller.
    mutating func takeDue(nowMilliseconds: Int64) -> [(partition: TopicPartition, messages: [UInt])] {
        guard !waiting.isEmpty else { return [] }
        let due = waiting.filter { $0.value.dueMilliseconds <= nowMilliseconds }
        for partition in due.keys { waiting[partition] = nil }
        return due.map { (partition: $0.key, messages: $0.value.messages) }
    }

    /// The partition is another worker's: its records are given back unread.
    mutating func discard(_ partition: TopicPartition) {
        guard let removed = waiting.removeValue(forKey: partition) else { return }
        for message in removed.messages {
            guard let pointer = Message.Pointer(bitPattern: message) else { continue }
            _ = Message(taking: pointer)
        }
    }

    mutating func discardAll() { for partition in partitions { discard(partition) } }
}
