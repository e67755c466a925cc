import Audiences
import Delivery
import Kafka
import Reactor

/// The deferred topic is read when its records are due, the fan-out topic when its lane has room.
extension Intake {
    /// Gives a record back that is not due, and pauses its partition.
    /// - Returns: nil if it was given back.
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
        guard due > now.monotonicMilliseconds, written > poolReturnMilliseconds[lane] else { return message }
        deferred.wait(partition, untilMilliseconds: due)
        consumer.pause(partition, rereadingFrom: message.offset)
        return nil
    }

    /// A lane had no room for records of the fan-out topic, and asks for them again.
    func readAgain(_ rereading: FanoutRereading, _ report: LaneReport) {
        guard assignments.noteReadAgain(report) else { return }
        let partition = TopicPartition(topic: TopicIdentifier(index: report.topic), partition: report.partition)
        deferred.wait(partition, untilMilliseconds: loop.nowMilliseconds + rereading.pauseMilliseconds)
        consumer.pause(partition, rereadingFrom: rereading.offset)
    }

    /// Reads on in the partitions whose next record has come due, and in those of a lane that has a pool back.
    func readDue() {
        for (lane, mailbox) in mailboxes.enumerated() {
            guard let milliseconds = mailbox.takePoolReturn() else { continue }
            poolReturnMilliseconds[lane] = milliseconds
            resume(deferred.take { $0.topic.index == Self.deferredTopic && assignments[$0]?.lane == lane })
        }
        resume(deferred.takeDue(nowMilliseconds: loop.nowMilliseconds))
    }

    /// Starts to fetch again what neither waits for its time nor for its lane.
    func resume(_ partitions: [TopicPartition]) {
        consumer.resume(
            partitions.filter { partition in
                guard let lane = assignments[partition]?.lane else { return false }
                return !deferred.contains(partition) && !isPaused(lane: lane)
            }
        )
    }
}
