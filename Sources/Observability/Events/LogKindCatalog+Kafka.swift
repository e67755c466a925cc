import Logging

extension LogKindCatalog {
    static let kafka: [LogKindDefinition] = [
        define(
            .partitionsAssigned,
            "partitions-assigned",
            .info,
            "partitions assigned",
            "The group has given this worker partitions."
        ),
        define(
            .partitionsRevoked,
            "partitions-revoked",
            .info,
            "partitions revoked",
            "The group has taken partitions back, or they were lost."
        ),
        define(
            .partitionsPaused,
            "partitions-paused",
            .notice,
            "partitions paused: the lane accepts no more records",
            "A lane has as many records as it may.",
            "causeway_records_waiting shows what they wait for."
        ),
        define(.partitionsResumed, "partitions-resumed", .notice, "partitions resumed", "The lane has room again."),
        define(
            .partitionsTooMany,
            "partitions-too-many",
            .error,
            "more partitions than a lane can have",
            "The partition is not read until another worker or lane takes it.",
            "Run more workers or lanes."
        ),
        define(
            .partitionIsNew,
            "partition-is-new",
            .info,
            "the group has no committed offset for a partition, which is read from its beginning",
            "This is the first start of a group, or a partition that was added to a topic."
        ),
        define(
            .offsetGone,
            "offset-gone",
            .critical,
            "a committed offset is gone: the partition is not read",
            "Retention deleted records before they were read, or the topic was deleted and created again. Nothing is skipped silently.",
            "Decide where to continue, and set the group's offset with Kafka's own tools while the workers are stopped."
        ),
        define(
            .settledOffsetsRefused,
            "settled-offsets-refused",
            .warning,
            "the metadata of a committed offset is not used",
            "The metadata lists the settled records above the offset. Without it these are read again: "
                + "results may be written twice, but Redis prevents second pushes and alerts.",
            "Nothing, if it happens once. If `cause` says that a worker did not write the metadata, another program commits offsets for this group."
        ),
        define(
            .kafkaUnreachable,
            "kafka-unreachable",
            .warning,
            "no broker is reachable",
            "Nothing is read, and no result is written. Records in progress wait.",
            "Check the brokers, the network policy, kafka.bootstrapServers and the credentials."
        ),
        define(
            .kafkaReachableAgain,
            "kafka-reachable-again",
            .notice,
            "a broker is reachable again",
            "Reading and writing continue."
        ),
        define(
            .kafkaError,
            "kafka-error",
            .error,
            "Kafka",
            "A Kafka client reports an error, and continues if it can.",
            "Read `error`: authorization errors and unknown topics need an operator; transport errors end by themselves."
        ),
        define(
            .kafkaFatal,
            "kafka-fatal",
            .critical,
            "the Kafka client cannot continue",
            "The worker ends and is restarted; nothing is lost.",
            "Read `error`. A fenced instance: two workers have the same group.instance.id."
        ),
        define(
            .kafkaClient,
            "kafka-client",
            .info,
            "librdkafka",
            "A log line of librdkafka, with the level that librdkafka gave it."
        ),
        define(
            .kafkaCloseLate,
            "kafka-close-late",
            .warning,
            "a Kafka client did not close in time",
            "The group notices when the session times out. Records without an acknowledged result are read again.",
            "If it happens at every stop, check the latency of the brokers."
        ),
        define(
            .resultNotProduced,
            "result-not-produced",
            .error,
            "a record could not be produced",
            "The client refused a result, invalidation or dead letter. It is produced again.",
            "Read `error`: usually the topic does not exist, or the user may not write to it."
        ),
        define(
            .commandUndecodable,
            "command-undecodable",
            .warning,
            "no phone can decode a command",
            "The command does not fit the shapes of its app. It is sent because of `shapes.mode: warn`, and phones show nothing.",
            "Read `detail`: correct the producer, or write the app's shapes again."
        ),
    ]
}
