extension MetricCatalog {
    static let worker: [MetricDefinition] = [
        .gauge(
            .laneBusyRatio,
            "causeway_lane_busy_ratio",
            .ratioInMillionths,
            [.lane],
            .lanes(.each),
            "Share of wall time that the lane worked, over some ten seconds.",
            "The number to scale by: above 0.8 for minutes, add workers or lanes; below 0.2 on all, fewer do."
        ),
        .counter(
            .laneBusySeconds,
            "causeway_lane_busy_seconds_total",
            .secondsInMicroseconds,
            [.lane],
            .lanes(.each),
            "Wall time that the lane worked.",
            "Its rate is the busy share over any time you like."
        ),
        .gauge(
            .kafkaThreadBusyRatio,
            "causeway_kafka_thread_busy_ratio",
            .ratioInMillionths,
            [],
            .kafka,
            "Share of wall time that the Kafka thread worked, or waited for a broker's answer, over some ten seconds.",
            "It deals the records of all lanes, and there is one of it: above 0.8 for minutes, add workers; lanes do not help."
        ),
        .counter(
            .kafkaThreadBusySeconds,
            "causeway_kafka_thread_busy_seconds_total",
            .secondsInMicroseconds,
            [],
            .kafka,
            "Wall time that the Kafka thread worked, or waited for a broker's answer.",
            "Its rate is the busy share over any time you like."
        ),
        .gauge(
            .turnAge,
            "causeway_turn_age_seconds",
            .secondsInMilliseconds,
            [.thread],
            .request,
            "Since the thread last showed that it turns.",
            "Under a second. /livez fails above 15 s: the thread is stuck, and Kubernetes restarts the worker."
        ),
        .gauge(
            .draining,
            "causeway_draining",
            .flag,
            [],
            .request,
            "1 from the signal to stop until the end.",
            "Longer than worker.drainMilliseconds: something does not answer; what is left is read again by the next owner."
        ),
        .counter(
            .logLinesSuppressed,
            "causeway_log_lines_suppressed_total",
            "lines",
            [.logKind],
            omitsZeros: true,
            "Log lines not written because their kind had too many, by kind.",
            "Something happens over and over; the kind's entry below says what."
        ),
        .counter(
            .tracesExported,
            "causeway_traces_exported_total",
            "records",
            [],
            "Sampled records whose spans the collector at tracing.endpoint took.",
            "It stands still while sampled commands flow: the two below say why."
        ),
        .counter(
            .tracesDropped,
            "causeway_traces_dropped_total",
            "records",
            [.traceDrop],
            "Sampled records whose spans nobody was told of: full (a lane's ring), refused (by the collector, for good), "
                + "undelivered (offered as often as they are), stopped (with the worker).",
            "Nothing else suffers. full: lower tracing.samplesPerMillion or give the collector more room; for the others "
                + "see the log lines traces-refused and traces-dropped."
        ),
        .counter(
            .tracePostsFailed,
            "causeway_trace_posts_failed_total",
            "requests",
            [.tracePostFailure],
            "Requests that the collector did not take: unresolved (its name), unconnected, certificate, lost (the connection, "
                + "or TLS), malformed (no HTTP), late, overloaded (429, 502, 503, 504), refused (another status), headers "
                + "(their file), hurried (the worker).",
            "Each batch is offered \(TraceExporter.attemptsMax) times. certificate: tracing.caFile, or the name in "
                + "tracing.endpoint; refused with 401 or 403: tracing.headersFile."
        ),
        .gauge(
            .buildInfo,
            "causeway_build_info",
            .count("1"),
            [.build],
            .request,
            "Always 1; the labels are the versions.",
            "Two values in a fleet: an update is under way, or has stopped half-way."
        ),
    ]

    static let process: [MetricDefinition] = [
        .counter(
            .processCPU,
            "process_cpu_seconds_total",
            .secondsInMicroseconds,
            [],
            .request,
            "User and system CPU time.",
            "Its rate against the CPU limit: above it the worker is throttled."
        ),
        .gauge(
            .processMemory,
            "process_resident_memory_bytes",
            .count("bytes"),
            [],
            .request,
            "Resident memory.",
            "Flat once the lanes are warm. Steady growth is a leak: report it."
        ),
        .gauge(
            .processVirtualMemory,
            "process_virtual_memory_bytes",
            .count("bytes"),
            [],
            .request,
            "Virtual memory.",
            "No meaning by itself."
        ),
        .gauge(
            .processOpenDescriptors,
            "process_open_fds",
            .count("descriptors"),
            [],
            .request,
            "Open file descriptors.",
            "Lanes times connections and a few dozen. Growth is a leak: report it."
        ),
        .gauge(
            .processMaxDescriptors,
            "process_max_fds",
            .count("descriptors"),
            [],
            .request,
            "The limit of open file descriptors.",
            "Raise it if the open ones come near."
        ),
        .gauge(
            .processStartTime,
            "process_start_time_seconds",
            .secondsInMilliseconds,
            [],
            .request,
            "Start of the process, UNIX time.",
            "Changes: the worker restarts. Look at the log of the one before (kubectl logs --previous)."
        ),
    ]
}

extension MetricDefinition {
    static func counter(
        _ metric: Metric,
        _ name: String,
        _ unit: String,
        _ dimensions: [MetricDimension],
        omitsZeros: Bool = false,
        _ help: String,
        _ meaning: String
    ) -> MetricDefinition {
        let source: Source = metric == .kafkaErrors || metric == .redisLosses ? .kafka : .lanes(.sum)
        return counter(
            metric,
            name,
            .count(unit),
            dimensions,
            source,
            omitsZeros: omitsZeros,
            help,
            meaning
        )
    }

    static func counter(
        _ metric: Metric,
        _ name: String,
        _ unit: Unit,
        _ dimensions: [MetricDimension],
        _ source: Source,
        omitsZeros: Bool = false,
        _ help: String,
        _ meaning: String
    ) -> MetricDefinition {
        MetricDefinition(
            metric: metric,
            name: name,
            kind: .counter,
            unit: unit,
            source: source,
            dimensions: dimensions,
            omitsZeros: omitsZeros,
            help: help,
            meaning: meaning
        )
    }

    static func gauge(
        _ metric: Metric,
        _ name: String,
        _ unit: Unit,
        _ dimensions: [MetricDimension],
        _ source: Source,
        _ help: String,
        _ meaning: String
    ) -> MetricDefinition {
        MetricDefinition(
            metric: metric,
            name: name,
            kind: .gauge,
            unit: unit,
            source: source,
            dimensions: dimensions,
            help: help,
            meaning: meaning
        )
    }

    static func histogram(
        _ metric: Metric,
        _ name: String,
        _ bounds: [Int64],
        _ dimensions: [MetricDimension],
        _ help: String,
        _ meaning: String
    ) -> MetricDefinition {
        MetricDefinition(
            metric: metric,
            name: name,
            kind: .histogram(bounds),
            unit: .secondsInMicroseconds,
            source: .lanes(.sum),
            dimensions: dimensions,
            help: help,
            meaning: meaning
        )
    }
}
