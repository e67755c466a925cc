import CausewayConfiguration
import Kafka

import enum CausewayRecords.JSONValue

/// The part of a report that shows results. If the results cannot be read, this part shows Kafka's error, and the
/// rest of the report is still printed.
struct ResultSection {
    private let search: Result<NewestResultsSearch, KafkaError>

    init(of activity: String, app: String, resultsMax: Int, kafka: WorkerConfiguration.Kafka) {
        search = Result { () throws(KafkaError) in
            try NewestResultsSearch(of: activity, app: app, resultsMax: resultsMax, kafka: kafka)
        }
    }

    /// The policy of the newest command that was sent to APNs, according to the results in this section. Nil if the
    /// section has no such command, or if the command names no policy.
    var policyName: String? {
        (try? search.get())?.records.first { $0["priority"] != nil }?["policy"]?.text
    }

    func lines(nowMilliseconds: Int64) -> [String] {
        switch search {
        case .success(let search):
            return search.lines(nowMilliseconds: nowMilliseconds)
        case .failure(let error):
            var lines = LabelledLines()
            lines.add("results", "cannot be read: \(error)")
            return lines.lines
        }
    }

    var json: JSONValue {
        switch search {
        case .success(let search): search.json
        case .failure(let error): .objectOmittingNil(["error": .string("\(error)")])
        }
    }
}
