/// The numbers of one thread: plain memory that it alone writes, without atomics, locks or allocation. Every so often it publishes
/// them to its board, from which they are read.
public struct ThreadMetrics: ~Copyable {
    /// The least time between two publications: what is read is at most this old, and a turn more.
    public static let publicationMilliseconds: Int64 = 250

    public let board: MetricBoard
    private let cells: UnsafeMutableBufferPointer<Int64>
    private let places: UnsafeMutableBufferPointer<MetricLayout.Place>
    /// Of all histograms, one behind the other, by the metric's raw value: where its bounds begin.
    private let bounds: UnsafeMutableBufferPointer<Int64>
    private let boundsStart: UnsafeMutableBufferPointer<Int32>
    private var nextPublicationMilliseconds = Int64.min
    private var busy = BusyShare()

    /// - Parameter board: of the registry that the numbers belong to; each has one thread that publishes to it.
    public init(board: MetricBoard) {
        self.board = board
        let layout = board.layout
        cells = .allocate(capacity: layout.cellCount)
        cells.initialize(repeating: 0)
        places = .allocate(capacity: layout.places.count)
        _ = places.initialize(from: layout.places)
        var allBounds: [Int64] = []
        var starts: [Int32] = []
        for definition in MetricCatalog.definitions {
            starts.append(Int32(allBounds.count))
            if case .histogram(let own) = definition.kind { allBounds += own }
        }
        bounds = .allocate(capacity: allBounds.count)
        _ = bounds.initialize(from: allBounds)
        boundsStart = .allocate(capacity: starts.count)
        _ = boundsStart.initialize(from: starts)
    }

    deinit {
        cells.deallocate()
        places.deallocate()
        bounds.deallocate()
        boundsStart.deallocate()
    }

    /// Adds to a counter, or to a gauge.
    public func add(_ metric: Metric, _ first: Int = 0, _ second: Int = 0, by amount: Int64 = 1) {
        increase(cell(metric, first, second), by: amount)
    }

    /// Sets a gauge, or a counter that something else counts.
    public func set(_ metric: Metric, _ first: Int = 0, _ second: Int = 0, to value: Int64) {
        cells[cell(metric, first, second)] = value
    }

    /// Sets a gauge unless it stands higher.
    public func setHighest(_ metric: Metric, _ first: Int, to value: Int64) {
        let cell = cell(metric, first, 0)
        cells[cell] = max(cells[cell], value)
    }

    /// Counts observations of a histogram, usually one. Below zero counts as zero: the two clocks of a duration may be two machines'.
    public func observe(_ metric: Metric, _ first: Int = 0, microseconds: Int64, count: Int64 = 1) {
        let start = cell(metric, first, 0)
        let buckets = Int(places[Int(metric.rawValue)].width) - 2
        precondition(buckets > 0, "only a histogram is observed")
        let value = max(0, microseconds)
        let boundsAt = Int(boundsStart[Int(metric.rawValue)])
        var bucket = 0
        while bucket < buckets, value > bounds[boundsAt + bucket] { bucket += 1 }
        increase(start + bucket, by: count)
        increase(start + buckets + 1, by: value &* count)
    }

    /// Not with `&+=`: of that Swift 6.3.1 makes an invalid bitcast under ThreadSanitizer, in a struct that is not copyable.
    private func increase(_ cell: Int, by amount: Int64) {
        cells[cell] = cells[cell] &+ amount
    }

    private func cell(_ metric: Metric, _ first: Int, _ second: Int) -> Int {
        let place = places[Int(metric.rawValue)]
        precondition(place.base >= 0, "a metric of the threads")
        precondition(
            first >= 0 && first < Int(place.firstCount) && second >= 0 && second < Int(place.secondCount),
            "a value that the label has"
        )
        return place.cell(first, second)
    }

    // MARK: - Publication

    /// Whether gauges should be brought up to date and the numbers published.
    public func isPublicationDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= nextPublicationMilliseconds }

    /// - Parameters:
    ///   - busyMicroseconds: wall time that the thread has worked since it began.
    ///   - ratio: where the share is shown, and the time itself as `seconds`.
    public mutating func noteBusy(
        microseconds busyMicroseconds: Int64,
        nowMilliseconds: Int64,
        ratio: Metric,
        seconds: Metric
    ) {
        busy.note(busyMicroseconds: busyMicroseconds, nowMilliseconds: nowMilliseconds)
        set(ratio, to: busy.millionths)
        set(seconds, to: busyMicroseconds)
    }

    /// Copies the numbers to the board. If they are being read this very moment, nothing waits: the next turn tries again.
    ///
    /// - Parameter partitions: beyond ``MetricBoard/partitionsMax``, the rest is left out.
    public mutating func publish(partitions: UnsafeBufferPointer<PartitionReading>, nowMilliseconds: Int64) {
        let isTaken = board.publish(
            UnsafeBufferPointer(cells),
            partitions: partitions,
            nowMilliseconds: nowMilliseconds
        )
        if isTaken { nextPublicationMilliseconds = nowMilliseconds + Self.publicationMilliseconds }
    }
}

/// Share of wall time that a thread worked, smoothed over some ten seconds.
struct BusyShare {
    /// Time constant of the smoothing.
    static let smoothingMilliseconds: Int64 = 5_000

    private(set) var millionths: Int64 = 0
    private var lastBusyMicroseconds: Int64 = 0
    private var lastMilliseconds: Int64?

    mutating func note(busyMicroseconds: Int64, nowMilliseconds: Int64) {
        defer {
            lastBusyMicroseconds = busyMicroseconds
            lastMilliseconds = nowMilliseconds
        }
        guard let lastMilliseconds, nowMilliseconds > lastMilliseconds else { return }
        let elapsed = min(nowMilliseconds - lastMilliseconds, 3_600_000)
        let worked = min(max(0, busyMicroseconds - lastBusyMicroseconds), elapsed * 1_000)
        let share = worked * 1_000 / elapsed
        millionths += (share - millionths) * elapsed / (elapsed + Self.smoothingMilliseconds)
    }
}
