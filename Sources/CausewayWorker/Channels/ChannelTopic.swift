import CausewayCommandLine
import Kafka

/// The topic that announces channels to app servers. The keeper restores Redis' register from it. Blocks. Use it from one thread at a time.
final class ChannelTopic {
    private static let acknowledgementMilliseconds: Int64 = 15_000
    private static let readingDuration = Duration.seconds(60)
    // Calls with these limits cannot be interrupted, so they delay a worker's stop.
    private static let metadataMilliseconds: Int32 = 2_000
    private static let closeMilliseconds: Int64 = 1_000
    /// The interval between checks whether the task is cancelled.
    private static let flushMilliseconds: Int64 = 250

    private let name: String
    private let producerProperties: [KafkaProperties.Property]
    private let consumerProperties: [KafkaProperties.Property]
    private var open: (producer: Producer, topic: ProducerTopic)?

    init(
        name: String,
        producerProperties: [KafkaProperties.Property],
        consumerProperties: [KafkaProperties.Property]
    ) {
        self.name = name
        self.producerProperties = producerProperties
        self.consumerProperties = consumerProperties
    }

    deinit { close() }

    func close() {
        _ = open?.producer.close(deadlineMilliseconds: Self.closeMilliseconds)
        open = nil
    }

    /// Publishes an entry and waits for the acknowledgement.
    func publish(_ entry: ChannelEntry) throws(KafkaError) { try produce(entry.topicKey, entry.topicValue) }

    func withdraw(_ entry: ChannelEntry) throws(KafkaError) { try produce(entry.topicKey, nil) }

    private func produce(_ key: String, _ value: [UInt8]?) throws(KafkaError) {
        let (producer, topic) = try opened()
        let outcome = Array(key.utf8)
            .withUnsafeBytes { key in
                guard let value else { return producer.produce(topic: topic, key: key, value: nil, opaque: 1) }
                return value.withUnsafeBytes { producer.produce(topic: topic, key: key, value: $0, opaque: 1) }
            }
        var code: Int32 = -1
        if case .queued = outcome {
            var flushesLeft = Self.acknowledgementMilliseconds / Self.flushMilliseconds
            var isDone = false
            while !isDone, flushesLeft > 0, !Task.isCancelled {
                isDone = producer.flush(timeoutMilliseconds: Self.flushMilliseconds) { _, error, _ in code = error }
                flushesLeft -= 1
            }
        }
        guard code == 0 else {
            // The client may be unusable, so the next call opens a new one.
            close()
            if case .failed(let error) = outcome { throw error }
            throw KafkaError(code: code, reason: "\(name): the record was not acknowledged", isRetriable: true)
        }
    }

    private func opened() throws(KafkaError) -> (producer: Producer, topic: ProducerTopic) {
        if let open { return open }
        let producer = try Producer(properties: producerProperties)
        do throws(KafkaError) {
            let topic = try producer.topic(name)
            open = (producer, topic)
            return (producer, topic)
        } catch {
            _ = producer.close(deadlineMilliseconds: Self.closeMilliseconds)
            throw error
        }
    }

    /// The newest record of each key, without tombstones. Empty if the topic does not exist: then no audience needs a channel.
    func entries() throws(KafkaError) -> [ChannelEntry] {
        do throws(KafkaError) {
            return try read()
        } catch {
            guard error.isUnknownTopic else { throw error }
            return []
        }
    }

    private func read() throws(KafkaError) -> [ChannelEntry] {
        let contact = BrokerContact(of: name, properties: consumerProperties)
        let reader = try PartitionReader(properties: consumerProperties, topic: name, logHandler: contact)
        defer { _ = reader.close(deadlineMilliseconds: Self.closeMilliseconds) }
        guard reader.awaitBroker(timeoutMilliseconds: Self.metadataMilliseconds, {}) else { throw contact.error }
        var newest: [[UInt8]: ChannelEntry] = [:]
        let deadline = ContinuousClock.now + Self.readingDuration
        for partition in 0..<(try reader.partitionCount(timeoutMilliseconds: Self.metadataMilliseconds)) {
            let marks = try reader.watermarks(of: partition, timeoutMilliseconds: Self.metadataMilliseconds)
            let rest = try reader.read(
                partition,
                offsets: marks.low..<marks.high,
                until: { Task.isCancelled || ContinuousClock.now >= deadline },
                { message in
                    guard let key = message.key else { return }
                    newest[Array(key)] = message.value.flatMap { ChannelEntry(json: Array($0)) }
                }
            )
            guard rest == nil else {
                throw KafkaError(code: -1, reason: "\(name): could not be read in time", isRetriable: true)
            }
        }
        return newest.values.sorted { $0.topicKey < $1.topicKey }
    }
}
