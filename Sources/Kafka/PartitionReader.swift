import CRdkafka
import Glibc

/// Reads ranges of a topic's partitions without being a member of a group. It commits nothing, so it needs no
/// permission for a group. Only one thread may use a reader.
///
/// Calls wait for the brokers, at most until their timeout. Exception: `read(_:offsets:until:_:)` waits for records
/// until `mustStop` returns true.
public final class PartitionReader {
    let client: OpaquePointer
    private let callbackContext: CallbackContext
    private var topics: ClientTopics
    private(set) var isOpen = true

    /// Properties that reading depends on, so they override the caller's properties.
    private static let fixedProperties: [KafkaProperties.Property] = [
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        // The last offset before the log's end may be a transaction's marker, for which librdkafka returns no record.
        // Only with this property does librdkafka report that the end is reached.
        ("enable.partition.eof", "true"),
        // If the records at an offset were deleted, reading must fail and not continue at another position.
        ("auto.offset.reset", "error"),
    ]
    /// Properties that would make the reader a member of a group.
    private static let groupMembershipPropertyNames: Set<String> = ["group.id", "group.instance.id"]
    /// The longest wait for one record. It is short, because `read` calls `mustStop` only between two waits.
    private static let pollTimeoutMilliseconds: Int32 = 100

    /// - Parameter properties: a consumer's properties. `bootstrap.servers` is required; properties of group membership
    ///   are ignored.
    public init(
        properties: [(name: String, value: String)],
        topic: String,
        eventHandler: (any ClientEventHandler)? = nil
    ) throws(KafkaError) {
        let callbackContext = CallbackContext(eventHandler: eventHandler)
        let configuration = ClientConfiguration()
        try configuration.apply(
            defaults: KafkaProperties.consumerDefaults,
            overrides: properties.filter { !Self.groupMembershipPropertyNames.contains($0.name) }
                + Self.fixedProperties,
            rules: KafkaProperties.commonRules
        )
        try configuration.require("bootstrap.servers", reason: "is required")
        callbackContext.install(on: configuration)
        let client = try configuration.makeClient(RD_KAFKA_CONSUMER)
        rd_kafka_set_log_queue(client, nil)
        var topics = ClientTopics()
        do throws(KafkaError) {
            try topics.add(topic, to: client)
        } catch {
            withExtendedLifetime(callbackContext) { rd_kafka_destroy(client) }
            throw error
        }
        self.topics = topics
        self.callbackContext = callbackContext
        self.client = client
    }

    deinit {
        precondition(!isOpen, "a reader must be closed before it is released")
    }

    private var topicHandle: OpaquePointer { topics.handle(of: TopicIdentifier(index: 0)) }
    private var topicName: UnsafeMutablePointer<CChar> { topics.name(of: TopicIdentifier(index: 0)) }

    /// Asks how many partitions the topic has.
    public func fetchPartitionCount(timeoutMilliseconds: Int32) throws(KafkaError) -> Int32 {
        try fetchMetadata(timeoutMilliseconds: timeoutMilliseconds) { $0.partition_cnt }
    }

    /// Asks which partitions of the topic have no leader now. Until such a partition has a leader, nobody can read its
    /// records or its offsets.
    public func fetchPartitionsWithoutLeader(timeoutMilliseconds: Int32) throws(KafkaError) -> Set<Int32> {
        try fetchMetadata(timeoutMilliseconds: timeoutMilliseconds) { topic in
            let partitions = UnsafeBufferPointer(start: topic.partitions, count: Int(topic.partition_cnt))
            return Set(partitions.filter { $0.leader < 0 }.map(\.id))
        }
    }

    /// Asks for the topic's metadata, and passes it to `body`.
    private func fetchMetadata<Value>(
        timeoutMilliseconds: Int32,
        _ body: (rd_kafka_metadata_topic) -> Value
    ) throws(KafkaError) -> Value {
        precondition(isOpen)
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let code = rd_kafka_metadata(client, 0, topicHandle, &metadata, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let metadata else { throw makeError(code) }
        defer { rd_kafka_metadata_destroy(metadata) }
        guard metadata.pointee.topic_cnt == 1, let topicMetadata = metadata.pointee.topics else {
            throw makeError(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        }
        let topicCode = topicMetadata.pointee.err
        guard topicCode == RD_KAFKA_RESP_ERR_NO_ERROR else { throw makeError(topicCode) }
        return body(topicMetadata.pointee)
    }

    /// Returns the partition to which a producer writes a record with this key. Nil if it is chosen at random, or if
    /// the partitioner is not known here, the key is empty, or the topic has no partition.
    ///
    /// - Parameter partitioner: the producer's property `partitioner`; nil for the one in
    ///   ``KafkaProperties/producerDefaults``.
    public func partition(of key: [UInt8], among partitionCount: Int32, partitioner: String?) -> Int32? {
        precondition(isOpen)
        guard partitionCount > 0, !key.isEmpty else { return nil }
        let partitionerName = partitioner ?? KafkaProperties.producerDefaults.last { $0.name == "partitioner" }?.value
        return key.withUnsafeBytes { key in
            switch partitionerName {
            case "murmur2", "murmur2_random":
                rd_kafka_msg_partitioner_murmur2(topicHandle, key.baseAddress, key.count, partitionCount, nil, nil)
            case "consistent", "consistent_random":
                rd_kafka_msg_partitioner_consistent(topicHandle, key.baseAddress, key.count, partitionCount, nil, nil)
            case "fnv1a", "fnv1a_random":
                rd_kafka_msg_partitioner_fnv1a(topicHandle, key.baseAddress, key.count, partitionCount, nil, nil)
            default:
                nil
            }
        }
    }

    /// Asks the broker for the range of offsets that it has of a partition now.
    public func fetchWatermarks(of partition: Int32, timeoutMilliseconds: Int32) throws(KafkaError) -> Watermarks {
        precondition(isOpen)
        var watermarks = Watermarks(logStartOffset: 0, logEndOffset: 0)
        let code = rd_kafka_query_watermark_offsets(
            client,
            topicName,
            partition,
            &watermarks.logStartOffset,
            &watermarks.logEndOffset,
            timeoutMilliseconds
        )
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw makeError(code) }
        return watermarks
    }

    /// Asks the broker for the offset of the first record with this time or a later one; nil if there is none.
    ///
    /// - Parameter milliseconds: UNIX milliseconds, 0 or more.
    public func fetchOffset(
        of partition: Int32,
        atOrAfterWallMilliseconds milliseconds: Int64,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> Int64? {
        precondition(isOpen && milliseconds >= 0)
        guard let list = rd_kafka_topic_partition_list_new(1) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__FAIL, "no memory for a list of partitions")
        }
        defer { rd_kafka_topic_partition_list_destroy(list) }
        rd_kafka_topic_partition_list_add(list, topicName, partition).pointee.offset = milliseconds
        let code = rd_kafka_offsets_for_times(client, list, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw makeError(code) }
        let element = list.pointee.elems.pointee
        guard element.err == RD_KAFKA_RESP_ERR_NO_ERROR else { throw makeError(element.err) }
        return element.offset >= 0 ? element.offset : nil
    }

    /// Calls `body` with the records in `offsets`, in order, until the timeout.
    ///
    /// - Returns: true if the whole range was read, or all its records up to the log's end; false after the timeout.
    public func read(
        _ partition: Int32,
        offsets: Range<Int64>,
        timeoutMilliseconds: Int64,
        _ body: (borrowing Message) -> Void
    ) throws(KafkaError) -> Bool {
        let deadline = Deadline(afterMilliseconds: timeoutMilliseconds)
        return try read(partition, offsets: offsets, until: { deadline.hasPassed }, body) == nil
    }

    /// Calls `body` with the records in `offsets`, in order, until `mustStop` returns true. `mustStop` is called before
    /// each record, and every 0.1 s while no record arrives.
    ///
    /// - Returns: nil if the whole range was read, or the log's end was reached; otherwise the offset at which to
    ///   continue.
    /// - Throws: an error that is not temporary. After a temporary one, reading continues.
    public func read(
        _ partition: Int32,
        offsets: Range<Int64>,
        until mustStop: () -> Bool,
        _ body: (borrowing Message) -> Void
    ) throws(KafkaError) -> Int64? {
        precondition(isOpen && offsets.lowerBound >= 0)
        if offsets.isEmpty { return nil }
        guard rd_kafka_consume_start(topicHandle, partition, offsets.lowerBound) == 0 else {
            throw makeError(rd_kafka_last_error())
        }
        defer { rd_kafka_consume_stop(topicHandle, partition) }
        var nextOffset = offsets.lowerBound
        while !mustStop() {
            guard let pointer = rd_kafka_consume(topicHandle, partition, Self.pollTimeoutMilliseconds) else {
                // No record has arrived. Pass the client's log lines and errors to the event handler meanwhile.
                rd_kafka_poll(client, 0)
                continue
            }
            let message = Message(taking: pointer)
            switch pointer.pointee.err {
            case RD_KAFKA_RESP_ERR_NO_ERROR:
                guard message.offset < offsets.upperBound else { return nil }
                body(message)
                nextOffset = message.offset + 1
                if nextOffset == offsets.upperBound { return nil }
            case RD_KAFKA_RESP_ERR__PARTITION_EOF:
                return nil
            case let code:
                let error = KafkaError(code, "\(String(cString: topicName)) [\(partition)]: \(message.errorText)")
                guard error.isRetriable else { throw error }
            }
        }
        return nextOffset
    }

    /// Frees the client. Afterwards no other call is allowed.
    public func close(timeoutMilliseconds: Int64) -> CloseResult {
        guard isOpen else { return .closed }
        isOpen = false
        topics.destroyHandles()
        let closeResult = destroy(client, until: Deadline(afterMilliseconds: timeoutMilliseconds))
        if closeResult == .unfinished {
            callbackContext.keepUntilProcessEnds()
        } else {
            topics.freeNames()
        }
        return closeResult
    }

    private func makeError(_ code: rd_kafka_resp_err_t) -> KafkaError {
        KafkaError(code, "\(String(cString: topicName)): \(String(cString: rd_kafka_err2str(code)))")
    }
}
