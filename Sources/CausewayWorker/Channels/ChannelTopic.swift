import CausewayCommandLine
import Kafka

/// The topic that announces channels to app servers (`causeway.channels`). The keeper restores Redis' register from
/// the topic. Calls block. Use this object from one thread at a time.
final class ChannelTopic {
    private static let readTimeout = Duration.seconds(60)
    // Calls with these limits cannot be interrupted, so each may delay a worker's stop by its limit.
    private static let metadataTimeoutMilliseconds: Int32 = 2_000
    private static let closeTimeoutMilliseconds: Int64 = 1_000

    private let name: String
    private let producer: SynchronousProducer
    private let consumerProperties: [KafkaProperties.Property]

    init(
        name: String,
        producerProperties: [KafkaProperties.Property],
        consumerProperties: [KafkaProperties.Property]
    ) {
        self.name = name
        producer = SynchronousProducer(topicName: name, properties: producerProperties)
        self.consumerProperties = consumerProperties
    }

    func close() { producer.close() }

    /// Publishes an entry and waits for the acknowledgement.
    func publish(_ entry: ChannelEntry) throws(KafkaError) {
        try producer.produce([(Array(entry.topicKey.utf8), entry.topicValue)])
    }

    func unpublish(_ entry: ChannelEntry) throws(KafkaError) {
        try producer.produce([(Array(entry.topicKey.utf8), nil)])
    }

    /// Reads the newest entry of each key, without tombstones. Returns no entries if the topic does not exist: then no
    /// channel has been published.
    func readEntries() throws(KafkaError) -> [ChannelEntry] {
        do throws(KafkaError) {
            return try readNewestEntries()
        } catch {
            guard error.isUnknownTopic else { throw error }
            return []
        }
    }

    private func readNewestEntries() throws(KafkaError) -> [ChannelEntry] {
        let reader = try PartitionReader.open(
            topic: name,
            for: nil,
            properties: consumerProperties,
            timeoutMilliseconds: Self.metadataTimeoutMilliseconds
        )
        defer { _ = reader.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds) }
        var newestEntries: [[UInt8]: ChannelEntry] = [:]
        let deadline = ContinuousClock.now + Self.readTimeout
        for partition in 0..<(try reader.fetchPartitionCount(timeoutMilliseconds: Self.metadataTimeoutMilliseconds)) {
            let watermarks = try reader.fetchWatermarks(
                of: partition,
                timeoutMilliseconds: Self.metadataTimeoutMilliseconds
            )
            let unreadOffset = try reader.read(
                partition,
                offsets: watermarks.low..<watermarks.high,
                until: { Task.isCancelled || ContinuousClock.now >= deadline },
                { message in
                    guard let key = message.key else { return }
                    newestEntries[Array(key)] = message.value.flatMap { ChannelEntry(json: Array($0)) }
                }
            )
            guard unreadOffset == nil else {
                throw KafkaError(code: -1, reason: "\(name): could not be read in time", isRetriable: true)
            }
        }
        return newestEntries.values.sorted { $0.topicKey < $1.topicKey }
    }
}
