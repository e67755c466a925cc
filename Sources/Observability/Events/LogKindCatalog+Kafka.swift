import Logging

extension LogKindCatalog {
    static let kafka: [LogKindDefinition] = [
        define(
            .partitionsAssigned,
            "partitions-assigned",
            .info,
            "partitions assigned",
            "The consumer group has assigned partitions to this worker."
        ),
        define(
            .partitionsRevoked,
            "partitions-revoked",
            .info,
            "partitions revoked",
            """
            The consumer group has revoked partitions of this worker, or the worker lost them, for example because its \
            session timed out.
            """
        ),
        define(
            .partitionsPaused,
            "partitions-paused",
            .notice,
            "partitions paused: the lane accepts no more records",
            "A lane has reached its limit of records in progress.",
            "causeway_records_waiting shows what the records wait for."
        ),
        define(
            .partitionsResumed,
            "partitions-resumed",
            .notice,
            "partitions resumed",
            "The lane accepts records again."
        ),
        define(
            .partitionsTooMany,
            "partitions-too-many",
            .error,
            "more partitions than a lane can have",
            "The partition is not read until the group assigns it to a worker whose lane can accept it.",
            "Run more workers or lanes."
        ),
        define(
            .partitionIsNew,
            "partition-is-new",
            .info,
            "the group has no committed offset for a partition, which is read from its beginning",
            "The consumer group starts for the first time, or the partition was added to its topic."
        ),
        define(
            .offsetGone,
            "offset-gone",
            .critical,
            "a committed offset no longer exists: the partition is not read",
            """
            Retention deleted records before they were read, or the topic was deleted and created again. Workers never \
            skip records silently.
            """,
            "Decide where to continue, and set the group's offset with Kafka's own tools while the workers are stopped."
        ),
        define(
            .settledOffsetsRefused,
            "settled-offsets-refused",
            .warning,
            "the worker does not use the metadata of a committed offset",
            "The metadata lists the settled records above the offset. Without it, these records are read again: "
                + "results may be written twice, but Redis prevents second pushes and alerts.",
            """
            Nothing, if it happens once. If `cause` says that a worker did not write the metadata, another program \
            commits offsets for this group.
            """
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
            "a Kafka client reports an error",
            "The client continues if it can.",
            "Read `error`: authorization errors and unknown topics need an operator; transport errors end automatically."
        ),
        define(
            .kafkaFatal,
            "kafka-fatal",
            .critical,
            "the Kafka client cannot continue",
            "The worker exits with code 70, and Kubernetes restarts it. Nothing is lost.",
            "Read `error`. A fenced instance means that two workers have the same group.instance.id."
        ),
        define(
            .kafkaClient,
            "kafka-client",
            .info,
            "log line of librdkafka",
            "librdkafka wrote the text in `line`, with this level."
        ),
        define(
            .kafkaCloseLate,
            "kafka-close-late",
            .warning,
            "a Kafka client did not close in time",
            """
            The group notices that the worker has left only when the session times out. Records without an \
            acknowledged result are read again.
            """,
            "If it happens at every stop, check the latency of the brokers."
        ),
        define(
            .resultNotProduced,
            "result-not-produced",
            .error,
            "a record could not be produced",
            "The Kafka client refused a result, a dead letter or another record. The worker tries again.",
            "Read `error`: usually the topic does not exist, or the Kafka user may not write to it."
        ),
        define(
            .commandUndecodable,
            "command-undecodable",
            .warning,
            "a command does not fit the shapes of its app, so phones cannot decode it",
            "The command is sent because of `shapes.mode: warn`, but phones show nothing new.",
            "Read `detail`, then correct the producer, or generate the app's shapes again."
        ),
    ]
}
