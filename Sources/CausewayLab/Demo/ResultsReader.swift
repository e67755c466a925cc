import Kafka
import LiveActivity

/// Reads the worker's results, invalidations and dead letters, and counts them.
final class ResultsReader: ConsumerHandler {
    static let resultsTopic = "causeway.results"
    static let invalidationsTopic = "causeway.invalidations"
    static let deadLettersTopic = "causeway.dead-letters"
    static let topics = [resultsTopic, invalidationsTopic, deadLettersTopic]

    private(set) var tally: ResultTally
    /// The number of records read from the results topic.
    private(set) var resultCount = 0
    private(set) var invalidationCount = 0
    private(set) var deadLetterCount = 0
    /// The time of the newest result record, UNIX milliseconds; 0 before the first.
    private(set) var newestResultAtMilliseconds: Int64 = 0
    /// Whether the tally counts how long pushes take. False before the season, because the worker may still be
    /// starting.
    var isFreshnessCounted = false
    private var consumer: Consumer?

    init(bootstrapServers: String, addressees: SeasonFeed.Addressees = .activities) throws(LabError) {
        tally = ResultTally(of: addressees)
        do throws(KafkaError) {
            consumer = try Consumer(
                properties: [
                    ("bootstrap.servers", bootstrapServers), ("group.id", "demo"), ("auto.offset.reset", "earliest"),
                    ("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "1000"),
                ],
                topics: Self.topics,
                handler: self
            )
        } catch {
            throw LabError("the demo cannot read the results: \(error)")
        }
    }

    /// Reads at most `limit` records.
    ///
    /// - Returns: false if a poll found no record; true if the limit was reached, so that more records may wait.
    func readArrivedRecords(limit: Int) throws(LabError) -> Bool {
        guard let consumer else { return false }
        for _ in 0..<limit {
            switch consumer.poll() {
            case .message(let message): countMessage(message)
            case .none: return false
            case .partitionEnd: continue
            case .error(let error): if error.isFatal { throw LabError("the demo cannot read the results: \(error)") }
            }
        }
        return true
    }

    private func countMessage(_ message: borrowing Message) {
        switch message.topic.index {
        case 0:
            resultCount += 1
            newestResultAtMilliseconds = max(newestResultAtMilliseconds, message.timestampMilliseconds)
            if let value = message.value {
                tally.add(ScannedResult(scanning: value), isFreshnessCounted: isFreshnessCounted)
            }
        case 1: invalidationCount += 1
        default: deadLetterCount += 1
        }
    }

    func close() {
        _ = consumer?.close(timeoutMilliseconds: 1_000)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
