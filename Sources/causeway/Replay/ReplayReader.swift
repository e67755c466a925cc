import CausewayCommandLine
import CausewayConfiguration
import Glibc
import Kafka

/// Reads the records of a ``ReplayRange`` from Kafka. It joins no group and commits no offset.
struct ReplayReader {
    /// The offsets to read of one partition.
    struct PartitionRange: Equatable {
        var partition: Int32
        var offsets: Range<Int64>

        /// The range in the form of the option `--offsets`.
        var text: String { "\(partition):\(offsets.lowerBound)-\(offsets.upperBound - 1)" }
    }

    private static let requestTimeoutMilliseconds: Int32 = 30_000
    /// How long the reader waits for the next record of a range. Then the reading fails, unless the partition has lost
    /// its leader: the reader waits for a new one, up to ``lostLeaderWaitMillisecondsMax``.
    private static let silenceMillisecondsMax: Int64 = 30_000
    /// How long the reader waits for a new leader of a partition that has lost its leader during the reading. Then the
    /// reading fails.
    private static let lostLeaderWaitMillisecondsMax: Int64 = 300_000
    private static let closeTimeoutMilliseconds: Int64 = 5_000
    /// How long the reader waits, before it reads, for a leader of each partition. Usually the brokers elect one within
    /// a second.
    private static let leaderWaitMillisecondsMax: Int64 = 5_000
    private static let leaderPollMicroseconds: UInt32 = 200_000
    /// How long a broker may take to say which partitions have no leader. Short, because Ctrl-C must end the wait soon.
    private static let leaderRequestTimeoutMilliseconds: Int32 = 2_000

    private let reader: PartitionReader
    private let range: ReplayRange
    let topic: String
    let partitionCount: Int32
    private(set) var partitionRanges: [PartitionRange] = []
    /// Texts about the offsets and partitions that the range names but the topic does not have, and about partitions
    /// without a leader.
    private(set) var rangeFaults: [String] = []

    /// The partitions of the range that have no leader. None of their records is read.
    private(set) var partitionsWithoutLeader: Set<Int32> = []

    var offsetCount: Int64 { partitionRanges.reduce(0) { $0 + Int64($1.offsets.count) } }

    /// - Parameter skipsPartitionsWithoutLeader: whether the reader leaves out partitions that have no leader, each
    ///   with a text in ``rangeFaults``. If false, such a partition is an error.
    init(
        topic: String,
        range: ReplayRange,
        skipsPartitionsWithoutLeader: Bool = false,
        kafka: WorkerConfiguration.Kafka
    ) throws(KafkaError) {
        self.topic = topic
        self.range = range
        reader = try PartitionReader.open(
            topic: topic,
            for: "causeway replay",
            properties: kafka.consumerProperties,
            timeoutMilliseconds: Self.requestTimeoutMilliseconds
        )
        do throws(KafkaError) {
            partitionCount = try reader.fetchPartitionCount(timeoutMilliseconds: Self.requestTimeoutMilliseconds)
            partitionsWithoutLeader = try awaitLeaders()
            if let partition = partitionsWithoutLeader.min(), !skipsPartitionsWithoutLeader {
                // 5 is RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE.
                throw KafkaError(code: 5, reason: makeLeaderFault(of: partition))
            }
            rangeFaults = partitionsWithoutLeader.sorted().map { makeLeaderFault(of: $0) }
            try findPartitionRanges()
        } catch {
            _ = reader.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
            throw error
        }
    }

    func close() { _ = reader.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds) }

    /// Leaves out the records that the workers' group has committed.
    mutating func skipCommittedRecords(_ committedOffsets: GroupCommittedOffsets) {
        partitionRanges = partitionRanges.compactMap { committedOffsets.uncommittedPart(of: $0) }
    }

    // MARK: - The range in offsets

    /// Returns those partitions of the range that have no leader. First waits until each has one, but at most for
    /// ``leaderWaitMillisecondsMax``.
    private func awaitLeaders() throws(KafkaError) -> Set<Int32> {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.leaderWaitMillisecondsMax
        while true {
            var partitions = try reader.fetchPartitionsWithoutLeader(
                timeoutMilliseconds: Self.requestTimeoutMilliseconds
            )
            if case .offsets(let ranges) = range { partitions.formIntersection(ranges.keys) }
            if partitions.isEmpty || Clock.monotonicMilliseconds >= deadlineMilliseconds { return partitions }
            usleep(Self.leaderPollMicroseconds)
        }
    }

    private func makeLeaderFault(of partition: Int32) -> String {
        """
        partition \(partition) of \(topic) has no leader, so its records are unknown. Run the command again when its \
        brokers are back
        """
    }

    /// Finds the offsets to read of each partition, and the faults of the range (``rangeFaults``).
    private mutating func findPartitionRanges() throws(KafkaError) {
        switch range {
        case .times(let from, _):
            for partition in 0..<partitionCount where !partitionsWithoutLeader.contains(partition) {
                let logOffsets = try fetchLogOffsets(of: partition)
                let begin = try fetchFirstOffset(of: partition, logOffsets, atOrAfter: from)
                // Producers choose the timestamps, so a record of the range may come after a record of a later time. So
                // read to the end of the log, and let `read` leave out the records of later times.
                add(partition, begin..<logOffsets.upperBound)
            }
        case .offsets(let ranges):
            for (partition, range) in ranges.sorted(by: { $0.key < $1.key })
            where !partitionsWithoutLeader.contains(partition) {
                guard partition < partitionCount else {
                    rangeFaults.append("\(topic) has no partition \(partition)")
                    continue
                }
                let logOffsets = try fetchLogOffsets(of: partition)
                if range.lowerBound < logOffsets.lowerBound {
                    let last = min(range.upperBound, logOffsets.lowerBound - 1)
                    rangeFaults.append(
                        "\(topic) no longer has the offsets \(range.lowerBound) to \(last) of partition \(partition)"
                    )
                }
                // A range without an end (`partition:from-`) that begins exactly at the end of the log is empty, which
                // is no fault.
                let isOpen = range.upperBound == ReplayRange.openEndOffset
                if isOpen ? range.lowerBound > logOffsets.upperBound : range.upperBound >= logOffsets.upperBound {
                    rangeFaults.append("partition \(partition) of \(topic) ends before offset \(logOffsets.upperBound)")
                }
                add(partition, Range(range).clamped(to: logOffsets))
            }
        }
    }

    private mutating func add(_ partition: Int32, _ offsets: Range<Int64>) {
        if !offsets.isEmpty { partitionRanges.append(PartitionRange(partition: partition, offsets: offsets)) }
    }

    private func fetchLogOffsets(of partition: Int32) throws(KafkaError) -> Range<Int64> {
        let watermarks = try reader.fetchWatermarks(of: partition, timeoutMilliseconds: Self.requestTimeoutMilliseconds)
        let low = max(0, watermarks.logStartOffset)
        return low..<max(low, watermarks.logEndOffset)
    }

    /// Returns the offset at which reading must begin to find all records of this time or later.
    private func fetchFirstOffset(
        of partition: Int32,
        _ logOffsets: Range<Int64>,
        atOrAfter milliseconds: Int64
    ) throws(KafkaError) -> Int64 {
        if logOffsets.isEmpty { return logOffsets.lowerBound }
        if let found = try fetchOffset(of: partition, logOffsets, atOrAfter: milliseconds) { return found }
        // The broker has named no offset. Either all records are older than `milliseconds`, or the broker cannot look
        // up offsets by time: for example, `EmbeddedBroker` cannot. The timestamp of the newest record shows which of
        // the two is true.
        var newestTimestampMilliseconds: Int64?
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Int64(Self.requestTimeoutMilliseconds)
        _ = try reader.read(
            partition,
            offsets: logOffsets.upperBound - 1..<logOffsets.upperBound,
            until: { Clock.monotonicMilliseconds > deadlineMilliseconds },
            { newestTimestampMilliseconds = $0.timestampMilliseconds }
        )
        // A negative timestamp says that the broker keeps none.
        let areAllOlder = newestTimestampMilliseconds.map { $0 >= 0 && $0 < milliseconds } ?? false
        return areAllOlder ? logOffsets.upperBound : logOffsets.lowerBound
    }

    /// Returns the offset that the broker names for this time; nil if it names none.
    private func fetchOffset(
        of partition: Int32,
        _ logOffsets: Range<Int64>,
        atOrAfter milliseconds: Int64
    ) throws(KafkaError) -> Int64? {
        try reader.fetchOffset(
            of: partition,
            atOrAfterWallMilliseconds: milliseconds,
            timeoutMilliseconds: Self.requestTimeoutMilliseconds
        )
        .map { min(max($0, logOffsets.lowerBound), logOffsets.upperBound) }
    }

    // MARK: - Reading the records

    /// Passes the records of the range to `body`, partition by partition, until a signal comes or `body` throws.
    ///
    /// - Returns: the ranges that were not read because of a signal; empty if all were read.
    func read(
        _ interruption: Interruption,
        _ progress: inout ReplayProgressBar,
        _ body: (borrowing Message) throws -> Void
    ) throws -> [PartitionRange] {
        let totalOffsetCount = offsetCount
        var readOffsetCount: Int64 = 0
        var failure: (any Error)?
        for (index, partitionRange) in partitionRanges.enumerated() {
            let nextOffset = try readRecords(of: partitionRange, interruption, &progress) { message, progress in
                progress.show(
                    "reading",
                    readOffsetCount + message.offset - partitionRange.offsets.lowerBound,
                    of: totalOffsetCount
                )
                guard range.contains(timestampMilliseconds: message.timestampMilliseconds) else { return true }
                do { try body(message) } catch { failure = error }
                return failure == nil
            }
            if let failure { throw failure }
            if let nextOffset {
                let unreadRange = PartitionRange(
                    partition: partitionRange.partition,
                    offsets: nextOffset..<partitionRange.offsets.upperBound
                )
                return [unreadRange] + partitionRanges[(index + 1)...]
            }
            readOffsetCount += Int64(partitionRange.offsets.count)
        }
        return []
    }

    /// Passes the records of one partition to `body`, until `body` returns false or a signal comes. If the partition
    /// loses its leader, waits for a new one, and reads on. Throws an error if there is none after
    /// ``lostLeaderWaitMillisecondsMax``, or if no record comes for ``silenceMillisecondsMax`` although there is a
    /// leader.
    ///
    /// - Returns: the first offset that was not read; nil if the whole range was read.
    private func readRecords(
        of partitionRange: PartitionRange,
        _ interruption: Interruption,
        _ progress: inout ReplayProgressBar,
        _ body: (borrowing Message, inout ReplayProgressBar) -> Bool
    ) throws(KafkaError) -> Int64? {
        var nextOffset = partitionRange.offsets.lowerBound
        var isStopped = false
        var leaderDeadlineMilliseconds: Int64?
        while true {
            var lastRecordAtMilliseconds = Clock.monotonicMilliseconds
            let stoppedAtOffset = try reader.read(
                partitionRange.partition,
                offsets: nextOffset..<partitionRange.offsets.upperBound,
                until: {
                    interruption.pendingSignal != nil || isStopped
                        || Clock.monotonicMilliseconds - lastRecordAtMilliseconds > Self.silenceMillisecondsMax
                },
                { message in
                    lastRecordAtMilliseconds = Clock.monotonicMilliseconds
                    isStopped = !body(message, &progress)
                }
            )
            guard let unreadOffset = stoppedAtOffset, !isStopped, interruption.pendingSignal == nil else {
                return stoppedAtOffset
            }
            // No record has come for `silenceMillisecondsMax`. If records came since the last wait for a leader, the
            // next wait may last `lostLeaderWaitMillisecondsMax` again. Otherwise it ends when the last one had to end.
            if unreadOffset > nextOffset { leaderDeadlineMilliseconds = nil }
            nextOffset = unreadOffset
            let deadlineMilliseconds =
                leaderDeadlineMilliseconds ?? Clock.monotonicMilliseconds + Self.lostLeaderWaitMillisecondsMax
            leaderDeadlineMilliseconds = deadlineMilliseconds
            progress.erase()
            try awaitLostLeader(of: partitionRange.partition, interruption, untilMilliseconds: deadlineMilliseconds)
            if interruption.pendingSignal != nil { return nextOffset }
        }
    }

    // MARK: - A leader that was lost during the reading

    /// Waits until the partition has a leader again, or a signal comes. Throws if the partition has a leader already,
    /// or if it has none at the deadline.
    private func awaitLostLeader(
        of partition: Int32,
        _ interruption: Interruption,
        untilMilliseconds deadlineMilliseconds: Int64
    ) throws(KafkaError) {
        guard hasLostLeader(partition) else { throw noRecordsError }
        StandardStreams.printError(
            "causeway replay: partition \(partition) of \(topic) has no leader now; waiting for one"
        )
        repeat {
            usleep(Self.leaderPollMicroseconds)
            if interruption.pendingSignal != nil || !hasLostLeader(partition) { return }
        } while Clock.monotonicMilliseconds < deadlineMilliseconds
        // 5 is RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE.
        throw KafkaError(
            code: 5,
            reason: """
                partition \(partition) of \(topic) has had no leader for \(Self.lostLeaderWaitMillisecondsMax / 1_000) s, \
                so its last records were not read. Run the command again when its brokers are back
                """
        )
    }

    /// Whether the brokers say that the partition has no leader. False if no broker responds.
    private func hasLostLeader(_ partition: Int32) -> Bool {
        let partitions = try? reader.fetchPartitionsWithoutLeader(
            timeoutMilliseconds: Self.leaderRequestTimeoutMilliseconds
        )
        return partitions?.contains(partition) ?? false
    }

    private var noRecordsError: KafkaError {
        let seconds = Self.silenceMillisecondsMax / 1_000
        // -185 is RD_KAFKA_RESP_ERR__TIMED_OUT.
        return KafkaError(code: -185, reason: "the brokers sent no records of \(topic) for \(seconds) s")
    }
}

/// The offsets of a topic that the workers' group has committed. The workers will still read the later records
/// themselves.
struct GroupCommittedOffsets {
    /// The committed offset of each partition; nil if the group has committed none. Then all records of the partition
    /// are unread, unless ``isReadByGroup`` is false.
    private let committedOffsets: [Int64?]
    /// Whether the workers' group reads this topic: the topic is one of their inputs, or the group has committed an
    /// offset for it. If false, no record counts as unread.
    private let isReadByGroup: Bool

    /// - Parameter isInput: whether the workers read the topic, even if they have not committed an offset yet.
    init(
        of topic: String,
        partitionCount: Int32,
        isInput: Bool,
        kafka: WorkerConfiguration.Kafka
    ) throws(KafkaError) {
        let groupPositions = try GroupPositionReader(
            properties: kafka.consumerProperties,
            topic: topic,
            partitionCount: partitionCount
        )
        defer { groupPositions.close(timeoutMilliseconds: 5_000) }
        committedOffsets = try groupPositions.readCommittedOffsets(timeoutMilliseconds: 30_000)
        isReadByGroup = isInput || committedOffsets.contains { $0 != nil }
    }

    /// Whether the workers will still read the record, because their group has not committed its offset.
    func isUnread(_ offset: Int64, of partition: Int32) -> Bool {
        guard isReadByGroup, committedOffsets.indices.contains(Int(partition)) else { return false }
        return committedOffsets[Int(partition)].map { offset >= $0 } ?? true
    }

    /// Returns the offsets of the range that the group has not committed; nil if there are none.
    func uncommittedPart(of range: ReplayReader.PartitionRange) -> ReplayReader.PartitionRange? {
        guard isReadByGroup, committedOffsets.indices.contains(Int(range.partition)) else { return nil }
        let begin = max(range.offsets.lowerBound, committedOffsets[Int(range.partition)] ?? 0)
        guard begin < range.offsets.upperBound else { return nil }
        return ReplayReader.PartitionRange(partition: range.partition, offsets: begin..<range.offsets.upperBound)
    }
}
