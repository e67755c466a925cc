import Logging

extension LogKindCatalog {
    /// What happens with Kafka.
    static let kafka: [LogKindDefinition] = [
        line(
            .partitionsAssigned,
            "partitions-assigned",
            .info,
            "partitions assigned",
            "The group gave this worker partitions."
        ),
        line(
            .partitionsRevoked,
            "partitions-revoked",
            .info,
            "partitions revoked",
            "The group took partitions back, or they were lost."
        ),
        line(
            .partitionsPaused,
            "partitions-paused",
            .notice,
            "partitions paused: the lane takes no more",
            "A lane holds as many records as it may.",
            "causeway_records_waiting says what they wait for."
        ),
        line(.partitionsResumed, "partitions-resumed", .notice, "partitions resumed", "The lane has room again."),
        line(
            .partitionsTooMany,
            "partitions-too-many",
            .error,
            "more partitions than a lane can hold",
            "The partition is not read.",
            "Run more workers or lanes."
        ),
        line(
            .partitionIsNew,
            "partition-is-new",
            .info,
            "the group has committed nothing of a partition, which is read from its beginning",
            "The first start of a group, or a partition that was added to a topic."
        ),
        line(
            .offsetGone,
            "offset-gone",
            .critical,
            "a committed offset is gone: the partition stands still",
            "Records were deleted by retention before they were read, or the topic was deleted and created again. Nothing is passed over in silence.",
            "Decide where to go on, and set the group's offset with Kafka's own tools while the workers are stopped."
        ),
        line(
            .settledOffsetsRefused,
            "settled-offsets-refused",
            .warning,
            "the metadata of a committed offset is not used",
            "It says which records above the offset are settled. Without it they are read again: results may be written twice, and Redis "
                + "keeps pushes and alerts from being sent twice.",
            "Nothing, once. If `cause` says that no Causeway worker wrote it, something else commits offsets for this group."
        ),
        line(
            .kafkaAway,
            "kafka-away",
            .warning,
            "no broker is reachable",
            "Nothing is read, and no result is written. What is under way waits.",
            "Check the brokers, the network policy, kafka.bootstrapServers and the credentials."
        ),
        line(.kafkaBack, "kafka-back", .notice, "a broker is reachable again", "Reading and writing go on."),
        line(
            .kafkaError,
            "kafka-error",
            .error,
            "Kafka",
            "A client of Kafka reports an error that it may survive.",
            "Read `error`: authorization and unknown topics need a person, transport errors pass."
        ),
        line(
            .kafkaFatal,
            "kafka-fatal",
            .critical,
            "the Kafka client cannot go on",
            "The worker ends and is restarted; nothing is lost.",
            "Read `error`. A fenced instance: two workers have the same group.instance.id."
        ),
        line(
            .kafkaClientLine,
            "kafka-client",
            .info,
            "librdkafka",
            "A line of librdkafka's own, at the level that it has there."
        ),
        line(
            .kafkaCloseLate,
            "kafka-close-late",
            .warning,
            "a Kafka client did not close in time",
            "The group notices by session timeout instead; what was not acknowledged is read again.",
            "Look at the brokers' latency if it comes with every stop."
        ),
        line(
            .resultNotProduced,
            "result-not-produced",
            .error,
            "a record could not be produced",
            "A result, invalidation or dead letter was refused by the client; it is produced again.",
            "Read `error`: usually the topic is missing or may not be written."
        ),
    ]
}
