extension MetricCatalog {
    static let kafka: [MetricDefinition] = [
        .gauge(
            .kafkaReady,
            "causeway_kafka_ready",
            .flag,
            [],
            .kafkaThread,
            help: "1 if a broker is reachable.",
            meaning:
                """
                At 0, nothing is read and no result is written; records in progress wait. The log kind \
                kafka-unreachable says why.
                """
        ),
        .counter(
            .kafkaErrors,
            "causeway_kafka_errors_total",
            .count("errors"),
            [.kafkaError],
            .kafkaThread,
            omitsZeros: true,
            help: "Errors of the Kafka clients, and records that Kafka did not take, by librdkafka's error name.",
            meaning:
                """
                Transport errors are normal when a broker restarts. Authorization and topic errors need an operator. \
                The log kind result-not-produced names the topic of records that Kafka did not take.
                """
        ),
        .gauge(
            .partitionsAssigned,
            "causeway_partitions_assigned",
            .count("partitions"),
            [],
            .kafkaThread,
            help: "Partitions that this worker reads, of all topics.",
            meaning: "In a healthy group, 0 means that there are more workers than partitions."
        ),
        .gauge(
            .partitionsPaused,
            "causeway_partitions_paused",
            .count("partitions"),
            [],
            .kafkaThread,
            help: "Partitions that are not read now because their lane accepts no more records.",
            meaning: "If this lasts, the lane is full; causeway_records_waiting shows what it waits for."
        ),
        .gauge(
            .partitionsStuck,
            "causeway_partitions_stuck",
            .count("partitions"),
            [],
            .kafkaThread,
            help: "Partitions that are not read because their committed offset no longer exists, or is not known yet.",
            meaning:
                "Normal for a few seconds after a start. If it lasts, records were deleted before they were read. The "
                + "log kind offset-gone names the partition; an operator must set the group's offset."
        ),
        .gauge(
            .partitionsRereading,
            "causeway_partitions_rereading",
            .count("partitions"),
            [],
            .kafkaThread,
            help: "Partitions that are read again because Redis has lost what their records wrote.",
            meaning:
                """
                Normal for seconds after a failover, and for minutes after Redis was emptied. If it stays above 0, \
                Redis or APNs is unavailable, the lanes are busy, or a partition has stopped (offset-gone) and waits \
                for an operator.
                """
        ),
        .gauge(
            .deferredWaiting,
            "causeway_deferred_waiting",
            .count("commands"),
            [],
            .kafkaThread,
            help:
                """
                Commands on the deferred topic that are not due, in the partitions of this worker. A command that is \
                due is read again, and then counts as a record in progress instead.
                """,
            meaning:
                """
                They wait for their app's APNs host or key, or for the pace of their activity or device. \
                causeway_deferred_total{app} says which apps they are for. The number is determined when the worker \
                reads the partition, so it is at most worker.deferredDelayMilliseconds old.
                """
        ),
        .gauge(
            .deferredOldest,
            "causeway_deferred_oldest_seconds",
            .secondsStoredAsMilliseconds,
            [],
            .kafkaThread,
            help:
                """
                Age of the oldest of the commands that are first in a partition of the deferred topic. It counts from \
                the moment at which a worker first received the command; 0 if none waits.
                """,
            meaning:
                """
                The age includes all deferrals of the command, so it tells since when its app or device has been held \
                up. Commands further behind in the partition may be older.
                """
        ),
        .gauge(
            .readAheadActive,
            "causeway_read_ahead_active",
            .flag,
            [],
            .lanes(.highest),
            help:
                "1 while the worker catches up: it reads ahead, so that superseded states are merged instead of sent.",
            meaning:
                """
                Normal after an outage or a restart. If it stays 1, records arrive faster than the worker processes \
                them.
                """
        ),
        .gauge(
            .consumerLagRecords,
            "causeway_consumer_lag_records",
            .count("records"),
            [.partition],
            .kafkaThread,
            help:
                """
                Records in the partition from the next one to settle, as far as this worker knows; absent if it does \
                not know.
                """,
            meaning:
                """
                If it grows in all partitions, add workers. If it grows in one, one activity gets very many commands, \
                or the partition is stuck.
                """
        ),
        .gauge(
            .oldestUnsettled,
            "causeway_oldest_unsettled_seconds",
            .secondsStoredAsMilliseconds,
            [.partition],
            .lanes(.perLane),
            help: "Age of the oldest received and unsettled record in the partition; 0 if there is none.",
            meaning:
                """
                Later offsets of the partition cannot be committed. Seconds are normal. A command that cannot be sent \
                soon is deferred after worker.deferAfterMilliseconds, and its offset settles.
                """
        ),
        .gauge(
            .committableOffset,
            "causeway_committable_offset",
            .count("offset"),
            [.partition],
            .lanes(.perLane),
            help: "The offset below which all records are settled: a restart resumes there.",
            meaning:
                """
                If it does not move while records arrive, its first record is stuck; see \
                causeway_oldest_unsettled_seconds.
                """
        ),
    ]
}
