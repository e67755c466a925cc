import Kafka
import Logging
import Observability
import Reactor

/// Counts and publishes the metrics of the Kafka thread.
extension Intake {
    func countError(_ error: KafkaError) { countError(code: error.code) }

    func countError(code: Int32) {
        metrics.add(.kafkaErrors, errorLabelIndices[code] ?? setup.metricRegistry.labels.kafkaErrors.count - 1)
    }

    /// Notes whether any broker is up, and logs a change. librdkafka reports when it has closed its last connection.
    /// Only its statistics (``BrokerStatistics``) show when a broker does not respond, or is up again.
    func noteBroker(isUp: Bool, reason: String) {
        let wasUp = isAnyBrokerUp
        guard isUp != wasUp else { return }
        setup.metricRegistry.condition.change {
            $0.hasReachedKafka = $0.hasReachedKafka || isUp
            $0.isKafkaUnreachable = $0.hasReachedKafka && !isUp
        }
        if !isUp {
            writeLog(.kafkaUnreachable, ["reason": "\(reason)", "servers": "\(setup.bootstrapServers)"])
        } else if wasUp == false {
            writeLog(.kafkaReachableAgain, [:])
        }
        isAnyBrokerUp = isUp
    }

    /// Publishes the worker's state in the consumer group and its number of partitions. The state `left` is final.
    func noteConsumerGroupState(_ state: WorkerCondition.ConsumerGroupState) {
        let count = assignments.assignedPartitions.count
        setup.metricRegistry.condition.change {
            $0.assignedPartitionCount = count
            if $0.consumerGroupState != .left { $0.consumerGroupState = state }
            if state == .member { $0.isCommandsTopicMissing = false }
        }
    }

    /// Notes that the thread may block for this long, so that `/livez` does not report the thread as stuck.
    func noteBlocking(milliseconds: Int64) {
        metrics.published.noteIterationPause(untilMilliseconds: loop.nowMilliseconds + milliseconds)
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
            to: Int64(unfetchedPartitions.partitionsWithOffsetOutOfRange.union(partitionsAwaitingPosition).count)
        )
        metrics.set(.partitionsRereading, to: Int64(rereadingPartitionCount))
        setDeferredMetrics()
        metrics.setBusyTime(
            microseconds: loop.busyMicroseconds,
            nowMilliseconds: loop.nowMilliseconds,
            ratioMetric: .kafkaThreadBusyRatio,
            secondsMetric: .kafkaThreadBusy
        )
        let readings = assignedPartitions.map { partition in
            PartitionReading(
                topicIndex: partition.topic.index,
                partition: partition.partition,
                lagRecordCount: computeLagRecordCount(of: partition)
            )
        }
        readings.withUnsafeBufferPointer { metrics.publish(partitions: $0, nowMilliseconds: loop.nowMilliseconds) }
    }

    private func setDeferredMetrics() {
        let backlog = pausedPartitions.countDeferred { consumer.watermarks(of: $0)?.logEndOffset }
        metrics.set(.deferredWaiting, to: backlog.commandCount)
        let ageMilliseconds = backlog.receivedAtWallMilliseconds.map { max(0, loop.wallMilliseconds - $0) }
        metrics.set(.deferredOldest, to: ageMilliseconds ?? 0)
    }

    /// Returns the partition's lag, as ``PartitionLag`` counts it; -1: not known.
    private func computeLagRecordCount(of partition: TopicPartition) -> Int64 {
        // The lag does not include records on the deferred topic that are not due; `deferredWaiting` counts them.
        if partition.topic.index == Self.deferredTopicIndex, pausedPartitions.contains(partition),
            let entry = assignments[partition]
        {
            return entry.firstUnsettledOffset < 0 ? 0 : entry.nextOffset - entry.firstUnsettledOffset
        }
        let watermarks = consumer.watermarks(of: partition)
        let assignment = assignments[partition]
        // The brokers may have named a higher log end of a partition that is not fetched. Then the log has new records,
        // and reading is no longer at its end.
        let unfetchedLogEndOffset = unfetchedPartitions.logEndOffsets[partition] ?? -1
        let logEndReading = assignment.flatMap { entry -> PartitionLag.LogEndReading? in
            guard entry.logEndReachedAtOffset >= max(0, unfetchedLogEndOffset) else { return nil }
            return PartitionLag.LogEndReading(
                dealtEndOffset: Self.nilIfNegative(entry.nextOffset),
                reachedAtOffset: entry.logEndReachedAtOffset
            )
        }
        return PartitionLag.countRecords(
            firstUnsettledOffset: Self.nilIfNegative(assignment?.firstUnsettledOffset ?? -1),
            startPosition: consumer.startPositions[partition],
            logStartOffset: Self.nilIfNegative(watermarks?.logStartOffset ?? -1),
            logEndOffset: Self.nilIfNegative(max(watermarks?.logEndOffset ?? -1, unfetchedLogEndOffset)),
            logEndReading: logEndReading
        ) ?? -1
    }

    /// Returns nil for a negative offset: librdkafka and assignments use negative numbers for an offset that is not
    /// known.
    private static func nilIfNegative(_ offset: Int64) -> Int64? { offset >= 0 ? offset : nil }

    /// Asks the brokers for the log ends of partitions from which nothing is fetched, because their lane is full or
    /// they are stopped. (While a partition is read, each fetch reports its log's end.) Leaves out the partitions in
    /// `pausedPartitions`.
    func fetchLogEndsIfDue() {
        guard unfetchedPartitions.isRequestDue(nowMilliseconds: loop.nowMilliseconds), isAnyBrokerUp == true else {
            return
        }
        let partitions = Array(
            consumer.pausedPartitions.union(partitionsAwaitingPosition)
                .union(unfetchedPartitions.partitionsWithOffsetOutOfRange)
        )
        .filter { assignments[$0] != nil && !pausedPartitions.contains($0) }
        var logEndOffsets: [TopicPartition: Int64]?
        if !partitions.isEmpty {
            noteBlocking(milliseconds: 2 * Int64(UnfetchedPartitions.requestTimeoutMilliseconds))
            logEndOffsets = try? consumer.fetchLogEndOffsets(
                of: partitions,
                timeoutMilliseconds: UnfetchedPartitions.requestTimeoutMilliseconds
            )
            loop.refreshClock()
        }
        unfetchedPartitions.noteLogEndOffsets(logEndOffsets, nowMilliseconds: loop.nowMilliseconds)
    }
}
