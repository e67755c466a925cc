import CausewayConfiguration
import Kafka

/// The topics that a deployment needs, as the chart's values have them by default.
package struct TopicPlan: Sendable {
    /// Of commands, registrations and results: as many as there may ever be workers, since more later move activities. 1...10,000.
    package var partitions = 24
    /// 0: the brokers' default. 0...32,767.
    package var replicationFactor = 3
    /// Not above the replication factor. 1...32,767.
    package var minInsyncReplicas = 2

    package init() {}

    /// Of invalidations and dead letters, which are few.
    static let quietPartitions = 6
    private static let millisecondsPerHour = 3_600_000

    /// In the order in which a command meets them.
    package func topics(_ names: WorkerConfiguration.Kafka.Topics) -> [NewTopic] {
        let quiet = min(partitions, Self.quietPartitions)
        return [
            // Longer than the longest outage that should be caught up with: an activity lives 12 hours.
            topic(names.commands, partitions, retained(hours: 24)),
            // The newest token of each activity is kept for ever; unregistrations are seen by all.
            topic(
                names.registrations,
                partitions,
                [
                    ("cleanup.policy", "compact"), ("min.compaction.lag.ms", "3600000"),
                    ("delete.retention.ms", "604800000"),
                ]
            ),
            topic(names.results, partitions, retained(hours: 72)),
            topic(names.invalidations, quiet, retained(hours: 168)),
            topic(names.deadLetters, quiet, retained(hours: 336)),
        ]
    }

    private func retained(hours: Int) -> [KafkaProperties.Property] {
        [("cleanup.policy", "delete"), ("retention.ms", String(hours * Self.millisecondsPerHour))]
    }

    private func topic(_ name: String, _ partitions: Int, _ settings: [KafkaProperties.Property]) -> NewTopic {
        NewTopic(
            name: name,
            partitions: Int32(clamping: partitions),
            replicationFactor: Int32(clamping: replicationFactor),
            settings: [("min.insync.replicas", String(minInsyncReplicas))] + settings
        )
    }
}
