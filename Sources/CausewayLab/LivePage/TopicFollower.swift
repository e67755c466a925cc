import Kafka

/// Reads the records that are written to a topic after a given time. It joins no group and commits no offset, so it
/// does not disturb other programs. Only one thread may use it.
final class TopicFollower {
    static let partitionsMax: Int32 = 4_096
    private static let requestTimeoutMilliseconds: Int32 = 1_000
    /// How often the follower looks for new partitions.
    private static let partitionCheckIntervalMilliseconds: Int64 = 5_000
    private static let closeTimeoutMilliseconds: Int64 = 1_000

    private let reader: PartitionReader
    private let sinceWallMilliseconds: Int64
    private var nextOffsets: [Int64] = []
    private var partitionCheckDueMilliseconds: Int64 = 0

    /// - Parameter sinceWallMilliseconds: the time of the first records to read, UNIX milliseconds.
    init(properties: [KafkaProperties.Property], topic: String, sinceWallMilliseconds: Int64) throws(KafkaError) {
        reader = try PartitionReader(properties: properties, topic: topic)
        self.sinceWallMilliseconds = sinceWallMilliseconds
    }

    /// Passes the records that were written since the last read to `body`.
    ///
    /// - Throws: an error of Kafka. The next offsets are kept, so the caller may try again.
    func read(
        nowMilliseconds: Int64,
        until isCancelled: () -> Bool,
        _ body: (borrowing Message) -> Void
    ) throws(KafkaError) {
        if nowMilliseconds >= partitionCheckDueMilliseconds { try addNewPartitions(nowMilliseconds: nowMilliseconds) }
        for (partition, nextOffset) in nextOffsets.enumerated() {
            if isCancelled() { return }
            let partition = Int32(partition)
            let range = try reader.fetchWatermarks(of: partition, timeoutMilliseconds: Self.requestTimeoutMilliseconds)
            // Skip records that the log has deleted. If the log ends before the next offset, it belongs to a new topic
            // of the same name: begin at its first record.
            let begin = nextOffset > range.logEndOffset ? range.logStartOffset : max(nextOffset, range.logStartOffset)
            let stoppedAtOffset = try reader.read(
                partition,
                offsets: begin..<max(begin, range.logEndOffset),
                until: isCancelled,
                body
            )
            nextOffsets[Int(partition)] = stoppedAtOffset ?? max(begin, range.logEndOffset)
        }
    }

    /// Adds the partitions that are new, each with the offset at which reading begins.
    private func addNewPartitions(nowMilliseconds: Int64) throws(KafkaError) {
        let count = min(
            try reader.fetchPartitionCount(timeoutMilliseconds: Self.requestTimeoutMilliseconds),
            Self.partitionsMax
        )
        while nextOffsets.count < count {
            let partition = Int32(nextOffsets.count)
            // Reading begins at `end` if `fetchOffset` finds no record since `sinceWallMilliseconds`. Request `end`
            // before that, so that a record that is written between the two requests is not skipped.
            let end = try reader.fetchWatermarks(of: partition, timeoutMilliseconds: Self.requestTimeoutMilliseconds)
                .logEndOffset
            let first = try reader.fetchOffset(
                of: partition,
                atOrAfterWallMilliseconds: sinceWallMilliseconds,
                timeoutMilliseconds: Self.requestTimeoutMilliseconds
            )
            nextOffsets.append(first ?? end)
        }
        partitionCheckDueMilliseconds = nowMilliseconds + Self.partitionCheckIntervalMilliseconds
    }

    func close() { _ = reader.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds) }
}
