/// Reads the metrics of a deployment's workers from `/metrics`.
struct WorkerMetrics {
    let httpPorts: [UInt16]

    /// Returns the sum of a metric over all workers. A worker that does not show the metric, or does not respond, adds
    /// 0.
    ///
    /// - Parameter label: the label as it is printed, for example `topic="registrations"`; nil: all series.
    func readSum(of metric: String, label: String? = nil) -> Double {
        var sum = 0.0
        for port in httpPorts {
            let response = try? LoopbackHTTPClient(port: port, serverName: "the worker")
                .requestSuccessfully("GET", "/metrics")
            let text = String(decoding: response ?? [], as: UTF8.self)
            for line in text.split(separator: "\n") where line.hasPrefix(metric) && !line.hasPrefix("#") {
                let series = line.prefix { $0 != " " }
                guard series == metric || series.dropFirst(metric.count).first == "{",
                    label.map({ series.contains($0) }) ?? true
                else { continue }
                sum += line.split(separator: " ").last.flatMap { Double($0) } ?? 0
            }
        }
        return sum
    }

    /// Returns how many records of the registrations topic the workers have received.
    func countReceivedRegistrations() -> Int {
        Int(readSum(of: "causeway_records_received_total", label: "topic=\"registrations\""))
    }

    /// Whether the workers have settled all records that they received, including this many registrations.
    func hasSettled(registrationCount: Int) -> Bool {
        // Read the registrations first. A lane publishes both numbers at the same time. So if no record is in progress
        // at the second reading, all registrations of the first reading are settled.
        countReceivedRegistrations() == registrationCount && readSum(of: "causeway_records_in_progress") == 0
    }
}
