import Kafka
import LiveActivity

/// Counts the results of each outcome.
final class OutcomeCounter {
    private(set) var counts: [Outcome: Int] = [:]
    private let reader: OutageTopicReader

    init(bootstrapServers: String) throws(LabError) {
        reader = try OutageTopicReader([ResultsReader.resultsTopic], bootstrapServers: bootstrapServers)
    }

    /// Reads the records that have arrived, up to a limit for each call.
    func readArrivedRecords() throws(LabError) { _ = try reader.readArrivedRecords(countMessage) }

    private func countMessage(_ message: borrowing Message) {
        guard let value = message.value, let outcome = ScannedResult(scanning: value).outcome else { return }
        counts[outcome, default: 0] += 1
    }

    func close() { reader.close() }
}
