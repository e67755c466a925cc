/// The librdkafka properties that we set ourselves before the user's own, so that a change of a library default never
/// changes what we promise. Names and values are librdkafka's (its `CONFIGURATION.md`).
public enum KafkaProperties {
    public typealias Property = (name: String, value: String)

    /// Kilobytes of fetched records that may wait in the client before it stops fetching: the consumer's memory budget.
    /// Records already handed out are not counted.
    public static let consumerQueueKilobytes = 32 * 1024
    /// Records that may wait for acknowledgement before `produce` answers `.queueFull`.
    public static let producerQueueMessages = 200_000
    /// Kilobytes that may wait for acknowledgement before `produce` answers `.queueFull`.
    public static let producerQueueKilobytes = 128 * 1024

    /// How long the group waits for a member's heartbeat before it gives its partitions to others. A worker that was killed is missed for
    /// so long, then for a rebalance: until the others' next heartbeats, until they have drained and joined. All of it fits 12 s.
    ///
    /// The price of a short session: a worker that is cut off or does not run for so long loses its partitions, and what it had not
    /// settled is read again by another. Brokers refuse less than their `group.min.session.timeout.ms`, 6 s by default.
    public static let sessionMilliseconds = 8_000
    /// How soon the members learn of a rebalance. Several heartbeats fit a session, so that a late one costs nothing.
    public static let heartbeatMilliseconds = 1_000

    /// Set for every client.
    static let common: [Property] = [
        ("client.id", "causeway"),
        ("log.queue", "true"),
        ("socket.keepalive.enable", "true"),
        // Requests are batches already; Nagle's algorithm could only hold back the last segment of one.
        ("socket.nagle.disable", "true"),
        ("broker.address.ttl", "1000"),
        ("reconnect.backoff.ms", "100"),
        ("reconnect.backoff.max.ms", "5000"),
        ("ssl.endpoint.identification.algorithm", "https"),
        ("allow.auto.create.topics", "false"),
    ]

    /// Set for every consumer.
    public static let consumer: [Property] =
        common + [
            // `Consumer` commits by itself, so that metadata goes along.
            ("enable.auto.commit", "false"),
            // What a killed worker had settled since its last commit is read again, and its results are written twice.
            ("auto.commit.interval.ms", "250"),
            // Offsets are stored when a command is settled, not when its record is handed out.
            ("enable.auto.offset.store", "false"),
            // Each worker has the same numbers of all topics. `cooperative-sticky` counts the partitions of all of them together, and may
            // give one worker all commands and another all registrations.
            ("partition.assignment.strategy", "range"),
            // A reset is never silent: it arrives as an error that names the partition.
            ("auto.offset.reset", "error"),
            ("session.timeout.ms", String(sessionMilliseconds)),
            ("heartbeat.interval.ms", String(heartbeatMilliseconds)),
            ("max.poll.interval.ms", "120000"),
            ("isolation.level", "read_committed"),
            ("check.crcs", "true"),
            // Of a log that ends with what is no record for its readers (a transaction's marker, one that is open), only this says so.
            ("enable.partition.eof", "true"),
            ("queued.min.messages", "100000"),
            ("queued.max.messages.kbytes", String(consumerQueueKilobytes)),
            ("fetch.message.max.bytes", "1048576"),
            ("fetch.max.bytes", "8388608"),
            ("fetch.min.bytes", "1"),
            ("fetch.wait.max.ms", "100"),
            ("fetch.error.backoff.ms", "200"),
        ]

    /// Set for every consumer whose librdkafka knows them; older ones are left as they are.
    ///
    /// A full queue stops fetching, since 2.2 for this long at a time (its own default, a second, would have a lane that works a
    /// backlog off stand still for most of it). Before 2.2 `Consumer.wakeFetching` is needed.
    static let consumerWhereKnown: [Property] = [(fetchQueueBackoffName, "20")]
    static let fetchQueueBackoffName = "fetch.queue.backoff.ms"

    /// Set for every producer.
    public static let producer: [Property] =
        common + [
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("max.in.flight.requests.per.connection", "5"),
            ("delivery.timeout.ms", "120000"),
            ("linger.ms", "5"),
            ("batch.num.messages", "10000"),
            ("compression.type", "lz4"),
            // The Java client's partitioner: whichever client produces, a key lands in the same partition of topics of equal size.
            // Records without a key are spread at random.
            ("partitioner", "murmur2_random"),
            ("queue.buffering.max.messages", String(producerQueueMessages)),
            ("queue.buffering.max.kbytes", String(producerQueueKilobytes)),
            // Every record is reported: a result that is never reported would hold its command's offset back for ever.
            ("delivery.report.only.error", "false"),
        ]

    /// A value that one of our promises rests on. It is checked after the user's properties were applied, under the
    /// canonical name, so that librdkafka's aliases are covered too.
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
                reason: "must be false: an offset is stored when its command is settled, else a crash loses it"
            ),
            Promise(
                name: "enable.auto.commit",
                isKept: { $0 == "false" },
                reason: "must be false: offsets are committed together with what is settled above them"
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
