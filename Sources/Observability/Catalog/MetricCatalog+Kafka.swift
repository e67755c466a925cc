extension MetricCatalog {
    static let kafka: [MetricDefinition] = [
        .gauge(
            .kafkaReady,
            "causeway_kafka_ready",
            .flag,
            [],
            .kafka,
            "1 when a broker is reachable.",
            "At 0 nothing is read and no result is written; what is under way waits. The log kind kafka-away says why."
        ),
        .counter(
            .kafkaErrors,
            "causeway_kafka_errors_total",
            "errors",
            [.kafkaError],
            omitsZeros: true,
            "Errors of the Kafka clients, by librdkafka's name.",
            "Transport errors come with every broker restart. Authorization and topic errors need a person."
        ),
        .gauge(
            .partitionsAssigned,
            "causeway_partitions_assigned",
            .count("partitions"),
            [],
            .kafka,
            "Partitions of all topics that this worker reads.",
            "0 with a healthy group: more workers than partitions."
        ),
        .gauge(
            .partitionsPaused,
            "causeway_partitions_paused",
            .count("partitions"),
            [],
            .kafka,
            "Partitions not read for now, because their lane takes no more.",
            "For long: the lane is full; see causeway_records_waiting for what it waits for."
        ),
        .gauge(
            .partitionsStandingStill,
            "causeway_partitions_standing_still",
            .count("partitions"),
            [],
            .kafka,
            "Partitions that are not read because the offset that was committed for them is gone, or is not known yet.",
            "For seconds at a start. For longer: records were deleted before they were read; the log kind offset-gone names "
                + "the partition, and nothing is passed over without a person."
        ),
        .gauge(
            .partitionsRereading,
            "causeway_partitions_rereading",
            .count("partitions"),
            [],
            .kafka,
            "Partitions that are read once more, since Redis has lost what their records wrote.",
            "For seconds after a failover, for minutes after Redis was emptied. For longer: nothing can be sent, or lanes are busy."
        ),
        .gauge(
            .readAheadActive,
            "causeway_read_ahead_active",
            .flag,
            [],
            .lanes(.highest),
            "1 while catching up: records are read ahead, so that overtaken states are merged instead of sent.",
            "Normal after a pause. For long: the worker never catches up."
        ),
        .gauge(
            .consumerLag,
            "causeway_consumer_lag_records",
            .count("records"),
            [.partition],
            .kafka,
            "Records in the partition after the one to be settled next, as this worker sees it; absent where it does not know.",
            "What to scale by, if it grows in all partitions. If in one: a hot activity, or a partition that stands still."
        ),
        .gauge(
            .oldestUnsettled,
            "causeway_oldest_unsettled_seconds",
            .secondsInMilliseconds,
            [.partition],
            .lanes(.each),
            "Age of the oldest record in the partition that is received and not settled; 0 if there is none.",
            "Nothing behind it can be committed. It should be seconds; a held start may make it minutes."
        ),
        .gauge(
            .watermark,
            "causeway_watermark_offset",
            .count("offset"),
            [.partition],
            .lanes(.each),
            "The offset below which everything is settled: where a restart resumes.",
            "Standing still while records come: its first record is stuck; see the age beside it."
        ),
    ]
}
