/// The definitions of all metrics. `Helm/causeway/METRICS.md` is generated from them.
package enum MetricCatalog {
    /// The definitions in the order of ``Metric``'s raw values.
    package static let definitions: [MetricDefinition] = {
        let sorted = sections.flatMap { $0.metrics }.sorted { $0.metric.rawValue < $1.metric.rawValue }
        precondition(
            sorted.map(\.metric) == Metric.allCases,
            "define each metric once in MetricCatalog*.swift; missing: "
                + "\(Set(Metric.allCases).subtracting(sorted.map(\.metric)))"
        )
        return sorted
    }()

    /// The sections of `METRICS.md`, each with its title.
    static let sections: [(title: String, metrics: [MetricDefinition])] = [
        ("Records", records),
        ("Pushes", pushes),
        ("Audiences", audiences),
        ("Channels", channels),
        ("Waiting records and pushes", waiting),
        ("APNs", apns),
        ("Redis", redis),
        ("Kafka", kafka),
        ("The worker", worker),
        ("The process", process),
    ]

    private static let records: [MetricDefinition] = [
        .counter(
            .recordsReceived,
            "causeway_records_received_total",
            .count("records"),
            [.topic],
            help: "Records that the worker received from Kafka.",
            meaning:
                """
                The rate is the load. If it is zero while the lag grows, the worker does not read: /statusz shows what \
                it waits for.
                """
        ),
        .counter(
            .outcomes,
            "causeway_outcomes_total",
            .count("commands"),
            [.app, .outcome],
            help: "Settled commands by outcome; app is \"none\" if the record names none.",
            meaning:
                """
                Each command has one outcome; a held command counts again when its token releases it. Superseded \
                commands count even without a record on the results topic (kafka.supersededResults). There are many of \
                them if states change fast. The field `reason` of a result, if there is one, says why the command has \
                its outcome.
                """
        ),
        .counter(
            .deadLetters,
            "causeway_dead_letters_total",
            .count("records"),
            [.app],
            help: "Records written unchanged to the dead-letter topic.",
            meaning:
                """
                Growth means that a producer writes records that are not valid commands. The headers of a dead letter \
                say what is wrong and where the record was.
                """
        ),
        .counter(
            .invalidations,
            "causeway_invalidations_total",
            .count("tokens"),
            [.configuredApp],
            help: "Dead tokens: APNs reported them as expired, unregistered or bad.",
            meaning:
                "A few are normal: users end activities and delete apps. A sudden rise means a wrong environment or key."
        ),
        .counter(
            .deferred,
            "causeway_deferred_total",
            .count("records"),
            [.configuredApp],
            help:
                """
                Commands written to the deferred topic because they could not be sent soon. A command that is deferred \
                twice counts twice.
                """,
            meaning:
                "Steady growth for one app: its APNs host does not respond, APNs refuses its key, or its producers "
                + "start more activities on a device than phones accept. The header `cause` of the records says which. "
                + "Deferred commands do not delay other commands."
        ),
        .counter(
            .commandsReplaced,
            "causeway_commands_replaced_total",
            .count("commands"),
            [.configuredApp],
            help:
                """
                Commands that a newer command of the activity replaced while they waited in a worker. Most of them \
                never reached Redis.
                """,
            meaning: "Divided by the received commands, this is the share of commands that needed no push."
        ),
        .counter(
            .alertsCarried,
            "causeway_alerts_carried_total",
            .count("alerts"),
            [],
            help:
                """
                Alerts of older commands that moved to a newer state of their activity. Alerts of audiences are not \
                counted.
                """,
            meaning: "Such an alert rings once, with the newer state. Growth means that states follow alerts closely, "
                + "or that commands wait long."
        ),
        .counter(
            .undecodable,
            "causeway_undecodable_total",
            .count("commands"),
            [.configuredApp],
            help:
                """
                Commands that do not fit their app's shapes, so that no phone could show them: invalid, or sent with \
                `shapes.mode: warn`.
                """,
            meaning:
                """
                Growth means that a producer writes states that the app's types cannot decode. The dead letters name \
                the path, the value and the type; with warn, the log does.
                """
        ),
        .counter(
            .bodiesWithDroppedFields,
            "causeway_bodies_with_dropped_fields_total",
            .count("commands"),
            [.configuredApp],
            help:
                "Commands whose body was too large for APNs, and from which the policy's `oversize` fields were dropped.",
            meaning:
                "The results' `dropped` names the fields. If it grows steadily, the producers' states are too large."
        ),
    ]

    private static let pushes: [MetricDefinition] = [
        .counter(
            .pushes,
            "causeway_pushes_total",
            .count("pushes"),
            [.pool, .response],
            omitsZeros: true,
            help:
                """
                Push attempts by APNs' response. reason: Apple's reason; \"none\" for a 200 and \"other\" for unknown \
                ones. status \"none\": no response.
                """,
            meaning:
                """
                With a 4xx other than 410 and 429, APNs refuses the push, and a retry alone does not help: 403 \
                concerns the key, 400 the payload, the topic or the environment. 410 is a dead token, 429 one \
                phone's limit, 5xx an error at Apple, \"none\" a lost connection.
                """
        ),
        .counter(
            .pushRetries,
            "causeway_push_retries_total",
            .count("pushes"),
            [.configuredApp],
            help: "Pushes that were retried.",
            meaning:
                """
                The retry budget limits retries. If more than 1 % of the pushes are retried all the time, APNs or the \
                network to it has a problem.
                """
        ),
        .gauge(
            .retryBudgetRatio,
            "causeway_retry_budget_ratio",
            .ratioStoredAsMillionths,
            [.configuredApp],
            .lanes(.lowest),
            help: "Remaining share of the retry budget; the lowest of the lanes.",
            meaning: "At 0, retries wait, because APNs has failed for some time and more load would make this worse."
        ),
        .histogram(
            .freshness,
            "causeway_freshness_seconds",
            MetricBuckets.freshnessMicroseconds,
            [.configuredApp],
            help: "Time from a command's record to APNs' 200.",
            meaning:
                """
                This is how late users see an update. A delay of up to the policy's spacing is intended, because only \
                the newest state is sent. A longer delay means that pushes wait: causeway_latency_seconds shows in \
                which part.
                """
        ),
        .histogram(
            .latency,
            "causeway_latency_seconds",
            MetricBuckets.latencyPartMicroseconds,
            [.latencyPart],
            help:
                "Time of accepted commands by part: queue (Kafka), admit (merging, pace, Redis), stream (waiting for a "
                + "free HTTP/2 stream), apns (until the response), settle (until the result is acknowledged).",
            meaning: "Shows which part is slow. queue: too few workers, or a paused partition. admit: pace or Redis. "
                + "stream: too few connections. apns: Apple or the network. settle: the brokers."
        ),
        .counter(
            .budgetDraws,
            "causeway_budget_draws_total",
            .count("pushes"),
            [.configuredApp, .policy],
            help: "Pushes sent at priority 10.",
            meaning: "These pushes use up the phones' own budgets. Compare with causeway_budget_demotions_total."
        ),
        .counter(
            .budgetDemotions,
            "causeway_budget_demotions_total",
            .count("pushes"),
            [.configuredApp, .policy],
            help:
                """
                Pushes that requested priority 10 and were sent at 5, because their activity's budget was empty, or \
                had only its reserve for alerts and ends.
                """,
            meaning: "The updates still arrive, but later, when the phone is idle. A high share means "
                + "that producers request priority 10 too often, or that the policy's budget is too small."
        ),
        .counter(
            .startBudgetWaits,
            "causeway_start_budget_waits_total",
            .count("waits"),
            [.configuredApp],
            help: "How often a start waited because its device's budget of starts was empty.",
            meaning: "One start may wait several times; a start that waits too long expires with reason "
                + "startBudget. Growth means that producers start more activities on a device than phones accept."
        ),
    ]

    private static let waiting: [MetricDefinition] = [
        .gauge(
            .recordsInProgress,
            "causeway_records_in_progress",
            .count("records"),
            [],
            .lanes(.sum),
            help:
                """
                Commands and registrations that the lanes have received and not settled; fan-out records are not \
                counted.
                """,
            meaning:
                """
                Grows if responses are slow or records wait. At worker.commandsPerLane a lane stops reading, and its \
                partitions pause.
                """
        ),
        .gauge(
            .recordsWaiting,
            "causeway_records_waiting",
            .count("records"),
            [.recordWait],
            .lanes(.sum),
            help:
                """
                Records in progress by what they wait for: redis, pace (spacing, budget, back-off), stream (a free \
                HTTP/2 stream to APNs), apns (a response), result (Kafka's acknowledgement).
                """,
            meaning: "The value that grows shows what is slow."
        ),
        .gauge(
            .pushesInFlight,
            "causeway_pushes_in_flight",
            .count("pushes"),
            [.pool],
            .lanes(.sum),
            help: "Pushes that were sent and have no response yet.",
            meaning:
                """
                The expected value is the push rate times the round trip. If it rises at a constant push rate, APNs \
                responds slowly.
                """
        ),
        .gauge(
            .pushesWaiting,
            "causeway_pushes_waiting",
            .count("pushes"),
            [.pool],
            .lanes(.sum),
            help:
                """
                Admitted pushes of single commands, and broadcasts, that wait for a free HTTP/2 stream. Members of \
                audiences are not counted.
                """,
            meaning: "If it stays above zero, there are too few connections, or the breaker is open."
        ),
    ]

    private static let redis: [MetricDefinition] = [
        .gauge(
            .redisReady,
            "causeway_redis_ready",
            .flag,
            [],
            .lanes(.lowest),
            help: "1 if every lane is connected to Redis; 0 if a lane waits for Redis (nothing is lost).",
            meaning:
                """
                At 0, the lanes without a connection send no pushes, and their commands wait. The log kind redis-lost \
                says why.
                """
        ),
        .gauge(
            .redisServersUnavailable,
            "causeway_redis_servers_unavailable",
            .count("servers"),
            [],
            .lanes(.highest),
            help: "Redis servers with keys but without a connection; the highest of the lanes.",
            meaning:
                """
                With a single server or Sentinel it is 0 or 1. In a cluster, commands with keys on such a server wait, \
                and so do most commands to audiences. All others continue until the waiting commands fill a lane.
                """
        ),
        .histogram(
            .redisRoundTrip,
            "causeway_redis_round_trip_seconds",
            MetricBuckets.redisRoundTripMicroseconds,
            [],
            help:
                """
                Time from a script call to its reply, including the few milliseconds for which a busy lane collects \
                calls.
                """,
            meaning:
                "If it rises, Redis uses its whole core, Redis runs a slow command (SLOWLOG), or the network is slow."
        ),
        .counter(
            .redisReconnects,
            "causeway_redis_reconnects_total",
            .count("connections"),
            [],
            help: "Redis connections that were lost and reopened.",
            meaning: "Steady growth: a proxy or a timeout closes the connections."
        ),
        .counter(
            .redisErrors,
            "causeway_redis_errors_total",
            .count("calls"),
            [.redisError],
            omitsZeros: true,
            help: "Calls that Redis refused or did not reply to, by code.",
            meaning: "outOfMemory: give Redis more memory (maxmemory), never an eviction policy. moved, ask "
                + "and tryAgain: a cluster is being resharded, which is harmless. deadline: Redis is too slow or "
                + "unreachable."
        ),
        .counter(
            .redisLosses,
            "causeway_redis_losses_total",
            .count("losses"),
            [.redisLoss],
            .kafkaThread,
            help: "How often this worker noticed that a Redis primary had lost writes, and read its partitions again.",
            meaning:
                """
                emptied: all data was lost; find out why. The workers restore the data from Kafka automatically. \
                replaced: a restart or a failover, after which the writes of the last seconds may be missing.
                """
        ),
    ]
}
