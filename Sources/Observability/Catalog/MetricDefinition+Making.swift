/// How the catalogs define their metrics.
///
/// The arguments of each function are, in this order: the metric, its name in the exposition format, its unit (of a
/// histogram: the bounds of its buckets), its dimensions, and its source. A counter without a source has
/// `.lanes(.sum)`; a histogram takes none. `help` says in one line what the metric measures. `meaning` says what a
/// change of the metric means and what to do; only `METRICS.md` shows it.
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

    /// Defines a histogram of times, whose values are those of all lanes together.
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
