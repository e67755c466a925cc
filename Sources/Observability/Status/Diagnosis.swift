import Numbers

/// Finds what is wrong with one worker, only from its metrics and state. Uses the thresholds of the alerts.
struct Diagnosis {
    static let staleMilliseconds: Int64 = 60_000
    static let freshnessMicroseconds: Int64 = 5_000_000
    static let tokenAgeMilliseconds: Int64 = 3_300_000
    static let usualLagMilliseconds: Int64 = 5_000
    static let busyMillionths: Int64 = 800_000
    /// With at least this many answers in the window, more than 1 % of refusals is reported. With fewer
    /// answers, more than half of them must be refusals.
    static let responsesMin: Int64 = 100
    /// The fewest held commands in the window for which their share is reported.
    static let heldMin: Int64 = 20

    let labels: LabelSpace
    let window: MetricWindow
    let condition: WorkerCondition
    let live: HealthReport
    let process: ProcessReading
    /// The kinds of log lines that were written, the latest first.
    let kinds: [LogKind]

    private var now: MetricTotals { window.now }

    /// All findings, the most severe first.
    var findings: [Finding] {
        (workerFindings + redis + rereading + kafka + partitions + pools + answers + records + audiences + channels
            + load + traces)
            .enumerated()
            .sorted { ($1.element.severity, $0.offset) < ($0.element.severity, $1.offset) }
            .map(\.element)
    }

    // MARK: - The worker

    private var workerFindings: [Finding] {
        var findings = live.checks.filter { !$0.isPassed }
            .map { check in
                Finding(
                    severity: .broken,
                    alert: "CausewayRestarting",
                    observation: "The thread \(check.name) \(check.text).",
                    meaning:
                        "The thread is stuck. Kubernetes restarts this worker when /livez has failed for long enough.",
                    action: "If you can, first record the stacks (gdb -p, thread apply all bt), and report them."
                )
            }
        if condition.isDraining {
            findings.append(
                Finding(
                    severity: .note,
                    alert: "",
                    observation: "This worker is draining.",
                    meaning:
                        "The worker is stopping. It finishes the work in progress and gives its partitions back.",
                    action: "Nothing."
                )
            )
        }
        if let open = process.openDescriptors, let most = process.maxDescriptors, open * 5 > most * 4 {
            findings.append(
                Finding(
                    severity: .attention,
                    alert: "",
                    observation: "\(Numeral.grouped(open)) of \(Numeral.grouped(most)) file descriptors are open.",
                    meaning: "At the limit no connection can be made.",
                    action: "Raise the limit; if the number only ever grows, report it."
                )
            )
        }
        return findings
    }

    private var load: [Finding] {
        let busy = now.lanes.indices.filter { now.lane($0, .laneBusyRatio) > Self.busyMillionths }
        guard !busy.isEmpty else { return kafkaThread }
        return kafkaThread + [
            Finding(
                severity: .attention,
                alert: "CausewayLaneBusy",
                observation: "\(busy.count) of \(now.lanes.count) lanes work more than 80 % of the time.",
                meaning: "A lane at 100 % falls behind, and pushes come late.",
                action: busy.count == now.lanes.count
                    ? "Add workers, up to the number of partitions, or lanes where there are cores."
                    : "Some partitions have more load than others. Look for one activity with very many commands, or for too few partitions."
            )
        ]
    }

    private var kafkaThread: [Finding] {
        guard now[.kafkaThreadBusyRatio] > Self.busyMillionths else { return [] }
        return [
            Finding(
                severity: .attention,
                alert: "CausewayLaneBusy",
                observation: "The Kafka thread works more than 80 % of the time.",
                meaning: "This thread distributes the records to all lanes: at 100 % all of them fall behind.",
                action: "Add workers, up to the number of partitions. Lanes do not help: there is one such thread."
            )
        ]
    }

    private var traces: [Finding] {
        let dropped = now.sum(.tracesDropped)
        let failed = now.sum(.tracePostsFailed)
        guard dropped > 0 || failed > 0 else { return [] }
        let isRecent = (window.count(.tracesDropped) ?? dropped) > 0 || (window.count(.tracePostsFailed) ?? failed) > 0
        return [
            Finding(
                severity: isRecent ? .attention : .note,
                alert: "",
                observation:
                    "Traces of \(Numeral.grouped(dropped)) records were dropped, and \(Numeral.grouped(failed)) "
                    + "requests to the collector failed\(isRecent ? "" : ", none of them in the last minute").",
                meaning: "Traces are incomplete. Pushes are not affected.",
                action:
                    "See the events traces-refused and traces-dropped below; causeway_trace_posts_failed_total has the reasons.",
                kinds: [.tracesRefused, .tracesDropped]
            )
        ]
    }

    // MARK: - What it depends on

    private var redis: [Finding] {
        let away = now.lanes.indices.count { now.lane($0, .redisReady) == 0 }
        guard away > 0 else { return unavailableServers + redisErrors + redisReplicas }
        return [
            Finding(
                severity: .broken,
                alert: "CausewayRedisAway",
                observation: away == now.lanes.count
                    ? "Redis is away." : "Redis is away for \(away) of \(now.lanes.count) lanes.",
                meaning:
                    "Nothing is sent without Redis, which knows what each phone shows. Commands wait in Kafka; none is lost.",
                action:
                    "Check Redis, the network policy and the credentials; the event redis-lost below has the error.",
                kinds: [.redisLost]
            )
        ]
    }

    private var unavailableServers: [Finding] {
        let away = now[.redisServersUnavailable]
        guard away > 0 else { return [] }
        return [
            Finding(
                severity: .broken,
                alert: "CausewayRedisServerAway",
                observation: "\(away) of the cluster's Redis servers \(away == 1 ? "is" : "are") away.",
                meaning: "Commands with keys on these servers wait; all others continue.",
                action: "See whether the cluster promotes a replica; the event redis-lost below names the server.",
                kinds: [.redisLost]
            )
        ]
    }

    private var rereading: [Finding] {
        let count = now[.partitionsRereading]
        let emptied = window.count(.redisLosses, Int(RedisLoss.emptied.rawValue)) ?? 0
        guard count > 0 || emptied > 0 else { return [] }
        return [
            Finding(
                severity: emptied > 0 ? .broken : .attention,
                alert: emptied > 0 ? "CausewayRedisLost" : "",
                observation: (emptied > 0 ? "Redis has lost all its data" : "Redis may have lost its last writes")
                    + (count > 0 ? ": \(count) partitions are read again." : "; all partitions were read again."),
                meaning:
                    "Tokens, and states that wait for one, come back with their records. No alert rings twice, nothing starts twice.",
                action:
                    "The phones need nothing. The events redis-emptied and redis-replaced below name the server: find out why.",
                kinds: [.redisEmptied, .redisReplaced, .rereadingBegan]
            )
        ]
    }

    /// The codes of `causeway_redis_errors_total` whose cause only an operator can remove.
    static let redisErrorsThatStay: Set<String> = [
        "outOfMemory", "misconfigured", "noReplicas", "transactionAborted", "clusterEnabled", "unknown",
    ]

    private var redisErrors: [Finding] {
        let seen = labels.redisErrors.enumerated()
            .compactMap { index, code -> String? in
                guard Self.redisErrorsThatStay.contains(code), let count = window.count(.redisErrors, index), count > 0
                else { return nil }
                return "\(Numeral.grouped(count)) with \(code)"
            }
        guard !seen.isEmpty else { return [] }
        return [
            Finding(
                severity: .broken,
                alert: "CausewayRedisErrors",
                observation: "Redis answers calls with errors: \(seen.joined(separator: ", ")).",
                meaning: "The calls are repeated until they succeed. Their commands wait; none is lost.",
                action: "The event redis-error below has the text.",
                kinds: [.redisError]
            )
        ]
    }

    private var redisReplicas: [Finding] {
        guard let code = labels.redisErrors.firstIndex(of: "replicasMissing"),
            let count = window.count(.redisErrors, code), count > 0
        else { return [] }
        return [
            Finding(
                severity: .attention,
                alert: "CausewayRedisReplicasMissing",
                observation: "Redis replicas did not acknowledge writes, \(Numeral.grouped(count)) times.",
                meaning: "Registrations and held states wait 10 s for redis.replicas, then continue without them.",
                action: "Bring the replicas back. A failover before that makes workers read Kafka's records again.",
                kinds: [.redisReplicasMissing, .redisReplicasBack]
            )
        ]
    }

    private var kafka: [Finding] {
        guard now[.kafkaReady] == 0 else { return [] }
        return [
            Finding(
                severity: .broken,
                alert: "CausewayKafkaAway",
                observation: "No Kafka broker is reachable.",
                meaning: "Nothing is read, and results cannot be written. Records in progress wait; none is lost.",
                action:
                    "Check the brokers, the network policy and the credentials; see the events kafka-away and kafka-error below.",
                kinds: [.kafkaAway, .kafkaError]
            )
        ]
    }

    private var partitions: [Finding] {
        var findings: [Finding] = []
        if now[.partitionsAssigned] == 0, now[.kafkaReady] != 0, !condition.isDraining {
            let isMember = condition.membership == .member
            findings.append(
                Finding(
                    severity: isMember ? .note : .attention,
                    alert: "CausewayNoPartitions",
                    observation: "This worker reads no partition.",
                    meaning: isMember
                        ? "Other workers read all partitions; this one is a standby."
                        : condition.isTopicMissing
                            ? "The commands topic does not exist, or the user may not see it."
                            : "The worker is not in its group yet.",
                    action: isMember
                        ? "Nothing. Or run fewer workers, or add partitions."
                        : "Wait a minute; then check the topics, the group's name and its rights.",
                    kinds: isMember ? [] : [.kafkaError]
                )
            )
        }
        // A fan-out record settles only with the last of its members. So `audiences` reports on these records
        // instead.
        let single = now.partitions.filter { Int($0.topic) != labels.fanoutTopic }
        if let oldest = single.max(by: { $0.oldestUnsettledMilliseconds < $1.oldestUnsettledMilliseconds }),
            oldest.oldestUnsettledMilliseconds > Self.staleMilliseconds
        {
            let age = Numeral.duration(microseconds: oldest.oldestUnsettledMilliseconds * 1_000)
            findings.append(
                Finding(
                    severity: .attention,
                    alert: "CausewayCommandsStale",
                    observation: "The oldest unsettled record of \(name(of: oldest)) is \(age) old.",
                    meaning:
                        "Records behind it cannot be committed, and a restart begins with it.",
                    action:
                        "See what the waiting records wait for, below. A restart does not help."
                )
            )
        }
        if now[.partitionsStuck] > 0 {
            findings.append(
                Finding(
                    severity: .broken,
                    alert: "CausewayPartitionStandsStill",
                    observation: "\(now[.partitionsStuck]) partitions are stuck and not read.",
                    meaning:
                        "The offset to continue at is not known, or records were deleted before they were read.",
                    action:
                        "The event offset-gone below names them. An operator must decide where to continue: see the runbook.",
                    kinds: [.offsetGone]
                )
            )
        }
        if let lag = lagGrowth { findings.append(lag) }
        if now[.partitionsPaused] > 0 {
            findings.append(
                Finding(
                    severity: .attention,
                    alert: "",
                    observation: "\(now[.partitionsPaused]) partitions are paused.",
                    meaning: "A lane holds as many records as it may.",
                    action: "See below what the waiting records wait for: that part is slow."
                )
            )
        }
        return findings
    }

    private var lagGrowth: Finding? {
        guard let before = window.before, window.milliseconds >= 30_000 else { return nil }
        let lagNow = Self.lag(now)
        let lagBefore = Self.lag(before)
        // A lag of a few seconds' records is normal.
        let usual = (window.count(.recordsReceived) ?? 0) * Self.usualLagMilliseconds / window.milliseconds
        guard lagNow - lagBefore > max(1_000, usual) else { return nil }
        return Finding(
            severity: .attention,
            alert: "CausewayLagGrows",
            observation: "The lag grew from \(Numeral.grouped(lagBefore)) to \(Numeral.grouped(lagNow)) records.",
            meaning: "More records are written than this worker reads.",
            action: "If lanes are busy, add workers. If not, see what the waiting records wait for."
        )
    }

    /// Returns the lag of all partitions. A broker may report any number, so the sum saturates.
    static func lag(_ totals: MetricTotals) -> Int64 {
        totals.partitions.reduce(0) { sum, reading in
            let (total, isTooMany) = sum.addingReportingOverflow(max(0, reading.lag))
            return isTooMany ? .max : total
        }
    }

    func name(of partition: PartitionReading) -> String {
        let topic = labels.topics.indices.contains(Int(partition.topic)) ? labels.topics[Int(partition.topic)] : "?"
        return "\(topic)/\(partition.partition)"
    }
}
