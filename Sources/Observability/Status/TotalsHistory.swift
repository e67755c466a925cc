/// The totals since the start (``MetricTotals``), as they were at several moments of about the last minute. The
/// difference of two of them gives a rate.
struct TotalsHistory: Sendable {
    /// The usual length of a ``MetricWindow``.
    static let windowMilliseconds: Int64 = 60_000
    /// With a sample every five seconds, 16 samples go back at least 75 s. So one of them is at least
    /// `windowMilliseconds` old, except in the first minute.
    static let samplesMax = 16

    private var samples: [MetricTotals] = []

    mutating func append(_ totals: MetricTotals) {
        if samples.count == Self.samplesMax { samples.removeFirst() }
        // Only the combined totals are compared later, so discard each lane's own cells.
        var sample = totals
        sample.laneCells = []
        samples.append(sample)
    }

    /// Returns the latest of the totals that are at least `windowMilliseconds` old. If there are none, returns the
    /// oldest totals.
    func totalsBeforeWindow(nowMilliseconds: Int64) -> MetricTotals? {
        samples.last { $0.takenAtMilliseconds <= nowMilliseconds - Self.windowMilliseconds } ?? samples.first
    }
}

/// The current totals and older ones, usually from about a minute ago. The time between them is the window. Status and
/// diagnosis compare them.
struct MetricWindow: Sendable {
    var currentTotals: MetricTotals
    var earlierTotals: MetricTotals?

    /// The time from `earlierTotals` to `currentTotals`; 0 if `earlierTotals` is nil.
    var durationMilliseconds: Int64 {
        earlierTotals.map { max(0, currentTotals.takenAtMilliseconds - $0.takenAtMilliseconds) } ?? 0
    }

    /// Returns how much was counted from `earlierTotals` to `currentTotals`; nil if ``durationMilliseconds`` is 0.
    func count(_ metric: Metric) -> Int64? {
        durationMilliseconds > 0 ? earlierTotals.map { currentTotals.sum(metric) - $0.sum(metric) } : nil
    }

    func count(_ metric: Metric, _ firstDimensionIndex: Int) -> Int64? {
        durationMilliseconds > 0
            ? earlierTotals.map { currentTotals.sum(metric, firstDimensionIndex) - $0.sum(metric, firstDimensionIndex) }
            : nil
    }

    func count(_ metric: Metric, _ firstDimensionIndex: Int, _ secondDimensionIndex: Int) -> Int64? {
        durationMilliseconds > 0
            ? earlierTotals.map {
                currentTotals[metric, firstDimensionIndex, secondDimensionIndex]
                    - $0[metric, firstDimensionIndex, secondDimensionIndex]
            } : nil
    }

    /// Returns the observations in the window. If there are no older totals, returns all since the start.
    func histogram(_ metric: Metric, _ firstDimensionIndex: Int = 0) -> HistogramReading {
        let all = currentTotals.histogram(metric, firstDimensionIndex)
        return earlierTotals.map { all.since($0.histogram(metric, firstDimensionIndex)) } ?? all
    }
}
