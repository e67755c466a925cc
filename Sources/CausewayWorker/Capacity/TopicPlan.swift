import CausewayConfiguration
import Kafka

/// The topics that a deployment needs. The defaults are those of the chart's values.
package struct TopicPlan: Sendable {
    /// Partitions of the topics of commands, registrations, deferred commands, fan-out records and results. 1...10,000.
    ///
    /// There must be as many as there may ever be workers: adding partitions later moves activities.
    package var partitions = 24
    /// 0: the brokers' default. 0...32,767.
    package var replicationFactor = 3
    /// At most the replication factor. 1...32,767.
    package var minInsyncReplicas = 2
    /// The topics that have other sizes. For a topic that occurs twice, the last one applies.
    package var sizes: [TopicSizes] = []

    package init() {}

    /// Partitions of the topics of invalidations, dead letters and channels, which have few records.
    static let quietPartitions = 6
    private static let millisecondsPerHour = 3_600_000
    /// Segments in one retention time. A broker deletes a segment when its newest record is older than the retention. By default it
    /// closes a segment after seven days, so 24 hours of commands could become eight days. With this many segments a record outlives the
    /// retention by at most one part of it.
    private static let segmentsPerRetention = 24
    /// The shortest time of a segment: each segment costs the broker three open files and an index.
    private static let segmentMillisecondsMin = 600_000
    /// The broker does not compact the open segment.
    private static let compactedSegmentMilliseconds = 6 * millisecondsPerHour

    /// In the order in which a command meets them.
    package func topics(_ names: WorkerConfiguration.Kafka.Topics) -> [NewTopic] {
        let quiet = min(partitions, Self.quietPartitions)
        return [
            // Longer than the longest outage after which a backlog is still useful: an activity lives 12 hours.
            topic(.commands, names.commands, partitions, hours: 24),
            // The newest token of each activity is kept forever.
            topic(.registrations, names.registrations, partitions),
            topic(.results, names.results, partitions, hours: 72),
            topic(.invalidations, names.invalidations, quiet, hours: 168),
            topic(.deadLetters, names.deadLetters, quiet, hours: 336),
            // Longer than the longest expiration, because a command may be deferred again until then. As many partitions as the commands
            // topic, so that all commands of an activity meet in one lane.
            topic(.deferred, names.deferred, partitions, hours: 24),
            // As long as the commands whose ranges its records are.
            topic(.fanout, names.fanout, partitions, hours: 24),
            // The channel of each audience is kept until it is deleted.
            topic(.channels, names.channels, quiet),
        ]
    }

    /// Tombstones are kept until every reader has seen them.
    private static let compacted: [KafkaProperties.Property] = [
        ("cleanup.policy", "compact"), ("min.compaction.lag.ms", "3600000"), ("delete.retention.ms", "604800000"),
        ("segment.ms", String(compactedSegmentMilliseconds)),
    ]

    private func retained(hours: Int) -> [KafkaProperties.Property] {
        let retention = hours * Self.millisecondsPerHour
        let segment = max(Self.segmentMillisecondsMin, retention / Self.segmentsPerRetention)
        return [("cleanup.policy", "delete"), ("retention.ms", String(retention)), ("segment.ms", String(segment))]
    }

    /// Without hours the topic is compacted.
    private func topic(_ role: TopicRole, _ name: String, _ partitions: Int, hours: Int? = nil) -> NewTopic {
        let own = sizes.filter { $0.role == role }
        let ownPartitions = own.last { $0.partitions != nil }?.partitions ?? partitions
        let ownHours = own.last { $0.retentionHours != nil }?.retentionHours ?? hours
        return NewTopic(
            name: name,
            partitions: Int32(clamping: ownPartitions),
            replicationFactor: Int32(clamping: replicationFactor),
            settings: [("min.insync.replicas", String(minInsyncReplicas))]
                + (ownHours.map { retained(hours: $0) } ?? Self.compacted)
        )
    }
}
