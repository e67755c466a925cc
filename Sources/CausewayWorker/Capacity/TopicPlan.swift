import CausewayConfiguration
import Kafka

/// The topics that a deployment needs, as the chart's values have them by default.
package struct TopicPlan: Sendable {
    /// Of commands, registrations, deferred commands, fanned out ones and results: as many as there may ever be workers, since more later move activities. 1...10,000.
    package var partitions = 24
    /// 0: the brokers' default. 0...32,767.
    package var replicationFactor = 3
    /// Not above the replication factor. 1...32,767.
    package var minInsyncReplicas = 2

    package init() {}

    /// Of invalidations, dead letters and channels, which are few.
    static let quietPartitions = 6
    private static let millisecondsPerHour = 3_600_000
    /// A broker deletes a segment when its newest record is past the retention, and closes one after seven days by default: 24 hours of
    /// commands could be eight days. Closed after this part of the retention, a record outlives it by so much at most.
    private static let segmentsPerRetention = 24
    /// Not shorter: each segment is three open files and an index on the broker.
    private static let segmentMillisecondsMin = 600_000
    /// What is in the open segment is not compacted.
    private static let compactedSegmentMilliseconds = 6 * millisecondsPerHour

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
                    ("delete.retention.ms", "604800000"), ("segment.ms", String(Self.compactedSegmentMilliseconds)),
                ]
            ),
            topic(names.results, partitions, retained(hours: 72)),
            topic(names.invalidations, quiet, retained(hours: 168)),
            topic(names.deadLetters, quiet, retained(hours: 336)),
            // Longer than the longest expiration: until then a command may be deferred again and again. The same partitions as the commands
            // have: an activity's commands meet in one lane.
            topic(names.deferred, partitions, retained(hours: 24)),
            // As long as the commands that its records are the ranges of.
            topic(names.fanout, partitions, retained(hours: 24)),
            // The channel of each audience is kept until it is deleted; deletions are seen by all.
            topic(
                names.channels,
                quiet,
                [
                    ("cleanup.policy", "compact"), ("min.compaction.lag.ms", "3600000"),
                    ("delete.retention.ms", "604800000"), ("segment.ms", String(Self.compactedSegmentMilliseconds)),
                ]
            ),
        ]
    }

    private func retained(hours: Int) -> [KafkaProperties.Property] {
        let retention = hours * Self.millisecondsPerHour
        let segment = max(Self.segmentMillisecondsMin, retention / Self.segmentsPerRetention)
        return [("cleanup.policy", "delete"), ("retention.ms", String(retention)), ("segment.ms", String(segment))]
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
