import Kafka
import Testbed
import Testing

/// Reads one topic of an embedded broker from its beginning.
final class TopicReader: ConsumerHandler {
    struct Record {
        var key: String?
        var value: String
    }

    private static let waitMillisecondsMax: Int64 = 120_000

    private var consumer: Consumer?
    private let wakeup = WakeupPipe()

    init(_ broker: EmbeddedBroker, topic: String) throws {
        let consumer = try Consumer(
            properties: [
                ("bootstrap.servers", broker.bootstrapServers), ("group.id", "reader of \(topic)"),
                ("auto.offset.reset", "earliest"),
                ("fetch.wait.max.ms", "10"),
            ],
            topics: [topic],
            handler: self
        )
        consumer.setWakeup(descriptor: wakeup.writeDescriptor)
        self.consumer = consumer
    }

    deinit {
        _ = consumer?.close(timeoutMilliseconds: 5_000)
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}

    /// Reads the next `count` records. Throws if no further record comes within the time limit.
    func read(_ count: Int) throws -> [Record] {
        let consumer = try #require(consumer)
        var records: [Record] = []
        while records.count < count {
            switch consumer.poll() {
            case .message(let message):
                records.append(
                    Record(
                        key: message.key.map { String(decoding: $0, as: UTF8.self) },
                        value: String(decoding: message.value ?? .init(start: nil, count: 0), as: UTF8.self)
                    )
                )
            case .none:
                try #require(
                    wakeup.waitBlocking(milliseconds: Self.waitMillisecondsMax),
                    "only \(records.count) of \(count) records came"
                )
            case .partitionEnd:
                continue
            case .error:
                continue
            }
        }
        return records
    }
}
