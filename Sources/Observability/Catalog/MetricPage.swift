import Logging

/// `Helm/causeway/METRICS.md`, generated from the catalogs. A test compares both.
package enum MetricPage {
    package static var markdown: String {
        var page = """
            # Causeway's metrics

            Made by `causeway metrics-page`; change the catalogs in `Sources/Observability`, not this page.

            Each worker shows these at `http://HOST:9464/metrics`, as Prometheus text. Numbers are at most \
            \(ThreadMetrics.publicationMilliseconds) ms old. Times are seconds. Labels have a fixed set of values: apps and \
            policies of the configuration, Apple's reasons, and "other" for the rest. `app` is the app's name under `apps` in \
            the configuration. Series marked * appear with their first count.

            Beside it: `/livez` (every thread turns), `/readyz` (its share of the partitions, keys read and not refused, not draining; never red because \
            something else is down), `/statusz` (what flows, what waits and why, what is broken and what to do; \
            `?format=json` for programs).

            """
        for section in MetricCatalog.sections { page += "\n" + markdown(section.title, section.metrics) }
        return page + "\n" + logKinds
    }

    private static func markdown(_ title: String, _ metrics: [MetricDefinition]) -> String {
        var text = "## \(title)\n"
        for metric in metrics {
            let labels = metric.labels.isEmpty ? "" : "{\(metric.labels.joined(separator: ", "))}"
            text += "\n### `\(metric.name)\(labels)`\(metric.omitsZeros ? " *" : "")\n\n"
            text += "\(kind(metric)), \(metric.unit.name). \(metric.help)\n\n\(metric.meaning)\n"
        }
        return text
    }

    private static func kind(_ metric: MetricDefinition) -> String {
        guard case .histogram(let bounds) = metric.kind else { return metric.kind.name.capitalizedFirst }
        let texts = bounds.map { Exposition.number($0, divisor: metric.unit.divisor) }
        return "Histogram (up to \(texts.joined(separator: ", ")))"
    }

    private static var logKinds: String {
        var text = """
            ## Log lines

            Each line has a `kind`. A thread writes at most \(KindLog.linesPerWindow) lines of a kind in \
            \(KindLog.windowMilliseconds / 1_000) seconds; what it does not write is counted in \
            `causeway_log_lines_suppressed_total`, and the kind's next line says how many (`suppressed`). Tokens, keys and \
            passwords are masked.

            | kind | level | message | what it means | what to do |
            | --- | --- | --- | --- | --- |

            """
        for kind in LogKindCatalog.definitions {
            text +=
                "| `\(kind.identifier)` | \(kind.level.rawValue) | \(kind.message) | \(kind.meaning) | \(kind.action) |\n"
        }
        return text
    }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
