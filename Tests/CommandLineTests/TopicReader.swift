import Glibc
import Kafka
import Testing

/// Reads one topic of an embedded broker from its beginning.
final class TopicReader: ConsumerHandler {
    struct Record {
        var key: String?
        var value: String
    }

    private static let limitMilliseconds = 120_000

    private var consumer: Consumer?
    private var ends: [Int32] = [-1, -1]

    init(_ broker: EmbeddedBroker, topic: String) throws {
        try #require(pipe(&ends) == 0)
        for end in ends { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
        let consumer = try Consumer(
            properties: [
                ("bootstrap.servers", broker.bootstrapServers), ("group.id", "reader of \(topic)"),
                ("auto.offset.reset", "earliest"),
                ("fetch.wait.max.ms", "10"),
            ],
            topics: [topic],
            handler: self
        )
        consumer.setWakeup(descriptor: ends[1])
        self.consumer = consumer
    }

    deinit {
        _ = consumer?.close(deadlineMilliseconds: 5_000)
        for end in ends { close(end) }
    }

    func assigned(_ partitions: [TopicPartition]) {}
    func revoked(_ partitions: [TopicPartition], lost: Bool) {}

    /// The first `count` records; fewer if no more come within the limit.
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
                var waiting = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
                try #require(
                    poll(&waiting, 1, Int32(Self.limitMilliseconds)) > 0,
                    "no more than \(records.count) records come"
                )
                var drained = [UInt8](repeating: 0, count: 1_024)
                while Glibc.read(ends[0], &drained, drained.count) > 0 {}
            case .partitionEnd:
                continue
            case .error:
                continue
            }
        }
        return records
    }
}
