/// The totals of the last minute, from which rates are computed.
struct TotalsHistory: Sendable {
    static let windowMilliseconds: Int64 = 60_000
    /// With a sample every five seconds: the window, and some more.
    static let samplesMax = 16

    private var samples: [MetricTotals] = []

    mutating func append(_ totals: MetricTotals) {
        if samples.count == Self.samplesMax { samples.removeFirst() }
        // Only sums are compared, and the lanes' cells are many, so do not keep these.
        var kept = totals
        kept.lanes = []
        samples.append(kept)
    }

    /// The latest totals that are at least as old as the window, else the oldest.
    func before(nowMilliseconds: Int64) -> MetricTotals? {
        samples.last { $0.takenAtMilliseconds <= nowMilliseconds - Self.windowMilliseconds } ?? samples.first
    }
}

/// The present totals, and those of up to a minute ago. Status and diagnosis use them.
struct MetricWindow: Sendable {
    var now: MetricTotals
    var before: MetricTotals?

    /// The length of the window; zero while there are no older totals.
    var milliseconds: Int64 { before.map { max(0, now.takenAtMilliseconds - $0.takenAtMilliseconds) } ?? 0 }

    /// How much was counted in the window; nil without a window.
    func count(_ metric: Metric) -> Int64? { milliseconds > 0 ? before.map { now.sum(metric) - $0.sum(metric) } : nil }

    func count(_ metric: Metric, _ first: Int) -> Int64? {
        milliseconds > 0 ? before.map { now.sum(metric, first) - $0.sum(metric, first) } : nil
    }

    func count(_ metric: Metric, _ first: Int, _ second: Int) -> Int64? {
        milliseconds > 0 ? before.map { now[metric, first, second] - $0[metric, first, second] } : nil
    }

    /// The observations in the window; without a window, all since the start.
    func histogram(_ metric: Metric, _ first: Int = 0) -> HistogramReading {
        let all = now.histogram(metric, first)
        return before.map { all.since($0.histogram(metric, first)) } ?? all
    }
}
