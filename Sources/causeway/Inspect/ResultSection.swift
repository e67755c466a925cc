import CausewayConfiguration
import Kafka

import enum CausewayRecords.JSONValue

/// The part of a report that shows results. If the results cannot be read, it shows Kafka's error, and the rest of the
/// report is still printed.
struct ResultSection {
    private let newestResults: Result<NewestResults, KafkaError>

    init(of activity: String, app: String, resultsMax: Int, kafka: WorkerConfiguration.Kafka) {
        newestResults = Result { () throws(KafkaError) in
            try NewestResults(of: activity, app: app, resultsMax: resultsMax, kafka: kafka)
        }
    }

    /// The policy that the section's newest sent command names. Nil if this command names no policy, or if the section
    /// has no command that was sent to APNs.
    var policyName: String? {
        (try? newestResults.get())?.records.first { $0["priority"] != nil }?["policy"]?.text
    }

    func lines(nowMilliseconds: Int64) -> [String] {
        switch newestResults {
        case .success(let newestResults):
            return newestResults.lines(nowMilliseconds: nowMilliseconds)
        case .failure(let error):
            var lines = LabelledLines()
            lines.add("results", "cannot be read: \(error)")
            return lines.lines
        }
    }

    var json: JSONValue {
        switch newestResults {
        case .success(let newestResults): newestResults.json
        case .failure(let error): .objectOmittingNil(["error": .string("\(error)")])
        }
    }
}
