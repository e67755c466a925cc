import Kafka
import Logging
import Reactor

/// What the Kafka thread counts and shows.
extension Intake {
    func count(_ error: KafkaError) {
        metrics.add(.kafkaErrors, errorIndices[error.code] ?? registry.labels.kafkaErrors.count - 1)
    }

    /// librdkafka says aloud when it has lost its last broker, but not when it finds one again: that stands in its statistics.
    func noteBroker(isUp: Bool, reason: String) {
        let wasUp = isBrokerUp
        guard isUp != wasUp else { return }
        if !isUp {
            note(.kafkaAway, ["reason": "\(reason)"])
        } else if wasUp == false {
            note(.kafkaBack, [:])
        }
        isBrokerUp = isUp
    }

    func noteMembership(_ membership: WorkerCondition.Membership) {
        registry.condition.change { if $0.membership != .left { $0.membership = membership } }
    }

    /// The thread will wait for brokers, with a time limit.
    func expectQuiet(milliseconds: Int64) {
        metrics.board.expectQuiet(untilMilliseconds: loop.nowMilliseconds + milliseconds)
    }

    func publishMetricsIfDue() {
        if metrics.isPublicationDue(nowMilliseconds: loop.nowMilliseconds) { publishMetrics() }
    }

    func publishMetrics() {
        let assigned = assignments.all
        // A group that has nothing to give assigns nothing, and yet one is in it.
        if registry.condition.now.membership == .joining, !consumer.memberIdentifier.isEmpty { noteMembership(.member) }
        metrics.set(.kafkaReady, to: isBrokerUp == true ? 1 : 0)
        metrics.set(.partitionsAssigned, to: Int64(assigned.count))
        metrics.set(.partitionsPaused, to: Int64(consumer.paused.count))
        let readings = assigned.map { partition in
            PartitionReading(topic: partition.topic.index, partition: partition.partition, lag: lag(of: partition))
        }
        readings.withUnsafeBufferPointer { metrics.publish(partitions: $0, nowMilliseconds: loop.nowMilliseconds) }
    }

    /// Records behind the first that is not known to be settled; -1: not known.
    ///
    /// Of a partition that nothing has been read from, the end of its log is heard of with the first answer of a broker; by then there is
    /// nothing before it to be read, or it comes at once.
    private func lag(of partition: TopicPartition) -> Int64 {
        guard let high = consumer.watermarks(of: partition)?.high, high >= 0, let assignment = assignments[partition]
        else { return -1 }
        return assignment.unsettledOffset < 0 ? 0 : max(0, high - assignment.unsettledOffset)
    }
}
