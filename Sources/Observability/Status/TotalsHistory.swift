/// The totals since the start (``MetricTotals``) at several moments of about the last minute. The difference between
/// two of them gives a rate.
struct TotalsHistory: Sendable {
    /// The usual length of a ``MetricWindow``: one minute.
    static let windowMilliseconds: Int64 = 60_000
    /// One sample comes every five seconds, so 16 samples go back at least 75 s. After the first minute, one of them is
    /// always at least `windowMilliseconds` old.
    static let samplesMax = 16

    private var samples: [MetricTotals] = []

    /// Adds a sample. If there are ``samplesMax`` samples, removes the oldest one.
    mutating func append(_ totals: MetricTotals) {
        if samples.count == Self.samplesMax { samples.removeFirst() }
        // A window compares only the totals of all lanes together, so discard each lane's own cells.
        var sample = totals
        sample.laneCells = []
        samples.append(sample)
    }

    /// Returns the latest totals that are at least `windowMilliseconds` old; without such totals, the oldest ones.
    func totalsBeforeWindow(nowMilliseconds: Int64) -> MetricTotals? {
        samples.last { $0.takenAtMilliseconds <= nowMilliseconds - Self.windowMilliseconds } ?? samples.first
    }
}

/// The current totals and earlier ones, usually from a minute ago, which the status and the diagnosis compare. The time
/// between them is the window.
struct MetricWindow: Sendable {
    var currentTotals: MetricTotals
    var earlierTotals: MetricTotals?

    /// The time between `earlierTotals` and `currentTotals`, the window; 0 if `earlierTotals` is nil.
    var durationMilliseconds: Int64 {
        earlierTotals.map { max(0, currentTotals.takenAtMilliseconds - $0.takenAtMilliseconds) } ?? 0
    }

    /// Returns how much was counted since `earlierTotals`; nil if ``durationMilliseconds`` is 0.
    func count(_ metric: Metric) -> Int64? {
        durationMilliseconds > 0 ? earlierTotals.map { currentTotals.sum(metric) - $0.sum(metric) } : nil
    }

    /// Returns how much was counted since `earlierTotals` in all series with this value of the first dimension; nil if
    /// ``durationMilliseconds`` is 0.
    func count(_ metric: Metric, _ firstDimensionIndex: Int) -> Int64? {
        durationMilliseconds > 0
            ? earlierTotals.map { currentTotals.sum(metric, firstDimensionIndex) - $0.sum(metric, firstDimensionIndex) }
            : nil
    }

    /// Returns how much was counted since `earlierTotals` in one series; nil if ``durationMilliseconds`` is 0.
    func count(_ metric: Metric, _ firstDimensionIndex: Int, _ secondDimensionIndex: Int) -> Int64? {
        durationMilliseconds > 0
            ? earlierTotals.map {
                currentTotals[metric, firstDimensionIndex, secondDimensionIndex]
                    - $0[metric, firstDimensionIndex, secondDimensionIndex]
            } : nil
    }

    /// Returns the observations since `earlierTotals`; if it is nil, all observations since the start.
    func histogram(_ metric: Metric, _ firstDimensionIndex: Int = 0) -> HistogramReading {
        let all = currentTotals.histogram(metric, firstDimensionIndex)
        return earlierTotals.map { all.since($0.histogram(metric, firstDimensionIndex)) } ?? all
    }
}
