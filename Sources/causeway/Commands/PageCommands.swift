import ArgumentParser
import CausewayWorker
import Observability

/// `causeway metrics-page`: prints the reference of the metrics, for developers of Causeway.
struct MetricsPageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics-page",
        abstract: "Print Helm/causeway/METRICS.md.",
        shouldDisplay: false
    )

    func run() { print(MetricPage.markdown, terminator: "") }
}

/// `causeway capacity-page`: prints `CAPACITY.md` of the chart, for developers of Causeway.
struct CapacityPageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capacity-page",
        abstract: "Print Helm/causeway/CAPACITY.md.",
        shouldDisplay: false
    )

    func run() throws { print(try CapacityPage.makeMarkdown(), terminator: "") }
}
