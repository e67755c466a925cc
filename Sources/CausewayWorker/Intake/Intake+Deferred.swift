import Audiences
import Delivery
import Kafka
import Reactor

/// Reads the deferred topic when its records are due, and the fan-out topic when its lane has room.
extension Intake {
    /// Gives back a record that is not due, and pauses its partition.
    ///
    /// The records that the lane deferred before one of its pools returned are read at once, whether they are due or not.
    ///
    /// - Returns: nil if the record was given back.
    func passIfDue(_ message: consuming Message) -> Message? {
        let partition = TopicPartition(topic: message.topic, partition: message.partition)
        guard partition.topic.index == Self.deferredTopic, let lane = assignments[partition]?.lane else {
            return message
        }
        let now = Moment(monotonicMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
        let written = message.timestampMilliseconds
        let due = DeferredPartitions.due(
            atWallMilliseconds: DeferredHeaders.dueMilliseconds(of: message),
            writtenMilliseconds: written,
            now: now
        )
        guard due > now.monotonicMilliseconds, written > poolRecoveryMilliseconds[lane] else { return message }
        deferred.wait(partition, untilMilliseconds: due)
        consumer.pause(partition, rereadingFrom: message.offset)
        return nil
    }

    /// A lane had no room for records of the fan-out topic, and asks to read them again.
    func readAgain(_ rereading: FanoutRereading, _ report: LaneReport) {
        guard assignments.noteReadAgain(report) else { return }
        let partition = TopicPartition(topic: TopicIdentifier(index: report.topic), partition: report.partition)
        deferred.wait(partition, untilMilliseconds: loop.nowMilliseconds + rereading.pauseMilliseconds)
        consumer.pause(partition, rereadingFrom: rereading.offset)
    }

    /// Resumes the partitions whose next record is due, and those of a lane one of whose pools works again.
    func readDue() {
        for (lane, mailbox) in mailboxes.enumerated() {
            guard let milliseconds = mailbox.takePoolRecovery() else { continue }
            poolRecoveryMilliseconds[lane] = milliseconds
            resume(deferred.take { $0.topic.index == Self.deferredTopic && assignments[$0]?.lane == lane })
        }
        resume(deferred.takeDue(nowMilliseconds: loop.nowMilliseconds))
    }

    /// Resumes fetching, except where a partition waits for its time or for its lane.
    func resume(_ partitions: [TopicPartition]) {
        consumer.resume(
            partitions.filter { partition in
                guard let lane = assignments[partition]?.lane else { return false }
                return !deferred.contains(partition) && !isPaused(lane: lane)
            }
        )
    }
}
