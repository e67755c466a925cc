import Kafka
import Logging
import Reactor

/// Partitions whose beginning a broker was asked for in vain: they stand still until it is asked again.
struct StrandedPartitions {
    /// A question may take seconds of the Kafka thread's time when a broker does not answer.
    static let intervalMilliseconds: Int64 = 5_000

    private var partitions: Set<TopicPartition> = []
    private var dueMilliseconds: Int64 = 0

    mutating func insert(_ partition: TopicPartition, nowMilliseconds: Int64) {
        partitions.insert(partition)
        dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds
    }

    /// - Returns: those to be asked for now, which are then no longer kept.
    mutating func takeDue(nowMilliseconds: Int64) -> Set<TopicPartition> {
        guard !partitions.isEmpty, nowMilliseconds >= dueMilliseconds else { return [] }
        defer { partitions.removeAll() }
        return partitions
    }
}

extension Intake {
    /// A group that is new to a partition begins at the partition's beginning: nothing that was written is passed over. An offset that
    /// was committed and is gone is another matter: records are lost, so the partition stands still until a person has decided.
    func recover(from error: KafkaError) {
        guard error.isPositionUnknown, let partition = error.partition else { return report(error) }
        beginWhereNothingIsCommitted(partition, after: error)
    }

    /// Those of which no broker has said what is committed, or taken the seek.
    func recoverStranded() {
        for partition in stranded.takeDue(nowMilliseconds: loop.nowMilliseconds) where assignments[partition] != nil {
            beginWhereNothingIsCommitted(partition, after: nil)
        }
    }

    private func beginWhereNothingIsCommitted(_ partition: TopicPartition, after reason: KafkaError?) {
        // Two questions to the brokers, one after the other.
        expectQuiet(milliseconds: 2 * Int64(Consumer.requestLimitMilliseconds))
        do throws(KafkaError) {
            let committed = try consumer.committed([partition], timeoutMilliseconds: Consumer.requestLimitMilliseconds)
            guard let first = committed.first, first == nil else {
                if let reason { count(reason) }
                return note(.offsetGone, ["partition": "\(name(of: partition))"])
            }
            if let error = consumer.seek(partition, to: .beginning) { throw error }
            note(.partitionIsNew, ["partition": "\(name(of: partition))"])
        } catch {
            report(error)
            loop.refreshClock()
            stranded.insert(partition, nowMilliseconds: loop.nowMilliseconds)
        }
    }
}
