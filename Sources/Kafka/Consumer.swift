import CRdkafka
import Glibc

/// Reacts to partitions that are assigned or revoked. Called inside `poll` and `close`, on the polling thread.
public protocol ConsumerHandler: AnyObject {
    /// Handles the end of a rebalance. Reading from `partitions` begins after this call.
    ///
    /// Every rebalance that succeeds ends with this call, also one that assigns nothing. The handler must not call the
    /// consumer, but may read `startPositions`, `committedOffsets` and `partitionsWithUnknownOffset`.
    ///
    /// - Parameter partitions: with the eager protocol all partitions of this consumer, with the cooperative protocol
    ///   only the new ones. May be empty.
    func partitionsAssigned(_ partitions: [TopicPartition])

    /// Handles partitions that this consumer gives up or has lost. The handler stops new work for them, and may wait
    /// until work in flight is finished. When the handler returns, the consumer commits the stored offsets, unless the
    /// partitions are lost, and gives the partitions up.
    ///
    /// The handler may call `storeOffset`, `watermarks` and `pause`, and no other method. With the eager protocol, each
    /// rebalance begins with the revocation of all partitions of this consumer.
    ///
    /// - Parameter areLost: whether the group may already have given the partitions to others. If true, the consumer
    ///   commits no offset, so the handler need not wait for anything.
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool)
}

/// The result of one `poll`.
public enum ConsumerEvent: ~Copyable {
    case message(Message)
    /// The queue is empty. librdkafka writes to the wake-up descriptor at the next event.
    case none
    /// All records that the partition had at the last fetch are polled. The next record gets this offset or a later
    /// one. Reported only if `enable.partition.eof` is set.
    case partitionEnd(TopicPartition, offset: Int64)
    /// An error. The consumer continues, unless `isFatal`. With `auto.offset.reset=error`, a partition whose position
    /// is unknown or out of range stops until `seek`. The error then names the partition.
    case error(KafkaError)
}

/// A member of a consumer group. Only the thread that polls may use it, and all callbacks run inside `poll` and
/// `close`.
///
/// The caller stores offsets with `storeOffset`. This class commits them: in `commitIfDue` and `commitStoredOffsets`,
/// and when partitions are revoked.
///
/// Call `close` before the last reference is released: only `close` gives the partitions back.
public final class Consumer {
    /// The longest time that a revocation waits for its commit. The group's rebalance waits for the revocation, so the
    /// time is short. If no acknowledgement comes in this time, the next owner may read records again whose work is
    /// already done.
    public static let revokeCommitTimeoutMilliseconds: Int64 = 5_000
    /// The time limit of calls that wait for a broker, unless the call has a limit of its own. While a call waits, the
    /// polling thread gets no records.
    public static let requestTimeoutMilliseconds: Int32 = 5_000
    /// The longest time that an assignment waits for the ends of the partitions' logs; no partition is read meanwhile.
    /// If the end of a log stays unknown, the settled offsets in the partition's commit metadata are not used, and
    /// their records are processed again.
    static let logEndTimeoutMilliseconds: Int32 = 2_000

    /// Whether the caller must call `wakeFetching` when a full queue has room again. True for librdkafka before 2.2,
    /// which may otherwise fetch nothing for up to a second.
    public let mustWakeFetching: Bool

    let client: OpaquePointer
    let callbackContext: CallbackContext
    /// The consumer queue: records, rebalances, errors, statistics and log lines.
    let queue: OpaquePointer
    var topics: ClientTopics
    weak var handler: (any ConsumerHandler)?

    /// The partitions that are assigned to this consumer.
    public internal(set) var assignment: Set<TopicPartition> = []
    /// The position at which reading of each assigned partition begins. A partition is missing until `prepareSeeks` or
    /// `seek`, if the coordinator did not name its committed offset, or if librdkafka chooses the position
    /// (`auto.offset.reset` is not `error`).
    public internal(set) var startPositions: [TopicPartition: SeekPosition] = [:]
    /// The offset and metadata that the group had committed for each partition at its assignment. A partition is
    /// missing if nothing was committed for it, or if the coordinator did not respond or refused the partition.
    public internal(set) var committedOffsets: [TopicPartition: CommittedOffset] = [:]
    /// The partitions that may not be read until `seek`, because the coordinator did not respond at their assignment,
    /// or refused to name their committed offset. librdkafka itself asks once more, so reading may still begin. A
    /// partition is removed at its first event that shows this (a record, the log's end, or an invalid position), by
    /// `seek`, and when it is revoked. Always empty if `auto.offset.reset` is not `error`.
    public internal(set) var partitionsWithUnknownOffset: Set<TopicPartition> = []
    /// The paused partitions. `resume` skips all other partitions: if librdkafka resumes a partition that is not
    /// paused, it may read the partition again from an earlier offset.
    public internal(set) var pausedPartitions: Set<TopicPartition> = []
    /// The offsets that `pause(_:rewindingTo:)` set. An offset is removed when a record of its partition is polled,
    /// when `seek` sets another position, and when the partition is revoked.
    var rewoundOffsets: [TopicPartition: Int64] = [:]
    /// Where each partition continued at its last `resume`, or when `seek` last assigned all partitions again. Until
    /// the partition's next record is polled, librdkafka does not know this. Removed when `seek` sets another position
    /// for the partition, and when the partition is revoked.
    var continuationOffsets: [TopicPartition: Int64] = [:]

    /// Whether this consumer has had an assignment. Before that, `close` must wait: otherwise an assertion in the
    /// cooperative-sticky assignor of librdkafka 2.0.2 could abort the process.
    var hasHadAssignment = false
    var isOpen = true
    /// The time by which the consumer must be closed; nil before `close`.
    var closingDeadline: Deadline?
    /// The last error that occurred in a callback, which cannot throw. The next `poll` that finds no event in the queue
    /// reports this error.
    var pendingError: KafkaError?
    /// The offsets that were stored, and which of them were sent to the group's coordinator.
    var offsetCommits: OffsetCommits

    /// Joins the group. The assignment arrives in a later `poll`.
    ///
    /// - Parameters:
    ///   - properties: librdkafka properties, which override `KafkaProperties.consumerDefaults`. `bootstrap.servers`
    ///     and `group.id` are required.
    ///   - topics: at least one name; patterns are refused. `TopicIdentifier.index` is the index in this list.
    ///   - handler: held weakly.
    /// - Throws: an error. If it is known which property or topic is wrong, the error names it.
    public init(
        properties: [(name: String, value: String)],
        topics names: [String],
        handler: any ConsumerHandler,
        eventHandler: (any ClientEventHandler)? = nil
    ) throws(KafkaError) {
        let callbackContext = CallbackContext(eventHandler: eventHandler)
        let client = try Self.makeClient(properties: properties, callbackContext: callbackContext)
        do throws(KafkaError) {
            topics = try Self.subscribe(client, to: names)
        } catch {
            // The client has no subscription yet, so it is in no group, and `rd_kafka_destroy` need not wait.
            withExtendedLifetime(callbackContext) { rd_kafka_destroy(client) }
            throw error
        }
        self.client = client
        offsetCommits = OffsetCommits(client: client)
        mustWakeFetching = !ClientConfiguration().hasProperty(KafkaProperties.fetchQueueBackoffName)
        queue = rd_kafka_queue_get_consumer(client)
        self.callbackContext = callbackContext
        self.handler = handler
        callbackContext.consumer = self
    }

    deinit {
        precondition(!isOpen, "a consumer must be closed before it is released")
    }

    /// Makes librdkafka write to `descriptor`, a non-blocking eventfd, when there is something to poll.
    ///
    /// librdkafka writes once when the queue becomes non-empty. So the reader first empties the descriptor and then
    /// polls until `.none`. A reader that stops earlier gets no wake-up, and must poll again by itself.
    public func setWakeup(descriptor: Int32) {
        precondition(isOpen)
        enableWakeup(of: queue, descriptor: descriptor)
    }

    /// Takes one record or other event from the queue, without waiting for one. Rebalances happen inside this call, and
    /// wait for brokers and for the handler.
    public func poll() -> ConsumerEvent {
        poll(timeoutMilliseconds: 0)
    }

    /// Does what `poll` does, but waits for an event until the timeout. Takes one record, because the batch calls of
    /// librdkafka 2.0.2 can lose records when partitions are paused or revoked.
    func poll(timeoutMilliseconds: Int32) -> ConsumerEvent {
        precondition(isOpen)
        guard let message = rd_kafka_consumer_poll(client, timeoutMilliseconds) else {
            guard let error = pendingError else { return .none }
            pendingError = nil
            return .error(error)
        }
        guard message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR else {
            return event(consuming: message)
        }
        let record = Message(taking: message)
        if !rewoundOffsets.isEmpty {
            rewoundOffsets[TopicPartition(topic: record.topic, partition: record.partition)] = nil
        }
        if !partitionsWithUnknownOffset.isEmpty {
            partitionsWithUnknownOffset.remove(TopicPartition(topic: record.topic, partition: record.partition))
        }
        return .message(record)
    }

    /// The number of records and other events in the queue that have not been polled.
    public var queuedEventCount: Int {
        precondition(isOpen)
        return rd_kafka_queue_length(queue)
    }

    /// The error that made the consumer unusable; nil if there was none, and after `close`.
    public var fatalError: KafkaError? { isOpen ? Kafka.fatalError(of: client) : nil }

    /// The member id from the group coordinator; empty before the member has joined, and after `close`.
    var memberIdentifier: String {
        guard isOpen, let text = rd_kafka_memberid(client) else { return "" }
        defer { rd_kafka_mem_free(client, text) }
        return String(cString: text)
    }

    /// Turns an error message into an event, and destroys the message. The message may lack the topic or the text. If
    /// the message shows that reading of a partition has begun, notes this (`partitionsWithUnknownOffset`).
    private func event(consuming message: UnsafeMutablePointer<rd_kafka_message_t>) -> ConsumerEvent {
        let message = Message(taking: message)
        let code = message.pointer.pointee.err
        let topic = message.topic
        let topicPartition =
            topic.index >= 0 && message.partition >= 0
            ? TopicPartition(topic: topic, partition: message.partition) : nil
        let isPartitionEnd = code == RD_KAFKA_RESP_ERR__PARTITION_EOF
        if let topicPartition, isPartitionEnd || code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET {
            partitionsWithUnknownOffset.remove(topicPartition)
        }
        if isPartitionEnd, let topicPartition {
            // librdkafka knows no position before the first record. Without this note, a later assignment of all
            // partitions would ask the coordinator for the position again, and the coordinator might refuse.
            if startPositions[topicPartition] == nil, assignment.contains(topicPartition) {
                continuationOffsets[topicPartition] = message.offset
            }
            return .partitionEnd(topicPartition, offset: message.offset)
        }
        var reason = message.errorText
        if let topicPartition {
            reason = "\(String(cString: topics.name(of: topic))) [\(topicPartition.partition)]: \(reason)"
        }
        return .error(KafkaError(code, reason, partition: topicPartition))
    }
}

// MARK: - Creating the client

extension Consumer {
    private static func configure(
        _ configuration: borrowing ClientConfiguration,
        properties: [(name: String, value: String)]
    ) throws(KafkaError) {
        try configuration.apply(
            defaults: KafkaProperties.consumerDefaults,
            versionDependentDefaults: KafkaProperties.versionDependentConsumerDefaults,
            overrides: properties,
            rules: KafkaProperties.consumerRules
        )
        try configuration.require("bootstrap.servers", reason: "is required")
        try configuration.require("group.id", reason: "is required")
    }

    private static func makeClient(
        properties: [(name: String, value: String)],
        callbackContext: CallbackContext
    ) throws(KafkaError) -> OpaquePointer {
        let configuration = ClientConfiguration()
        try configure(configuration, properties: properties)
        callbackContext.install(on: configuration)
        configuration.withHandle { rd_kafka_conf_set_rebalance_cb($0, rebalanceCallback) }
        let client = try configuration.makeClient(RD_KAFKA_CONSUMER)
        // Log lines and errors go to the main queue. `rd_kafka_poll_set_consumer` forwards this queue to the consumer
        // queue, so that one poll gets records, log lines and errors.
        rd_kafka_set_log_queue(client, nil)
        rd_kafka_poll_set_consumer(client)
        return client
    }

    /// Subscribes to the topics, and returns their handles in the order of `names`.
    private static func subscribe(_ client: OpaquePointer, to names: [String]) throws(KafkaError) -> ClientTopics {
        guard !names.isEmpty else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "no topics to subscribe to")
        }
        var topics = ClientTopics()
        do throws(KafkaError) {
            let list = PartitionList(capacity: names.count)
            for name in names {
                try topics.add(name, to: client)
                list.add(name, -1)
            }
            let code = list.withPointer { rd_kafka_subscribe(client, $0) }
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw KafkaError(code, "cannot subscribe to \(names): \(String(cString: rd_kafka_err2str(code)))")
            }
        } catch {
            topics.destroyHandles()
            topics.freeNames()
            throw error
        }
        return topics
    }
}
