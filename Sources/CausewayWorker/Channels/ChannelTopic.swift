import CausewayCommandLine
import Kafka

/// What `causeway.channels` says at one moment.
struct PublishedChannels {
    /// The newest record of a key, if this release cannot read the record.
    struct UnreadableRecord: Equatable {
        /// The maximum number of bytes of a value that are kept: far more than an entry of any release needs. A longer
        /// value is cut off.
        static let valueBytesMax = 16_384

        var key: String
        var value: [UInt8]
        var partition: Int32
        var offset: Int64

        /// Whether the record is about a channel of this app in this environment.
        func concerns(_ appEnvironment: AppEnvironment) -> Bool { key.hasPrefix(Self.makeKeyPrefix(appEnvironment)) }

        func audience(in appEnvironment: AppEnvironment) -> String {
            String(key.dropFirst(Self.makeKeyPrefix(appEnvironment).count))
        }

        private static func makeKeyPrefix(_ appEnvironment: AppEnvironment) -> String {
            "\(appEnvironment.app)/\(appEnvironment.environment)/"
        }
    }

    /// The newest record of each key. Leaves out a key if its newest record is a tombstone, or if this release cannot
    /// read its newest record.
    var entries: [ChannelEntry] = []
    /// The newest records that this release cannot read, each with another key. An older record of the key is not used
    /// instead: its channel may be deleted, and the audience may have another.
    var unreadableRecords: [UnreadableRecord] = []
    /// Whether the brokers do not know the topic. If so, an audience without a record may still have a channel.
    var isTopicMissing = false

    /// Returns the entries and unreadable records of one app in one environment.
    func filtered(for appEnvironment: AppEnvironment) -> PublishedChannels {
        PublishedChannels(
            entries: entries.filter {
                $0.app == appEnvironment.app && $0.environment == appEnvironment.environment
            },
            unreadableRecords: unreadableRecords.filter { $0.concerns(appEnvironment) },
            isTopicMissing: isTopicMissing
        )
    }
}

/// The topic `causeway.channels`, which tells app servers the channels of audiences. The keeper restores Redis'
/// registry from the topic. The methods block the calling thread. Use this object from one thread at a time.
final class ChannelTopic {
    private static let readTimeout = Duration.seconds(60)
    // A call with one of the next two timeouts cannot be interrupted, so it may delay a worker's stop by this time.
    private static let metadataTimeoutMilliseconds: Int32 = 2_000
    private static let closeTimeoutMilliseconds: Int64 = 1_000

    let name: String
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
        try producer.produce([(Array(entry.recordKey.utf8), entry.recordValue)])
    }

    /// Publishes a tombstone for the entry's audience and waits for the acknowledgement.
    func publishTombstone(forAudienceOf entry: ChannelEntry) throws(KafkaError) {
        try producer.produce([(Array(entry.recordKey.utf8), nil)])
    }

    /// Reads the newest record of each key of the channels topic, without tombstones.
    ///
    /// - Parameter mustExist: whether this method throws an error if the brokers do not know the topic. They may not
    ///   know an existing topic for a while, and all its channels would then seem to be missing. False: an unknown
    ///   topic gives no entries.
    func readChannels(mustExist: Bool = true) throws(KafkaError) -> PublishedChannels {
        let reader = try PartitionReader.open(
            topic: name,
            for: nil,
            properties: consumerProperties,
            timeoutMilliseconds: Self.metadataTimeoutMilliseconds
        )
        defer { _ = reader.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds) }
        var newestEntries: [[UInt8]: ChannelEntry] = [:]
        var unreadableRecords: [[UInt8]: PublishedChannels.UnreadableRecord] = [:]
        let deadline = ContinuousClock.now + Self.readTimeout
        let partitionCount: Int32
        do throws(KafkaError) {
            partitionCount = try reader.fetchPartitionCount(timeoutMilliseconds: Self.metadataTimeoutMilliseconds)
        } catch {
            guard error.isUnknownTopic else { throw error }
            guard mustExist else { return PublishedChannels(isTopicMissing: true) }
            throw KafkaError.unknownTopic(
                "the brokers do not know \(name). If it does not exist, create it (causeway topics --create)"
            )
        }
        guard partitionCount > 0 else {
            throw KafkaError(code: -1, reason: "\(name): has no partitions", isRetriable: true)
        }
        for partition in 0..<partitionCount {
            let watermarks = try reader.fetchWatermarks(
                of: partition,
                timeoutMilliseconds: Self.metadataTimeoutMilliseconds
            )
            let unreadOffset = try reader.read(
                partition,
                offsets: watermarks.logStartOffset..<watermarks.logEndOffset,
                until: { Task.isCancelled || ContinuousClock.now >= deadline },
                { message in
                    guard let key = message.key.map({ Array($0) }) else { return }
                    let entry = message.value.flatMap { ChannelEntry(json: Array($0)) }
                    newestEntries[key] = entry
                    unreadableRecords[key] = nil
                    guard entry == nil, let value = message.value else { return }
                    unreadableRecords[key] = .init(
                        key: String(decoding: key, as: UTF8.self),
                        value: Array(value.prefix(PublishedChannels.UnreadableRecord.valueBytesMax)),
                        partition: partition,
                        offset: message.offset
                    )
                }
            )
            guard unreadOffset == nil else {
                throw KafkaError(code: -1, reason: "\(name): could not be read in time", isRetriable: true)
            }
        }
        return PublishedChannels(
            entries: newestEntries.values.sorted { $0.recordKey < $1.recordKey },
            unreadableRecords: unreadableRecords.values.sorted { $0.key < $1.key }
        )
    }
}
