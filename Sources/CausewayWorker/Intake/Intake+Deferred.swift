import Audiences
import Delivery
import Kafka
import Reactor

/// Reads partitions of the deferred topic when their records are due. Reads a partition again if its lane had no room
/// for a record.
extension Intake {
    /// Returns the record if it is due. Otherwise pauses its partition and returns nil. The partition is read again
    /// from this record when the record is due.
    ///
    /// A record of any other topic than the deferred topic is always due. When one of a lane's APNs pools works again,
    /// all records of this lane that were deferred before are due at once.
    func takeIfDue(orPausePartitionOf message: consuming Message) -> Message? {
        let partition = TopicPartition(topic: message.topic, partition: message.partition)
        guard partition.topic.index == Self.deferredTopicIndex, let lane = assignments[partition]?.lane else {
            return message
        }
        let now = Moment(monotonicMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
        let dueMilliseconds = PausedPartitions.computeMonotonicDueMilliseconds(
            dueWallMilliseconds: DeferredHeaders.readDueWallMilliseconds(of: message),
            writtenAtWallMilliseconds: message.timestampMilliseconds,
            poolRecoveredAtWallMilliseconds: poolRecoveredAtWallMillisecondsByLane[lane],
            now: now
        )
        guard dueMilliseconds > now.monotonicMilliseconds else { return message }
        let receivedAtWallMilliseconds = DeferredHeaders.readDeferral(of: message)?.receivedAtWallMilliseconds ?? -1
        let record = PausedPartitions.DeferredRecord(
            offset: message.offset,
            receivedAtWallMilliseconds: receivedAtWallMilliseconds >= 0
                ? receivedAtWallMilliseconds : message.timestampMilliseconds
        )
        pausedPartitions.add(partition, untilMilliseconds: dueMilliseconds, firstRecord: record)
        consumer.pause(partition, rewindingTo: message.offset)
        return nil
    }

    /// Pauses a partition whose lane had no room for a record. After the pause that the lane requests, the partition is
    /// read again from the offset that the lane names. Does nothing if the report belongs to an assignment that has
    /// ended.
    func pauseForRewind(_ rewindRequest: PartitionRewind, _ report: PartitionReport) {
        guard assignments.noteRewindRequest(report) else { return }
        let partition = TopicPartition(topic: TopicIdentifier(index: report.topic), partition: report.partition)
        pausedPartitions.add(partition, untilMilliseconds: loop.nowMilliseconds + rewindRequest.pauseMilliseconds)
        consumer.pause(partition, rewindingTo: rewindRequest.offset)
    }

    /// Resumes the partitions whose pause is over. If an APNs pool of a lane works again, also resumes all of this
    /// lane's partitions of the deferred topic.
    func resumeDuePartitions() {
        for (lane, mailbox) in setup.mailboxes.enumerated() {
            guard let recoveredAtWallMilliseconds = mailbox.takePoolRecoveryAtWallMilliseconds() else { continue }
            poolRecoveredAtWallMillisecondsByLane[lane] = recoveredAtWallMilliseconds
            // The lane has read the clock later than this loop. If this loop's clock stayed behind, the recovery would
            // seem to be in the future, and would not count.
            loop.refreshClock()
            resume(
                pausedPartitions.remove { $0.topic.index == Self.deferredTopicIndex && assignments[$0]?.lane == lane }
            )
        }
        resume(pausedPartitions.takeDuePartitions(nowMilliseconds: loop.nowMilliseconds))
    }

    /// Resumes these partitions, except for those that wait in `pausedPartitions`, and those whose lane takes no
    /// records.
    func resume(_ partitions: [TopicPartition]) {
        consumer.resume(
            partitions.filter { partition in
                guard let lane = assignments[partition]?.lane else { return false }
                return !pausedPartitions.contains(partition) && !isPaused(lane: lane)
            }
        )
    }
}
