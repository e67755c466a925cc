/// All metrics, in the order in which they are shown. `Helm/causeway/METRICS.md` is generated from them.
package enum MetricCatalog {
    /// Indexed by ``Metric``'s raw value.
    package static let definitions: [MetricDefinition] = {
        let sections = records + pushes + audiences + channels + waiting + apns + redis + kafka + worker + process
        let sorted = sections.sorted { $0.metric.rawValue < $1.metric.rawValue }
        precondition(sorted.map(\.metric) == Metric.allCases, "each metric is defined once")
        return sorted
    }()

    /// The sections of the page.
    static let sections: [(title: String, metrics: [MetricDefinition])] = [
        ("Records", records), ("Pushes", pushes), ("Audiences", audiences), ("Channels", channels),
        ("What waits", waiting), ("APNs", apns),
        ("Redis", redis),
        ("Kafka", kafka), ("The worker", worker), ("The process", process),
    ]

    private static let records: [MetricDefinition] = [
        .counter(
            .recordsReceived,
            "causeway_records_received_total",
            "records",
            [.topic],
            "Records taken from Kafka.",
            "The load. Zero while the lag grows: the worker is not reading; look at /statusz for what it waits for."
        ),
        .counter(
            .outcomes,
            "causeway_outcomes_total",
            "commands",
            [.app, .outcome],
            "Settled commands by what became of them; app is \"none\" when the record names none.",
            "Each command ends in exactly one; one that was held counts again when its token sets it free. With kafka.supersededResults `counted`, or `countedWhenBehind` in a backlog, a superseded command counts here without having a record on the results topic. Much `superseded` is normal where states change faster than phones are told. "
                + "`expired`, `failed` and `invalid` are commands that no phone saw: their results say why."
        ),
        .counter(
            .deadLetters,
            "causeway_dead_letters_total",
            "records",
            [.app],
            "Records written to the dead letters, as they came.",
            "Any growth is a producer that writes records which are no commands: their headers say what is wrong where."
        ),
        .counter(
            .invalidations,
            "causeway_invalidations_total",
            "tokens",
            [.configuredApp],
            "Tokens reported dead.",
            "A little is everyday life: people end activities and delete apps. A wave means a wrong environment or key."
        ),
        .counter(
            .deferred,
            "causeway_deferred_total",
            "records",
            [.configuredApp],
            "Commands written to the deferred topic, since they could not be sent soon; each time counts.",
            "Steady growth of one app: its APNs host does not answer, its key is refused, or its producers start more activities on a device "
                + "than phones take. The records' `cause` headers tell which. Nothing waits behind them."
        ),
        .counter(
            .coalesced,
            "causeway_coalesced_total",
            "commands",
            [.configuredApp],
            "Commands replaced by a newer state before they reached Redis.",
            "Divided by the commands received it is the coalescing ratio: work that was never done."
        ),
    ]

    private static let pushes: [MetricDefinition] = [
        .counter(
            .pushes,
            "causeway_pushes_total",
            "pushes",
            [.pool, .answer],
            omitsZeros: true,
            "Attempts by APNs' answer. reason: Apple's word for it, \"none\" for a 200, else \"other\"; status \"none\": no answer.",
            "4xx but 410 are refusals that no retry cures: 403 the key or the topic, 400 the payload or the environment. "
                + "410 is a dead token, 429 one phone's limit, 5xx Apple's trouble, \"none\" a lost connection."
        ),
        .counter(
            .pushRetries,
            "causeway_push_retries_total",
            "pushes",
            [.configuredApp],
            "Pushes that were tried again.",
            "Retries are bounded by the retry budget. A steady share above 1 % is trouble with APNs or on the way to it."
        ),
        .gauge(
            .retryBudget,
            "causeway_retry_budget_ratio",
            .ratioInMillionths,
            [.configuredApp],
            .lanes(.lowest),
            "Share of the retry budget that is left; the lowest of the lanes.",
            "At 0 pushes that would be tried again fail instead: APNs has been failing for a while, and more load would not help it."
        ),
        .histogram(
            .freshness,
            "causeway_freshness_seconds",
            MetricBuckets.freshness,
            [.configuredApp],
            "From a command's record time to APNs' 200.",
            "What a user feels. Up to one spacing is the wish to send only the newest state; more is waiting: see the stages."
        ),
        .histogram(
            .stage,
            "causeway_stage_seconds",
            MetricBuckets.stage,
            [.stage],
            "Where the time of an accepted command went: queue (Kafka), admit (merging, pace, Redis), stream (waiting for a "
                + "connection), apns, settle (result acknowledged).",
            "Says which part is slow. queue: too few workers, or a pause. admit: pace or Redis. stream: too few connections. "
                + "apns: Apple or the network. settle: the brokers."
        ),
        .counter(
            .budgetSpent,
            "causeway_budget_spent_total",
            "pushes",
            [.configuredApp, .policy],
            "Pushes sent at priority 10.",
            "What is drawn on the phones' own budgets. Compare with the demotions."
        ),
        .counter(
            .budgetDemotions,
            "causeway_budget_demotions_total",
            "pushes",
            [.configuredApp, .policy],
            "Pushes that asked for priority 10 and went at 5, because their activity's budget was spent.",
            "Updates still arrive, later when the phone is idle. A high share: producers ask for 10 too often, or the policy is "
                + "too tight."
        ),
        .counter(
            .startBudgetWaits,
            "causeway_start_budget_waits_total",
            "waits",
            [.configuredApp],
            "Times that a start found its device's budget of starts empty and waited for it.",
            "One start may wait several times; one that waits too long expires with reason startBudget. Growth: producers start more "
                + "activities on a device than phones take."
        ),
    ]

    private static let waiting: [MetricDefinition] = [
        .gauge(
            .recordsHeld,
            "causeway_records_held",
            .count("records"),
            [],
            .lanes(.sum),
            "Records between receipt and acknowledged result.",
            "Grows with latency and with waiting. At worker.commandsPerLane a lane stops reading and its partitions pause."
        ),
        .gauge(
            .recordsWaiting,
            "causeway_records_waiting",
            .count("records"),
            [.wait],
            .lanes(.sum),
            "What held records wait for: redis, pace (spacing, budget, back-off), stream (room to APNs), apns (an answer), "
                + "result (Kafka's acknowledgement).",
            "The one that grows names what is slow."
        ),
        .gauge(
            .pushesInFlight,
            "causeway_pushes_in_flight",
            .count("pushes"),
            [.pool],
            .lanes(.sum),
            "Pushes sent and not answered.",
            "Rate times round trip. High with a flat push rate: APNs answers slowly."
        ),
        .gauge(
            .pushesWaiting,
            "causeway_pushes_waiting",
            .count("pushes"),
            [.pool],
            .lanes(.sum),
            "Pushes admitted and waiting for a stream.",
            "Above zero for long: too few connections, or an open breaker."
        ),
    ]

    private static let apns: [MetricDefinition] = [
        .gauge(
            .apnsConnections,
            "causeway_apns_connections",
            .count("connections"),
            [.pool, .connectionState],
            .lanes(.sum),
            "Connections to APNs: ready, opening, draining (no new push, answers awaited), or awaited: wanted, without room in the process.",
            "No ready one: pushes wait. Check egress to port 443 or 2197, DNS, and the log kinds apns-closed and apns-unresolved."
        ),
        .gauge(
            .apnsStreams,
            "causeway_apns_streams",
            .count("streams"),
            [.pool],
            .lanes(.sum),
            "Pushes that the ready connections could carry at once, by APNs' own limit and ours.",
            "In flight divided by it is how full the connections are. 1 a connection: APNs has not accepted the provider token yet."
        ),
        .counter(
            .apnsGoAways,
            "causeway_apns_goaway_total",
            "frames",
            [.pool, .goAwayReason],
            omitsZeros: true,
            "GOAWAY frames of APNs, by reason.",
            "Some are housekeeping. Many with a reason such as BadCertificateEnvironment or TooManyProviderTokenUpdates are a "
                + "configuration fault."
        ),
        .histogram(
            .apnsRoundTrip,
            "causeway_apns_round_trip_seconds",
            MetricBuckets.roundTrip,
            [.environment],
            "From handing a push to its connection to APNs' answer.",
            "Network and Apple. Tens of milliseconds are usual; in a rise, compare regions before you look here."
        ),
        .gauge(
            .breakerOpen,
            "causeway_breaker_open",
            .flag,
            [.pool],
            .lanes(.highest),
            "1 while pushes are paused because what is sent cannot succeed; one probe at a time goes out.",
            "The log kind apns-breaker-open says why: availability (Apple), deviceTokens (wrong environment or bundle), "
                + "providerToken (key, team or environment)."
        ),
        .gauge(
            .providerTokenAge,
            "causeway_provider_token_age_seconds",
            .secondsInMilliseconds,
            [.signer],
            .lanes(.highest),
            "Age of the provider token that the last minute's pushes went with or wait for; 0: there were none. Apple refuses "
                + "tokens of more than an hour.",
            "A connection may keep a token for 55 minutes. Above that no newer one could be signed, and pushes wait."
        ),
        .gauge(
            .keyFileRejected,
            "causeway_key_file_rejected",
            .flag,
            [.configuredApp],
            .request,
            "1 while a new key file on disk is refused and the one before it stays in use.",
            "The log kind key-rejected says what is wrong with the file."
        ),
    ]

    private static let redis: [MetricDefinition] = [
        .gauge(
            .redisReady,
            "causeway_redis_ready",
            .flag,
            [],
            .lanes(.lowest),
            "1 when every lane has its Redis; 0: lanes wait, and nothing is lost.",
            "At 0 no push is sent by the lanes that wait; commands stay in Kafka. The log kind redis-lost says why."
        ),
        .gauge(
            .redisServersAway,
            "causeway_redis_servers_away",
            .count("servers"),
            [],
            .lanes(.highest),
            "Redis servers that hold keys and have no connection; the highest of the lanes.",
            "Of one server or a Sentinel's primary it is 0 or 1. Of a cluster: commands whose keys are there wait, the others go on."
        ),
        .histogram(
            .redisRoundTrip,
            "causeway_redis_round_trip_seconds",
            MetricBuckets.redis,
            [],
            "From issuing a script call to its reply; includes the few milliseconds that a busy lane collects.",
            "A rise: Redis is at its core's limit, does something slow beside (SLOWLOG), or the network is."
        ),
        .counter(
            .redisReconnects,
            "causeway_redis_reconnects_total",
            "connections",
            [],
            "Redis connections that were lost and opened again.",
            "Steady growth: a proxy or a timeout cuts them."
        ),
        .counter(
            .redisErrors,
            "causeway_redis_errors_total",
            "calls",
            [.redisError],
            omitsZeros: true,
            "Calls that Redis did not carry out, by code.",
            "OOM: give it memory (maxmemory), never an eviction policy. MOVED and ASK: a cluster is being resharded, which is "
                + "harmless. deadline: Redis is too slow or away."
        ),
        .counter(
            .redisLosses,
            "causeway_redis_losses_total",
            "losses",
            [.redisLoss],
            "Times that this worker saw that a primary of Redis had lost writes, and read its partitions once more.",
            "emptied: everything was lost; find out why, phones are served again by themselves. replaced: a restart or a failover, "
                + "after which the last seconds may be missing."
        ),
    ]
}
