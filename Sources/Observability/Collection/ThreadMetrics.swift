/// The counters and gauges of one thread, in plain memory that only this thread writes: no atomics, locks or
/// allocation. The thread regularly publishes a copy for other threads.
public struct ThreadMetrics: ~Copyable {
    /// The least time between two publications. The first iteration after this time publishes. If a reader has the lock
    /// then, a later iteration publishes.
    public static let publicationIntervalMilliseconds: Int64 = 250

    public let published: PublishedMetrics
    private let cells: UnsafeMutableBufferPointer<Int64>
    private let cellRanges: UnsafeMutableBufferPointer<MetricLayout.CellRange>
    /// The bounds of all histograms in one array. `firstBoundIndices` says where the bounds of each metric begin.
    private let bounds: UnsafeMutableBufferPointer<Int64>
    private let firstBoundIndices: UnsafeMutableBufferPointer<Int32>
    private var nextPublicationAtMilliseconds = Int64.min
    private var busyShare = BusyShare()

    /// - Parameter published: where the numbers are published. Only one thread may publish to this object.
    public init(publishingTo published: PublishedMetrics) {
        self.published = published
        let layout = published.layout
        cells = .allocate(capacity: layout.cellCount)
        cells.initialize(repeating: 0)
        cellRanges = .allocate(capacity: layout.cellRanges.count)
        _ = cellRanges.initialize(from: layout.cellRanges)
        var allBounds: [Int64] = []
        var boundIndices: [Int32] = []
        for definition in MetricCatalog.definitions {
            boundIndices.append(Int32(allBounds.count))
            if case .histogram(let histogramBounds) = definition.kind { allBounds += histogramBounds }
        }
        bounds = .allocate(capacity: allBounds.count)
        _ = bounds.initialize(from: allBounds)
        firstBoundIndices = .allocate(capacity: boundIndices.count)
        _ = firstBoundIndices.initialize(from: boundIndices)
    }

    deinit {
        cells.deallocate()
        cellRanges.deallocate()
        bounds.deallocate()
        firstBoundIndices.deallocate()
    }

    // The methods from here to `observe` take one index for each dimension of the metric, and trap if the number of
    // indices differs. The dimension `lane` takes no index, because each lane has its own array.

    /// Adds to a counter or gauge without a dimension, or with only the dimension `lane`.
    public func add(_ metric: Metric, by increment: Int64 = 1) { increase(cellIndex(metric), by: increment) }

    /// Adds to a counter or gauge with one dimension.
    public func add(_ metric: Metric, _ dimensionIndex: Int, by increment: Int64 = 1) {
        increase(cellIndex(metric, dimensionIndex), by: increment)
    }

    /// Adds to a counter or gauge with two dimensions.
    public func add(
        _ metric: Metric,
        _ firstDimensionIndex: Int,
        _ secondDimensionIndex: Int,
        by increment: Int64 = 1
    ) {
        increase(cellIndex(metric, firstDimensionIndex, secondDimensionIndex), by: increment)
    }

    /// Sets a gauge without a dimension, or with only the dimension `lane`. Also sets a counter to a total that other
    /// code keeps.
    public func set(_ metric: Metric, to value: Int64) { cells[cellIndex(metric)] = value }

    /// Sets a gauge with one dimension. Also sets a counter to a total that other code keeps.
    public func set(_ metric: Metric, _ dimensionIndex: Int, to value: Int64) {
        cells[cellIndex(metric, dimensionIndex)] = value
    }

    /// Sets a gauge with two dimensions. Also sets a counter to a total that other code keeps.
    public func set(_ metric: Metric, _ firstDimensionIndex: Int, _ secondDimensionIndex: Int, to value: Int64) {
        cells[cellIndex(metric, firstDimensionIndex, secondDimensionIndex)] = value
    }

    /// Raises a gauge to a value; a higher gauge stays. To publish the highest of several values, first set the gauge
    /// to 0.
    public func raise(_ metric: Metric, _ dimensionIndex: Int, to value: Int64) {
        let index = cellIndex(metric, dimensionIndex)
        cells[index] = max(cells[index], value)
    }

    /// Adds `count` equal observations to a histogram without a dimension. A negative duration counts as zero: its two
    /// times may come from the clocks of two machines.
    public func observe(_ metric: Metric, microseconds: Int64, count: Int64 = 1) {
        observe(metric, inSeriesAt: cellIndex(metric), microseconds: microseconds, count: count)
    }

    /// Adds `count` equal observations to a histogram with one dimension. A negative duration counts as zero.
    public func observe(_ metric: Metric, _ dimensionIndex: Int, microseconds: Int64, count: Int64 = 1) {
        observe(metric, inSeriesAt: cellIndex(metric, dimensionIndex), microseconds: microseconds, count: count)
    }

    private func observe(_ metric: Metric, inSeriesAt start: Int, microseconds: Int64, count: Int64) {
        let bucketCount = Int(cellRanges[Int(metric.rawValue)].cellsPerSeries) - 2
        precondition(bucketCount > 0, "only a histogram is observed, not the metric \(metric)")
        let clampedMicroseconds = max(0, microseconds)
        let firstBoundIndex = Int(firstBoundIndices[Int(metric.rawValue)])
        var bucket = 0
        while bucket < bucketCount, clampedMicroseconds > bounds[firstBoundIndex + bucket] { bucket += 1 }
        increase(start + bucket, by: count)
        increase(start + bucketCount + 1, by: clampedMicroseconds &* count)
    }

    /// Adds to a cell. Does not use `&+=`, which Swift 6.3.1 compiles to an invalid bitcast under ThreadSanitizer in a
    /// non-copyable struct.
    private func increase(_ cellIndex: Int, by increment: Int64) {
        cells[cellIndex] = cells[cellIndex] &+ increment
    }

    private func cellIndex(_ metric: Metric) -> Int { cellRange(metric, dimensionIndexCount: 0).cellIndex(0, 0) }

    private func cellIndex(_ metric: Metric, _ dimensionIndex: Int) -> Int {
        let range = cellRange(metric, dimensionIndexCount: 1)
        precondition(
            dimensionIndex >= 0 && dimensionIndex < Int(range.firstDimensionValueCount),
            "a value that the label of the metric \(metric) has"
        )
        return range.cellIndex(dimensionIndex, 0)
    }

    private func cellIndex(_ metric: Metric, _ firstDimensionIndex: Int, _ secondDimensionIndex: Int) -> Int {
        let range = cellRange(metric, dimensionIndexCount: 2)
        precondition(
            firstDimensionIndex >= 0 && firstDimensionIndex < Int(range.firstDimensionValueCount)
                && secondDimensionIndex >= 0 && secondDimensionIndex < Int(range.secondDimensionValueCount),
            "a value that the label of the metric \(metric) has"
        )
        return range.cellIndex(firstDimensionIndex, secondDimensionIndex)
    }

    /// Returns where the cells of a metric are. Traps if the metric has no cells, or does not take
    /// `dimensionIndexCount` indices.
    @inline(__always)
    private func cellRange(_ metric: Metric, dimensionIndexCount: Int16) -> MetricLayout.CellRange {
        let range = cellRanges[Int(metric.rawValue)]
        precondition(range.firstCellIndex >= 0, "the metric \(metric) is counted by threads")
        precondition(
            range.dimensionIndexCount == dimensionIndexCount,
            "an index for each dimension of the metric \(metric)"
        )
        return range
    }

    // MARK: - Publishing the metrics

    /// Whether it is time to update the gauges and to publish.
    public func isPublicationDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= nextPublicationAtMilliseconds }

    /// Records how long the thread has worked: as a time, and as a share of the recent wall time.
    ///
    /// - Parameters:
    ///   - busyMicroseconds: the wall time that the thread has worked since its start.
    ///   - ratioMetric: the metric of the share. `secondsMetric` is the metric of the time.
    public mutating func setBusyTime(
        microseconds busyMicroseconds: Int64,
        nowMilliseconds: Int64,
        ratioMetric: Metric,
        secondsMetric: Metric
    ) {
        busyShare.update(busyMicroseconds: busyMicroseconds, nowMilliseconds: nowMilliseconds)
        set(ratioMetric, to: busyShare.millionths)
        set(secondsMetric, to: busyMicroseconds)
    }

    /// Publishes the numbers. If a reader has the lock, the thread does not wait: it tries again in its next iteration.
    ///
    /// - Parameter partitions: at most the first ``PublishedMetrics/partitionsMax`` are published.
    public mutating func publish(partitions: UnsafeBufferPointer<PartitionReading>, nowMilliseconds: Int64) {
        let isPublished = published.publish(
            UnsafeBufferPointer(cells),
            partitions: partitions,
            nowMilliseconds: nowMilliseconds
        )
        if isPublished { nextPublicationAtMilliseconds = nowMilliseconds + Self.publicationIntervalMilliseconds }
    }
}

/// The share of wall time that a thread has worked, as a moving average. For the Kafka thread, waiting for a broker
/// counts as work.
struct BusyShare {
    /// Sets how fast old shares lose weight. With updates every 250 ms, the last 5 s have about 62 % of the weight, and
    /// the last 10 s about 86 %.
    static let smoothingMilliseconds: Int64 = 5_000

    private(set) var millionths: Int64 = 0
    private var lastBusyMicroseconds: Int64 = 0
    private var lastMeasuredAtMilliseconds: Int64?

    /// Updates the average. `busyMicroseconds` is the time that the thread has worked since its start.
    mutating func update(busyMicroseconds: Int64, nowMilliseconds: Int64) {
        defer {
            lastBusyMicroseconds = busyMicroseconds
            lastMeasuredAtMilliseconds = nowMilliseconds
        }
        guard let lastMeasuredAtMilliseconds, nowMilliseconds > lastMeasuredAtMilliseconds else { return }
        let elapsedMilliseconds = min(nowMilliseconds - lastMeasuredAtMilliseconds, 3_600_000)
        let workedMicroseconds = min(max(0, busyMicroseconds - lastBusyMicroseconds), elapsedMilliseconds * 1_000)
        let shareMillionths = workedMicroseconds * 1_000 / elapsedMilliseconds
        millionths +=
            (shareMillionths - millionths) * elapsedMilliseconds / (elapsedMilliseconds + Self.smoothingMilliseconds)
    }
}
