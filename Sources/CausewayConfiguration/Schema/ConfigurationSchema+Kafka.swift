extension ConfigurationSchema {
    /// The text that ``GeneratedConfigurationText`` shows about `kafka.topics`.
    static let kafkaSectionTexts = [
        "kafka.topics": """
        Names of topics: 1 to 249 letters, digits, dots, underscores and hyphens, no name twice. The topics must \
        exist.
        """
    ]

    static let kafkaKeys: [SchemaKey<WorkerConfiguration>] = [
        .text(
            "kafka.bootstrapServers",
            \.kafka.bootstrapServers,
            .bootstrapServers,
            meaning: "The brokers to connect to first: host:port, several separated by commas."
        )
        .required(example: "127.0.0.1:9092"),
        .text(
            "kafka.groupId",
            \.kafka.groupId,
            .groupId,
            meaning: "The consumer group, the same for all workers of a fleet."
        )
        .describingAllowedValues("1 to 255 bytes"),
        .text("kafka.topics.commands", \.kafka.topics.commands, .topic, meaning: "Commands. Workers read this topic."),
        .text(
            "kafka.topics.registrations",
            \.kafka.topics.registrations,
            .topic,
            meaning: "Registrations. Workers read this topic. Compacted."
        ),
        .text(
            "kafka.topics.results",
            \.kafka.topics.results,
            .topic,
            meaning: "One result for each command, unless supersededResults says otherwise. Workers write this topic."
        ),
        .text(
            "kafka.topics.invalidations",
            \.kafka.topics.invalidations,
            .topic,
            meaning: "Dead tokens. Workers write this topic."
        ),
        .text(
            "kafka.topics.deadLetters",
            \.kafka.topics.deadLetters,
            .topic,
            meaning: """
                Unchanged copies of records that are neither valid commands nor valid registrations. Workers write \
                this topic.
                """
        ),
        .text(
            "kafka.topics.deferred",
            \.kafka.topics.deferred,
            .topic,
            meaning: """
                Commands that could not be sent soon (worker.deferAfterMilliseconds). Only workers write this topic, \
                and they read the commands again later. Give it as many partitions as the commands topic, so that one \
                worker gets all commands of an activity.
                """
        ),
        .text(
            "kafka.topics.fanout",
            \.kafka.topics.fanout,
            .topic,
            meaning: """
                Commands to audiences, one record for each range of an audience's members, so that the workers share \
                them. Only workers write and read this topic. Give it as many partitions as the commands topic. If no \
                command names an audience, it stays empty.
                """
        ),
        .text(
            "kafka.topics.channels",
            \.kafka.topics.channels,
            .topic,
            meaning: """
                The broadcast channel of each audience that has one, for app servers. Workers write this topic, and \
                read it if Redis has lost its data. Compacted.
                """
        ),
        .choice(
            "kafka.supersededResults",
            \.kafka.supersededResults,
            meaning: """
                Whether a command has its own result if a newer command of its activity replaced it before the worker \
                asked Redis about it.
                each: the command has its own result, `superseded`. counted: it has no result; the result of the \
                command that replaced it has the number of replaced commands, `superseded: 12`. Then the size of the \
                results topic depends on the pushes, not on the commands.
                countedWhenBehind: like each, but like counted while a lane is known to be more than \
                worker.readAheadLagRecords behind. So after an outage, phones do not wait until millions of \
                `superseded` results are written. Starts, and commands whose alert moves to the newer state, always \
                have their own result. A worker that crashes or releases a partition may lose a count, never a \
                command: choose each if every command must have its own result.
                """
        ),
        .properties(
            "kafka.properties",
            \.kafka.properties,
            meaning: """
                Properties of librdkafka (see its CONFIGURATION.md) for the consumer and the producer: security, \
                names, timeouts. In a variable's name, dots become underscores: \
                CAUSEWAY_KAFKA_PROPERTIES_SASL_PASSWORD is sasl.password.
                """
        )
        .exampleLines(
            "security.protocol: SASL_SSL",
            "sasl.mechanism: SCRAM-SHA-512",
            "sasl.username: causeway",
            "ssl.ca.location: /etc/causeway/kafka-ca.pem"
        ),
        .propertyFiles(
            "kafka.propertyFiles",
            \.kafka.propertyFiles,
            meaning: """
                Properties of librdkafka for both clients whose values are in files, such as mounted secrets: the \
                property, then the file. The newline at the end of the file is not part of the value. The file has at \
                most 64 KiB. A property here must not be in `properties` too. If other users may read the file, the \
                worker logs a warning. A changed file applies after a restart.
                """
        )
        .exampleLines(
            "sasl.password: /etc/causeway/secrets/kafka/sasl.password",
            "ssl.key.password: /etc/causeway/secrets/kafka/key-password"
        ),
        .properties(
            "kafka.consumer",
            \.kafka.consumer,
            meaning: """
                Properties of librdkafka for the consumer only; they override `properties`. They also override \
                Causeway's own values, such as partition.assignment.strategy (range), which must be the same for all \
                workers of a group. Causeway's guarantees depend on enable.auto.offset.store and enable.auto.commit, \
                so these cannot be changed.
                session.timeout.ms is 8000 and heartbeat.interval.ms is 1000: other workers read the partitions of a \
                killed worker within 12 s. With a longer session timeout, the phones of a killed worker wait longer \
                for updates. With a shorter one, a worker that is only slow or disconnected for a moment loses its \
                partitions, and its unsettled records are read again. Brokers reject a session timeout below their \
                group.min.session.timeout.ms, 6 s by default; `causeway check` warns about it.
                """
        )
        .exampleLines("group.instance.id: worker-0", "fetch.max.bytes: 8388608"),
        .properties(
            "kafka.producer",
            \.kafka.producer,
            meaning: """
                Properties of librdkafka for the producer only; they override `properties`. Results wait up to 50 ms \
                so that batches are large, unless linger.ms says otherwise. Only the commit waits for them, never a \
                push.
                """
        )
        .exampleLines("compression.type: zstd", "linger.ms: 5"),
    ]
}
