import Delivery
import Kafka
import Reactor

/// Tells the lanes where the logs of their partitions end, and commits these ends when all records are settled.
extension Intake {
    /// The time between two reports to the lanes about the ends of their partitions' logs. From these ends, a lane
    /// knows how far it is behind, and whether it must read ahead (R21).
    static let logEndReportIntervalMilliseconds: Int64 = 100

    /// Reports the ends of the logs to the lanes, if a report is due: of the commands topic each time, and of the
    /// deferred topic only the first known end. From that end, the lane knows what previous owners deferred
    /// (`Delivery.noteDeferredLogEnd`). Makes no request to a broker: librdkafka received the ends with its last
    /// fetches.
    func reportLogEnds() {
        guard loop.nowMilliseconds >= logEndReportDueMilliseconds else { return }
        logEndReportDueMilliseconds = loop.nowMilliseconds + Self.logEndReportIntervalMilliseconds
        for partition in assignments.assignedPartitions where mustReportLogEnd(of: partition) {
            reportLogEnd(of: partition)
        }
    }

    private func mustReportLogEnd(of partition: TopicPartition) -> Bool {
        guard partition.topic.index == Self.deferredTopicIndex else {
            return partition.topic.index == Self.commandsTopicIndex
        }
        guard let entry = assignments[partition], entry.reportedLogEndOffset < 0 else { return false }
        // Before the first fetch of this assignment, librdkafka may still know the end from an earlier assignment.
        return entry.nextOffset >= 0 || entry.logEndReachedAtOffset >= 0 || pausedPartitions.contains(partition)
    }

    /// Notes that reading has reached the end of a partition's log. The brokers may report a higher end, but no record
    /// can be read now: only transaction markers or an open transaction may follow.
    func noteReachedLogEnd(of partition: TopicPartition, offset: Int64) {
        assignments.noteReachedLogEnd(of: partition, offset: offset)
        storeSettledLogEnd(of: partition)
        if partition.topic.index == Self.commandsTopicIndex { reportLogEnd(of: partition) }
    }

    /// Stores a partition's log end for the next commit, if all records below it are settled. Does nothing if the lane
    /// has reported, or the group has committed, this offset or a higher one.
    func storeSettledLogEnd(of partition: TopicPartition) {
        guard let offset = assignments[partition]?.settledLogEndOffset,
            offset > findKnownProgress(of: partition)?.committableOffset ?? 0
        else { return }
        let progress = PartitionProgress(committableOffset: offset, metadata: [])
        rereading.storedProgress[partition] = progress
        storeOffset(progress, of: partition)
    }

    /// Tells a partition's lane where the partition's log ends. Does nothing if the lane knows this end already, if
    /// this thread does not know it, or if many orders wait for the lane.
    func reportLogEnd(of partition: TopicPartition) {
        // If many orders wait for the lane, leave the rest of the ring to orders that must not be lost. A later report
        // has this log end too.
        guard let lane = assignments[partition]?.lane,
            setup.mailboxes[lane].orders.count < LaneMailbox.partitionsMax,
            let logEndOffset = consumer.watermarks(of: partition)?.logEndOffset, logEndOffset >= 0,
            let assignment = assignments.noteLogEndToReport(logEndOffset, of: partition)
        else { return }
        _ = setup.mailboxes[lane].orders
            .push(
                LaneOrder(
                    kind: .noteLogEnd,
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignmentNumber: assignment.assignmentNumber,
                    logEndOffset: assignment.reportedLogEndOffset
                )
            )
        noteLaneToWake(lane)
    }
}
