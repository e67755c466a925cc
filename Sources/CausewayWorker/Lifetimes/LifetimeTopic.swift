import Kafka

/// Produces commands to the commands topic. Blocks. Use it from one thread at a time.
final class LifetimeTopic {
    private static let acknowledgementMilliseconds: Int64 = 15_000
    // This cannot be interrupted, so it delays a worker's stop.
    private static let closeMilliseconds: Int64 = 1_000
    /// The interval between checks whether the task is cancelled.
    private static let flushMilliseconds: Int64 = 250

    private let name: String
    private let properties: [KafkaProperties.Property]
    private var open: (producer: Producer, topic: ProducerTopic)?

    init(name: String, properties: [KafkaProperties.Property]) {
        self.name = name
        self.properties = properties
    }

    deinit { close() }

    func close() {
        _ = open?.producer.close(deadlineMilliseconds: Self.closeMilliseconds)
        open = nil
    }

    /// Produces commands and waits until all are acknowledged.
    ///
    /// - Throws: an error if one is not. Then each of them may have been written or not.
    func produce(_ commands: [LifetimeCommand]) throws(KafkaError) {
        let (producer, topic) = try opened()
        var (acknowledged, failure) = (0, Int32(0))
        for command in commands {
            let outcome = command.key.withUnsafeBytes { key in
                command.value.withUnsafeBytes { producer.produce(topic: topic, key: key, value: $0, opaque: 1) }
            }
            switch outcome {
            case .queued: continue
            case .failed(let error):
                close()
                throw error
            case .queueFull: failure = -1
            }
        }
        var flushesLeft = Self.acknowledgementMilliseconds / Self.flushMilliseconds
        var isDone = false
        while !isDone, flushesLeft > 0, !Task.isCancelled {
            isDone = producer.flush(timeoutMilliseconds: Self.flushMilliseconds) { _, code, _ in
                if code == 0 { acknowledged += 1 } else { failure = code }
            }
            flushesLeft -= 1
        }
        guard failure == 0, acknowledged == commands.count else {
            // The client may be unusable, so the next call opens a new one.
            close()
            throw KafkaError(code: failure, reason: "\(name): commands were not acknowledged", isRetriable: true)
        }
    }

    private func opened() throws(KafkaError) -> (producer: Producer, topic: ProducerTopic) {
        if let open { return open }
        let producer = try Producer(properties: properties)
        do throws(KafkaError) {
            let topic = try producer.topic(name)
            open = (producer, topic)
            return (producer, topic)
        } catch {
            _ = producer.close(deadlineMilliseconds: Self.closeMilliseconds)
            throw error
        }
    }
}
