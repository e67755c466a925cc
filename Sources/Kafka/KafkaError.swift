import CRdkafka

/// What librdkafka, or this module's own checks, refused or gave up on.
///
/// `isRetriable` and `isFatal` are librdkafka's own three-way split: try the call again; drop the client and make a new
/// one; or neither, and the caller has to change something.
public struct KafkaError: Error, Hashable, Sendable, CustomStringConvertible {
    /// `rd_kafka_resp_err_t` as a number: negative codes are the client's own, positive ones come from a broker.
    public var code: Int32
    /// A sentence for people: names the property, topic or partition concerned.
    public var reason: String
    /// The same call may succeed later without anybody changing anything.
    public var isRetriable: Bool
    /// The client instance is beyond use and has to be replaced.
    public var isFatal: Bool
    /// The partition that the error is about, if it is about one.
    public var partition: TopicPartition?

    public init(
        code: Int32,
        reason: String,
        isRetriable: Bool = false,
        isFatal: Bool = false,
        partition: TopicPartition? = nil
    ) {
        self.code = code
        self.reason = reason
        self.isRetriable = isRetriable
        self.isFatal = isFatal
        self.partition = partition
    }

    /// There is no offset to read a partition from, or it is out of range, and `auto.offset.reset` is `error`: the partition stands still
    /// until `seek`.
    public var isPositionUnknown: Bool { code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET.rawValue }

    /// The broker has no such topic, or shows it to nobody who may not see it.
    public var isUnknownTopic: Bool {
        code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART.rawValue || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC.rawValue
    }

    /// The code of a record that is larger than the topic, or the client, allows.
    public static let messageTooLarge = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE.rawValue

    /// The code of a record for a partition that its topic does not have.
    public static let unknownPartition = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION.rawValue

    /// The code of a record that cannot be one, such as at an offset that no log comes to.
    public static let badRecord = RD_KAFKA_RESP_ERR__BAD_MSG.rawValue

    /// librdkafka's symbolic name of `code`, such as `_TIMED_OUT`: short, and bounded in number, so fit for a metric label.
    public var name: String { String(cString: rd_kafka_err2name(rd_kafka_resp_err_t(code))) }

    public var description: String { reason.isEmpty ? name : "\(name): \(reason)" }
}

extension KafkaError {
    init(_ code: rd_kafka_resp_err_t, _ reason: String? = nil, partition: TopicPartition? = nil) {
        self.init(
            code: code.rawValue,
            reason: reason ?? String(cString: rd_kafka_err2str(code)),
            isRetriable: Self.retriableCodes.contains(code.rawValue),
            isFatal: code == RD_KAFKA_RESP_ERR__FATAL,
            partition: partition
        )
    }

    /// Takes over `error` and destroys it.
    init(consuming error: OpaquePointer) {
        self.init(
            code: rd_kafka_error_code(error).rawValue,
            reason: String(cString: rd_kafka_error_string(error)),
            isRetriable: rd_kafka_error_is_retriable(error) != 0,
            isFatal: rd_kafka_error_is_fatal(error) != 0
        )
        rd_kafka_error_destroy(error)
    }

    /// A property that we refuse, or that librdkafka does.
    public static func property(_ name: String, _ reason: String) -> KafkaError {
        KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "property \(name): \(reason)")
    }

    /// The codes for which waiting helps. librdkafka says so itself only where it hands out an error object; this list
    /// serves the calls that return a bare code.
    private static let retriableCodes: Set<Int32> = Set(
        [
            RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, RD_KAFKA_RESP_ERR__TIMED_OUT,
            RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR__QUEUE_FULL, RD_KAFKA_RESP_ERR__WAIT_COORD,
            RD_KAFKA_RESP_ERR__IN_PROGRESS, RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS, RD_KAFKA_RESP_ERR__RETRY,
            RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
            RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_COORDINATOR, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, RD_KAFKA_RESP_ERR_FETCH_SESSION_ID_NOT_FOUND,
            RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT,
        ]
        .map(\.rawValue)
    )
}
