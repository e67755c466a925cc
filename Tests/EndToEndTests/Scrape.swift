import Foundation
import HTTP
import Testbed

@testable import CausewayLab

/// One reading of a worker's `/metrics`.
struct Scrape {
    /// The value of each series, by its text `name{label="value",…}`.
    private(set) var series: [String: Double] = [:]
    let text: String

    init(port: UInt16) throws {
        text = try WorkerPage("/metrics", port: port).text
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else {
                throw Timeout(awaiting: "a sample in \(line)")
            }
            series[String(line[..<space])] = value
        }
    }

    /// The sum of a metric's series that have all of these labels; nil if there is none.
    func sum(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        let values = seriesValues(of: name, labels)
        return values.isEmpty ? nil : values.reduce(0, +)
    }

    private func seriesValues(of name: String, _ labels: [String: String]) -> [Double] {
        let requiredLabels = labels.map { "\($0.key)=\"\($0.value)\"" }
        return
            series.filter { key, _ in
                (key == name || key.hasPrefix(name + "{")) && requiredLabels.allSatisfy { key.contains($0) }
            }
            .map(\.value)
    }

    /// The highest value of a metric's series that have all of these labels; 0 if there is none.
    func highest(_ name: String, _ labels: [String: String] = [:]) -> Double {
        seriesValues(of: name, labels).max() ?? 0
    }

    /// The lowest value of a metric's series that have all of these labels; nil if there is none.
    func lowest(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        seriesValues(of: name, labels).min()
    }

    /// Whether the worker reaches Kafka and Redis and has partitions.
    var hasAllDependencies: Bool {
        sum("causeway_kafka_ready") == 1 && sum("causeway_redis_ready") == 1
            && (sum("causeway_partitions_assigned") ?? 0) > 0
    }

    /// The names of all series except those of single partitions, which come and go with the assignment.
    var stableSeriesNames: Set<String> { Set(series.keys.filter { !$0.contains("partition=\"") }) }
}

/// The response to a request for one page of a worker.
struct WorkerPage {
    let status: Int
    let text: String

    init(_ path: String, port: UInt16) throws {
        let address = HTTPAddress(host: "127.0.0.1", port: port, path: path)
        let response = try HTTPClient(address: address, timeoutMilliseconds: 10_000).request()
        status = response.status
        text = String(decoding: response.body, as: UTF8.self)
    }
}

extension ExampleRun {
    func scrape() throws -> Scrape { try Scrape(port: deployment.httpPort) }

    func status(of path: String) throws -> Int { try WorkerPage(path, port: deployment.httpPort).status }

    /// Polls until the metrics meet the condition.
    @discardableResult
    func awaitMetrics(
        _ what: String,
        within limit: Duration = eventWaitMax,
        meanwhile: () throws -> Void = {},
        _ isMet: (Scrape) -> Bool
    ) throws -> Scrape {
        try pollUntilPresent("\(what) in\n\((try? scrape())?.text ?? "no metrics")", within: limit) {
            // A worker that has just started does not listen yet, so a failed request is repeated.
            if let scrape = try? scrape(), isMet(scrape) { return scrape }
            try meanwhile()
            return nil
        }
    }

    /// Returns the findings of /statusz, each as the name of its alert. The name is empty if a finding has no alert.
    func findings() throws -> [String] {
        let json = try WorkerPage("/statusz?format=json", port: deployment.httpPort).text
        let report = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? JSONObject
        return (report?["findings"] as? [JSONObject] ?? []).compactMap { $0["alert"] as? String }
    }
}
