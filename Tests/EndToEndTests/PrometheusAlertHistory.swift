import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// The samples that Prometheus would have of a worker. `promtool` evaluates the chart's rules over them.
///
/// The values come from the worker. Most rules need a condition for some minutes (`for`). So that a test need not wait
/// for these minutes, it adds one reading as if the worker had shown it for all of them. Such a reading must be stable:
/// ``ExampleRun/awaitSteadyState(_:alerting:ignoring:within:meanwhile:_:)`` waits for one.
struct PrometheusAlertHistory {
    private static let secondsBetweenSamples = 30
    private static let rules = Repository.url("Helm/causeway/files/rules.yaml")
    private static let metricsReadByRules: Set<String> = {
        let text = (try? String(contentsOf: rules, encoding: .utf8)) ?? ""
        return Set(text.matches(of: /(?:causeway|process)_[a-z_]+/).map { String($0.output) })
    }()

    /// The readings in order, with the minutes for which each counts; a nil scrape means that the worker did
    /// not respond. Each also says whether a second worker, the pod `b`, was running at the time but did not respond.
    private var readings: [(scrape: Scrape?, minutes: Int, isBesideUnresponsiveWorker: Bool)] = []
    private var expectations: [(seconds: Int, alerts: [String])] = []

    /// - Parameter minutes: the time for which the reading counts.
    mutating func add(_ scrape: Scrape?, minutes: Int) { readings.append((scrape, minutes, false)) }

    /// Adds a reading. For its time, a second worker does not respond to Prometheus.
    mutating func addBesideUnresponsiveWorker(_ scrape: Scrape, minutes: Int) {
        readings.append((scrape, minutes, true))
    }

    /// Expects that exactly these alerts fire at the end of the readings so far.
    mutating func expect(firing alerts: String...) { expect(alerts) }

    mutating func expect(_ alerts: [String]) {
        let lastSampleAtSeconds = readings.reduce(0) { $0 + $1.minutes } * 60 - Self.secondsBetweenSamples
        expectations.append((lastSampleAtSeconds, alerts))
    }

    func evaluate(sourceLocation: SourceLocation = #_sourceLocation) throws {
        try #require(!expectations.isEmpty && Self.metricsReadByRules.count > 10)
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: false) }
        let file = "\(directory.path)/tests.yaml"
        try promtoolDocument.write(toFile: file, atomically: true, encoding: .utf8)
        let promtoolRun = try runProgram(Promtool.path, ["test", "rules", file])
        guard promtoolRun.exitCode != 0 else { return }
        // Joins all in one line, because reports show only the first line of an issue.
        let differences = promtoolRun.text.split { $0.isWhitespace }.joined(separator: " ")
        let samples = changingSeries.map { "\($0.key) \($0.value)" }.sorted().joined(separator: "; ")
        let report = "\(differences) Samples: \(samples)"
        #expect(report == "", sourceLocation: sourceLocation)
    }

    /// The series without a histogram's buckets whose value is not the same in all readings.
    private var changingSeries: [String: String] {
        series.filter { name, samples in
            let values = Set(samples.split(separator: " ").map { sample in sample.prefix { $0 != "+" } })
            return !name.contains("_bucket{") && values.count > 1
        }
    }

    private var promtoolDocument: String {
        var text = """
            rule_files: ['\(Self.rules.path)']
            evaluation_interval: \(Self.secondsBetweenSamples)s
            tests:
              - interval: \(Self.secondsBetweenSamples)s
                input_series:

            """
        for (name, values) in series.sorted(by: { $0.key < $1.key }) {
            text += "      - {series: '\(name)', values: '\(values)'}\n"
        }
        text += "    promql_expr_test:\n"
        for (seconds, alerts) in expectations {
            text +=
                "      - expr: group by (alertname) (ALERTS{alertstate=\"firing\"})\n        eval_time: \(seconds)s\n"
            text += "        exp_samples:\(alerts.isEmpty ? " []" : "")\n"
            for alert in alerts { text += "          - {labels: '{alertname=\"\(alert)\"}', value: 1}\n" }
        }
        return text
    }

    /// The samples of each series that a rule may read, in promtool's format, with the labels that Prometheus
    /// adds.
    private var series: [String: String] {
        let names = Set(readings.compactMap { $0.scrape }.flatMap { $0.series.keys })
        var series: [String: String] = [:]
        for name in names where Self.metricsReadByRules.contains(String(name.prefix { $0 != "{" })) {
            let labels = name.drop { $0 != "{" }.dropFirst().dropLast()
            let metric = name.prefix { $0 != "{" }
            let targetLabels = "namespace=\"push\",job=\"causeway\",pod=\"a\""
            let fullName = "\(metric){\(labels)\(labels.isEmpty ? "" : ",")\(targetLabels)}"
            series[fullName] =
                readings.map { scrape, minutes, _ in
                    let count = minutes * 60 / Self.secondsBetweenSamples
                    // In promtool's format, `_x4` is four missing samples, and `5+0x3` is the value 5 four times.
                    guard let value = scrape?.series[name] else { return "_x\(count)" }
                    return String(format: "%.6f+0x%d", value, count - 1)
                }
                .joined(separator: " ")
        }
        series["up{namespace=\"push\",job=\"causeway\",pod=\"b\"}"] =
            readings.map { _, minutes, isBesideUnresponsiveWorker in
                let count = minutes * 60 / Self.secondsBetweenSamples
                return isBesideUnresponsiveWorker ? "0+0x\(count - 1)" : "_x\(count)"
            }
            .joined(separator: " ")
        return series
    }
}

/// Prometheus' tool, from Debian's package `prometheus`. A test that needs it fails if it is missing.
enum Promtool {
    static let path = "/usr/bin/promtool"
}
