import Kafka
import Logging
import Observability
import Reactor

enum PartitionLag {
    /// Returns the number of records from a partition's first unsettled one to the log's end. Nil means
    /// unknown, which is not zero.
    ///
    /// - Parameters:
    ///   - firstUnsettledOffset: the first unsettled offset; -1 before the first record of this assignment.
    ///   - startPosition: where reading began. Without an unsettled offset, the lag is counted from here.
    ///   - lowWatermark: the oldest offset in the log; negative if it is not known.
    ///   - highWatermark: the end of the log that the brokers last reported; negative if it is not known.
    ///   - logEnd: the end of the log, if reading has reached the end and no record was dealt afterwards; else nil.
    ///     Replaces the watermarks, because the offsets below the end may be only transaction markers.
    static func countRecords(
        firstUnsettledOffset: Int64,
        startPosition: SeekPosition?,
        lowWatermark: Int64,
        highWatermark: Int64,
        logEnd: LogEnd? = nil
    ) -> Int64? {
        if let logEnd {
            // If all dealt records are settled, the lag is 0: after them, the log has no record for a reader, only for
            // example transaction markers.
            let isSettled = firstUnsettledOffset < 0 || firstUnsettledOffset == logEnd.nextOffset
            return isSettled ? 0 : max(0, logEnd.endOffset - firstUnsettledOffset)
        }
        guard highWatermark >= 0 else { return nil }
        let nextOffset: Int64
        switch startPosition {
        case _ where firstUnsettledOffset >= 0: nextOffset = firstUnsettledOffset
        case .offset(let offset): nextOffset = offset
        case .beginning: nextOffset = max(0, lowWatermark)
        case .end: nextOffset = highWatermark
        case nil: return nil
        }
        // The lag is unknown if the log ends below `nextOffset`. The log has then lost records: for example, the topic
        // was deleted and created again.
        return nextOffset <= highWatermark ? highWatermark - max(nextOffset, lowWatermark, 0) : nil
    }

    /// The positions of a partition that was read to the end of its log.
    struct LogEnd {
        /// One above the last record that was dealt; -1: no record yet.
        var nextOffset: Int64
        var endOffset: Int64
    }
}

/// The log ends of partitions from which nothing is fetched. The Kafka thread asks the brokers for these
/// ends, because librdkafka learns a log's end only from a fetch.
struct UnfetchedPartitions {
    static let requestIntervalMilliseconds: Int64 = 5_000
    /// How long the Kafka thread waits for the brokers. The time is short, because meanwhile the lanes get no
    /// records.
    static let requestTimeoutMilliseconds: Int32 = 500

    /// Partitions whose committed offset is no longer in the log. They stay stopped until an operator acts.
    var partitionsWithOffsetOutOfRange: Set<TopicPartition> = []
    private(set) var logEndOffsets: [TopicPartition: Int64] = [:]
    private var requestDueMilliseconds: Int64 = 0

    func isRequestDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= requestDueMilliseconds }

    /// - Parameter newLogEndOffsets: nil if the brokers were not asked or did not respond. Then the previous offsets
    ///   stay.
    mutating func noteLogEndOffsets(_ newLogEndOffsets: [TopicPartition: Int64]?, nowMilliseconds: Int64) {
        requestDueMilliseconds = nowMilliseconds + Self.requestIntervalMilliseconds
        if let newLogEndOffsets { logEndOffsets = newLogEndOffsets }
    }

    /// Forgets a partition that is fetched again or that was revoked.
    mutating func remove(_ partition: TopicPartition) {
        partitionsWithOffsetOutOfRange.remove(partition)
        logEndOffsets[partition] = nil
    }
}

/// Counts and publishes the metrics of the Kafka thread.
extension Intake {
    func countError(_ error: KafkaError) {
        metrics.add(.kafkaErrors, errorLabelIndices[error.code] ?? metricRegistry.labels.kafkaErrors.count - 1)
    }

    /// Notes whether any broker is up. librdkafka reports when its last broker is down. Only its statistics
    /// (`statistics.interval.ms`) show when a broker is up again.
    func noteBroker(isUp: Bool, reason: String) {
        let wasUp = isAnyBrokerUp
        guard isUp != wasUp else { return }
        metricRegistry.condition.change {
            $0.hasReachedKafka = $0.hasReachedKafka || isUp
            $0.isKafkaUnreachable = $0.hasReachedKafka && !isUp
        }
        if !isUp {
            writeLog(.kafkaAway, ["reason": "\(reason)", "servers": "\(bootstrapServers)"])
        } else if wasUp == false {
            writeLog(.kafkaBack, [:])
        }
        isAnyBrokerUp = isUp
    }

    func noteConsumerGroupState(_ state: WorkerCondition.ConsumerGroupState) {
        let count = assignments.assignedPartitions.count
        metricRegistry.condition.change {
            $0.assignedPartitionCount = count
            if $0.consumerGroupState != .left { $0.consumerGroupState = state }
            if state == .member { $0.isTopicMissing = false }
        }
    }

    /// Announces that the thread may block for this long, so that `/livez` does not report it as stuck.
    func announceBlocking(milliseconds: Int64) {
        metrics.published.announceBlocking(untilMilliseconds: loop.nowMilliseconds + milliseconds)
    }

    func publishMetricsIfDue() {
        if metrics.isPublicationDue(nowMilliseconds: loop.nowMilliseconds) { publishMetrics() }
    }

    func publishMetrics() {
        let assignedPartitions = assignments.assignedPartitions
        metrics.set(.kafkaReady, to: isAnyBrokerUp == true ? 1 : 0)
        metrics.set(.partitionsAssigned, to: Int64(assignedPartitions.count))
        metrics.set(
            .partitionsPaused,
            to: Int64(consumer.pausedPartitions.subtracting(pausedPartitions.partitions).count)
        )
        metrics.set(
            .partitionsStuck,
            to: Int64(
                unfetchedPartitions.partitionsWithOffsetOutOfRange.union(partitionsWithoutPosition.errors.keys).count
            )
        )
        metrics.set(.partitionsRereading, to: Int64(rereadingPartitionCount))
        metrics.setBusyTime(
            microseconds: loop.busyMicroseconds,
            nowMilliseconds: loop.nowMilliseconds,
            ratioMetric: .kafkaThreadBusyRatio,
            secondsMetric: .kafkaThreadBusySeconds
        )
        let readings = assignedPartitions.map { partition in
            PartitionReading(
                topicIndex: partition.topic.index,
                partition: partition.partition,
                lag: lag(of: partition)
            )
        }
        readings.withUnsafeBufferPointer { metrics.publish(partitions: $0, nowMilliseconds: loop.nowMilliseconds) }
    }

    private func lag(of partition: TopicPartition) -> Int64 {
        // The lag does not include records on the deferred topic that are not due.
        if partition.topic.index == Self.deferredTopicIndex, pausedPartitions.contains(partition),
            let entry = assignments[partition]
        {
            return entry.firstUnsettledOffset < 0 ? 0 : entry.nextOffset - entry.firstUnsettledOffset
        }
        let watermarks = consumer.watermarks(of: partition)
        let assignment = assignments[partition]
        // If nothing is fetched from a partition, the thread has asked the brokers for its log's end. If that end is
        // higher than the one that reading has reached, the log has new records.
        let logEnd = assignment.flatMap { entry in
            entry.reachedEndOffset >= max(0, unfetchedPartitions.logEndOffsets[partition] ?? -1)
                ? PartitionLag.LogEnd(nextOffset: entry.nextOffset, endOffset: entry.reachedEndOffset) : nil
        }
        return PartitionLag.countRecords(
            firstUnsettledOffset: assignment?.firstUnsettledOffset ?? -1,
            startPosition: consumer.startPositions[partition],
            lowWatermark: watermarks?.low ?? -1,
            highWatermark: max(watermarks?.high ?? -1, unfetchedPartitions.logEndOffsets[partition] ?? -1),
            logEnd: logEnd
        ) ?? -1
    }

    /// Asks the brokers for the log ends of partitions from which nothing is fetched: their lane is full, or they are
    /// stopped. (If a partition is read, each fetch reports its log's end.) Leaves out the partitions in
    /// `pausedPartitions`.
    func fetchLogEndsIfDue() {
        guard unfetchedPartitions.isRequestDue(nowMilliseconds: loop.nowMilliseconds), isAnyBrokerUp == true else {
            return
        }
        let partitions = Array(
            consumer.pausedPartitions.union(partitionsWithoutPosition.errors.keys)
                .union(unfetchedPartitions.partitionsWithOffsetOutOfRange)
        )
        .filter { assignments[$0] != nil && !pausedPartitions.contains($0) }
        var logEndOffsets: [TopicPartition: Int64]?
        if !partitions.isEmpty {
            announceBlocking(milliseconds: 2 * Int64(UnfetchedPartitions.requestTimeoutMilliseconds))
            logEndOffsets = try? consumer.fetchLogEndOffsets(
                of: partitions,
                timeoutMilliseconds: UnfetchedPartitions.requestTimeoutMilliseconds
            )
            loop.refreshClock()
        }
        unfetchedPartitions.noteLogEndOffsets(logEndOffsets, nowMilliseconds: loop.nowMilliseconds)
    }
}
