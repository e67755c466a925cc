import Kafka

/// Partitions from which nothing is fetched, and the ends of their logs. The Kafka thread asks the brokers for these
/// ends, because librdkafka learns a log's end only from a fetch.
struct UnfetchedPartitions {
    static let requestIntervalMilliseconds: Int64 = 5_000
    /// How long the Kafka thread waits for the brokers. The time is short, because meanwhile the lanes get no records.
    static let requestTimeoutMilliseconds: Int32 = 500

    /// Partitions whose committed offset is no longer in the log. They stay stopped until an operator acts.
    var partitionsWithOffsetOutOfRange: Set<TopicPartition> = []
    private(set) var logEndOffsets: [TopicPartition: Int64] = [:]
    private var requestDueMilliseconds: Int64 = 0

    func isRequestDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= requestDueMilliseconds }

    /// Notes the response to a request for log ends, and delays the next request.
    ///
    /// - Parameter newLogEndOffsets: nil if the brokers were not asked or did not respond. The previous offsets then
    ///   stay.
    mutating func noteLogEndOffsets(_ newLogEndOffsets: [TopicPartition: Int64]?, nowMilliseconds: Int64) {
        requestDueMilliseconds = nowMilliseconds + Self.requestIntervalMilliseconds
        if let newLogEndOffsets { logEndOffsets = newLogEndOffsets }
    }

    /// Removes a partition that is fetched again or that was revoked.
    mutating func remove(_ partition: TopicPartition) {
        partitionsWithOffsetOutOfRange.remove(partition)
        logEndOffsets[partition] = nil
    }
}
