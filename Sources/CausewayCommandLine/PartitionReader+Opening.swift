import Kafka

extension PartitionReader {
    private static let closeTimeoutAfterFailureMilliseconds: Int64 = 1_000

    /// Creates a reader of a topic, and waits until a broker responds. The caller must close the reader.
    ///
    /// - Parameters:
    ///   - command: the command that reads, for a message to the user while no broker responds; nil: no message.
    ///   - timeoutMilliseconds: how long a broker may take to respond.
    /// - Throws: an error if the reader cannot be created, or if no broker responds in time. In the second case, the
    ///   reader is closed first.
    package static func open(
        topic: String,
        for command: String?,
        properties: [KafkaProperties.Property],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> PartitionReader {
        let brokerMonitor = BrokerMonitor(of: command ?? topic, properties: properties)
        let reader = try PartitionReader(properties: properties, topic: topic, eventHandler: brokerMonitor)
        let hasReachedBroker = reader.awaitBroker(timeoutMilliseconds: timeoutMilliseconds) {
            if command != nil { brokerMonitor.printIfUnreached(false) }
        }
        guard hasReachedBroker else {
            // Make the error before the close, which may take time: the error says for how long no broker has
            // responded.
            let error = brokerMonitor.noBrokerError
            _ = reader.close(timeoutMilliseconds: closeTimeoutAfterFailureMilliseconds)
            throw error
        }
        return reader
    }
}
