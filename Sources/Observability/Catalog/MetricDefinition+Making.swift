/// The functions with which the catalogs define their metrics.
///
/// The arguments without a label are, in this order:
/// 1. the metric
/// 2. its name in the exposition format
/// 3. its unit; for a histogram, instead the bounds of its buckets
/// 4. its dimensions
/// 5. its source. A counter has `.lanes(.sum)` if it names none. A histogram names none, and always has `.lanes(.sum)`.
///
/// `help` says in one line what the metric measures. `meaning` says what a change of the metric means and what to do;
/// only `METRICS.md` shows it. `omitsZeros` leaves values of 0 out of `/metrics` (``MetricDefinition/omitsZeros``).
extension MetricDefinition {
    static func counter(
        _ metric: Metric,
        _ name: String,
        _ unit: Unit,
        _ dimensions: [MetricDimension],
        _ source: Source = .lanes(.sum),
        omitsZeros: Bool = false,
        help: String,
        meaning: String
    ) -> MetricDefinition {
        MetricDefinition(
            metric: metric,
            name: name,
            kind: .counter,
            unit: unit,
            source: source,
            dimensions: dimensions,
            omitsZeros: omitsZeros,
            help: help,
            meaning: meaning
        )
    }

    static func gauge(
        _ metric: Metric,
        _ name: String,
        _ unit: Unit,
        _ dimensions: [MetricDimension],
        _ source: Source,
        help: String,
        meaning: String
    ) -> MetricDefinition {
        MetricDefinition(
            metric: metric,
            name: name,
            kind: .gauge,
            unit: unit,
            source: source,
            dimensions: dimensions,
            help: help,
            meaning: meaning
        )
    }

    /// Defines a histogram of times, which adds the values of all lanes.
    static func histogram(
        _ metric: Metric,
        _ name: String,
        _ bounds: [Int64],
        _ dimensions: [MetricDimension],
        help: String,
        meaning: String
    ) -> MetricDefinition {
        MetricDefinition(
            metric: metric,
            name: name,
            kind: .histogram(bounds),
            unit: .secondsStoredAsMicroseconds,
            source: .lanes(.sum),
            dimensions: dimensions,
            help: help,
            meaning: meaning
        )
    }
}
