import Logging

extension LogKindCatalog {
    static let kafka: [LogKindDefinition] = [
        define(
            .partitionsAssigned,
            "partitions-assigned",
            .info,
            message: "partitions assigned",
            meaning: "The consumer group has assigned partitions to this worker."
        ),
        define(
            .partitionsRevoked,
            "partitions-revoked",
            .info,
            message: "partitions revoked",
            meaning: """
                The consumer group has revoked partitions of this worker, or the worker lost them, for example because \
                its session timed out.
                """
        ),
        define(
            .partitionsPaused,
            "partitions-paused",
            .notice,
            message: "partitions paused: the lane accepts no more records",
            meaning: "A lane has reached its limit of records in progress.",
            action: "causeway_records_waiting shows what the records wait for."
        ),
        define(
            .partitionsResumed,
            "partitions-resumed",
            .notice,
            message: "partitions resumed",
            meaning: "The lane accepts records again."
        ),
        define(
            .partitionsTooMany,
            "partitions-too-many",
            .error,
            message: "more partitions than a lane can have",
            meaning: "The partition is not read until the group assigns it to a worker whose lane can accept it.",
            action: "Run more workers or lanes."
        ),
        define(
            .partitionIsNew,
            "partition-is-new",
            .info,
            message: "the group has no committed offset for a partition, which is read from its beginning",
            meaning: "The consumer group starts for the first time, or the partition was added to its topic."
        ),
        define(
            .offsetGone,
            "offset-gone",
            .critical,
            message: "a committed offset no longer exists: the partition is not read",
            meaning: """
                Retention deleted records before they were read, or the topic was deleted and created again. Workers \
                never skip records silently.
                """,
            action: """
                Decide where to continue, and set the group's offset with Kafka's own tools while the workers are \
                stopped.
                """
        ),
        define(
            .settledOffsetsRefused,
            "settled-offsets-refused",
            .warning,
            message: "the worker does not use the metadata of a committed offset",
            meaning: """
                The metadata lists the settled records above the offset. Without it, these records are read \
                again: results may be written twice, but Redis prevents second pushes and alerts.
                """,
            action: """
                Nothing, if it happens once. If `cause` says that a worker did not write the metadata, another program \
                commits offsets for this group.
                """
        ),
        define(
            .kafkaUnreachable,
            "kafka-unreachable",
            .warning,
            message: "no broker is reachable",
            meaning: "Nothing is read, and no result is written. Records in progress wait.",
            action: "Check the brokers, the network policy, kafka.bootstrapServers and the credentials."
        ),
        define(
            .kafkaReachableAgain,
            "kafka-reachable-again",
            .notice,
            message: "a broker is reachable again",
            meaning: "Reading and writing continue."
        ),
        define(
            .kafkaError,
            "kafka-error",
            .error,
            message: "a Kafka client reports an error",
            meaning: "The client continues if it can.",
            action: """
                Read `error`: authorization errors and unknown topics need an operator; transport errors end \
                automatically.
                """
        ),
        define(
            .kafkaFatal,
            "kafka-fatal",
            .critical,
            message: "the Kafka client cannot continue",
            meaning: "The worker exits with code 70, and Kubernetes restarts it. Nothing is lost.",
            action: "Read `error`. A fenced instance means that two workers have the same group.instance.id."
        ),
        define(
            .kafkaClient,
            "kafka-client",
            .info,
            message: "log line of librdkafka",
            meaning: "librdkafka wrote the text in `line`, with this level."
        ),
        define(
            .kafkaCloseLate,
            "kafka-close-late",
            .warning,
            message: "a Kafka client did not close in time",
            meaning: """
                The group notices that the worker has left only when the session times out. Records without an \
                acknowledged result are read again.
                """,
            action: "If it happens at every stop, check the latency of the brokers."
        ),
        define(
            .resultNotProduced,
            "result-not-produced",
            .error,
            message: "a record could not be produced",
            meaning: """
                Kafka, or its client, did not take a result, a dead letter or another record for `topic`. The worker \
                tries again.
                """,
            action: """
                Read `error`: usually the topic does not exist, the Kafka user may not write to it, or too few \
                replicas are in sync.
                """
        ),
        define(
            .recordGivenUp,
            "record-given-up",
            .error,
            message: "a record is given up, because it is too large for its topic",
            meaning: """
                Kafka refused the record eight times, at last in batches with few other records or none. The worker \
                does not write it to `topic`.
                """,
            action: "Raise max.message.bytes of `topic`."
        ),
        define(
            .commandUndecodable,
            "command-undecodable",
            .warning,
            message: "a command does not fit the shapes of its app, so phones cannot decode it",
            meaning: "The command is sent because of `shapes.mode: warn`, but phones show nothing new.",
            action: "Read `detail`, then correct the producer, or generate the app's shapes again."
        ),
    ]
}
