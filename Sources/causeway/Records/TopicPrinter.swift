import CausewayCommandLine
import Glibc
import Kafka

/// Writes the values of a topic's records to standard output, from the topic's beginning, one on each line.
final class TopicPrinter: ConsumerHandler {
    /// How long the printer waits for the next record, or for the topic's end, before it gives up. With `follows`, it
    /// never gives up.
    static let silenceMillisecondsMax: Int64 = 30_000
    static let closeTimeoutMilliseconds: Int64 = 5_000
    /// How long closing may take if the consumer never reached a broker. Such a consumer has no group to leave.
    private static let unconnectedCloseTimeoutMilliseconds: Int64 = 100
    private static let pollPauseMicroseconds: UInt32 = 2_000
    /// The buffer is written when it has this many bytes, or when no further record is waiting.
    private static let bufferBytesMax = 1 << 20

    /// RD_KAFKA_RESP_ERR__TIMED_OUT, the error if the brokers send no records.
    private static let noRecordsError = KafkaError(
        code: -185,
        reason: "the brokers sent no records for \(silenceMillisecondsMax / 1_000) s"
    )

    private let topic: String
    private let follows: Bool
    private let brokerMonitor: BrokerMonitor
    private var consumer: Consumer?
    private var buffer: [UInt8] = []
    /// The partitions that are not read to their end yet.
    private var unfinishedPartitions: Set<TopicPartition> = []
    private var hasHadAssignment = false
    private var hasHadPartitions = false

    /// - Parameter follows: whether to wait for new records. If false, the printer stops when it has reached the end of
    ///   every partition.
    init(properties: [(name: String, value: String)], topic: String, follows: Bool) throws(KafkaError) {
        self.topic = topic
        self.follows = follows
        brokerMonitor = BrokerMonitor(of: "causeway results", properties: properties)
        consumer = try Consumer(
            properties: properties + [
                ("auto.offset.reset", "earliest"), ("enable.partition.eof", "true"), ("session.timeout.ms", "6000"),
                ("heartbeat.interval.ms", "1000"), ("fetch.wait.max.ms", "10"),
            ],
            topics: [topic],
            handler: self,
            eventHandler: brokerMonitor
        )
    }

    /// Prints until the end of the topic is reached, or forever with `follows`. Stops if standard output fails.
    ///
    /// - Throws: an error if the topic does not exist or cannot be read any more. Without `follows`, also if the
    ///   brokers send nothing for ``silenceMillisecondsMax`` before the end is reached.
    func printRecords() throws(KafkaError) {
        guard let consumer else { return }
        defer {
            flush()
            _ = consumer.close(
                timeoutMilliseconds: consumer.hasReachedBroker
                    ? Self.closeTimeoutMilliseconds : Self.unconnectedCloseTimeoutMilliseconds
            )
            self.consumer = nil
        }
        var deadlineMilliseconds = Clock.monotonicMilliseconds + Self.silenceMillisecondsMax
        // A failed write ends the loop, and `Causeway.main` reports the failure.
        while StandardStreams.outputFailure == nil, follows || !hasHadAssignment || !unfinishedPartitions.isEmpty {
            switch consumer.poll() {
            case .message(let message):
                if let value = message.value { append(value) }
                deadlineMilliseconds = Clock.monotonicMilliseconds + Self.silenceMillisecondsMax
            case .partitionEnd(let partition, _):
                unfinishedPartitions.remove(partition)
                deadlineMilliseconds = Clock.monotonicMilliseconds + Self.silenceMillisecondsMax
            case .error(let error) where error.isUnknownTopic && !hasHadPartitions:
                // The topic does not exist. Stop even with `follows`, because the consumer may notice a new topic only
                // after minutes. A consumer that has had partitions continues: the topic exists, and only this broker
                // does not know it yet.
                throw noTopicError
            case .error(let error):
                StandardStreams.printError("causeway results: \(error)")
                if error.isFatal || (!follows && !error.isRetriable) { throw error }
            case .none:
                brokerMonitor.printIfUnreached(consumer.hasReachedBroker)
                if !follows, Clock.monotonicMilliseconds > deadlineMilliseconds {
                    throw brokerMonitor.failureReason(consumer.hasReachedBroker).map { KafkaError.noBroker($0) }
                        ?? Self.noRecordsError
                }
                guard buffer.isEmpty else {
                    flush()
                    // Writing may have taken long, because the program that reads the output is slow. So the brokers
                    // get the whole time again.
                    deadlineMilliseconds = Clock.monotonicMilliseconds + Self.silenceMillisecondsMax
                    continue
                }
                usleep(Self.pollPauseMicroseconds)
            }
        }
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {
        hasHadAssignment = true
        if !partitions.isEmpty { hasHadPartitions = true }
        unfinishedPartitions.formUnion(partitions)
    }

    private var noTopicError: KafkaError {
        .unknownTopic(
            """
            the topic \(topic) does not exist at \(brokerMonitor.brokerAddresses), or this Kafka user may not read it; \
            `causeway topics --create` creates the topics of a deployment
            """
        )
    }

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {
        unfinishedPartitions.subtract(partitions)
    }

    private func append(_ value: UnsafeRawBufferPointer) {
        buffer.append(contentsOf: value)
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferBytesMax { flush() }
    }

    private func flush() {
        StandardStreams.writeOutput(buffer)
        buffer.removeAll(keepingCapacity: true)
    }
}
