import Kafka

/// Produces commands to the commands topic. Blocks. Use it from one thread at a time.
final class LifetimeTopic {
    private let producer: AwaitedProducer

    init(name: String, properties: [KafkaProperties.Property]) {
        producer = AwaitedProducer(topicName: name, properties: properties)
    }

    func close() { producer.close() }

    /// Produces commands and waits until all are acknowledged.
    ///
    /// - Throws: an error if one is not. Then each of them may have been written or not.
    func produce(_ commands: [LifetimeCommand]) throws(KafkaError) {
        try producer.produce(commands.map { ($0.key, $0.value) })
    }
}
