import CRdkafka
import Glibc

/// What a consumer's owner does when partitions come and go. Called inside `poll` and `close`, on the polling thread.
public protocol ConsumerHandler: AnyObject {
    /// A rebalance is over, and these partitions are about to be read from: with the eager protocol all that this member has, with the
    /// cooperative one what is new. None: the group has no more for it. The handler must not call the consumer, but may look at
    /// `startPositions` and `committedOffsets`.
    func assigned(_ partitions: [TopicPartition])

    /// These partitions are about to go to another member. The handler stops what is new, lets what is in flight settle
    /// within its drain time, and may call `storeOffset` and `watermarks`, and nothing else of the consumer, while it does. When it
    /// returns, the stored offsets are committed and the partitions are given up.
    ///
    /// - Parameter lost: the group has given them away already; nothing stored will be committed, and there is nothing
    ///   to wait for.
    func revoked(_ partitions: [TopicPartition], lost: Bool)
}

/// What one `poll` found.
public enum ConsumerEvent: ~Copyable {
    case message(Message)
    /// Nothing is waiting. The next thing to come is announced on the wake-up descriptor.
    case none
    /// Every record of the partition up to now was handed out; the next one's offset is this or a later one. Only with
    /// `enable.partition.eof`.
    case partitionEnd(TopicPartition, offset: Int64)
    /// The consumer goes on, unless `isFatal`. A partition whose position is unknown (`auto.offset.reset=error`) or out
    /// of range stands still, and the error names it: `seek` starts it again.
    case error(KafkaError)
}

/// A member of a consumer group.
///
/// One thread at a time uses it: the one that polls. All callbacks happen inside `poll` and `close`. Records are polled
/// one by one, since librdkafka 2.0.2 can lose some in its batch calls when partitions are paused or revoked.
///
/// Offsets are stored here (`storeOffset`), and committed by this class (`commitIfDue`, and when partitions are revoked): librdkafka before
/// 2.2 commits no metadata with the offsets that it stores itself.
///
/// States: *open* (from `init`; exits by `close`) and *closed* (`close` was called, whatever its outcome). Letting an
/// open consumer go is a programming error: only `close` gives the partitions back.
public final class Consumer {
    /// How long a revocation waits for its last commit to be answered, at most. Past it the records are read again.
    public static let revokeCommitLimitMilliseconds: Int64 = 5_000
    /// How long `seek` and `committed` wait for the broker, at most, unless told otherwise.
    public static let requestLimitMilliseconds: Int32 = 5_000
    /// How long an assignment waits for the ends of its logs, at most. Past it settled records are read again.
    static let logEndLimitMilliseconds: Int32 = 2_000

    /// Whether a full queue stops fetching for up to a second, whatever happens to the queue: then `wakeFetching` is needed.
    public let stopsFetchingWhenFull: Bool

    let handle: OpaquePointer
    let callbacks: ClientCallbacks
    /// The consumer queue: records, rebalances, errors and log lines.
    let queue: OpaquePointer
    var topics: SubscribedTopics
    weak var handler: (any ConsumerHandler)?

    /// The partitions that this member reads, as of the last rebalance.
    public internal(set) var assignment: Set<TopicPartition> = []
    /// Where reading of an assigned partition begins, as far as it is known: it is not where the coordinator did not answer, nor with
    /// an `auto.offset.reset` other than `error`, before a seek.
    public internal(set) var startPositions: [TopicPartition: SeekPosition] = [:]
    /// Of assigned partitions, what the group had committed when they were assigned, as far as the brokers told.
    public internal(set) var committedOffsets: [TopicPartition: CommittedOffset] = [:]
    /// Our own record of what is paused: resuming a partition that is not paused can rewind it.
    public internal(set) var paused: Set<TopicPartition> = []
    /// Of partitions whose last record was given back to be handed out again: its offset.
    var rewound: [TopicPartition: Int64] = [:]

    /// Closing before the first assignment aborts the process (a failed assertion in librdkafka's sticky assignor).
    var hasHadAssignment = false
    var isOpen = true
    /// Until when the consumer must be closed; nil before `close`.
    var closingDeadline: Deadline?
    /// What failed inside a callback, where nothing can be returned.
    var deferredError: KafkaError?
    /// What is stored, to be committed.
    var commits: OffsetCommits

    /// Joins the group: the assignment arrives in a later `poll`.
    ///
    /// - Parameters:
    ///   - properties: any librdkafka properties, laid over `KafkaProperties.consumer`. `bootstrap.servers` and
    ///     `group.id` are required.
    ///   - topics: at least one; `TopicIdentifier.index` is the index in this list. Not patterns.
    ///   - handler: held weakly.
    /// - Throws: an error that names the property or the topic.
    public init(
        properties: [(name: String, value: String)],
        topics names: [String],
        handler: any ConsumerHandler,
        logHandler: (any ClientLogHandler)? = nil
    ) throws(KafkaError) {
        let callbacks = ClientCallbacks(logHandler: logHandler)
        let client = try Self.makeClient(properties: properties, callbacks: callbacks)
        do throws(KafkaError) {
            topics = try Self.subscribe(client, to: names)
        } catch {
            // Without a subscription there is no group to leave, and this cannot wait.
            withExtendedLifetime(callbacks) { rd_kafka_destroy(client) }
            throw error
        }
        handle = client
        commits = OffsetCommits(client: client)
        stopsFetchingWhenFull = !ClientConfiguration().knows(KafkaProperties.fetchQueueBackoffName)
        queue = rd_kafka_queue_get_consumer(client)
        self.callbacks = callbacks
        self.handler = handler
        callbacks.consumer = self
    }

    deinit {
        precondition(!isOpen, "a consumer must be closed before it is released")
    }

    /// Has `descriptor`, a non-blocking eventfd, written to when there is something to poll.
    ///
    /// It is written to once when the queue becomes non-empty. So the reader first drains the descriptor, then polls
    /// until `.none`, or comes back by itself if it stops earlier.
    public func setWakeup(descriptor: Int32) {
        precondition(isOpen)
        enableWakeup(of: queue, descriptor: descriptor)
    }

    /// Takes one record, or whatever else is waiting, without waiting itself. Rebalances happen in here.
    public func poll() -> ConsumerEvent {
        poll(waitMilliseconds: 0)
    }

    func poll(waitMilliseconds: Int32) -> ConsumerEvent {
        precondition(isOpen)
        guard let message = rd_kafka_consumer_poll(handle, waitMilliseconds) else {
            guard let error = deferredError else { return .none }
            deferredError = nil
            return .error(error)
        }
        guard message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR else {
            return event(consuming: message)
        }
        let record = Message(taking: message)
        if !rewound.isEmpty { rewound[TopicPartition(topic: record.topic, partition: record.partition)] = nil }
        return .message(record)
    }

    /// Records that were fetched and not handed out, and whatever else waits to be polled.
    public var queuedCount: Int {
        precondition(isOpen)
        return rd_kafka_queue_length(queue)
    }

    /// The error that ended this consumer's membership for good, if there was one.
    public var fatalError: KafkaError? { isOpen ? Kafka.fatalError(of: handle) : nil }

    /// The identity that the group coordinator gave this member; empty before it has joined.
    var memberIdentifier: String {
        guard isOpen, let text = rd_kafka_memberid(handle) else { return "" }
        defer { rd_kafka_mem_free(handle, text) }
        return String(cString: text)
    }

    /// Turns an error message into an event, and destroys it. It may carry neither a topic nor a text.
    private func event(consuming message: UnsafeMutablePointer<rd_kafka_message_t>) -> ConsumerEvent {
        let message = Message(taking: message)
        let code = message.pointer.pointee.err
        let topic = message.topic
        let place =
            topic.index >= 0 && message.partition >= 0
            ? TopicPartition(topic: topic, partition: message.partition) : nil
        if code == RD_KAFKA_RESP_ERR__PARTITION_EOF, let place {
            return .partitionEnd(place, offset: message.offset)
        }
        var reason = message.errorText
        if let place {
            reason = "\(String(cString: topics.name(of: topic))) [\(place.partition)]: \(reason)"
        }
        return .error(KafkaError(code, reason, partition: place))
    }
}

// MARK: - Starting

extension Consumer {
    /// Checks properties as `init` does, without a client.
    ///
    /// - Throws: an error that names the property.
    public static func check(properties: [(name: String, value: String)]) throws(KafkaError) {
        try configure(ClientConfiguration(), properties: properties)
    }

    private static func configure(
        _ configuration: borrowing ClientConfiguration,
        properties: [(name: String, value: String)]
    ) throws(KafkaError) {
        try configuration.apply(
            defaults: KafkaProperties.consumer,
            defaultsWhereKnown: KafkaProperties.consumerWhereKnown,
            overrides: properties,
            promises: KafkaProperties.consumerPromises
        )
        try configuration.require("bootstrap.servers", reason: "is required")
        try configuration.require("group.id", reason: "is required")
    }

    private static func makeClient(
        properties: [(name: String, value: String)],
        callbacks: ClientCallbacks
    ) throws(KafkaError) -> OpaquePointer {
        let configuration = ClientConfiguration()
        try configure(configuration, properties: properties)
        callbacks.install(on: configuration)
        configuration.withHandle { rd_kafka_conf_set_rebalance_cb($0, rebalanceCallback) }
        let client = try configuration.makeClient(RD_KAFKA_CONSUMER)
        // Log lines and errors go to the main queue, and that to the consumer queue: one poll serves all.
        rd_kafka_set_log_queue(client, nil)
        rd_kafka_poll_set_consumer(client)
        return client
    }

    private static func subscribe(_ client: OpaquePointer, to names: [String]) throws(KafkaError) -> SubscribedTopics {
        guard !names.isEmpty else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "no topics to subscribe to")
        }
        var topics = SubscribedTopics()
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
