import CausewayCommandLine
import Kafka

/// Produces a few records to one topic, and waits at most 15 s for their acknowledgements. Calls block. Use this object
/// from one thread at a time.
final class SynchronousProducer {
    /// One record to produce. A value of nil writes a tombstone, which deletes the key from a compacted topic.
    typealias Record = (key: [UInt8], value: [UInt8]?)

    private static let acknowledgementTimeoutMilliseconds: Int64 = 15_000
    // Closing the client cannot be interrupted, so it may delay the worker's stop by up to this time.
    private static let closeTimeoutMilliseconds: Int64 = 1_000
    /// A cancelled task stops its wait for acknowledgements after this time at the latest.
    private static let cancellationCheckIntervalMilliseconds: Int64 = 250

    private let topicName: String
    private let properties: [KafkaProperties.Property]
    private var client: (producer: Producer, topic: ProducerTopic)?
    /// Notes why the open client has no connection. The client refers to the monitor weakly, so this property keeps it
    /// alive.
    private var brokerMonitor: BrokerMonitor?

    init(topicName: String, properties: [KafkaProperties.Property]) {
        self.topicName = topicName
        self.properties = properties
    }

    deinit { close() }

    func close() {
        _ = client?.producer.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
        client = nil
    }

    /// Produces the records, and waits for Kafka's acknowledgements of all of them.
    ///
    /// - Throws: an error if any record is not acknowledged within 15 s, or before the task is cancelled. Kafka may
    ///   still have written some or all of the records.
    func produce(_ records: [Record]) throws(KafkaError) {
        do throws(KafkaError) {
            try produceAndWait(records)
        } catch {
            // The client may be unusable after an error, so close it. The next call of `produce` opens another client.
            close()
            throw error
        }
    }

    private func produceAndWait(_ records: [Record]) throws(KafkaError) {
        let (producer, topic) = try openIfNeeded()
        for record in records {
            let queueingResult = record.key.withUnsafeBytes { key in
                guard let value = record.value else {
                    return producer.produce(topic: topic, key: key, value: nil, tag: 1)
                }
                return value.withUnsafeBytes { producer.produce(topic: topic, key: key, value: $0, tag: 1) }
            }
            switch queueingResult {
            case .queued: continue
            case .failed(let error): throw error
            case .queueFull: throw makeUnacknowledgedError(code: -1)
            }
        }
        var (acknowledgedCount, failureCode) = (0, Int32(-1))
        var remainingFlushCount = Self.acknowledgementTimeoutMilliseconds / Self.cancellationCheckIntervalMilliseconds
        var isFlushed = false
        while !isFlushed, remainingFlushCount > 0, !Task.isCancelled {
            isFlushed = producer.flush(timeoutMilliseconds: Self.cancellationCheckIntervalMilliseconds) { _, code, _ in
                if code == 0 { acknowledgedCount += 1 } else { failureCode = code }
            }
            remainingFlushCount -= 1
        }
        guard acknowledgedCount == records.count else {
            if let reason = brokerMonitor?.failureReason(producer.hasReachedBroker) {
                throw KafkaError.noBroker(reason)
            }
            throw makeUnacknowledgedError(code: failureCode)
        }
    }

    private func makeUnacknowledgedError(code: Int32) -> KafkaError {
        KafkaError(code: code, reason: "\(topicName): records were not acknowledged", isRetriable: true)
    }

    private func openIfNeeded() throws(KafkaError) -> (producer: Producer, topic: ProducerTopic) {
        if let client { return client }
        let brokerMonitor = BrokerMonitor(of: topicName, properties: properties)
        let producer = try Producer(properties: properties, eventHandler: brokerMonitor)
        do throws(KafkaError) {
            let topic = try producer.makeTopic(topicName)
            client = (producer, topic)
            self.brokerMonitor = brokerMonitor
            return (producer, topic)
        } catch {
            _ = producer.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
            throw error
        }
    }
}
