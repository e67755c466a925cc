import Kafka

/// Produces lifetime commands to the commands topic. The methods block the calling thread. Use this object from one
/// thread at a time.
final class LifetimeCommandProducer {
    private let producer: SynchronousProducer

    init(name: String, properties: [KafkaProperties.Property]) {
        producer = SynchronousProducer(topicName: name, properties: properties)
    }

    func close() { producer.close() }

    /// Produces commands, and waits for Kafka's acknowledgements of all of them.
    ///
    /// - Throws: an error if any command is not acknowledged within 15 s, or before the task is cancelled. Kafka may
    ///   still have written some or all of the commands.
    func produce(_ commands: [LifetimeCommand]) throws(KafkaError) {
        try producer.produce(commands.map { ($0.key, $0.value) })
    }
}
