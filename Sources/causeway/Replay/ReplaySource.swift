import CausewayCommandLine
import CausewayConfiguration
import Kafka

/// Reads the records of a range from Kafka, without joining a group or committing offsets.
struct ReplaySource {
    /// The offsets to read of one partition.
    struct Part: Equatable {
        var partition: Int32
        var offsets: Range<Int64>

        /// The part in the form of the option `--offsets`.
        var text: String { "\(partition):\(offsets.lowerBound)-\(offsets.upperBound - 1)" }
    }

    private static let requestTimeoutMilliseconds: Int32 = 30_000
    /// How long the brokers may send no record while the range is not read to its end.
    private static let silenceMillisecondsMax: Int64 = 30_000
    private static let closeTimeoutMilliseconds: Int64 = 5_000

    private let reader: PartitionReader
    private let range: ReplayRange
    let topic: String
    let partitionCount: Int32
    private(set) var parts: [Part] = []
    /// Texts about the offsets and partitions that the range names but the topic does not have.
    private(set) var rangeFaults: [String] = []

    var recordsMax: Int64 { parts.reduce(0) { $0 + Int64($1.offsets.count) } }

    init(topic: String, range: ReplayRange, kafka: WorkerConfiguration.Kafka) throws(KafkaError) {
        self.topic = topic
        self.range = range
        let properties = try kafka.consumerProperties
        let contact = BrokerContact(of: "causeway replay", properties: properties)
        reader = try PartitionReader(properties: properties, topic: topic, logHandler: contact)
        do throws(KafkaError) {
            guard
                reader.awaitBroker(
                    timeoutMilliseconds: Self.requestTimeoutMilliseconds,
                    { contact.printIfUnanswered(false) }
                )
            else {
                throw contact.error
            }
            partitionCount = try reader.partitionCount(timeoutMilliseconds: Self.requestTimeoutMilliseconds)
            try findParts()
        } catch {
            _ = reader.close(deadlineMilliseconds: Self.closeTimeoutMilliseconds)
            throw error
        }
    }

    func close() { _ = reader.close(deadlineMilliseconds: Self.closeTimeoutMilliseconds) }

    // MARK: - The range in offsets

    private mutating func findParts() throws(KafkaError) {
        switch range {
        case .times(let from, let to):
            for partition in 0..<partitionCount {
                let logOffsets = try watermarks(of: partition)
                let begin = try firstOffset(of: partition, logOffsets, atOrAfter: from)
                let end = try to.map { time throws(KafkaError) in
                    try offset(of: partition, logOffsets, atOrAfter: time) ?? logOffsets.upperBound
                }
                add(partition, begin..<max(begin, end ?? logOffsets.upperBound))
            }
        case .offsets(let ranges):
            for (partition, range) in ranges.sorted(by: { $0.key < $1.key }) {
                guard partition < partitionCount else {
                    rangeFaults.append("\(topic) has no partition \(partition)")
                    continue
                }
                let logOffsets = try watermarks(of: partition)
                if range.lowerBound < logOffsets.lowerBound {
                    let last = min(range.upperBound, logOffsets.lowerBound - 1)
                    rangeFaults.append(
                        "\(topic) no longer has the offsets \(range.lowerBound) to \(last) of partition \(partition)"
                    )
                }
                // An open range that begins exactly at the log's end is valid and empty.
                let isOpen = range.upperBound == ReplayRange.openEndOffset
                if isOpen ? range.lowerBound > logOffsets.upperBound : range.upperBound >= logOffsets.upperBound {
                    rangeFaults.append("partition \(partition) of \(topic) ends before offset \(logOffsets.upperBound)")
                }
                add(partition, Range(range).clamped(to: logOffsets))
            }
        }
    }

    private mutating func add(_ partition: Int32, _ offsets: Range<Int64>) {
        if !offsets.isEmpty { parts.append(Part(partition: partition, offsets: offsets)) }
    }

    private func watermarks(of partition: Int32) throws(KafkaError) -> Range<Int64> {
        let found = try reader.watermarks(of: partition, timeoutMilliseconds: Self.requestTimeoutMilliseconds)
        let low = max(0, found.low)
        return low..<max(low, found.high)
    }

    /// Returns the offset at which reading must begin to find all records of this time or later.
    private func firstOffset(
        of partition: Int32,
        _ logOffsets: Range<Int64>,
        atOrAfter milliseconds: Int64
    ) throws(KafkaError) -> Int64 {
        if logOffsets.isEmpty { return logOffsets.lowerBound }
        if let found = try offset(of: partition, logOffsets, atOrAfter: milliseconds) { return found }
        // The broker names no offset. Either all records are older, or the broker keeps no timestamps. The
        // time of the newest record shows which of these is true.
        var newest: Int64?
        let deadline = Clock.milliseconds + Int64(Self.requestTimeoutMilliseconds)
        _ = try reader.read(
            partition,
            offsets: logOffsets.upperBound - 1..<logOffsets.upperBound,
            until: { Clock.milliseconds > deadline },
            { newest = $0.timestampMilliseconds }
        )
        return newest.map { $0 < milliseconds } ?? false ? logOffsets.upperBound : logOffsets.lowerBound
    }

    /// Returns the offset that the broker names for this time; nil if it names none.
    private func offset(
        of partition: Int32,
        _ logOffsets: Range<Int64>,
        atOrAfter milliseconds: Int64
    ) throws(KafkaError) -> Int64? {
        try reader.offset(of: partition, atOrAfter: milliseconds, timeoutMilliseconds: Self.requestTimeoutMilliseconds)
            .map { min(max($0, logOffsets.lowerBound), logOffsets.upperBound) }
    }

    // MARK: - Reading

    /// Passes the records of the range to the caller, partition by partition.
    ///
    /// - Returns: the unread parts of the range, if the reading was interrupted.
    func read(
        _ interruption: Interruption,
        _ progress: inout ReplayProgress,
        _ body: (borrowing Message) throws -> Void
    ) throws -> [Part] {
        let total = recordsMax
        var offsetsDone: Int64 = 0
        var failure: (any Error)?
        for (index, part) in parts.enumerated() {
            var lastMilliseconds = Clock.milliseconds
            let nextOffset = try reader.read(
                part.partition,
                offsets: part.offsets,
                until: {
                    interruption.pending != nil || failure != nil
                        || Clock.milliseconds - lastMilliseconds > Self.silenceMillisecondsMax
                },
                { message in
                    lastMilliseconds = Clock.milliseconds
                    progress.show("reading", offsetsDone + message.offset - part.offsets.lowerBound, of: total)
                    guard range.contains(timestampMilliseconds: message.timestampMilliseconds) else { return }
                    do { try body(message) } catch { failure = error }
                }
            )
            if let failure { throw failure }
            if let nextOffset {
                guard interruption.pending != nil else { throw silenceError }
                let unreadPart = Part(partition: part.partition, offsets: nextOffset..<part.offsets.upperBound)
                return [unreadPart] + parts[(index + 1)...]
            }
            offsetsDone += Int64(part.offsets.count)
        }
        return []
    }

    private var silenceError: KafkaError {
        let seconds = Self.silenceMillisecondsMax / 1_000
        // -185 is RD_KAFKA_RESP_ERR__TIMED_OUT.
        return KafkaError(code: -185, reason: "the brokers sent no records of \(topic) for \(seconds) s")
    }
}

/// Knows which records the workers' group has not committed yet.
struct ReplayPositions {
    /// The committed offset of each partition; nil: the whole partition is unread.
    private let committedOffsets: [Int64?]
    /// Whether the workers' group does not read this topic: the topic is not an input, and the group has committed no
    /// offset for it. Then no record counts as unread.
    private let isNeverRead: Bool

    /// - Parameter isInput: whether the group reads the topic, even if it has committed no offset yet.
    init(
        of topic: String,
        partitions: Int32,
        isInput: Bool,
        kafka: WorkerConfiguration.Kafka
    ) throws(KafkaError) {
        let positions = try GroupPositions(properties: kafka.consumerProperties, topic: topic, partitions: partitions)
        defer { positions.close(deadlineMilliseconds: 5_000) }
        committedOffsets = try positions.positions(timeoutMilliseconds: 30_000).map(\.committed)
        isNeverRead = !isInput && committedOffsets.allSatisfy { $0 == nil }
    }

    func isUnread(_ offset: Int64, of partition: Int32) -> Bool {
        guard !isNeverRead, committedOffsets.indices.contains(Int(partition)) else { return false }
        return committedOffsets[Int(partition)].map { offset >= $0 } ?? true
    }
}
