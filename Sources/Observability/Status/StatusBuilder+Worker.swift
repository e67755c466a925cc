import Logging

extension StatusBuilder {
    var threadsTable: StatusTable {
        StatusTable(
            key: "threads",
            title: "Threads",
            explanation: "The busy share shows when to scale: above 80 % for minutes, add workers or lanes.",
            columns: [
                .init(key: "thread", title: "thread"), .init(key: "busy", title: "busy"),
                .init(key: "iterationAgeSeconds", title: "last iteration, ago"),
            ],
            rows: window.currentTotals.iterationAges.enumerated()
                .map { threadIndex, iterationAge in
                    let isLaneThread = threadIndex < window.currentTotals.laneCells.count
                    let busyShareMillionths =
                        isLaneThread
                        ? window.currentTotals.laneValue(threadIndex, .laneBusyRatio)
                        : window.currentTotals[.kafkaThreadBusyRatio]
                    let age = StatusCell.duration(milliseconds: iterationAge.milliseconds)
                    let isStuck = (iterationAge.milliseconds ?? 0) >= HealthReport.iterationAgeMillisecondsMax
                    return [
                        .words(iterationAge.thread),
                        .share(millionths: busyShareMillionths)
                            .styled(busyShareMillionths > Diagnosis.busyShareMillionthsMax ? .attention : .plain),
                        isStuck ? age.styled(.broken) : age,
                    ]
                }
        )
    }

    var processTable: StatusTable {
        var cpuShareMillionths: Int64?
        if let cpuMicroseconds = processReading.cpuMicroseconds,
            let earlierCPUMicroseconds = earlierProcessReading?.cpuMicroseconds,
            window.durationMilliseconds > 0
        {
            cpuShareMillionths = max(0, cpuMicroseconds - earlierCPUMicroseconds) * 1_000 / window.durationMilliseconds
        }
        return StatusTable(
            key: "process",
            title: "Process",
            columns: [
                .init(key: "cpuShare", title: "CPU, last minute (100 %: one core)"),
                .init(key: "cpuSeconds", title: "CPU, total"), .init(key: "residentBytes", title: "memory"),
                .init(key: "openDescriptors", title: "descriptors"), .init(key: "maxDescriptors", title: "of"),
            ],
            rows: [
                [
                    .share(millionths: cpuShareMillionths), .duration(microseconds: processReading.cpuMicroseconds),
                    .bytes(processReading.residentBytes),
                    processReading.openDescriptorCount.map { .count($0) } ?? .none,
                    processReading.openDescriptorsMax.map { .count($0) } ?? .none,
                ]
            ]
        )
    }

    var eventsTable: StatusTable {
        StatusTable(
            key: "events",
            title: "Recent events",
            explanation: "The last line of each kind, the latest first. METRICS.md explains the kinds.",
            columns: [
                .init(key: "secondsAgo", title: "ago"), .init(key: "kind", title: "kind"),
                .init(key: "level", title: "level"), .init(key: "message", title: "message"),
                .init(key: "detail", title: "last detail"), .init(key: "count", title: "times"),
            ],
            rows: events.prefix(Self.shownEventsMax)
                .map { event in
                    let definition = event.kind.definition
                    let style: StatusCell.Style =
                        switch definition.level {
                        case .critical, .error: .broken
                        case .warning: .attention
                        default: .plain
                        }
                    return [
                        .duration(milliseconds: max(0, wallMilliseconds - event.lastLineAtWallMilliseconds)),
                        .words(definition.identifier), .words(definition.level.rawValue).styled(style),
                        .words(definition.message), .words(event.lastLineMetadata),
                        .count(Int64(clamping: event.count)),
                    ]
                },
            emptyText: "No event yet."
        )
    }
}
