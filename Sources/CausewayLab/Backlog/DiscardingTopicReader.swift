import CausewayCommandLine
import Glibc
import Kafka
import Numbers

/// Reads a topic with the worker's settings and ignores the records. So its cost is the lowest possible cost of reading
/// the topic.
final class DiscardingTopicReader: ConsumerHandler {
    static let closeTimeoutMilliseconds: Int64 = 5_000
    /// The pause after a poll without a record. It does not slow the reading, because the fetch of a batch of thousands
    /// of records takes much longer.
    private static let pauseMicroseconds: UInt32 = 500

    private var consumer: Consumer?
    /// The monotonic time at which the partitions were assigned; 0 before that.
    private var assignedAtMilliseconds: Int64 = 0

    /// - Parameter properties: the worker's properties. The consumer group is replaced, because this reader must not
    ///   change the offsets of the worker's group.
    init(properties: [(name: String, value: String)], topic: String) throws(LabError) {
        do {
            consumer = try Consumer(
                properties: properties + [("group.id", "backlog-reading"), ("auto.offset.reset", "earliest")],
                topics: [topic],
                handler: self
            )
        } catch {
            throw LabError("the backlog cannot be read: \(error)")
        }
    }

    /// Reads `count` records.
    ///
    /// - Parameter meanwhile: called after each poll without a record.
    /// - Returns: milliseconds from the assignment of the partitions to the last record. The times of the measured
    ///   worker also begin when its partitions are assigned.
    /// - Throws: an error if no record comes for `Demo.stallMillisecondsMax`, if Kafka fails for good, or if
    ///   `meanwhile` throws.
    func read(_ count: Int, _ meanwhile: () throws(LabError) -> Void) throws(LabError) -> Int64 {
        guard let consumer else { return 0 }
        var (lastRecordAtMilliseconds, readCount): (Int64, Int) = (Clock.monotonicMilliseconds, 0)
        while readCount < count {
            switch consumer.poll() {
            case .message(let message):
                // Every consumer must at least take each message and release it. This reader does no more.
                _ = message
                (lastRecordAtMilliseconds, readCount) = (Clock.monotonicMilliseconds, readCount + 1)
            case .none:
                guard Clock.monotonicMilliseconds - lastRecordAtMilliseconds < Demo.stallMillisecondsMax else {
                    throw LabError("only \(Numeral.grouped(readCount)) of \(Numeral.grouped(count)) commands were read")
                }
                try meanwhile()
                usleep(Self.pauseMicroseconds)
            case .partitionEnd: continue
            case .error(let error): if error.isFatal { throw LabError("the backlog cannot be read: \(error)") }
            }
        }
        return Clock.monotonicMilliseconds - assignedAtMilliseconds
    }

    func close() {
        _ = consumer?.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) { assignedAtMilliseconds = Clock.monotonicMilliseconds }

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
