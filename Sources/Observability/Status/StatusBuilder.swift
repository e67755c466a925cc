import Numbers

/// Builds the status report from the metrics and the worker's state.
struct StatusBuilder {
    /// The maximum number of partitions in the status report: those with the largest lag. Of partitions with equal
    /// lags, those with the oldest unsettled record come first.
    static let shownPartitionsMax = 12
    static let shownEventsMax = 20
    static let shownErrorCountsMax = 5

    let labels: LabelValues
    let window: MetricWindow
    let processReading: ProcessReading
    let earlierProcessReading: ProcessReading?
    let condition: WorkerCondition
    let events: [RecentEvents.KindSummary]
    /// For each pool, by its index: the numbers of channels, the state of the registry, and the last error.
    let channelPoolStatuses: [ChannelStatus.PoolStatus]
    let wallMilliseconds: Int64

    var totals: MetricTotals { window.currentTotals }

    /// Makes the report: the health checks, the findings of a ``Diagnosis``, and all tables.
    func makeReport(host: String, uptimeMilliseconds: Int64) -> StatusReport {
        let liveness = HealthReport.liveness(
            iterationAges: totals.iterationAges,
            uptimeMilliseconds: uptimeMilliseconds
        )
        let readiness = HealthReport.readiness(
            condition,
            isEveryAppRefused: condition.isEveryAppRefused(labels: labels),
            uptimeMilliseconds: uptimeMilliseconds
        )
        let diagnosis = Diagnosis(
            labels: labels,
            window: window,
            condition: condition,
            liveness: liveness,
            processReading: processReading,
            loggedKinds: events.map(\.kind)
        )
        return StatusReport(
            host: host,
            version: labels.build.version,
            wallMilliseconds: wallMilliseconds,
            uptimeMilliseconds: uptimeMilliseconds,
            summary: summary,
            findings: diagnosis.findings.map(addingLogLines),
            liveness: liveness,
            readiness: readiness,
            tables: [
                throughputTable, outcomesTable, freshnessTable, latencyTable, audiencesTable, audienceMembersTable,
                channelsTable, waitsTable, poolsTable, responsesTable, redisTable,
                partitionsTable,
                threadsTable, processTable,
                eventsTable,
            ]
        )
    }

    /// Adds to a finding the log lines about it, which the reader would otherwise search for in the table of events.
    private func addingLogLines(to finding: Finding) -> Finding {
        var finding = finding
        finding.logLines = events.filter { finding.logKinds.contains($0.kind) }
            .map { event in
                let ageMilliseconds = max(0, wallMilliseconds - event.lastLineAtWallMilliseconds)
                let ago = Numeral.duration(
                    microseconds: ageMilliseconds.multipliedReportingOverflow(by: 1_000).partialValue
                )
                return "\(event.kind.definition.identifier), \(ago) ago: \(event.lastLineMetadata)"
            }
        return finding
    }

    /// One sentence about the last minute: the rates of records and pushes, and the freshness of pushes.
    private var summary: String {
        guard window.durationMilliseconds > 0, let receivedCount = window.count(.recordsReceived),
            let pushCount = window.count(.pushes)
        else { return "The worker has just started; rates are shown in a few seconds." }
        let rate = { (count: Int64) in StatusCell.rate(count, windowMilliseconds: window.durationMilliseconds).text }
        var freshness = window.histogram(.freshness, 0)
        for app in labels.apps.indices.dropFirst() { freshness = freshness + window.histogram(.freshness, app) }
        var text = "In the last minute \(rate(receivedCount)) records and \(rate(pushCount)) pushes per second"
        if let p99 = freshness.quantile(percent: 99) {
            text += "; 99 % of the pushes accepted within \(Numeral.duration(microseconds: p99)) of their record's time"
        }
        return text + "."
    }

    // MARK: - The table "Throughput" of the status page

    private var throughputTable: StatusTable {
        let lines: [(String, Metric)] = [
            ("records received", .recordsReceived), ("merged into a newer state", .commandsReplaced),
            ("commands settled", .outcomes), ("pushes", .pushes), ("pushes retried", .pushRetries),
            ("at priority 10", .budgetDraws), ("requested 10, sent at 5", .budgetDemotions),
            ("tokens reported dead", .invalidations), ("dead letters", .deadLetters),
        ]
        return StatusTable(
            key: "flow",
            title: "Throughput",
            columns: [.init(key: "what", title: "")] + Self.rateAndTotalColumns,
            rows: lines.map { title, metric in
                [
                    .words(title), .rate(window.count(metric), windowMilliseconds: window.durationMilliseconds),
                    .count(totals.sum(metric)),
                ]
            }
        )
    }

    static let rateAndTotalColumns: [StatusTable.Column] = [
        .init(key: "perSecond", title: "per second, last minute"), .init(key: "total", title: "since the start"),
    ]

    /// Returns the cells of ``rateAndTotalColumns`` for one series.
    func rateAndTotalCells(_ metric: Metric, _ firstDimensionIndex: Int, _ secondDimensionIndex: Int) -> [StatusCell] {
        [
            .rate(
                window.count(metric, firstDimensionIndex, secondDimensionIndex),
                windowMilliseconds: window.durationMilliseconds
            ),
            .count(totals[metric, firstDimensionIndex, secondDimensionIndex]),
        ]
    }

    private var outcomesTable: StatusTable {
        let rows = (labels.apps + ["none"]).enumerated()
            .flatMap { app, name in
                labels.outcomes.enumerated()
                    .filter { totals[.outcomes, app, $0.offset] > 0 }
                    .map { outcome, text in [.words(name), .words(text)] + rateAndTotalCells(.outcomes, app, outcome) }
            }
        return StatusTable(
            key: "outcomes",
            title: "Outcomes of commands",
            columns: [.init(key: "app", title: "app"), .init(key: "outcome", title: "outcome")]
                + Self.rateAndTotalColumns,
            rows: rows,
            emptyText: "No command was settled yet."
        )
    }

    private var freshnessTable: StatusTable {
        StatusTable(
            key: "freshness",
            title: "Freshness",
            explanation: "From a command's record time to APNs' 200, last minute.",
            columns: [.init(key: "app", title: "app")] + Self.quantileColumns,
            rows: labels.apps.enumerated()
                .map { [.words($1)] + Self.quantileCells(window.histogram(.freshness, $0)) }
        )
    }

    private var latencyTable: StatusTable {
        let meanings: [LatencyPart: String] = [
            .queue: "Kafka, until received", .admit: "merging, pace, Redis", .stream: "waiting for an HTTP/2 stream",
            .apns: "Apple and the network", .settle: "the result, until acknowledged",
        ]
        return StatusTable(
            key: "latencyByPart",
            title: "Latency by part",
            columns: [.init(key: "part", title: "part"), .init(key: "meaning", title: "")] + Self.quantileColumns,
            rows: LatencyPart.allCases.map { part in
                [.words(part.name), .words(meanings[part] ?? "").styled(.faint)]
                    + Self.quantileCells(window.histogram(.latency, Int(part.rawValue)))
            }
        )
    }

    static let quantileColumns: [StatusTable.Column] = [
        .init(key: "p50Seconds", title: "p50"), .init(key: "p90Seconds", title: "p90"),
        .init(key: "p99Seconds", title: "p99"), .init(key: "count", title: "of"),
    ]

    static func quantileCells(_ histogram: HistogramReading) -> [StatusCell] {
        [50, 90, 99].map { .duration(microseconds: histogram.quantile(percent: $0)) } + [.count(histogram.count)]
    }

    // MARK: - The table "Waiting records" of the status page

    private var waitsTable: StatusTable {
        let meanings: [RecordWait: String] = [
            .redis: "a reply of Redis", .pace: "their activity's pace, budget or back-off",
            .stream: "a free HTTP/2 stream",
            .apns: "APNs' response", .result: "Kafka's acknowledgement of the result",
        ]
        var rows: [[StatusCell]] = RecordWait.allCases.map { wait in
            [
                .words(wait.name), .words(meanings[wait] ?? "").styled(.faint),
                .count(totals[.recordsWaiting, Int(wait.rawValue)]),
            ]
        }
        rows.append(deferredRow)
        return StatusTable(
            key: "waiting",
            title: "Waiting records",
            explanation:
                """
                \(Numeral.counted(totals[.recordsInProgress], "record is", "records are")) in progress, between \
                receipt and acknowledged result.
                """,
            columns: [
                .init(key: "for", title: "for"), .init(key: "meaning", title: ""),
                .init(key: "records", title: "records"),
            ],
            rows: rows
        )
    }

    /// The table's last row: the commands on the deferred topic. They are not in progress, so no lane counts them.
    private var deferredRow: [StatusCell] {
        let count = totals[.deferredWaiting]
        var meaning = "their return from the deferred topic"
        if count > 0 {
            meaning += "; the first came \(Numeral.duration(microseconds: totals[.deferredOldest] * 1_000)) ago"
        }
        return [.words("deferred"), .words(meaning).styled(.faint), .count(count)]
    }

    private var partitionsTable: StatusTable {
        let shownPartitions = totals.partitions
            .sorted {
                (max($0.lagRecordCount, 0), $0.oldestUnsettledAgeMilliseconds) > (
                    max($1.lagRecordCount, 0), $1.oldestUnsettledAgeMilliseconds
                )
            }
            .prefix(Self.shownPartitionsMax)
        let hiddenCount = totals.partitions.count - shownPartitions.count
        let text =
            "\(totals[.partitionsAssigned]) assigned, \(totals[.partitionsPaused]) paused, lag "
            + "\(Numeral.grouped(Diagnosis.totalLagRecordCount(totals)))"
        return StatusTable(
            key: "partitions",
            title: "Kafka: \(text)",
            explanation: (totals[.kafkaReady] != 0 ? "A broker is reachable." : "No broker is reachable.")
                + (totals[.readAheadActive] != 0 ? " Catching up: records are read ahead." : "")
                + (totals.sum(.kafkaErrors) > 0
                    ? " Errors since the start: \(largestCountsText(.kafkaErrors, labels.kafkaErrors))." : "")
                + (hiddenCount > 0
                    ? """
                     The \(shownPartitions.count) partitions with the largest lag; \
                    \(Numeral.counted(hiddenCount, "more is", "more are")) not shown.
                    """
                    : ""),
            columns: [
                .init(key: "topic", title: "topic"), .init(key: "partition", title: "partition"),
                .init(key: "lag", title: "lag"), .init(key: "oldestUnsettledSeconds", title: "oldest unsettled"),
                .init(key: "committableOffset", title: "settled up to"),
            ],
            rows: shownPartitions.map { reading in
                let oldestMilliseconds = reading.oldestUnsettledAgeMilliseconds
                let age = StatusCell.duration(milliseconds: oldestMilliseconds > 0 ? oldestMilliseconds : nil)
                return [
                    .words(
                        labels.topics.indices.contains(Int(reading.topicIndex))
                            ? labels.topics[Int(reading.topicIndex)] : "?"
                    ),
                    .count(Int64(reading.partition)),
                    reading.lagRecordCount >= 0 ? .count(reading.lagRecordCount) : .none,
                    oldestMilliseconds > Diagnosis.unsettledAgeMillisecondsMax ? age.styled(.attention) : age,
                    reading.committableOffset >= 0 ? .count(reading.committableOffset) : .none,
                ]
            },
            emptyText: "No partition is assigned."
        )
    }

    /// Returns the largest counts of a metric with their names, at most ``shownErrorCountsMax``, for example
    /// `stream 1,144, deadline 2`.
    private func largestCountsText(_ metric: Metric, _ names: [String]) -> String {
        names.indices.map { (name: names[$0], count: totals[metric, $0]) }
            .filter { $0.count > 0 }
            .sorted { $0.count > $1.count }
            .prefix(Self.shownErrorCountsMax)
            .map { "\($0.name) \(Numeral.grouped($0.count))" }
            .joined(separator: ", ")
    }

    // MARK: - APNs and Redis

    private var poolsTable: StatusTable {
        StatusTable(
            key: "pools",
            title: "APNs",
            columns: [
                .init(key: "app", title: "app"), .init(key: "environment", title: "environment"),
                .init(key: "paused", title: "paused"), .init(key: "ready", title: "connections ready"),
                .init(key: "opening", title: "opening"), .init(key: "draining", title: "draining"),
                .init(key: "awaited", title: "awaited"),
                .init(key: "streams", title: "streams"), .init(key: "inFlight", title: "in flight"),
                .init(key: "waiting", title: "waiting"),
            ],
            rows: labels.pools.enumerated()
                .map { index, pool in
                    let isBreakerOpen = totals[.breakerOpen, index] != 0
                    let connections = ConnectionPhase.allCases.map {
                        StatusCell.count(totals[.apnsConnections, index, Int($0.rawValue)])
                    }
                    return [
                        .words(pool.app), .words(pool.environment),
                        .yesOrNo(isBreakerOpen).styled(isBreakerOpen ? .broken : .plain),
                    ] + connections + [
                        .count(totals[.apnsStreamsMax, index]), .count(totals[.pushesInFlight, index]),
                        .count(totals[.pushesWaiting, index]),
                    ]
                }
        )
    }

    private var responsesTable: StatusTable {
        let rows = labels.pools.enumerated()
            .flatMap { index, pool in
                labels.responses.labels.enumerated()
                    .filter { totals[.pushes, index, $0.offset] > 0 }
                    .map { response, values in
                        [pool.app, pool.environment, values[0], values[1]].map { .words($0) }
                            + rateAndTotalCells(.pushes, index, response)
                    }
            }
        return StatusTable(
            key: "responses",
            title: "APNs' responses",
            columns: [
                .init(key: "app", title: "app"), .init(key: "environment", title: "environment"),
                .init(key: "status", title: "status"), .init(key: "reason", title: "reason"),
            ] + Self.rateAndTotalColumns,
            rows: rows,
            emptyText: "No push has a response yet."
        )
    }

    private var redisTable: StatusTable {
        let connectedLaneCount = totals.laneCells.indices.count { totals.laneValue($0, .redisReady) != 0 }
        let roundTrips = window.histogram(.redisRoundTrip)
        return StatusTable(
            key: "redis",
            title: "Redis",
            columns: [
                .init(key: "lanesReady", title: "lanes connected"), .init(key: "lanes", title: "of"),
            ] + Self.quantileColumns + [
                .init(key: "unavailableServers", title: "servers unreachable"),
                .init(key: "reconnects", title: "reconnects"),
                .init(key: "errors", title: "errors"), .init(key: "errorCodes", title: "by code"),
            ],
            rows: [
                [
                    .count(Int64(connectedLaneCount))
                        .styled(connectedLaneCount < totals.laneCells.count ? .broken : .plain),
                    .count(Int64(totals.laneCells.count)),
                ] + Self.quantileCells(roundTrips) + [
                    .count(totals[.redisServersUnavailable]), .count(totals.sum(.redisReconnects)),
                    .count(totals.sum(.redisErrors)),
                    .words(largestCountsText(.redisErrors, labels.redisErrors)),
                ]
            ]
        )
    }
}
