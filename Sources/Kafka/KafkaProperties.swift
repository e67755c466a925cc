/// The librdkafka properties that Causeway sets before the user's own. Causeway's promises then do not change
/// with the library's defaults. Names and values are librdkafka's (its `CONFIGURATION.md`).
public enum KafkaProperties {
    public typealias Property = (name: String, value: String)

    /// The maximum kilobytes of fetched records in the client; above it fetching stops. This is the
    /// consumer's memory budget, without the polled records. librdkafka counts only keys and values here, so
    /// small records take several times as much memory. `queued.min.messages` limits their number.
    public static let consumerQueueKilobytes = 32 * 1024
    /// The maximum number of records that wait for acknowledgement; above it `produce` returns `.queueFull`.
    /// Limits the memory of small records, whose overhead the limit in kilobytes does not count.
    public static let producerQueueMessages = 200_000
    /// The maximum kilobytes that wait for acknowledgement; above it `produce` returns `.queueFull`.
    public static let producerQueueKilobytes = 128 * 1024

    /// How long the group waits for a member's heartbeat before it gives the member's partitions to others.
    /// After a worker is killed, its partitions are unread for this time and for a rebalance: the other
    /// members must send their next heartbeats, drain and join. Both together take at most 12 s.
    ///
    /// A short session has a price: a worker that is cut off or paused for this long loses its partitions,
    /// and another worker reads its unsettled records again. Brokers refuse a session below
    /// `group.min.session.timeout.ms`, 6 s by default.
    public static let sessionMilliseconds = 8_000
    /// The interval of heartbeats, after which members learn of a rebalance. Several heartbeats fit into a
    /// session, so a late one does no harm.
    public static let heartbeatMilliseconds = 1_000

    /// Defaults of every client.
    static let common: [Property] = [
        ("client.id", "causeway"),
        ("log.queue", "true"),
        ("socket.keepalive.enable", "true"),
        // Requests are batches already; Nagle's algorithm could only delay the last segment of one.
        ("socket.nagle.disable", "true"),
        ("broker.address.ttl", "1000"),
        ("reconnect.backoff.ms", "100"),
        ("reconnect.backoff.max.ms", "5000"),
        ("ssl.endpoint.identification.algorithm", "https"),
    ]

    /// Defaults of every consumer.
    public static let consumer: [Property] =
        common + [
            // `Consumer` itself commits, because librdkafka before 2.2 commits no metadata with the offsets.
            ("enable.auto.commit", "false"),
            // After a kill, the records settled since the last commit are read again, and their results are
            // written twice.
            ("auto.commit.interval.ms", "250"),
            // Offsets are stored when a command is settled, not when its record is polled.
            ("enable.auto.offset.store", "false"),
            // Gives each worker the same partition numbers of all topics. `cooperative-sticky` counts the
            // partitions of all topics together, and may give one worker all commands and another all
            // registrations.
            ("partition.assignment.strategy", "range"),
            // A reset is never silent: the consumer reports an error that names the partition.
            ("auto.offset.reset", "error"),
            ("session.timeout.ms", String(sessionMilliseconds)),
            ("heartbeat.interval.ms", String(heartbeatMilliseconds)),
            ("max.poll.interval.ms", "120000"),
            ("isolation.level", "read_committed"),
            ("check.crcs", "true"),
            // A log can end with a transaction's marker or an open transaction, which are no records for a
            // reader. Only this property tells the reader that it has reached the end.
            ("enable.partition.eof", "true"),
            ("queued.min.messages", "100000"),
            ("queued.max.messages.kbytes", String(consumerQueueKilobytes)),
            ("fetch.message.max.bytes", "1048576"),
            ("fetch.max.bytes", "8388608"),
            ("fetch.min.bytes", "1"),
            ("fetch.wait.max.ms", "100"),
            ("fetch.error.backoff.ms", "200"),
        ]

    /// Defaults of every consumer whose librdkafka knows the property; older versions are left as they are.
    ///
    /// A full queue stops fetching. Since librdkafka 2.2 it stops for `fetch.queue.backoff.ms`, by default 1
    /// s, and a lane that reads a backlog would be idle for most of this time. Before 2.2
    /// `Consumer.wakeFetching` is needed instead.
    static let consumerWhereKnown: [Property] = [(fetchQueueBackoffName, "20")]
    static let fetchQueueBackoffName = "fetch.queue.backoff.ms"

    /// Defaults of every producer.
    public static let producer: [Property] =
        common + [
            // A consumer has this value by default. Setting it there would make librdkafka warn about every
            // broker that does not know it.
            ("allow.auto.create.topics", "false"),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("max.in.flight.requests.per.connection", "5"),
            ("delivery.timeout.ms", "120000"),
            ("linger.ms", "5"),
            ("batch.num.messages", "10000"),
            ("compression.type", "lz4"),
            // The Java client's partitioner, so that every client puts a key into the same partition of
            // topics of equal size. Records without a key are spread at random.
            ("partitioner", "murmur2_random"),
            ("queue.buffering.max.messages", String(producerQueueMessages)),
            ("queue.buffering.max.kbytes", String(producerQueueKilobytes)),
            // Every record is reported: without the report of its result, a command would keep its offset
            // unsettled forever.
            ("delivery.report.only.error", "false"),
        ]

    /// A value that one of Causeway's promises depends on. It is checked after the user's properties were
    /// applied, and under its canonical name, so that librdkafka's aliases are covered.
    struct Promise {
        var name: String
        var isKept: @Sendable (_ value: String) -> Bool
        var reason: String
    }

    static let commonPromises = [
        Promise(
            name: "log.queue",
            isKept: { $0 == "true" },
            reason: "must be true: log lines are delivered on the polling thread, not on the client's own threads"
        )
    ]

    static let consumerPromises =
        commonPromises + [
            Promise(
                name: "enable.auto.offset.store",
                isKept: { $0 == "false" },
                reason: "must be false: offsets are stored only for settled commands, or a crash would lose commands"
            ),
            Promise(
                name: "enable.auto.commit",
                isKept: { $0 == "false" },
                reason: "must be false: Causeway commits offsets itself, with what is settled above them"
            ),
            Promise(
                name: "auto.commit.interval.ms",
                isKept: { $0 != "0" },
                reason: "must not be 0: stored offsets would never be committed"
            ),
        ]

    static let producerPromises =
        commonPromises + [
            Promise(
                name: "enable.idempotence",
                isKept: { $0 == "true" },
                reason: "must be true: without it a retry can duplicate or reorder results"
            ),
            Promise(
                name: "delivery.report.only.error",
                isKept: { $0 == "false" },
                reason: "must be false: an offset is stored only after its result is reported as delivered"
            ),
            Promise(
                name: "transactional.id",
                isKept: { $0.isEmpty },
                reason: "must not be set: results are not produced in transactions"
            ),
        ]
}
