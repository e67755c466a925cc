import Kafka
import Logging
import Observability
import Reactor

/// Partitions that stand still until the brokers have said what is committed of them, and taken a seek.
struct StrandedPartitions {
    /// A question may take seconds of the Kafka thread's time when a broker does not answer.
    static let intervalMilliseconds: Int64 = 5_000

    /// With what stopped each.
    private(set) var errors: [TopicPartition: KafkaError] = [:]
    private var dueMilliseconds: Int64 = 0

    mutating func insert(_ partition: TopicPartition, _ error: KafkaError) { errors[partition] = error }

    /// It goes on, or is another worker's.
    mutating func remove(_ partition: TopicPartition) { errors[partition] = nil }

    func isDue(nowMilliseconds: Int64) -> Bool { !errors.isEmpty && nowMilliseconds >= dueMilliseconds }

    /// All wait: a broker that did not answer for one would not for another.
    mutating func postpone(nowMilliseconds: Int64) { dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds }
}

extension Intake {
    func recover(from error: KafkaError) {
        guard error.isPositionUnknown, let partition = error.partition, assignments[partition] != nil else {
            return report(error)
        }
        stranded.insert(partition, error)
    }

    /// A group that is new to a partition begins at the partition's beginning: nothing that was written is passed over. An offset that
    /// was committed and is gone is another matter: records are lost, so the partition stands still until a person has decided.
    ///
    /// One question for all of them, and none after one that was not answered: the thread has more to do than to wait.
    func recoverStranded() {
        guard stranded.isDue(nowMilliseconds: loop.nowMilliseconds) else { return }
        expectQuiet(milliseconds: 2 * Int64(Consumer.requestLimitMilliseconds))
        let partitions = Array(stranded.errors.keys)
        do throws(KafkaError) {
            let committed = try consumer.committed(partitions, timeoutMilliseconds: Consumer.requestLimitMilliseconds)
            for (partition, offset) in zip(partitions, committed) {
                if offset == nil, let error = consumer.seek(partition, to: .beginning) { throw error }
                if offset != nil, let error = stranded.errors[partition] { count(error) }
                if offset != nil { unfetched.standing.insert(partition) }
                note(offset == nil ? .partitionIsNew : .offsetGone, ["partition": "\(name(of: partition))"])
                stranded.remove(partition)
            }
        } catch {
            report(error)
            loop.refreshClock()
            stranded.postpone(nowMilliseconds: loop.nowMilliseconds)
        }
    }
}
