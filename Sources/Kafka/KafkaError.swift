import CRdkafka

/// An error from librdkafka or from this module's own checks. If `isRetriable`, repeat the call later. If `isFatal`,
/// replace the client. Otherwise the same call fails again until something is changed, such as a property.
public struct KafkaError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The number of an `rd_kafka_resp_err_t`. Codes below -1 are librdkafka's own. The others are those of Kafka's
    /// protocol, usually from a broker.
    public var code: Int32
    /// A text for people, from librdkafka or from this module.
    public var reason: String
    /// Whether the call may succeed if it is repeated unchanged later.
    public var isRetriable: Bool
    /// Whether the client is unusable, so that it must be replaced.
    public var isFatal: Bool
    /// Whether `description` is only the reason, without librdkafka's name of the code, because both say the same.
    public var isDescribedByReasonOnly = false
    /// The partition that the error is about; nil if the error is not about one partition, or if only `reason` names
    /// the partition.
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

    /// Whether a partition has no valid position to read from, and `auto.offset.reset` is `error`. The partition is not
    /// read until `seek`.
    public var isPositionUnknown: Bool { code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET.rawValue }

    /// Whether the broker does not have the topic or the partition, or this client is not allowed to see the topic.
    public var isUnknownTopic: Bool {
        code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART.rawValue || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC.rawValue
    }

    /// Whether an offset is not in its partition's log (``offsetOutOfRange(_:)``).
    public var isOffsetOutOfRange: Bool { code == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE.rawValue }

    /// Whether no broker has responded to the client (``noBroker(_:)``).
    public var saysNoBrokerResponded: Bool { code == RD_KAFKA_RESP_ERR__TRANSPORT.rawValue }

    /// The code of a record that is larger than the topic, or the client, allows.
    public static let messageTooLargeCode = RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE.rawValue

    /// Whether Kafka refused a record because of the record itself. Kafka may still accept other records.
    public var concernsOneRecord: Bool {
        code == Self.messageTooLargeCode || code == RD_KAFKA_RESP_ERR_INVALID_RECORD.rawValue
    }

    /// The code of a record for a partition that its topic does not have.
    public static let unknownPartitionCode = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION.rawValue

    /// The code of a record with an impossible value, for example an offset that no log reaches.
    public static let badRecordCode = RD_KAFKA_RESP_ERR__BAD_MSG.rawValue

    /// librdkafka's symbolic name of `code`, such as `_TIMED_OUT`. A metric label may use the name, because it is short
    /// and there are few names.
    public var name: String { String(cString: rd_kafka_err2name(rd_kafka_resp_err_t(code))) }

    public var description: String { reason.isEmpty ? name : isDescribedByReasonOnly ? reason : "\(name): \(reason)" }
}

extension KafkaError {
    /// Makes the error of a delivery report, with librdkafka's text for its code.
    public init(deliveryReportCode code: Int32) { self.init(rd_kafka_resp_err_t(code)) }

    init(_ code: rd_kafka_resp_err_t, _ reason: String? = nil, partition: TopicPartition? = nil) {
        self.init(
            code: code.rawValue,
            reason: reason ?? String(cString: rd_kafka_err2str(code)),
            isRetriable: Self.retriableCodes.contains(code.rawValue),
            isFatal: code == RD_KAFKA_RESP_ERR__FATAL,
            partition: partition
        )
    }

    /// Takes ownership of `error` and destroys it.
    init(consuming error: OpaquePointer) {
        self.init(
            code: rd_kafka_error_code(error).rawValue,
            reason: String(cString: rd_kafka_error_string(error)),
            isRetriable: rd_kafka_error_is_retriable(error) != 0,
            isFatal: rd_kafka_error_is_fatal(error) != 0
        )
        rd_kafka_error_destroy(error)
    }

    /// Makes the error for the case that no broker has responded.
    public static func noBroker(_ reason: String) -> KafkaError {
        makeError(RD_KAFKA_RESP_ERR__TRANSPORT, describedOnlyBy: reason)
    }

    /// Makes the error for a topic that the brokers do not have, or that this client is not allowed to see.
    public static func unknownTopic(_ reason: String) -> KafkaError {
        makeError(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, describedOnlyBy: reason)
    }

    /// Makes the error for an offset that is not in its partition's log.
    public static func offsetOutOfRange(_ reason: String) -> KafkaError {
        makeError(RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, describedOnlyBy: reason)
    }

    /// Makes the error for a log that seems to end below settled offsets. The caller must ask for its end again.
    public static func logEndUnclear(_ reason: String) -> KafkaError {
        makeError(RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE, describedOnlyBy: reason)
    }

    /// Makes the error for a property that cannot be used: librdkafka or Causeway refuses it, its file cannot be
    /// opened, or it is required and missing.
    public static func unusableProperty(_ name: String, _ reason: String) -> KafkaError {
        makeError(RD_KAFKA_RESP_ERR__INVALID_ARG, describedOnlyBy: "property \(name): \(reason)")
    }

    private static func makeError(_ code: rd_kafka_resp_err_t, describedOnlyBy reason: String) -> KafkaError {
        var error = KafkaError(code, reason)
        error.isDescribedByReasonOnly = true
        return error
    }

    /// The codes after which the caller may try again, because the cause may end by itself. Needed for calls that
    /// return only a code, because librdkafka marks only its error objects as retriable.
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
