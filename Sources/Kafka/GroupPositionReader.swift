import CRdkafka

/// Reads the offsets that a group has committed for a topic, without being a member of the group. A member would take
/// partitions from the workers.
///
/// Only one thread may use an instance. Calls wait for the brokers.
public final class GroupPositionReader {
    public struct Position: Equatable, Sendable {
        /// The committed offset; nil if nothing has been committed.
        public var committedOffset: Int64?
        /// The end of the log: the offset that the next record will get.
        public var logEndOffset: Int64

        public init(committedOffset: Int64?, logEndOffset: Int64) {
            self.committedOffset = committedOffset
            self.logEndOffset = logEndOffset
        }
    }

    private let client: OpaquePointer
    private let callbackContext: CallbackContext
    private let topic: String
    private let partitions: Range<Int32>
    private var isOpen = true

    /// - Parameter properties: a consumer's properties. `bootstrap.servers` and `group.id` are required.
    public init(
        properties: [(name: String, value: String)],
        topic: String,
        partitionCount: Int32
    ) throws(KafkaError) {
        let callbackContext = CallbackContext(eventHandler: nil)
        let configuration = ClientConfiguration()
        try configuration.apply(
            defaults: KafkaProperties.consumerDefaults,
            overrides: properties + [("enable.auto.commit", "false")],
            rules: KafkaProperties.commonRules
        )
        try configuration.require("bootstrap.servers", reason: "is required")
        try configuration.require("group.id", reason: "is required")
        callbackContext.install(on: configuration)
        client = try configuration.makeClient(RD_KAFKA_CONSUMER)
        rd_kafka_set_log_queue(client, nil)
        self.callbackContext = callbackContext
        self.topic = topic
        self.partitions = 0..<partitionCount
    }

    deinit {
        precondition(!isOpen, "positions must be closed before they are released")
    }

    /// Asks the group's coordinator for the committed offset of each partition; nil if nothing has been committed. The
    /// result has the order of the partitions. It also has partitions without a leader, because the coordinator knows
    /// their offsets.
    public func readCommittedOffsets(timeoutMilliseconds: Int32) throws(KafkaError) -> [Int64?] {
        precondition(isOpen)
        let list = rd_kafka_topic_partition_list_new(Int32(partitions.count))
        guard let list else { throw KafkaError(RD_KAFKA_RESP_ERR__FAIL, "no memory for a list of partitions") }
        defer { rd_kafka_topic_partition_list_destroy(list) }
        for partition in partitions { rd_kafka_topic_partition_list_add(list, topic, partition) }
        let code = rd_kafka_committed(client, list, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code) }
        var committedOffsets: [Int64?] = []
        for element in UnsafeBufferPointer(start: list.pointee.elems, count: partitions.count) {
            // If the coordinator refused this partition, its offset is not known. So throw: nil would say that the
            // group has committed nothing.
            guard element.err == RD_KAFKA_RESP_ERR_NO_ERROR else { throw makeError(element.err, element.partition) }
            committedOffsets.append(element.offset >= 0 ? element.offset : nil)
        }
        return committedOffsets
    }

    /// Asks the brokers for the committed offset and the end of the log of each partition. The result has the order of
    /// the partitions.
    ///
    /// - Parameter timeoutMilliseconds: the limit of each request: one for all committed offsets, and one for the end
    ///   of each log.
    /// - Throws: also if one partition has no leader. A caller that does not need the ends of the logs uses
    ///   ``readCommittedOffsets(timeoutMilliseconds:)``.
    public func readPositions(timeoutMilliseconds: Int32) throws(KafkaError) -> [Position] {
        var positions: [Position] = []
        let committedOffsets = try readCommittedOffsets(timeoutMilliseconds: timeoutMilliseconds)
        for (partition, committedOffset) in zip(partitions, committedOffsets) {
            var (low, high): (Int64, Int64) = (0, 0)
            let code = rd_kafka_query_watermark_offsets(client, topic, partition, &low, &high, timeoutMilliseconds)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw makeError(code, partition) }
            positions.append(Position(committedOffset: committedOffset, logEndOffset: high))
        }
        return positions
    }

    private func makeError(_ code: rd_kafka_resp_err_t, _ partition: Int32) -> KafkaError {
        KafkaError(code, "\(topic) [\(partition)]: \(String(cString: rd_kafka_err2str(code)))")
    }

    public func close(timeoutMilliseconds: Int64) {
        guard isOpen else { return }
        isOpen = false
        if destroy(client, until: Deadline(afterMilliseconds: timeoutMilliseconds)) == .unfinished {
            callbackContext.keepUntilProcessEnds()
        }
    }
}
