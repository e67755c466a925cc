/// Totals of the last minute, so that what counts can be shown as a rate.
struct TotalsHistory: Sendable {
    static let windowMilliseconds: Int64 = 60_000
    /// At one sample every five seconds, the window and one more.
    static let samplesMax = 16

    private var samples: [MetricTotals] = []

    mutating func append(_ totals: MetricTotals) {
        if samples.count == Self.samplesMax { samples.removeFirst() }
        // Only sums are compared; a lane's own cells are many.
        var kept = totals
        kept.lanes = []
        samples.append(kept)
    }

    /// The latest totals that are a window old or more, else the oldest.
    func before(nowMilliseconds: Int64) -> MetricTotals? {
        samples.last { $0.takenAtMilliseconds <= nowMilliseconds - Self.windowMilliseconds } ?? samples.first
    }
}

/// Now, and up to a minute ago: what status and diagnosis look at.
struct MetricWindow: Sendable {
    var now: MetricTotals
    var before: MetricTotals?

    /// Zero before there is anything to compare with.
    var milliseconds: Int64 { before.map { max(0, now.takenAtMilliseconds - $0.takenAtMilliseconds) } ?? 0 }

    /// What was counted in the window; nil without one.
    func count(_ metric: Metric) -> Int64? { milliseconds > 0 ? before.map { now.sum(metric) - $0.sum(metric) } : nil }

    func count(_ metric: Metric, _ first: Int) -> Int64? {
        milliseconds > 0 ? before.map { now.sum(metric, first) - $0.sum(metric, first) } : nil
    }

    func count(_ metric: Metric, _ first: Int, _ second: Int) -> Int64? {
        milliseconds > 0 ? before.map { now[metric, first, second] - $0[metric, first, second] } : nil
    }

    /// Observations in the window; all since the start without one.
    func histogram(_ metric: Metric, _ first: Int = 0) -> HistogramReading {
        let all = now.histogram(metric, first)
        return before.map { all.since($0.histogram(metric, first)) } ?? all
    }
}
