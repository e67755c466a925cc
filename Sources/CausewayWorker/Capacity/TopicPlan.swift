import CausewayConfiguration
import Kafka

/// The Kafka topics that Causeway needs, with their sizes. The defaults equal the defaults of the Helm chart.
package struct TopicPlan: Sendable {
    /// Partitions of the topics of commands, registrations, deferred commands, fan-out records and results. Range:
    /// 1...10,000.
    ///
    /// Choose at least the largest number of lanes that you will ever run. If you add partitions later, producers write
    /// the records of many activities to other partitions, and so to other lanes.
    package var partitionCount = 24
    /// Copies that Kafka keeps of each record, 1...32,767; 0: the brokers' default.
    package var replicationFactor = 3
    /// How many copies must have a record before Kafka acknowledges it. At 2 of 3 copies, Kafka still acknowledges
    /// records while one broker is down. Range: 1...`replicationFactor`. If `replicationFactor` is 0: 1...32,767.
    package var minInsyncReplicas = 2
    /// Sizes of single topics that differ from the defaults. If two elements give one topic a number of partitions or a
    /// retention, the last one applies.
    package var sizeOverrides: [TopicSizeOverride] = []

    package init() {}

    /// The maximum number of partitions of the topics of invalidations, dead letters and channels, which have few
    /// records.
    static let lowTrafficPartitionsMax = 6
    private static let millisecondsPerHour = 3_600_000
    /// Into how many log segments (files of a partition) one retention time is divided. A broker deletes a segment only
    /// as a whole, when its newest record is older than the retention. By default, a segment stays open for seven days,
    /// so with a retention of 24 hours its first record would stay for eight days. With 24 segments, it stays for about
    /// 25 hours. (Below a retention of four hours, ``segmentMillisecondsMin`` applies.)
    private static let segmentsPerRetention = 24
    /// The shortest time for which a log segment stays open, 10 minutes. With shorter segments a broker would have too
    /// many files open: a log and two indexes for each segment.
    private static let segmentMillisecondsMin = 600_000
    /// How long a log segment of a compacted topic stays open. The broker compacts only closed segments, and by default
    /// it closes a segment after seven days. Until then, replaced registrations would stay in the topic.
    private static let compactedSegmentMilliseconds = 6 * millisecondsPerHour

    /// Returns all topics with their sizes and settings. The sizes in `sizeOverrides` replace the planned ones.
    package func makeTopics(_ names: WorkerConfiguration.Kafka.Topics) -> [NewTopic] {
        let lowTrafficPartitionCount = min(partitionCount, Self.lowTrafficPartitionsMax)
        return [
            // Commands are kept 24 hours. A backlog after a longer outage is useless, because phones show an activity
            // for at most 12 hours.
            makeTopic(.commands, names.commands, partitionCount, hours: 24),
            // Registrations have no retention time, because the newest token of each activity or device must be kept.
            makeTopic(.registrations, names.registrations, partitionCount),
            makeTopic(.results, names.results, partitionCount, hours: 72),
            makeTopic(.invalidations, names.invalidations, lowTrafficPartitionCount, hours: 168),
            makeTopic(.deadLetters, names.deadLetters, lowTrafficPartitionCount, hours: 336),
            // Deferred commands are read again within minutes, so their records are kept no longer than other commands.
            // The topic needs as many partitions as the commands topic, so that all commands of an activity reach one
            // lane.
            makeTopic(.deferred, names.deferred, partitionCount, hours: 24),
            // A fan-out record is kept as long as its command. The topic needs many partitions: the fan-out records of
            // one command (one for each range) are spread over them, so that all lanes work on its rounds.
            makeTopic(.fanout, names.fanout, partitionCount, hours: 24),
            // The topic is compacted: it keeps the record of each channel until the channel is deleted.
            makeTopic(.channels, names.channels, lowTrafficPartitionCount),
        ]
    }

    /// Settings of a compacted topic. The broker compacts no record in its first hour. It keeps a tombstone for at
    /// least seven days, so that a reader that was away for days still sees it.
    private static let compactionProperties: [KafkaProperties.Property] = [
        ("cleanup.policy", "compact"), ("min.compaction.lag.ms", "3600000"), ("delete.retention.ms", "604800000"),
        ("segment.ms", String(compactedSegmentMilliseconds)),
    ]

    private func makeRetentionProperties(hours: Int) -> [KafkaProperties.Property] {
        let retentionMilliseconds = hours * Self.millisecondsPerHour
        let segmentMilliseconds = max(Self.segmentMillisecondsMin, retentionMilliseconds / Self.segmentsPerRetention)
        return [
            ("cleanup.policy", "delete"), ("retention.ms", String(retentionMilliseconds)),
            ("segment.ms", String(segmentMilliseconds)),
        ]
    }

    /// Returns one topic. If `hours` is nil, the topic is compacted.
    private func makeTopic(_ topicKey: TopicKey, _ name: String, _ partitionCount: Int, hours: Int? = nil) -> NewTopic {
        let topicOverrides = sizeOverrides.filter { $0.topicKey == topicKey }
        let topicPartitionCount = topicOverrides.last { $0.partitionCount != nil }?.partitionCount ?? partitionCount
        let topicRetentionHours = topicOverrides.last { $0.retentionHours != nil }?.retentionHours ?? hours
        return NewTopic(
            name: name,
            partitionCount: Int32(clamping: topicPartitionCount),
            replicationFactor: Int32(clamping: replicationFactor),
            settings: [("min.insync.replicas", String(minInsyncReplicas))]
                + (topicRetentionHours.map { makeRetentionProperties(hours: $0) } ?? Self.compactionProperties)
        )
    }
}
