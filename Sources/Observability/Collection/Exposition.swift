import Numbers

/// The metrics as text, in Prometheus' exposition format 0.0.4
/// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format).
package struct Exposition {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private(set) var text = ""

    /// Writes all metrics of a worker.
    init(_ totals: MetricTotals, labels: LabelValues, condition: WorkerCondition, processReading: ProcessReading) {
        text.reserveCapacity(64 * 1_024)
        for definition in MetricCatalog.definitions {
            appendHelpAndType(definition)
            if totals.layout[definition.metric].firstCellIndex >= 0 {
                appendCells(definition, totals: totals, labels: labels)
            } else {
                appendMetricWithoutCells(
                    definition,
                    totals: totals,
                    labels: labels,
                    condition: condition,
                    processReading: processReading
                )
            }
        }
    }

    private mutating func appendHelpAndType(_ definition: MetricDefinition) {
        text += "# HELP \(definition.name) \(Self.escapedHelp(definition.help))\n"
        text += "# TYPE \(definition.name) \(definition.kind.name)\n"
    }

    /// Writes all series of a metric with cells (``MetricLayout``), in which the threads count. Series with the value 0
    /// may be left out (``MetricDefinition/omitsZeros``).
    private mutating func appendCells(_ definition: MetricDefinition, totals: MetricTotals, labels: LabelValues) {
        if definition.source == .lanes(.perLane) {
            for lane in totals.laneCells.indices {
                appendSample(definition, values: ["\(lane)"], totals.laneValue(lane, definition.metric))
            }
            return
        }
        let dimensions = definition.dimensions.map { labels.values(of: $0) }
        for (firstIndex, firstValues) in (dimensions.first ?? [[]]).enumerated() {
            for (secondIndex, secondValues) in (dimensions.count > 1 ? dimensions[1] : [[]]).enumerated() {
                let values = firstValues + secondValues
                if case .histogram = definition.kind {
                    appendHistogram(definition, values: values, totals.histogram(definition.metric, firstIndex))
                } else {
                    let value = totals[definition.metric, firstIndex, secondIndex]
                    let isShown =
                        value != 0 || !definition.omitsZeros
                        || definition.metric == .pushes && labels.responses.isShownAtZero(secondIndex)
                    if isShown { appendSample(definition, values: values, value) }
                }
            }
        }
    }

    /// Writes a metric without cells (``MetricLayout``): its values belong to partitions, or are read at each request
    /// of `/metrics`.
    private mutating func appendMetricWithoutCells(
        _ definition: MetricDefinition,
        totals: MetricTotals,
        labels: LabelValues,
        condition: WorkerCondition,
        processReading: ProcessReading
    ) {
        switch definition.metric {
        case .consumerLagRecords: appendPartitionSamples(definition, totals, labels) { $0.lagRecordCount }
        case .oldestUnsettled:
            appendPartitionSamples(definition, totals, labels) { $0.oldestUnsettledAgeMilliseconds }
        case .committableOffset: appendPartitionSamples(definition, totals, labels) { $0.committableOffset }
        case .iterationAge:
            for iterationAge in totals.iterationAges {
                guard let milliseconds = iterationAge.milliseconds else { continue }
                appendSample(definition, values: [iterationAge.thread], milliseconds)
            }
        case .keyFileRejected:
            for (app, name) in labels.apps.enumerated() {
                appendSample(definition, values: [name], condition.appIndicesWithRejectedKey.contains(app) ? 1 : 0)
            }
        case .clockDifference: appendSample(definition, values: [], abs(condition.clockDifferenceMilliseconds))
        case .draining: appendSample(definition, values: [], condition.isDraining ? 1 : 0)
        case .configurationRejected:
            appendSample(definition, values: [], condition.isConfigurationRejected ? 1 : 0)
        case .buildInfo: appendSample(definition, values: labels.values(of: .build)[0], 1)
        default:
            // Leave out values that the system does not provide.
            if let value = processReading[definition.metric] { appendSample(definition, values: [], value) }
        }
    }

    private mutating func appendPartitionSamples(
        _ definition: MetricDefinition,
        _ totals: MetricTotals,
        _ labels: LabelValues,
        _ value: (PartitionReading) -> Int64
    ) {
        for reading in totals.partitions where value(reading) >= 0 {
            guard labels.topics.indices.contains(Int(reading.topicIndex)) else { continue }
            appendSample(
                definition,
                values: [labels.topics[Int(reading.topicIndex)], "\(reading.partition)"],
                value(reading)
            )
        }
    }

    private mutating func appendSample(_ definition: MetricDefinition, values: [String], _ value: Int64) {
        text += definition.name
        text += Self.labelText(definition.labelNames, values)
        text += " \(Numeral.exactQuotient(value, divisor: definition.unit.divisor))\n"
    }

    /// Writes one series of a histogram. In Prometheus' format, each bucket also counts the observations of all lower
    /// buckets.
    private mutating func appendHistogram(
        _ definition: MetricDefinition,
        values: [String],
        _ histogram: HistogramReading
    ) {
        let names = definition.labelNames
        var total: Int64 = 0
        for (index, count) in histogram.bucketCounts.enumerated() {
            total &+= count
            let bound =
                index < histogram.bucketBounds.count
                ? Numeral.exactQuotient(histogram.bucketBounds[index], divisor: definition.unit.divisor) : "+Inf"
            text += "\(definition.name)_bucket\(Self.labelText(names + ["le"], values + [bound])) \(total)\n"
        }
        let sum = Numeral.exactQuotient(histogram.sum, divisor: definition.unit.divisor)
        text += "\(definition.name)_sum\(Self.labelText(names, values)) \(sum)\n"
        text += "\(definition.name)_count\(Self.labelText(names, values)) \(total)\n"
    }

    /// Returns `{name="value",…}`; empty without labels.
    private static func labelText(_ names: [String], _ values: [String]) -> String {
        guard !names.isEmpty else { return "" }
        let pairs = zip(names, values).map { "\($0)=\"\(escapedValue($1))\"" }
        return "{\(pairs.joined(separator: ","))}"
    }

    /// Escapes backslash, quote and line feed in a label's value.
    static func escapedValue(_ value: String) -> String {
        escaped(value, escapesQuotes: true)
    }

    /// Escapes backslash and line feed in a help text.
    static func escapedHelp(_ help: String) -> String {
        escaped(help, escapesQuotes: false)
    }

    private static func escaped(_ text: String, escapesQuotes: Bool) -> String {
        guard
            text.utf8.contains(where: {
                $0 == UInt8(ascii: "\\") || $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\"")
            })
        else { return text }
        var escapedText = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escapedText += "\\\\"
            case "\n": escapedText += "\\n"
            case "\"" where escapesQuotes: escapedText += "\\\""
            default: escapedText.unicodeScalars.append(scalar)
            }
        }
        return escapedText
    }
}
