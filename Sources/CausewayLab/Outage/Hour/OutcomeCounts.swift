import Kafka
import LiveActivity

/// The number of results with each outcome.
final class OutcomeCounts: ConsumerHandler {
    private static let recordsPerTurn = 2_000

    private(set) var counts: [Outcome: Int] = [:]
    private var consumer: Consumer?

    init(bootstrapServers: String) throws(LabError) {
        do throws(KafkaError) {
            consumer = try Consumer(
                properties: [
                    ("bootstrap.servers", bootstrapServers), ("group.id", "outage"), ("auto.offset.reset", "earliest"),
                    ("session.timeout.ms", "30000"), ("fetch.wait.max.ms", "100"),
                ],
                topics: [ResultsReader.resultsTopic],
                handler: self
            )
        } catch {
            throw LabError("the results cannot be read: \(error)")
        }
    }

    /// Reads records, up to a limit.
    func drain() throws(LabError) {
        guard let consumer else { return }
        for _ in 0..<Self.recordsPerTurn {
            switch consumer.poll() {
            case .message(let message): take(message)
            case .none: return
            case .partitionEnd: continue
            case .error(let error): if error.isFatal { throw LabError("the results cannot be read: \(error)") }
            }
        }
    }

    private func take(_ message: borrowing Message) {
        guard let value = message.value, let outcome = ResultSummary(scanning: value).outcome else { return }
        counts[outcome, default: 0] += 1
    }

    func close() {
        _ = consumer?.close(deadlineMilliseconds: 1_000)
        consumer = nil
    }

    func assigned(_ partitions: [TopicPartition]) {}

    func revoked(_ partitions: [TopicPartition], lost: Bool) {}
}
