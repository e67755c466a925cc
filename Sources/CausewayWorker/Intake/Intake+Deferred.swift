import Delivery
import Kafka
import Reactor

/// The deferred topic is read when its records are due.
extension Intake {
    /// Keeps a record that is not due, and pauses its partition.
    /// - Returns: nil if it was kept.
    func passIfDue(_ message: consuming Message) -> Message? {
        let partition = TopicPartition(topic: message.topic, partition: message.partition)
        guard partition.topic.index == Self.deferredTopic, assignments[partition] != nil else { return message }
        let now = Moment(monotonicMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
        let due = DeferredPartitions.due(atWallMilliseconds: DeferredHeaders.dueMilliseconds(of: message), now: now)
        guard due > now.monotonicMilliseconds || deferred.contains(partition) else { return message }
        deferred.append(message, of: partition, dueMilliseconds: due)
        consumer.pause([partition])
        return nil
    }

    /// Deals what has come due, and reads on in its partitions.
    func dealDue() {
        for (partition, messages) in deferred.takeDue(nowMilliseconds: loop.nowMilliseconds) {
            for message in messages {
                guard let pointer = Message.Pointer(bitPattern: message) else { continue }
                if let due = passIfDue(Message(taking: pointer)) { _ = deal(due) }
            }
            resume([partition])
        }
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
