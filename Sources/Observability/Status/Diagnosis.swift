import Numbers

/// Finds what is wrong with one worker, from its metrics, its state and the kinds of its log lines. Most of the
/// thresholds are those of the alerts.
struct Diagnosis {
    static let unsettledAgeMillisecondsMax: Int64 = 60_000
    static let freshnessMicrosecondsMax: Int64 = 5_000_000
    /// 55 minutes. A connection uses no provider token that is older.
    static let providerTokenAgeMillisecondsMax: Int64 = 3_300_000
    static let normalLagGrowthMilliseconds: Int64 = 5_000
    static let busyShareMillionthsMax: Int64 = 800_000
    /// The least number of samples in the time window for a finding about dead tokens, freshness or demotions.
    ///
    /// Refusals: with at least this many responses, more than 5 % of them are a finding; with fewer, more than half.
    static let samplesMin: Int64 = 100
    /// Up to this many held commands are no finding. A few are normal, because a command may arrive before its
    /// activity's registration.
    static let usualHeldCommandsMax: Int64 = 20

    let labels: LabelValues
    let window: MetricWindow
    let condition: WorkerCondition
    let liveness: HealthReport
    let processReading: ProcessReading
    /// The kinds of log lines so far, the kind with the latest line first. Suppressed lines count too.
    let loggedKinds: [LogKind]

    private var totals: MetricTotals { window.currentTotals }

    /// All findings, the most severe first.
    var findings: [Finding] {
        (workerFindings + redisFindings + rereadingFindings + kafkaFindings + partitionFindings + poolFindings
            + responseFindings + recordFindings + audienceFindings + channelFindings + lifetimeFindings + loadFindings
            + traceFindings + configurationFindings + clockFindings)
            .enumerated()
            .sorted { ($1.element.severity, $0.offset) < ($0.element.severity, $1.offset) }
            .map(\.element)
    }

    // MARK: - Findings about the worker

    private var workerFindings: [Finding] {
        var findings = liveness.checks.filter { !$0.hasSucceeded }
            .map { check in
                Finding(
                    severity: .broken,
                    alertName: "CausewayRestarting",
                    observation: "The thread \(check.name) \(check.text).",
                    meaning:
                        "The thread is stuck. Kubernetes restarts this worker when /livez has failed several times.",
                    action:
                        """
                        If you can, record the stack traces before the restart (gdb -p, thread apply all bt), and \
                        report them.
                        """
                )
            }
        if condition.isDraining {
            findings.append(
                Finding(
                    severity: .note,
                    alertName: "",
                    observation: "This worker is draining.",
                    meaning:
                        "The worker is stopping. It finishes the work in progress and releases its partitions.",
                    action: "Nothing."
                )
            )
        }
        if let openCount = processReading.openDescriptorCount, let limit = processReading.openDescriptorsMax,
            openCount * 5 > limit * 4
        {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "",
                    observation:
                        "\(Numeral.grouped(openCount)) of \(Numeral.grouped(limit)) file descriptors are open.",
                    meaning: "At the limit, no connection can be opened.",
                    action: "Raise the limit. If the number never stops growing, report it."
                )
            )
        }
        return findings
    }

    private var loadFindings: [Finding] {
        let busyLanes = totals.laneCells.indices.filter {
            totals.laneValue($0, .laneBusyRatio) > Self.busyShareMillionthsMax
        }
        guard !busyLanes.isEmpty else { return kafkaThreadFindings }
        return kafkaThreadFindings + [
            Finding(
                severity: .attention,
                alertName: "CausewayLaneBusy",
                observation: "Lanes busy over 80 % of the time: \(busyLanes.count) of \(totals.laneCells.count).",
                meaning: "A lane at 100 % falls behind, and pushes are late.",
                action: busyLanes.count == totals.laneCells.count
                    ? "Add workers, up to the number of partitions. Or add lanes, if the machine has free cores."
                    : """
                    Some partitions have more load than others. One activity may get very many commands, or there \
                    are too few partitions.
                    """
            )
        ]
    }

    private var kafkaThreadFindings: [Finding] {
        guard totals[.kafkaThreadBusyRatio] > Self.busyShareMillionthsMax else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "CausewayLaneBusy",
                observation: "The Kafka thread works more than 80 % of the time.",
                meaning: "This thread distributes the records to all lanes. At 100 %, all lanes fall behind.",
                action:
                    """
                    Add workers, up to the number of partitions. More lanes do not help, because a worker has only one \
                    such thread.
                    """
            )
        ]
    }

    private var traceFindings: [Finding] {
        let droppedTraceCount = totals.sum(.tracesDropped)
        let failedPostCount = totals.sum(.tracePostsFailed)
        guard droppedTraceCount > 0 || failedPostCount > 0 else { return [] }
        let hasRecentFailures =
            (window.count(.tracesDropped) ?? droppedTraceCount) > 0
            || (window.count(.tracePostsFailed) ?? failedPostCount) > 0
        return [
            Finding(
                severity: hasRecentFailures ? .attention : .note,
                alertName: "",
                observation:
                    """
                    Traces of \(Numeral.counted(droppedTraceCount, "record", "records")) were dropped, and \
                    \(Numeral.counted(failedPostCount, "request", "requests")) to the collector \
                    failed\(hasRecentFailures ? "" : ", none of them in the last minute").
                    """,
                meaning: "Traces are incomplete. Pushes are not affected.",
                action:
                    """
                    Read the events traces-refused and traces-dropped below. The metric \
                    causeway_trace_posts_failed_total has the reasons.
                    """,
                logKinds: [.tracesRefused, .tracesDropped]
            )
        ]
    }

    // MARK: - Findings about Redis and Kafka

    private var redisFindings: [Finding] {
        let disconnectedLaneCount = totals.laneCells.indices.count { totals.laneValue($0, .redisReady) == 0 }
        guard disconnectedLaneCount > 0 else {
            return unavailableServerFindings + redisErrorFindings + redisReplicaFindings
        }
        return [
            Finding(
                severity: .broken,
                alertName: "CausewayRedisUnavailable",
                observation: disconnectedLaneCount == totals.laneCells.count
                    ? "Redis is unreachable."
                    : "Redis is unreachable for \(disconnectedLaneCount) of \(totals.laneCells.count) lanes.",
                meaning:
                    """
                    Workers send no push without Redis, which stores what each phone shows. Commands wait in Kafka; \
                    none is lost.
                    """,
                action:
                    "Check Redis, the network policy and the credentials. The event redis-lost below has the error.",
                logKinds: [.redisLost]
            )
        ]
    }

    private var unavailableServerFindings: [Finding] {
        let unavailableServerCount = totals[.redisServersUnavailable]
        guard unavailableServerCount > 0 else { return [] }
        return [
            Finding(
                severity: .broken,
                alertName: "CausewayRedisServerUnavailable",
                observation: "\(unavailableServerCount) of the cluster's Redis servers "
                    + "\(unavailableServerCount == 1 ? "is" : "are") unreachable.",
                meaning: "Commands with keys on these servers wait, and most commands to audiences. All others "
                    + "continue until the waiting commands fill a lane.",
                action: "Check whether the cluster promotes a replica. The event redis-lost below names the server.",
                logKinds: [.redisLost]
            )
        ]
    }

    private var rereadingFindings: [Finding] {
        let partitionCount = totals[.partitionsRereading]
        let emptiedPrimaryCount = window.count(.redisLosses, Int(RedisLoss.emptied.rawValue)) ?? 0
        guard partitionCount > 0 || emptiedPrimaryCount > 0 else { return [] }
        let lossText =
            emptiedPrimaryCount > 0 ? "Redis has lost all its data" : "Redis may have lost its last writes"
        return [
            Finding(
                severity: emptiedPrimaryCount > 0 ? .broken : .attention,
                alertName: emptiedPrimaryCount > 0 ? "CausewayRedisDataLost" : "",
                observation: lossText
                    + (partitionCount > 0
                        ? ": \(Numeral.counted(partitionCount, "partition is", "partitions are")) read again."
                        : "; all partitions were read again."),
                meaning:
                    "The workers restore tokens and held states from Kafka. Alerts or starts rarely repeat (K18).",
                action:
                    """
                    Phones need no action. Find out why Redis lost data: the events redis-emptied and redis-replaced \
                    below name the server.
                    """,
                logKinds: [.redisEmptied, .redisReplaced, .rereadingBegan]
            )
        ]
    }

    /// The error codes of Redis that `redisErrorFindings` reports, because usually only an operator can remove their
    /// cause. Other findings report `replicasMissing`, and the codes that end the connection: `noAuthentication`,
    /// `wrongPassword`, `noPermission`.
    static let reportedRedisErrors: Set<String> = [
        "outOfMemory", "misconfigured", "noReplicas", "transactionAborted", "clusterEnabled", "unknown",
    ]

    private var redisErrorFindings: [Finding] {
        let errorTexts = labels.redisErrors.enumerated()
            .compactMap { index, code -> String? in
                guard Self.reportedRedisErrors.contains(code), let count = window.count(.redisErrors, index),
                    count > 0
                else { return nil }
                return "\(Numeral.grouped(count)) with \(code)"
            }
        guard !errorTexts.isEmpty else { return [] }
        return [
            Finding(
                severity: .broken,
                alertName: "CausewayRedisErrors",
                observation: "Redis replies to calls with errors: \(errorTexts.joined(separator: ", ")).",
                meaning: "The worker repeats the calls until they succeed. Their commands wait; none is lost.",
                action: "Read the text in the event redis-error below. RUNBOOK.md says what to do for each code.",
                logKinds: [.redisError]
            )
        ]
    }

    private var redisReplicaFindings: [Finding] {
        guard let code = labels.redisErrors.firstIndex(of: "replicasMissing"),
            let count = window.count(.redisErrors, code), count > 0
        else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "CausewayRedisReplicasMissing",
                observation:
                    "Writes that too few Redis replicas acknowledged in the last minute: \(Numeral.grouped(count)).",
                meaning:
                    "Registrations and held states wait 10 s for redis.replicas replicas, then continue without them.",
                action:
                    "Repair the replicas. If a failover happens before that, workers read records from Kafka again.",
                logKinds: [.redisReplicasMissing, .redisReplicasAvailableAgain]
            )
        ]
    }

    private var kafkaFindings: [Finding] {
        guard totals[.kafkaReady] == 0 else { return [] }
        return [
            Finding(
                severity: .broken,
                alertName: "CausewayKafkaUnreachable",
                observation: "No Kafka broker is reachable.",
                meaning: "Nothing is read, and results cannot be written. Records in progress wait; none is lost.",
                action:
                    """
                    Check the brokers, the network policy and the credentials. Read the events kafka-unreachable and \
                    kafka-error below.
                    """,
                logKinds: [.kafkaUnreachable, .kafkaError]
            )
        ]
    }

    private var partitionFindings: [Finding] {
        var findings: [Finding] = []
        if let finding = noPartitionsFinding { findings.append(finding) }
        // A fan-out record settles only after the last member of its range, which may take long. So leave its partition
        // to `audienceFindings`.
        let singleCommandPartitions = totals.partitions.filter { Int($0.topicIndex) != labels.fanoutTopicIndex }
        if let oldest = singleCommandPartitions.max(by: {
            $0.oldestUnsettledAgeMilliseconds < $1.oldestUnsettledAgeMilliseconds
        }),
            oldest.oldestUnsettledAgeMilliseconds > Self.unsettledAgeMillisecondsMax
        {
            let age = Numeral.duration(microseconds: oldest.oldestUnsettledAgeMilliseconds * 1_000)
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayCommandsStale",
                    observation: "The oldest unsettled record of \(name(of: oldest)) is \(age) old.",
                    meaning:
                        """
                        Later offsets of the partition cannot be committed. After a restart, a worker reads from this \
                        record on again.
                        """,
                    action: "Find out what the records wait for, in the table below. A restart does not help."
                )
            )
        }
        if totals[.partitionsStuck] > 0 {
            findings.append(
                Finding(
                    severity: .broken,
                    alertName: "CausewayPartitionStuck",
                    observation:
                        "\(Numeral.counted(totals[.partitionsStuck], "partition is", "partitions are")) not read.",
                    meaning: "Their committed offset no longer exists in the topic, or is not known yet.",
                    action:
                        """
                        The event offset-gone below names them. An operator must set the group's offset: see \
                        RUNBOOK.md.
                        """,
                    logKinds: [.offsetGone]
                )
            )
        }
        if let finding = lagGrowthFinding { findings.append(finding) }
        if totals[.partitionsPaused] > 0 {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "",
                    observation:
                        "\(Numeral.counted(totals[.partitionsPaused], "partition is", "partitions are")) paused.",
                    meaning: "A lane has reached its limit of records in progress.",
                    action: "Find out what the records wait for, in the table below: that part is slow."
                )
            )
        }
        return findings
    }

    private var noPartitionsFinding: Finding? {
        guard totals[.partitionsAssigned] == 0, totals[.kafkaReady] != 0, !condition.isDraining else { return nil }
        let isMember = condition.consumerGroupState == .member
        return Finding(
            severity: isMember ? .note : .attention,
            alertName: "CausewayNoPartitions",
            observation: "This worker reads no partition.",
            meaning: isMember
                ? "Other workers read all partitions; this one is a standby."
                : condition.isCommandsTopicMissing
                    ? "The commands topic does not exist, or the Kafka user may not describe it."
                    : "The worker is not in its group yet.",
            action: isMember
                ? "Nothing. Or run fewer workers, or add partitions."
                : "Wait a minute. Then check the topics, the name of the group, and the rights of the Kafka user.",
            logKinds: isMember ? [] : [.kafkaError]
        )
    }

    private var lagGrowthFinding: Finding? {
        guard let earlierTotals = window.earlierTotals, window.durationMilliseconds >= 30_000 else { return nil }
        let currentLagRecordCount = Self.totalLagRecordCount(totals)
        let earlierLagRecordCount = Self.totalLagRecordCount(earlierTotals)
        // It is normal that the lag grows by as many records as arrive in `normalLagGrowthMilliseconds`.
        let normalGrowthRecordCount =
            (window.count(.recordsReceived) ?? 0) * Self.normalLagGrowthMilliseconds / window.durationMilliseconds
        guard currentLagRecordCount - earlierLagRecordCount > max(1_000, normalGrowthRecordCount) else { return nil }
        return Finding(
            severity: .attention,
            alertName: "CausewayLagGrows",
            observation:
                """
                The lag grew from \(Numeral.grouped(earlierLagRecordCount)) to \
                \(Numeral.grouped(currentLagRecordCount)) records.
                """,
            meaning: "Records arrive faster than this worker processes them.",
            action: "If lanes are busy, add workers. Otherwise find out what the records wait for, in the table below."
        )
    }

    /// Returns the lag of all partitions. A broker may report any number, so the sum stops at `Int64.max`.
    static func totalLagRecordCount(_ totals: MetricTotals) -> Int64 {
        totals.partitions.reduce(0) { sum, reading in
            let (total, hasOverflowed) = sum.addingReportingOverflow(max(0, reading.lagRecordCount))
            return hasOverflowed ? .max : total
        }
    }

    func name(of partition: PartitionReading) -> String {
        let topic =
            labels.topics.indices.contains(Int(partition.topicIndex)) ? labels.topics[Int(partition.topicIndex)] : "?"
        return "\(topic)/\(partition.partition)"
    }
}
