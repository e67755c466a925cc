import Testbed
import Testing

@testable import Kafka

/// Records the assignments and revocations of a consumer.
final class RebalanceRecorder: ConsumerHandler {
    private(set) var assignedEvents: [[TopicPartition]] = []
    private(set) var revokedEvents: [(partitions: [TopicPartition], areLost: Bool)] = []
    var onRevoked: (([TopicPartition]) -> Void)?

    func partitionsAssigned(_ partitions: [TopicPartition]) { assignedEvents.append(partitions) }

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {
        revokedEvents.append((partitions, areLost))
        onRevoked?(partitions)
    }
}

/// A consumer that records all its events. When its queue is empty, it waits for its wake-up descriptor, and does not
/// poll on a timer.
final class TestConsumer: CustomStringConvertible {
    let consumer: Consumer
    let recorder = RebalanceRecorder()
    private let wakeup = WakeupPipe()
    private(set) var receivedRecords: [ReceivedRecord] = []
    private(set) var errors: [KafkaError] = []
    /// The partitions that were read to the end of their log, in the order of the events.
    private(set) var partitionsReadToEnd: [TopicPartition] = []
    /// The offset of the end in each of these events.
    private(set) var reachedEndOffsets: [Int64] = []
    private(set) var assignments: [Assignment] = []

    /// What was known when an assignment was reported, before later events of the same poll.
    struct Assignment: Equatable {
        var startPositions: [TopicPartition: SeekPosition]
        /// The number of records that had come before the assignment.
        var receivedCount: Int
    }

    var assignedEvents: [[TopicPartition]] { recorder.assignedEvents }
    var revokedEvents: [(partitions: [TopicPartition], areLost: Bool)] { recorder.revokedEvents }

    static let defaults: [(name: String, value: String)] = [
        ("auto.offset.reset", "earliest"), ("fetch.wait.max.ms", "10"), ("auto.commit.interval.ms", "50"),
        // After the group's last consumer is gone, the embedded broker waits for about the session timeout
        // before it elects a leader.
        ("session.timeout.ms", "4000"), ("heartbeat.interval.ms", "100"),
    ]

    init(
        _ broker: EmbeddedBroker,
        group: String,
        topics: [String],
        _ properties: [(name: String, value: String)] = []
    ) throws {
        let requiredProperties = [("bootstrap.servers", broker.bootstrapServers), ("group.id", group)]
        consumer = try Consumer(
            properties: requiredProperties + Self.defaults + properties,
            topics: topics,
            handler: recorder
        )
        consumer.setWakeup(descriptor: wakeup.writeDescriptor)
    }

    deinit {
        _ = consumer.close(timeoutMilliseconds: 0)
    }

    /// Whether the client writes to the wake-up descriptor within this time. Discards earlier bytes first.
    func isWoken(withinMilliseconds milliseconds: Int64) async -> Bool {
        _ = await wakeup.wait(milliseconds: 0)
        return await wakeup.wait(milliseconds: milliseconds)
    }

    /// What a test reports when an expected event does not come.
    var description: String {
        "a consumer, member \(consumer.memberIdentifier), with \(receivedRecords.count) records, \(consumer.queuedEventCount) queued, "
            + "assignments \(assignedEvents), revocations \(revokedEvents.map(\.partitions)), starts \(consumer.startPositions), "
            + "errors \(errors)"
    }

    /// Polls until the condition holds, at most for `eventWaitMillisecondsMax`.
    func run(until condition: (TestConsumer) -> Bool) async -> Bool {
        let deadlineMilliseconds = monotonicMilliseconds() + eventWaitMillisecondsMax
        while true {
            while step() {
                if condition(self) { return true }
            }
            if condition(self) { return true }
            let remainingMilliseconds = deadlineMilliseconds - monotonicMilliseconds()
            guard remainingMilliseconds > 0, await wakeup.wait(milliseconds: remainingMilliseconds) else { break }
        }
        if condition(self) { return true }
        Issue.record("\(self) timed out")
        return false
    }

    /// Polls until the next record comes, and returns it; nil if none comes within `eventWaitMillisecondsMax`. Even a
    /// record that was produced together with the previous one may come later, because the embedded broker responds to
    /// a fetch with one batch.
    func nextMessage() async -> Message? {
        let deadlineMilliseconds = monotonicMilliseconds() + eventWaitMillisecondsMax
        while true {
            repeat {
                if let message = pollMessage() { return message }
            } while consumer.queuedEventCount > 0
            let remainingMilliseconds = deadlineMilliseconds - monotonicMilliseconds()
            guard remainingMilliseconds > 0, await wakeup.wait(milliseconds: remainingMilliseconds) else { return nil }
        }
    }

    private func pollMessage() -> Message? {
        guard case .message(let message) = consumer.poll() else { return nil }
        return message
    }

    /// Polls once; returns false if no event was waiting. One poll may report an assignment and a record.
    func step() -> Bool {
        let event = consumer.poll()
        while assignments.count < recorder.assignedEvents.count {
            assignments.append(
                Assignment(startPositions: consumer.startPositions, receivedCount: receivedRecords.count)
            )
        }
        switch event {
        case .none: return false
        case .message(let message): receivedRecords.append(ReceivedRecord(message))
        case .partitionEnd(let partition, let offset):
            partitionsReadToEnd.append(partition)
            reachedEndOffsets.append(offset)
        case .error(let error): errors.append(error)
        }
        return true
    }

    func close(timeoutMilliseconds: Int64 = eventWaitMillisecondsMax) -> CloseResult {
        consumer.close(timeoutMilliseconds: timeoutMilliseconds)
    }
}
