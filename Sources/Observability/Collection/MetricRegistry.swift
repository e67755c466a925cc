/// What a worker's threads publish for `/metrics`, `/statusz` and the health endpoints: the metrics, the worker's
/// condition and the recent log events. Created once at the start.
package final class MetricRegistry: Sendable {
    package let labels: LabelValues
    package let laneMetrics: [PublishedMetrics]
    package let kafkaThreadMetrics: PublishedMetrics
    package let condition = SharedWorkerCondition()
    package let events: RecentEvents
    package let traceCounters = TraceCounters()
    package let channelStatus: ChannelStatus
    package let lifetimeStatus = LifetimeStatus()
    let layout: MetricLayout

    /// - Parameter events: the same object that the process's logger has, so that the metrics count the lines that the
    ///   logger loses.
    package init(labels: LabelValues, laneCount: Int, events: RecentEvents = RecentEvents()) {
        precondition(laneCount > 0, "a worker has lanes")
        let layout = MetricLayout(labels: labels)
        self.labels = labels
        self.events = events
        self.layout = layout
        channelStatus = ChannelStatus(poolCount: labels.pools.count)
        laneMetrics = (0..<laneCount).map { PublishedMetrics(threadName: "lane-\($0)", layout: layout) }
        kafkaThreadMetrics = PublishedMetrics(threadName: "kafka", layout: layout)
    }

    var publishedMetrics: [PublishedMetrics] { laneMetrics + [kafkaThreadMetrics] }

    /// Combines what all threads published last, and adds the counts of channels, lifetimes, traces and log lines that
    /// were not written.
    ///
    /// - Parameter nowMilliseconds: by the monotonic clock.
    func totals(nowMilliseconds: Int64) -> MetricTotals {
        let laneSnapshots = laneMetrics.map { $0.read() }
        let kafkaSnapshot = kafkaThreadMetrics.read()
        var cells = kafkaSnapshot.cells
        for metric in Metric.allCases where metric.isInMetricTotals {
            let range = layout[metric]
            guard range.firstCellIndex >= 0, case .lanes(let aggregation) = metric.definition.source else { continue }
            for cell in range.cellIndex(0, 0)..<range.cellIndex(0, 0) + range.seriesCount * Int(range.cellsPerSeries) {
                let values = laneSnapshots.lazy.map { $0.cells[cell] }
                switch aggregation {
                // At first, `cells` has the Kafka thread's values. A sum adds the lanes' values; the other aggregations
                // replace the Kafka thread's value.
                case .sum: cells[cell] = values.reduce(cells[cell], &+)
                case .highest: cells[cell] = values.max() ?? 0
                case .lowest: cells[cell] = values.min() ?? 0
                case .perLane: cells[cell] = 0
                }
            }
        }
        for (kind, count) in events.unwrittenLineCounts.enumerated() {
            cells[layout[.logLinesSuppressed].cellIndex(kind, 0)] &+= Int64(clamping: count)
        }
        writeTraceCounts(to: &cells)
        writeChannelCounts(to: &cells)
        cells[layout[.lifetimesWaiting].cellIndex(0, 0)] = Int64(lifetimeStatus.timetableActivityCount)
        // If no policy limits lifetimes, the lifetime keeper does not poll, so its last poll says nothing about now.
        let areLifetimesFailing = lifetimeStatus.hasLifetimeLimits && lifetimeStatus.isFailing
        cells[layout[.lifetimesFailing].cellIndex(0, 0)] = areLifetimesFailing ? 1 : 0
        cells[layout[.lifetimesEnded].cellIndex(0, 0)] = Int64(lifetimeStatus.endCommandCount)
        cells[layout[.lifetimesRestarted].cellIndex(0, 0)] = Int64(lifetimeStatus.restartCommandCount)
        return MetricTotals(
            layout: layout,
            cells: cells,
            laneCells: laneSnapshots.map(\.cells),
            partitions: (laneSnapshots.flatMap(\.partitions) + kafkaSnapshot.partitions).mergedByPartition(),
            iterationAges: publishedMetrics.map {
                ($0.threadName, $0.iterationAgeMilliseconds(nowMilliseconds: nowMilliseconds))
            },
            takenAtMilliseconds: nowMilliseconds
        )
    }

    private func writeChannelCounts(to cells: inout [Int64]) {
        for (pool, status) in channelStatus.poolStatuses.enumerated() {
            cells[layout[.channels].cellIndex(pool, 0)] = status.audienceChannelCount
            cells[layout[.channelsListed].cellIndex(pool, 0)] = status.listedChannelCount
            cells[layout[.channelsCreated].cellIndex(pool, 0)] = status.creationCount
            cells[layout[.channelsDeleted].cellIndex(pool, 0)] = status.deletionCount
            cells[layout[.channelOrphans].cellIndex(pool, 0)] = status.orphanDeletionCount
            cells[layout[.channelRefusals].cellIndex(pool, 0)] = status.failedCreationCount
        }
    }

    private func writeTraceCounts(to cells: inout [Int64]) {
        cells[layout[.tracesExported].cellIndex(0, 0)] = Int64(clamping: traceCounters.exportedCount)
        for (reason, count) in traceCounters.dropCounts.enumerated() {
            cells[layout[.tracesDropped].cellIndex(reason, 0)] = Int64(clamping: count)
        }
        for (reason, count) in traceCounters.failureCounts.enumerated() {
            cells[layout[.tracePostsFailed].cellIndex(reason, 0)] = Int64(clamping: count)
        }
    }
}

/// The combined numbers of all threads at one moment.
struct MetricTotals: Sendable {
    var layout: MetricLayout
    var cells: [Int64]
    /// The cells of each lane, for metrics that have one series for each lane.
    var laneCells: [[Int64]]
    /// One reading for each partition, sorted by topic and partition.
    var partitions: [PartitionReading]
    /// For each thread: the time since its last iteration
    /// (``PublishedMetrics/iterationAgeMilliseconds(nowMilliseconds:)``).
    var iterationAges: [(thread: String, milliseconds: Int64?)]
    /// When the numbers were combined, by the monotonic clock.
    var takenAtMilliseconds: Int64

    /// The stored value of one series of a counter or gauge.
    subscript(_ metric: Metric, _ firstDimensionIndex: Int = 0, _ secondDimensionIndex: Int = 0) -> Int64 {
        cells[layout[metric].cellIndex(firstDimensionIndex, secondDimensionIndex)]
    }

    func laneValue(_ lane: Int, _ metric: Metric) -> Int64 { laneCells[lane][layout[metric].cellIndex(0, 0)] }

    /// Returns the sum of all series of a counter or gauge.
    func sum(_ metric: Metric) -> Int64 {
        let range = layout[metric]
        return (0..<range.seriesCount)
            .reduce(0) { $0 &+ cells[Int(range.firstCellIndex) + $1 * Int(range.cellsPerSeries)] }
    }

    /// Returns the sum of all series of a counter or gauge with this value of the first dimension.
    func sum(_ metric: Metric, _ firstDimensionIndex: Int) -> Int64 {
        (0..<Int(layout[metric].secondDimensionValueCount)).reduce(0) { $0 &+ self[metric, firstDimensionIndex, $1] }
    }

    /// Returns one series of a histogram: the count of each bucket, the count above the last bound, and the sum.
    func histogram(_ metric: Metric, _ firstDimensionIndex: Int = 0) -> HistogramReading {
        guard case .histogram(let bounds) = metric.definition.kind else {
            preconditionFailure("only a histogram has buckets")
        }
        let start = layout[metric].cellIndex(firstDimensionIndex, 0)
        return HistogramReading(
            bucketBounds: bounds,
            bucketCounts: Array(cells[start...start + bounds.count]),
            sum: cells[start + bounds.count + 1]
        )
    }
}

/// The counts and the sum of the observations in one series of a histogram.
struct HistogramReading: Sendable, Equatable {
    var bucketBounds: [Int64]
    /// The count of each bucket, and at the end the count of the values above the last bound.
    var bucketCounts: [Int64]
    var sum: Int64

    var count: Int64 { bucketCounts.reduce(0, &+) }

    /// Returns the observations that are not in `earlier`, an earlier reading of the same series.
    func since(_ earlier: HistogramReading) -> HistogramReading {
        HistogramReading(
            bucketBounds: bucketBounds,
            bucketCounts: zip(bucketCounts, earlier.bucketCounts).map { $0 &- $1 },
            sum: sum &- earlier.sum
        )
    }

    static func + (left: HistogramReading, right: HistogramReading) -> HistogramReading {
        HistogramReading(
            bucketBounds: left.bucketBounds,
            bucketCounts: zip(left.bucketCounts, right.bucketCounts).map { $0 &+ $1 },
            sum: left.sum &+ right.sum
        )
    }

    /// Returns the value that `percent` per cent of the observations do not exceed: for 50, the median. Nil without
    /// observations. The value is interpolated within its bucket, and is never above the last bound.
    func quantile(percent: Int64) -> Int64? {
        let total = count
        guard total > 0 else { return nil }
        let rank = max(1, (total * percent + 99) / 100)
        var countBefore: Int64 = 0
        for (index, count) in bucketCounts.enumerated() {
            guard countBefore + count >= rank else {
                countBefore += count
                continue
            }
            guard index < bucketBounds.count else { break }
            let lower = index == 0 ? 0 : bucketBounds[index - 1]
            return lower + (bucketBounds[index] - lower) * (rank - countBefore) / max(1, count)
        }
        return bucketBounds.last
    }
}

extension [PartitionReading] {
    /// Combines the threads' readings into one reading per partition. Each value is the highest of the threads' values.
    func mergedByPartition() -> [PartitionReading] {
        var merged: [UInt64: PartitionReading] = [:]
        for reading in self {
            let key =
                UInt64(UInt32(bitPattern: reading.topicIndex)) << 32 | UInt64(UInt32(bitPattern: reading.partition))
            guard var combined = merged[key] else {
                merged[key] = reading
                continue
            }
            combined.oldestUnsettledAgeMilliseconds = Swift.max(
                combined.oldestUnsettledAgeMilliseconds,
                reading.oldestUnsettledAgeMilliseconds
            )
            combined.committableOffset = Swift.max(combined.committableOffset, reading.committableOffset)
            combined.lagRecordCount = Swift.max(combined.lagRecordCount, reading.lagRecordCount)
            merged[key] = combined
        }
        return merged.values.sorted { ($0.topicIndex, $0.partition) < ($1.topicIndex, $1.partition) }
    }
}
