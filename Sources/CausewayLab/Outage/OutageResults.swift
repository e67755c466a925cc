import Foundation
import Kafka

/// Reads the workers' results and invalidations: the outcomes of each command in order, and the number of dead tokens.
final class OutageResults {
    private(set) var outcomeNamesByCommand: [String: [String]] = [:]
    private(set) var invalidationCount = 0
    private let reader: OutageTopicReader

    init(bootstrapServers: String) throws(LabError) {
        let topics = [ResultsReader.resultsTopic, ResultsReader.invalidationsTopic]
        reader = try OutageTopicReader(topics, bootstrapServers: bootstrapServers)
    }

    /// Reads the records that have arrived, up to a limit for each call.
    ///
    /// - Returns: false if nothing had arrived.
    @discardableResult
    func readArrivedRecords() throws(LabError) -> Bool { try reader.readArrivedRecords(addResultOrInvalidation) }

    private func addResultOrInvalidation(_ message: borrowing Message) {
        guard message.topic.index == 0 else {
            invalidationCount += 1
            return
        }
        guard let value = message.value,
            let object = (try? JSONSerialization.jsonObject(with: Data(value))) as? [String: Any],
            let command = object["command"] as? String, let outcome = object["outcome"] as? String
        else { return }
        outcomeNamesByCommand[command, default: []].append(outcome)
    }

    func close() { reader.close() }
}
