import Kafka

/// Reads the records that are written to a topic from a moment on. It is a member of no group and commits nothing, so it leaves nothing
/// behind in somebody else's Kafka.
///
/// Only one thread may use it.
final class TopicFollower {
    static let partitionsMax: Int32 = 4_096
    private static let requestMilliseconds: Int32 = 1_000
    /// How often new partitions are looked for.
    private static let surveyMilliseconds: Int64 = 5_000
    private static let closeMilliseconds: Int64 = 1_000

    private let reader: PartitionReader
    private let sinceMilliseconds: Int64
    /// By partition: the next offset.
    private var positions: [Int64] = []
    private var nextSurveyMilliseconds: Int64 = 0

    /// - Parameter sinceMilliseconds: UNIX milliseconds. Records before it are passed over.
    init(properties: [KafkaProperties.Property], topic: String, sinceMilliseconds: Int64) throws(KafkaError) {
        reader = try PartitionReader(properties: properties, topic: topic)
        self.sinceMilliseconds = sinceMilliseconds
    }

    /// Passes on what has been written since the last call.
    ///
    /// - Throws: what the caller may try again: the positions are kept.
    func read(
        nowMilliseconds: Int64,
        until isOver: () -> Bool,
        _ body: (borrowing Message) -> Void
    ) throws(KafkaError) {
        if nowMilliseconds >= nextSurveyMilliseconds { try survey(nowMilliseconds: nowMilliseconds) }
        for (partition, position) in positions.enumerated() {
            if isOver() { return }
            let partition = Int32(partition)
            let range = try reader.watermarks(of: partition, timeoutMilliseconds: Self.requestMilliseconds)
            // Records that are gone, or that a new topic does not have, are passed over.
            let begin = position > range.high ? range.low : max(position, range.low)
            let rest = try reader.read(partition, offsets: begin..<max(begin, range.high), until: isOver, body)
            positions[Int(partition)] = rest ?? max(begin, range.high)
        }
    }

    /// Finds the partitions, and where to begin in those that are new.
    private func survey(nowMilliseconds: Int64) throws(KafkaError) {
        let count = min(
            try reader.partitionCount(timeoutMilliseconds: Self.requestMilliseconds),
            Self.partitionsMax
        )
        while positions.count < count {
            let partition = Int32(positions.count)
            // The end is requested first: a record that comes in between is found by its time.
            let end = try reader.watermarks(of: partition, timeoutMilliseconds: Self.requestMilliseconds).high
            let first = try reader.offset(
                of: partition,
                atOrAfter: sinceMilliseconds,
                timeoutMilliseconds: Self.requestMilliseconds
            )
            positions.append(first ?? end)
        }
        nextSurveyMilliseconds = nowMilliseconds + Self.surveyMilliseconds
    }

    func close() { _ = reader.close(deadlineMilliseconds: Self.closeMilliseconds) }
}
