import Testbed
import Testing

@testable import Kafka

struct DeliveryReport: Equatable {
    var tag: UInt64
    var error: Int32
    var persistence: Persistence
}

/// A producer that keeps its reports. To await a report, it waits for its wake-up descriptor, and does not poll on a
/// timer.
final class TestProducer {
    let producer: Producer
    let wakeup = WakeupPipe()
    private(set) var reports: [DeliveryReport] = []

    init(_ broker: EmbeddedBroker, _ properties: [(name: String, value: String)] = []) throws {
        producer = try Producer(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("linger.ms", "1")] + properties
        )
        producer.setWakeup(descriptor: wakeup.writeDescriptor)
    }

    deinit {
        _ = producer.close(timeoutMilliseconds: 0)
    }

    func awaitReports(_ count: Int) async -> Bool {
        let deadlineMilliseconds = monotonicMilliseconds() + eventWaitMillisecondsMax
        while true {
            producer.pollReports { reports.append(DeliveryReport(tag: $0, error: $1, persistence: $2)) }
            if reports.count >= count { return true }
            let remainingMilliseconds = deadlineMilliseconds - monotonicMilliseconds()
            guard remainingMilliseconds > 0, await wakeup.wait(milliseconds: remainingMilliseconds) else {
                return false
            }
        }
    }

    @discardableResult
    func send(
        _ topic: ProducerTopic,
        partition: Int32 = -1,
        key: [UInt8]? = nil,
        value: [UInt8]?,
        tag: UInt64 = 0
    ) -> QueueingResult {
        withBytes(key) { key in
            withBytes(value) { value in
                producer.produce(topic: topic, partition: partition, key: key, value: value, tag: tag)
            }
        }
    }

    /// Produces `count` records to a partition, and waits for their acknowledgement. Their values are the
    /// numbers from `first` on, as text.
    func fill(_ topic: String, partition: Int32 = 0, count: Int, from first: Int = 0) async throws {
        let handle = try producer.makeTopic(topic)
        let previousReportCount = reports.count
        for number in first..<(first + count) {
            #expect(send(handle, partition: partition, value: Array(String(number).utf8)).isQueued)
        }
        #expect(await awaitReports(previousReportCount + count))
        #expect(reports.dropFirst(previousReportCount).allSatisfy { $0.error == 0 })
    }

    func close() {
        #expect(producer.close(timeoutMilliseconds: eventWaitMillisecondsMax) == .closed)
    }
}

func withBytes<Result>(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) -> Result) -> Result {
    guard let bytes else { return body(nil) }
    return bytes.withUnsafeBytes { body($0) }
}

extension QueueingResult {
    var isQueued: Bool {
        if case .queued = self { true } else { false }
    }

    var isQueueFull: Bool {
        if case .queueFull = self { true } else { false }
    }

    var error: KafkaError? {
        if case .failed(let error) = self { error } else { nil }
    }
}
