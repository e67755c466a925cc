import Audiences
import Delivery
import Kafka
import Reactor

/// Reads the deferred topic when its records are due, and the fan-out topic when its lane has room.
extension Intake {
    /// Returns the record if it is due. Otherwise pauses its partition and reads the record again when it is
    /// due.
    ///
    /// When one of a lane's APNs pools works again, the records that the lane deferred before are read at
    /// once.
    ///
    /// - Returns: nil if the record is not due.
    func pauseUnlessDue(_ message: consuming Message) -> Message? {
        let partition = TopicPartition(topic: message.topic, partition: message.partition)
        guard partition.topic.index == Self.deferredTopic, let lane = assignments[partition]?.lane else {
            return message
        }
        let now = Moment(monotonicMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
        let writtenMilliseconds = message.timestampMilliseconds
        let dueMilliseconds = PausedPartitions.monotonicDueMilliseconds(
            wallDueMilliseconds: DeferredHeaders.dueMilliseconds(of: message),
            writtenMilliseconds: writtenMilliseconds,
            now: now
        )
        guard dueMilliseconds > now.monotonicMilliseconds, writtenMilliseconds > poolRecoveryMilliseconds[lane] else {
            return message
        }
        pausedPartitions.add(partition, untilMilliseconds: dueMilliseconds)
        consumer.pause(partition, rereadingFrom: message.offset)
        return nil
    }

    /// Pauses a partition of the fan-out topic whose lane had no room. Its records are read again after the
    /// pause that the lane asks for.
    func readAgain(_ rereading: FanoutRereading, _ report: LaneReport) {
        guard assignments.noteReadAgainRequest(report) else { return }
        let partition = TopicPartition(topic: TopicIdentifier(index: report.topic), partition: report.partition)
        pausedPartitions.add(partition, untilMilliseconds: loop.nowMilliseconds + rereading.pauseMilliseconds)
        consumer.pause(partition, rereadingFrom: rereading.offset)
    }

    /// Resumes the partitions whose next record is due. Also resumes all deferred partitions of a lane if one
    /// of its APNs pools works again.
    func resumeDuePartitions() {
        for (lane, mailbox) in mailboxes.enumerated() {
            guard let milliseconds = mailbox.takePoolRecovery() else { continue }
            poolRecoveryMilliseconds[lane] = milliseconds
            resume(pausedPartitions.remove { $0.topic.index == Self.deferredTopic && assignments[$0]?.lane == lane })
        }
        resume(pausedPartitions.takeDue(nowMilliseconds: loop.nowMilliseconds))
    }

    /// Resumes fetching, except for partitions whose record is not due and partitions whose lane is full.
    func resume(_ partitions: [TopicPartition]) {
        consumer.resume(
            partitions.filter { partition in
                guard let lane = assignments[partition]?.lane else { return false }
                return !pausedPartitions.contains(partition) && !isPaused(lane: lane)
            }
        )
    }
}
