extension MetricCatalog {
    static let worker: [MetricDefinition] = [
        .gauge(
            .laneBusyRatio,
            "causeway_lane_busy_ratio",
            .ratioStoredAsMillionths,
            [.lane],
            .lanes(.perLane),
            help: "Share of wall time that the lane worked, over about ten seconds.",
            meaning:
                """
                Scale by this metric: if it is above 0.8 for minutes, add workers or lanes; if it is below 0.2 on all \
                lanes, use fewer.
                """
        ),
        .counter(
            .laneBusy,
            "causeway_lane_busy_seconds_total",
            .secondsStoredAsMicroseconds,
            [.lane],
            .lanes(.perLane),
            help: "Wall time that the lane worked.",
            meaning: "Its rate is the busy share over any time range."
        ),
        .gauge(
            .kafkaThreadBusyRatio,
            "causeway_kafka_thread_busy_ratio",
            .ratioStoredAsMillionths,
            [],
            .kafkaThread,
            help: "Share of wall time that the Kafka thread worked or waited for a broker's response, over about ten "
                + "seconds.",
            meaning:
                """
                This one thread distributes the records to all lanes. If it is above 0.8 for minutes, add workers; \
                more lanes do not help.
                """
        ),
        .counter(
            .kafkaThreadBusy,
            "causeway_kafka_thread_busy_seconds_total",
            .secondsStoredAsMicroseconds,
            [],
            .kafkaThread,
            help: "Wall time that the Kafka thread worked or waited for a broker's response.",
            meaning: "Its rate is the busy share over any time range."
        ),
        .gauge(
            .iterationAge,
            "causeway_iteration_age_seconds",
            .secondsStoredAsMilliseconds,
            [.thread],
            .readOnRequest,
            help: "Time since the thread last completed an iteration of its event loop.",
            meaning:
                """
                Normally under a second. Above 15 s /livez fails: the thread is stuck, and Kubernetes restarts the \
                worker.
                """
        ),
        .gauge(
            .clockDifference,
            "causeway_clock_difference_seconds",
            .secondsStoredAsMilliseconds,
            [],
            .readOnRequest,
            help: "How far the clocks of the worker's machine and of Redis differ.",
            meaning:
                """
                The worker corrects a difference between 1 s and 30 minutes: it uses Redis' time. But it does not \
                follow a Redis clock that was set back. If the difference is more than a minute, correct the clock \
                that is wrong. If all workers have a difference, it is Redis' clock.
                """
        ),
        .gauge(
            .draining,
            "causeway_draining",
            .flag,
            [],
            .readOnRequest,
            help: "1 from the signal to stop until the process ends.",
            meaning:
                """
                If it lasts longer than worker.drainMilliseconds, Redis, APNs or Kafka does not respond. The next \
                owner reads the remaining records again.
                """
        ),
        .gauge(
            .configurationRejected,
            "causeway_configuration_rejected",
            .flag,
            [],
            .readOnRequest,
            help: "1 if the worker rejected the last reload of its configuration, and uses the previous one.",
            meaning:
                """
                Correct the file soon: a worker that starts with it exits with code 78. The log line \
                configuration-rejected has the errors.
                """
        ),
        .counter(
            .logLinesSuppressed,
            "causeway_log_lines_suppressed_total",
            .count("lines"),
            [.logKind],
            omitsZeros: true,
            help:
                """
                Log lines that were not written because there were too many of their kind, because they repeated an \
                earlier line, or because standard error had no room for them.
                """,
            meaning:
                """
                The same event repeats often, or the reader of standard error does not read. The table of log lines \
                below explains each kind.
                """
        ),
        .gauge(
            .lifetimesWaiting,
            "causeway_lifetimes_waiting",
            .count("activities"),
            [],
            .kafkaThread,
            help:
                """
                Activities whose policy limits their lifetime, in all timetables at the last poll that succeeded. Each \
                worker polls, so use the highest value of all workers.
                """,
            meaning:
                """
                About the number of activities that have not ended. If it only grows, activities do not end, and their \
                lifetime is not over: check policies.*.lifetimeSeconds.
                """
        ),
        .gauge(
            .lifetimesFailing,
            "causeway_lifetimes_failing",
            .flag,
            [],
            .kafkaThread,
            help:
                """
                1 if the worker cannot end activities whose lifetime is over: its last poll failed, or activities that \
                it has claimed wait for another attempt after a failed poll.
                """,
            meaning:
                """
                Activities stay on the phones until Redis and Kafka work again. The log line lifetime-ends-interrupted \
                has the error.
                """
        ),
        .counter(
            .lifetimesEnded,
            "causeway_lifetimes_ended_total",
            .count("commands"),
            [],
            help: "Commands that this worker produced to end activities whose lifetime was over.",
            meaning:
                """
                One for each activity. If there are many more than results with the cause lifetime, such commands wait \
                or are lost.
                """
        ),
        .counter(
            .lifetimesRestarted,
            "causeway_lifetimes_restarted_total",
            .count("commands"),
            [],
            help:
                """
                Commands that this worker produced to start activities again after the end of their lifetime \
                (policies.*.afterLifetime).
                """,
            meaning:
                """
                One for each activity that such a policy ended. If there are many more, the starts wait, for example \
                for their devices' budgets.
                """
        ),
        .counter(
            .tracesExported,
            "causeway_traces_exported_total",
            .count("records"),
            [],
            help: "Sampled records whose spans the collector at tracing.endpoint accepted.",
            meaning: "If it does not grow although commands are sampled, the next two metrics say why."
        ),
        .counter(
            .tracesDropped,
            "causeway_traces_dropped_total",
            .count("records"),
            [.traceDropReason],
            help: """
                Sampled records whose spans were dropped: full (a lane's buffer), refused (the collector does not \
                accept them, and a retry does not help), undelivered (all attempts failed), stopped (the worker \
                stopped).
                """,
            meaning: "Pushes are not affected. full: lower tracing.samplesPerMillion or give the collector more "
                + "capacity; for the others, see the log kinds traces-refused and traces-dropped."
        ),
        .counter(
            .tracePostsFailed,
            "causeway_trace_posts_failed_total",
            .count("requests"),
            [.tracePostFailure],
            help:
                """
                Requests to the collector that failed: unresolved (DNS), unconnected, certificate, lost (the \
                connection, or TLS), malformed (the response is not HTTP), late (timeout), overloaded (429, 502, 503, \
                504), refused (another status of the collector), headers (their file), hurried (the worker stopped \
                before the response).
                """,
            meaning:
                """
                Each batch is sent at most \(TraceExporter.attemptsMax) times. For certificate, check tracing.caFile, \
                or the name in tracing.endpoint; for refused with 401 or 403, check tracing.headersFile.
                """
        ),
        .gauge(
            .buildInfo,
            "causeway_build_info",
            .count("1"),
            [.build],
            .readOnRequest,
            help: "Always 1; the labels have the versions.",
            meaning: "If a fleet has two versions, an upgrade is in progress, or has stopped before its end."
        ),
    ]
}
