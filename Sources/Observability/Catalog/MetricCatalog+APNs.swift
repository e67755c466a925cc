extension MetricCatalog {
    static let apns: [MetricDefinition] = [
        .gauge(
            .apnsConnections,
            "causeway_apns_connections",
            .count("connections"),
            [.pool, .connectionPhase],
            .lanes(.sum),
            help:
                """
                Connections to APNs: ready, opening, draining (only waits for responses), or awaited (the pool needs \
                it, but the process has reached its limit).
                """,
            meaning:
                """
                Without a ready connection, pushes wait. Check egress to port 443 or 2197, DNS, and the log kinds \
                apns-closed and apns-unresolved.
                """
        ),
        .gauge(
            .apnsStreamsMax,
            "causeway_apns_streams_max",
            .count("streams"),
            [.pool],
            .lanes(.sum),
            help: "HTTP/2 streams of the ready connections: how many pushes can be in flight, by APNs' limit and ours.",
            meaning:
                """
                The pushes in flight divided by this number is the utilization of the connections. 1 per connection: \
                APNs has not accepted the provider token yet.
                """
        ),
        .counter(
            .apnsGoaway,
            "causeway_apns_goaway_total",
            .count("frames"),
            [.pool, .goAwayReason],
            omitsZeros: true,
            help: "GOAWAY frames from APNs, by reason.",
            meaning: "Some are normal. Many with a reason such as BadCertificateEnvironment "
                + "or TooManyProviderTokenUpdates mean that the configuration is wrong."
        ),
        .histogram(
            .apnsRoundTrip,
            "causeway_apns_round_trip_seconds",
            MetricBuckets.apnsRoundTripMicroseconds,
            [.environment],
            help: "Time from writing a push to its connection until APNs' response.",
            meaning:
                """
                Includes the network and Apple. Tens of milliseconds are usual. If it rises, compare your regions \
                first.
                """
        ),
        .gauge(
            .breakerOpen,
            "causeway_breaker_open",
            .flag,
            [.pool],
            .lanes(.highest),
            help: "1 while pushes are paused because they cannot succeed; one probe at a time is sent.",
            meaning:
                """
                The log kind apns-breaker-open says why: unavailability (Apple), deviceTokens (wrong environment or \
                bundle), providerToken (key, team, environment or bundle, or a proxy).
                """
        ),
        .gauge(
            .providerTokenAge,
            "causeway_provider_token_age_seconds",
            .secondsStoredAsMilliseconds,
            [.signingKey],
            .lanes(.highest),
            help: "Age of the provider token that the last minute's pushes used or wait for; 0 "
                + "if there were none. Apple refuses tokens older than an hour.",
            meaning:
                """
                A connection uses a token for 55 minutes at most. A higher age means that no newer token could be \
                signed, and pushes wait.
                """
        ),
        .gauge(
            .keyFileRejected,
            "causeway_key_file_rejected",
            .flag,
            [.configuredApp],
            .readOnRequest,
            help:
                """
                1 while the previous key stays in use because a new key file cannot be used, or because APNs refuses \
                its key.
                """,
            meaning: "The log kind key-rejected says what is wrong with the file."
        ),
    ]
}
