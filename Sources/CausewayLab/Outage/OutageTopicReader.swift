import Kafka

/// Reads topics that the workers write, from the first record of each.
final class OutageTopicReader: ConsumerHandler {
    private static let recordsPerReadMax = 2_000

    private var consumer: Consumer?

    init(_ topics: [String], bootstrapServers: String) throws(LabError) {
        do throws(KafkaError) {
            consumer = try Consumer(
                properties: [
                    ("bootstrap.servers", bootstrapServers), ("group.id", "outage"), ("auto.offset.reset", "earliest"),
                    ("session.timeout.ms", "30000"), ("fetch.wait.max.ms", "100"),
                ],
                topics: topics,
                handler: self
            )
        } catch {
            throw LabError("the results cannot be read: \(error)")
        }
    }

    /// Passes the records that have arrived to `body`, at most `recordsPerReadMax` in one call.
    ///
    /// - Returns: false if nothing had arrived.
    func readArrivedRecords(_ body: (borrowing Message) -> Void) throws(LabError) -> Bool {
        guard let consumer else { return false }
        for count in 0..<Self.recordsPerReadMax {
            switch consumer.poll() {
            case .message(let message): body(message)
            case .none: return count > 0
            case .partitionEnd: continue
            case .error(let error): if error.isFatal { throw LabError("the results cannot be read: \(error)") }
            }
        }
        return true
    }

    func close() {
        _ = consumer?.close(timeoutMilliseconds: 1_000)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
