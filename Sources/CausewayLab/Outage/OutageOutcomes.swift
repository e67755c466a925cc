import Foundation
import Kafka

/// The workers' results: the outcomes of each command in order, and the number of tokens reported as dead.
final class OutageOutcomes: ConsumerHandler {
    private static let recordsPerTurn = 2_000

    private(set) var outcomes: [String: [String]] = [:]
    private(set) var invalidations = 0
    private var consumer: Consumer?

    init(bootstrapServers: String) throws(LabError) {
        do throws(KafkaError) {
            consumer = try Consumer(
                properties: [
                    ("bootstrap.servers", bootstrapServers), ("group.id", "outage"), ("auto.offset.reset", "earliest"),
                    ("session.timeout.ms", "30000"), ("fetch.wait.max.ms", "100"),
                ],
                topics: [ResultsReader.resultsTopic, ResultsReader.invalidationsTopic],
                handler: self
            )
        } catch {
            throw LabError("the results cannot be read: \(error)")
        }
    }

    /// Reads the records that have come. Returns whether there were any.
    @discardableResult
    func drain() throws(LabError) -> Bool {
        guard let consumer else { return false }
        for taken in 0..<Self.recordsPerTurn {
            switch consumer.poll() {
            case .message(let message): take(message)
            case .none: return taken > 0
            case .partitionEnd: continue
            case .error(let error): if error.isFatal { throw LabError("the results cannot be read: \(error)") }
            }
        }
        return true
    }

    private func take(_ message: borrowing Message) {
        guard message.topic.index == 0 else {
            invalidations += 1
            return
        }
        guard let value = message.value,
            let object = (try? JSONSerialization.jsonObject(with: Data(value))) as? [String: Any],
            let command = object["command"] as? String, let outcome = object["outcome"] as? String
        else { return }
        outcomes[command, default: []].append(outcome)
    }

    func close() {
        _ = consumer?.close(deadlineMilliseconds: 1_000)
        consumer = nil
    }

    func assigned(_ partitions: [TopicPartition]) {}

    func revoked(_ partitions: [TopicPartition], lost: Bool) {}
}
