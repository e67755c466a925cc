/// The librdkafka properties that Causeway sets before the user's own. So Causeway does not depend on the library's
/// defaults, which may change. Names and values are librdkafka's (its `CONFIGURATION.md`).
public enum KafkaProperties {
    public typealias Property = (name: String, value: String)

    /// Above this many kilobytes of records that are fetched and not yet polled, librdkafka begins no fetch. It counts
    /// only the values, so many small records take several times as much memory; `queued.min.messages` limits their
    /// number. For a worker with little memory, `MemoryBudget` lowers both limits.
    public static let consumerQueueKilobytesMax = 32 * 1024
    /// The maximum number of records in a producer, from `produce` until their delivery reports are polled. Above it,
    /// `produce` returns `.queueFull`. It limits the memory of small records, whose overhead the limit in kilobytes
    /// does not count.
    public static let producerQueueMessagesMax = 200_000
    /// The maximum kilobytes of the records in a producer. Above it, `produce` returns `.queueFull`.
    public static let producerQueueKilobytesMax = 128 * 1024

    /// How long the group waits for a member's heartbeat before it gives the member's partitions to others. If a worker
    /// is killed, nobody reads its partitions for this time and the rebalance that follows: usually at most 12 s.
    ///
    /// It is not shorter, because a worker that is cut off or paused for this long loses its partitions, and their
    /// unsettled records are read again. Also, brokers refuse less than `group.min.session.timeout.ms`, 6 s by default.
    public static let sessionTimeoutMilliseconds = 8_000
    /// The interval of heartbeats. A member learns of a rebalance from the response to its next heartbeat. Several
    /// heartbeats fit into a session, so a late one does no harm.
    public static let heartbeatIntervalMilliseconds = 1_000

    /// Defaults of all consumers and producers.
    static let commonDefaults: [Property] = [
        ("client.id", "causeway"),
        ("log.queue", "true"),
        ("socket.keepalive.enable", "true"),
        // Switches off Nagle's algorithm: each request already has a whole batch, and the algorithm would only delay
        // the last packet of the request.
        ("socket.nagle.disable", "true"),
        ("broker.address.ttl", "1000"),
        ("reconnect.backoff.ms", "100"),
        ("reconnect.backoff.max.ms", "5000"),
        ("ssl.endpoint.identification.algorithm", "https"),
    ]

    public static let consumerDefaults: [Property] =
        commonDefaults + [
            // `Consumer` makes the commits. librdkafka's own commits before 2.2 have no metadata.
            ("enable.auto.commit", "false"),
            // How often `Consumer` commits. After a kill, the records that were settled since the last commit are read
            // again, and their results may be written twice.
            ("auto.commit.interval.ms", "250"),
            // An offset is stored when its record is settled (`Consumer.storeOffset`). librdkafka would already store
            // it when the record is polled.
            ("enable.auto.offset.store", "false"),
            // `range` gives a worker the same partition numbers of all topics with equally many partitions, for example
            // partition 3 of each. `cooperative-sticky` looks only at the total number of partitions, and may give one
            // worker all commands and another all registrations.
            ("partition.assignment.strategy", "range"),
            // If the position is unknown, the consumer reports an error that names the partition, and does not silently
            // begin at another position.
            ("auto.offset.reset", "error"),
            ("session.timeout.ms", String(sessionTimeoutMilliseconds)),
            ("heartbeat.interval.ms", String(heartbeatIntervalMilliseconds)),
            ("max.poll.interval.ms", "120000"),
            // A command in a transaction that its producer aborted must not be sent.
            ("isolation.level", "read_committed"),
            // Check checksums: reading a backlog without this check was not cheaper (Measurements.md).
            ("check.crcs", "true"),
            // The last offsets of a log may belong to a transaction's marker or to an open transaction. A reader gets
            // no record for these offsets. So only this property tells the reader that it has reached the end.
            ("enable.partition.eof", "true"),
            ("queued.min.messages", "100000"),
            ("queued.max.messages.kbytes", String(consumerQueueKilobytesMax)),
            ("fetch.message.max.bytes", "1048576"),
            ("fetch.max.bytes", "8388608"),
            ("fetch.min.bytes", "1"),
            ("fetch.wait.max.ms", "100"),
            ("fetch.error.backoff.ms", "200"),
        ]

    /// Further defaults of every `Consumer`. A property that the loaded librdkafka does not know is left out.
    ///
    /// `fetch.queue.backoff.ms`, since 2.2: how long fetching stops when the queue is full. With the default of 1 s, a
    /// lane that reads a backlog would be idle for most of this time. Before 2.2, the caller uses
    /// `Consumer.wakeFetching`.
    static let versionDependentConsumerDefaults: [Property] = [(fetchQueueBackoffName, "20")]
    static let fetchQueueBackoffName = "fetch.queue.backoff.ms"

    public static let producerDefaults: [Property] =
        commonDefaults + [
            // A producer must not create topics. Consumers do not set this property: its default is false there, and
            // librdkafka would warn about each broker that does not know it.
            ("allow.auto.create.topics", "false"),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            // The maximum that librdkafka allows for an idempotent producer.
            ("max.in.flight.requests.per.connection", "5"),
            ("delivery.timeout.ms", "120000"),
            // The worker sets 50 ms for its own producer, because larger batches cost less (Measurements.md).
            ("linger.ms", "5"),
            ("batch.num.messages", "10000"),
            ("compression.type", "lz4"),
            // The Java client's partitioner. With it, a Java client and Causeway choose the same partition number for a
            // key, in all topics with equally many partitions. Records without a key go to random partitions.
            ("partitioner", "murmur2_random"),
            ("queue.buffering.max.messages", String(producerQueueMessagesMax)),
            ("queue.buffering.max.kbytes", String(producerQueueKilobytesMax)),
            // librdkafka reports successes too, not only failures. Without the report of its result, a command would
            // never be settled.
            ("delivery.report.only.error", "false"),
        ]

    /// Which values a property may have without breaking one of Causeway's promises. Checked after the user's
    /// properties are applied, so it also finds a value that the user has set by an alias of `name`.
    struct PropertyRule {
        var name: String
        var permits: @Sendable (_ value: String) -> Bool
        var reason: String
    }

    static let commonRules = [
        PropertyRule(
            name: "log.queue",
            permits: { $0 == "true" },
            reason: "must be true: log lines are delivered on the polling thread, not on the client's own threads"
        )
    ]

    static let consumerRules =
        commonRules + [
            PropertyRule(
                name: "enable.auto.offset.store",
                permits: { $0 == "false" },
                reason: "must be false: offsets are stored only for settled commands, or a crash would lose commands"
            ),
            PropertyRule(
                name: "enable.auto.commit",
                permits: { $0 == "false" },
                reason: "must be false: Causeway commits offsets itself, with what is settled above them"
            ),
            PropertyRule(
                name: "auto.commit.interval.ms",
                permits: { $0 != "0" },
                reason: "must not be 0: stored offsets would never be committed"
            ),
        ]

    static let producerRules =
        commonRules + [
            PropertyRule(
                name: "enable.idempotence",
                permits: { $0 == "true" },
                reason: "must be true: without it a retry can duplicate or reorder results"
            ),
            PropertyRule(
                name: "delivery.report.only.error",
                permits: { $0 == "false" },
                reason: "must be false: an offset is stored only after its result is reported as delivered"
            ),
            PropertyRule(
                name: "transactional.id",
                permits: { $0.isEmpty },
                reason: "must not be set: results are not produced in transactions"
            ),
        ]
}
