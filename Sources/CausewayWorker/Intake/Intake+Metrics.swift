import Kafka
import Logging
import Observability
import Reactor

enum PartitionLag {
    /// Records in a partition behind the first that is not known to be settled; nil: not known, which is not zero.
    ///
    /// - Parameters:
    ///   - unsettledOffset: -1 before a record of this assignment was dealt: then it is where reading begins.
    ///   - low: the oldest offset that is left in the log; negative if that is not known.
    ///   - high: the log's end; negative if that is not known.
    ///   - reached: up to where the log was read to its end, and nothing of it was dealt since; nil: it was not.
    static func records(
        unsettledOffset: Int64,
        start: SeekPosition?,
        low: Int64,
        high: Int64,
        reached: Reached? = nil
    ) -> Int64? {
        if let reached {
            // What is between the last record and the end is none for a reader.
            let isSettled = unsettledOffset < 0 || unsettledOffset == reached.nextOffset
            return isSettled ? 0 : max(0, reached.endOffset - unsettledOffset)
        }
        guard high >= 0 else { return nil }
        let next: Int64
        switch start {
        case _ where unsettledOffset >= 0: next = unsettledOffset
        case .offset(let offset): next = offset
        case .beginning: next = max(0, low)
        case .end: next = high
        case nil: return nil
        }
        // A log that ends before what was settled of it is another one.
        return next <= high ? high - max(next, low, 0) : nil
    }

    /// A log that was read to its end.
    struct Reached {
        /// Behind the last record that was dealt; -1: none was.
        var nextOffset: Int64
        var endOffset: Int64
    }
}

/// The ends of logs that nothing is fetched from.
struct UnfetchedPartitions {
    static let intervalMilliseconds: Int64 = 5_000
    /// The Kafka thread waits so long for the answer, at most.
    static let timeoutMilliseconds: Int32 = 500

    /// Whose committed offset is gone: they stand still for good.
    var standing: Set<TopicPartition> = []
    private(set) var ends: [TopicPartition: Int64] = [:]
    private var dueMilliseconds: Int64 = 0

    func isDue(nowMilliseconds: Int64) -> Bool { nowMilliseconds >= dueMilliseconds }

    /// - Parameter answer: nil: the brokers did not answer, and what they said before stands.
    mutating func note(_ answer: [TopicPartition: Int64]?, nowMilliseconds: Int64) {
        dueMilliseconds = nowMilliseconds + Self.intervalMilliseconds
        if let answer { ends = answer }
    }

    /// It goes on, or is another worker's.
    mutating func remove(_ partition: TopicPartition) {
        standing.remove(partition)
        ends[partition] = nil
    }
}

/// What the Kafka thread counts and shows.
extension Intake {
    func count(_ error: KafkaError) {
        metrics.add(.kafkaErrors, errorIndices[error.code] ?? registry.labels.kafkaErrors.count - 1)
    }

    /// librdkafka says aloud when it has lost its last broker, but not when it finds one again: that stands in its statistics.
    func noteBroker(isUp: Bool, reason: String) {
        let wasUp = isBrokerUp
        guard isUp != wasUp else { return }
        registry.condition.change {
            $0.hasMetKafka = $0.hasMetKafka || isUp
            $0.isKafkaAway = $0.hasMetKafka && !isUp
        }
        if !isUp {
            note(.kafkaAway, ["reason": "\(reason)"])
        } else if wasUp == false {
            note(.kafkaBack, [:])
        }
        isBrokerUp = isUp
    }

    func noteMembership(_ membership: WorkerCondition.Membership) {
        let count = assignments.all.count
        registry.condition.change {
            $0.partitionsAssigned = count
            if $0.membership != .left { $0.membership = membership }
            if membership == .member { $0.isTopicMissing = false }
        }
    }

    /// The thread will wait for brokers, with a time limit.
    func expectQuiet(milliseconds: Int64) {
        metrics.board.expectQuiet(untilMilliseconds: loop.nowMilliseconds + milliseconds)
    }

    func publishMetricsIfDue() {
        if metrics.isPublicationDue(nowMilliseconds: loop.nowMilliseconds) { publishMetrics() }
    }

    func publishMetrics() {
        let assigned = assignments.all
        metrics.set(.kafkaReady, to: isBrokerUp == true ? 1 : 0)
        metrics.set(.partitionsAssigned, to: Int64(assigned.count))
        metrics.set(.partitionsPaused, to: Int64(consumer.paused.subtracting(deferred.partitions).count))
        metrics.set(.partitionsStandingStill, to: Int64(unfetched.standing.union(stranded.errors.keys).count))
        metrics.set(.partitionsRereading, to: Int64(rereadingCount))
        metrics.noteBusy(
            microseconds: loop.busyMicroseconds,
            nowMilliseconds: loop.nowMilliseconds,
            ratio: .kafkaThreadBusyRatio,
            seconds: .kafkaThreadBusySeconds
        )
        let readings = assigned.map { partition in
            PartitionReading(topic: partition.topic.index, partition: partition.partition, lag: lag(of: partition))
        }
        readings.withUnsafeBufferPointer { metrics.publish(partitions: $0, nowMilliseconds: loop.nowMilliseconds) }
    }

    private func lag(of partition: TopicPartition) -> Int64 {
        // What is not due is behind nothing.
        if partition.topic.index == Self.deferredTopic, deferred.contains(partition), let entry = assignments[partition]
        {
            return entry.unsettledOffset < 0 ? 0 : entry.nextOffset - entry.unsettledOffset
        }
        let watermarks = consumer.watermarks(of: partition)
        let assignment = assignments[partition]
        // Of what is not fetched from, the brokers may know more.
        let reached = assignment.flatMap { entry in
            entry.endOffset >= max(0, unfetched.ends[partition] ?? -1)
                ? PartitionLag.Reached(nextOffset: entry.nextOffset, endOffset: entry.endOffset) : nil
        }
        return PartitionLag.records(
            unsettledOffset: assignment?.unsettledOffset ?? -1,
            start: consumer.startPositions[partition],
            low: watermarks?.low ?? -1,
            high: max(watermarks?.high ?? -1, unfetched.ends[partition] ?? -1),
            reached: reached
        ) ?? -1
    }

    /// Fetching tells how far a log goes. Of what is not fetched from, because its lane is full or it stands still, the brokers are asked.
    func askForLogEnds() {
        guard unfetched.isDue(nowMilliseconds: loop.nowMilliseconds), isBrokerUp == true else { return }
        let partitions = Array(consumer.paused.union(stranded.errors.keys).union(unfetched.standing))
            .filter { assignments[$0] != nil && !deferred.contains($0) }
        var ends: [TopicPartition: Int64]?
        if !partitions.isEmpty {
            expectQuiet(milliseconds: 2 * Int64(UnfetchedPartitions.timeoutMilliseconds))
            ends = try? consumer.logEnds(
                of: partitions,
                timeoutMilliseconds: UnfetchedPartitions.timeoutMilliseconds
            )
            loop.refreshClock()
        }
        unfetched.note(ends, nowMilliseconds: loop.nowMilliseconds)
    }
}
