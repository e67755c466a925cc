import Dispatch
import Glibc
import Testing

@testable import Kafka

/// A non-blocking pipe instead of an eventfd: librdkafka writes to either.
final class WakeupPipe: Sendable {
    let reading: Int32
    let writing: Int32
    private let waiting = DispatchQueue(label: "wakeup")

    init() {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0)
        for end in ends { precondition(fcntl(end, F_SETFL, O_NONBLOCK) == 0) }
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Waits until something is written, and reads it. Returns false if the time is over.
    ///
    /// The embedded broker lets each group wait for 3 s before it elects a leader. So tests wait in parallel, and none blocks a thread that
    /// another test needs.
    func wait(milliseconds: Int64) async -> Bool {
        await withCheckedContinuation { continuation in
            waiting.async { continuation.resume(returning: self.waitHere(milliseconds: milliseconds)) }
        }
    }

    func waitHere(milliseconds: Int64) -> Bool {
        var descriptor = pollfd(fd: reading, events: Int16(POLLIN), revents: 0)
        guard poll(&descriptor, 1, Int32(clamping: milliseconds)) > 0 else { return false }
        var bytes = [UInt8](repeating: 0, count: 4096)
        while read(reading, &bytes, bytes.count) > 0 {}
        return true
    }
}

func monotonicMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}

/// The maximum wait of a test for an event: far longer than an event takes on the slowest machine.
let eventLimitMilliseconds: Int64 = 120_000

/// A copy of a record for comparison.
struct Received: Equatable {
    var topic: Int32
    var partition: Int32
    var offset: Int64
    var key: [UInt8]?
    var value: [UInt8]?
    var headers: [Header] = []
    /// As looked up by name.
    var lastError: [UInt8]?
    var hasLastSource: Bool
    /// As seen without asking librdkafka.
    var certainlyHasNoHeaders = false

    struct Header: Equatable {
        var name: String
        var value: [UInt8]?
    }

    init(_ message: borrowing Message) {
        topic = message.topic.index
        partition = message.partition
        offset = message.offset
        key = message.key.map { [UInt8]($0) }
        value = message.value.map { [UInt8]($0) }
        var found: [Header] = []
        message.headers?
            .visit { name, value in
                found.append(Header(name: String(decoding: name, as: UTF8.self), value: value.map { [UInt8]($0) }))
            }
        headers = found
        lastError = message.headers?.last("error").map { [UInt8]($0) }
        hasLastSource = message.headers?.last("source") != nil
        if let key = message.key, let value = message.value {
            certainlyHasNoHeaders = RecordFormat.certainlyHasNoHeaders(key: key, value: value)
        }
    }
}

/// The events that a consumer told its handler.
final class RebalanceRecord: ConsumerHandler {
    private(set) var assigned: [[TopicPartition]] = []
    private(set) var revoked: [(partitions: [TopicPartition], lost: Bool)] = []
    var whenRevoked: (([TopicPartition]) -> Void)?

    func assigned(_ partitions: [TopicPartition]) { assigned.append(partitions) }

    func revoked(_ partitions: [TopicPartition], lost: Bool) {
        revoked.append((partitions, lost))
        whenRevoked?(partitions)
    }
}

/// A consumer that is polled only when its wake-up descriptor is written, and that records all events.
final class TestConsumer: CustomStringConvertible {
    let consumer: Consumer
    let record = RebalanceRecord()
    private let wakeup = WakeupPipe()
    private(set) var received: [Received] = []
    private(set) var errors: [KafkaError] = []
    private(set) var ends: [TopicPartition] = []
    private(set) var endOffsets: [Int64] = []
    private(set) var assignments: [Assignment] = []

    /// The state when an assignment was reported, before the other events of the same poll.
    struct Assignment: Equatable {
        var startPositions: [TopicPartition: SeekPosition]
        /// The records that had come before.
        var received: Int
    }

    var assignedEvents: [[TopicPartition]] { record.assigned }
    var revokedEvents: [(partitions: [TopicPartition], lost: Bool)] { record.revoked }

    static let defaults: [(name: String, value: String)] = [
        ("auto.offset.reset", "earliest"), ("fetch.wait.max.ms", "10"), ("auto.commit.interval.ms", "50"),
        // If a group was used before, the embedded broker waits for about a session before it elects a leader.
        ("session.timeout.ms", "4000"), ("heartbeat.interval.ms", "100"),
    ]

    init(
        _ broker: EmbeddedBroker,
        group: String,
        topics: [String],
        _ properties: [(name: String, value: String)] = []
    ) throws {
        let needed = [("bootstrap.servers", broker.bootstrapServers), ("group.id", group)]
        consumer = try Consumer(properties: needed + Self.defaults + properties, topics: topics, handler: record)
        consumer.setWakeup(descriptor: wakeup.writing)
    }

    deinit {
        _ = consumer.close(deadlineMilliseconds: 0)
    }

    /// Whether the descriptor has been written; the written bytes are read off.
    func isWoken(withinMilliseconds milliseconds: Int64) async -> Bool {
        _ = await wakeup.wait(milliseconds: 0)
        return await wakeup.wait(milliseconds: milliseconds)
    }

    /// The state to report when an expected event does not come.
    var description: String {
        "a consumer, member \(consumer.memberIdentifier), with \(received.count) records, \(consumer.queuedCount) queued, "
            + "assignments \(assignedEvents), revocations \(revokedEvents.map(\.partitions)), starts \(consumer.startPositions), "
            + "errors \(errors)"
    }

    /// Polls until the condition holds. The test waits only for the descriptor.
    func run(until condition: (TestConsumer) -> Bool) async -> Bool {
        let limit = monotonicMilliseconds() + eventLimitMilliseconds
        while true {
            while step() {
                if condition(self) { return true }
            }
            if condition(self) { return true }
            let remaining = limit - monotonicMilliseconds()
            guard remaining > 0, await wakeup.wait(milliseconds: remaining) else { break }
        }
        if condition(self) { return true }
        Issue.record("\(self) timed out")
        return false
    }

    /// Waits for the next record itself. The embedded broker answers a fetch with one batch, and records that were produced one after the
    /// other may be in several batches.
    func nextMessage() async -> Message? {
        let limit = monotonicMilliseconds() + eventLimitMilliseconds
        while true {
            repeat {
                if let message = pollMessage() { return message }
            } while consumer.queuedCount > 0
            let remaining = limit - monotonicMilliseconds()
            guard remaining > 0, await wakeup.wait(milliseconds: remaining) else { return nil }
        }
    }

    private func pollMessage() -> Message? {
        guard case .message(let message) = consumer.poll() else { return nil }
        return message
    }

    /// One poll; false if nothing was waiting. One poll may report an assignment and also bring one of its records.
    func step() -> Bool {
        let event = consumer.poll()
        while assignments.count < record.assigned.count {
            assignments.append(Assignment(startPositions: consumer.startPositions, received: received.count))
        }
        switch event {
        case .none: return false
        case .message(let message): received.append(Received(message))
        case .partitionEnd(let partition, let offset):
            ends.append(partition)
            endOffsets.append(offset)
        case .error(let error): errors.append(error)
        }
        return true
    }

    func close(deadlineMilliseconds: Int64 = eventLimitMilliseconds) -> CloseOutcome {
        consumer.close(deadlineMilliseconds: deadlineMilliseconds)
    }
}

struct Report: Equatable {
    var opaque: UInt64
    var error: Int32
    var persistence: Persistence
}

/// A producer whose reports are polled only when its wake-up descriptor is written.
final class TestProducer {
    let producer: Producer
    let wakeup = WakeupPipe()
    private(set) var reports: [Report] = []

    init(_ broker: EmbeddedBroker, _ properties: [(name: String, value: String)] = []) throws {
        producer = try Producer(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("linger.ms", "1")] + properties
        )
        producer.setWakeup(descriptor: wakeup.writing)
    }

    deinit {
        _ = producer.close(deadlineMilliseconds: 0)
    }

    func awaitReports(_ count: Int) async -> Bool {
        let limit = monotonicMilliseconds() + eventLimitMilliseconds
        while true {
            producer.pollReports { reports.append(Report(opaque: $0, error: $1, persistence: $2)) }
            if reports.count >= count { return true }
            let remaining = limit - monotonicMilliseconds()
            guard remaining > 0, await wakeup.wait(milliseconds: remaining) else { return false }
        }
    }

    @discardableResult
    func send(
        _ topic: ProducerTopic,
        partition: Int32 = -1,
        key: [UInt8]? = nil,
        value: [UInt8]?,
        opaque: UInt64 = 0
    ) -> ProduceOutcome {
        withBytes(key) { key in
            withBytes(value) { value in
                producer.produce(topic: topic, partition: partition, key: key, value: value, opaque: opaque)
            }
        }
    }

    /// Produces `count` records "0", "1", … to one partition, acknowledged before this returns.
    func fill(_ topic: String, partition: Int32 = 0, count: Int, from first: Int = 0) async throws {
        let handle = try producer.topic(topic)
        let before = reports.count
        for number in first..<(first + count) {
            #expect(send(handle, partition: partition, value: Array(String(number).utf8)).isQueued)
        }
        #expect(await awaitReports(before + count))
        #expect(reports.dropFirst(before).allSatisfy { $0.error == 0 })
    }

    func close() {
        #expect(producer.close(deadlineMilliseconds: eventLimitMilliseconds) == .closed)
    }
}

func withBytes<Result>(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) -> Result) -> Result {
    guard let bytes else { return body(nil) }
    return bytes.withUnsafeBytes { body($0) }
}

extension ProduceOutcome {
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

extension [Received] {
    /// The values as numbers, in order of arrival.
    var numbers: [Int] { compactMap { $0.value.flatMap { Int(String(decoding: $0, as: UTF8.self)) } } }
}
