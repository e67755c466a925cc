import CRdkafka

/// A topic that `TopicAdministrator.create` creates.
public struct NewTopic: Sendable, Equatable {
    public var name: String
    /// The number of partitions: at least 1.
    public var partitionCount: Int32
    /// The number of copies; 0 for the brokers' default (Kafka 2.4 and later).
    public var replicationFactor: Int32
    /// The topic's own settings, with Kafka's names, such as `cleanup.policy`.
    public var settings: [KafkaProperties.Property]

    public init(name: String, partitionCount: Int32, replicationFactor: Int32, settings: [KafkaProperties.Property]) {
        self.name = name
        self.partitionCount = partitionCount
        self.replicationFactor = replicationFactor
        self.settings = settings
    }

    public static func == (left: NewTopic, right: NewTopic) -> Bool {
        left.name == right.name && left.partitionCount == right.partitionCount
            && left.replicationFactor == right.replicationFactor
            && left.settings.elementsEqual(right.settings, by: ==)
    }
}

/// Reads the list of topics from the brokers and creates topics. Only one thread may use an administrator. A call waits
/// for the brokers until its timeout at most; `create` may wait 5 s longer.
public final class TopicAdministrator {
    let client: OpaquePointer
    private let queue: OpaquePointer
    private let callbackContext: CallbackContext
    private(set) var isOpen = true

    /// - Parameter properties: a producer's properties. `bootstrap.servers` is required.
    public init(
        properties: [(name: String, value: String)],
        eventHandler: (any ClientEventHandler)? = nil
    ) throws(KafkaError) {
        let callbackContext = CallbackContext(eventHandler: eventHandler)
        let configuration = ClientConfiguration()
        try configuration.apply(
            defaults: KafkaProperties.producerDefaults,
            overrides: properties,
            rules: KafkaProperties.producerRules
        )
        try configuration.require("bootstrap.servers", reason: "is required")
        callbackContext.install(on: configuration)
        client = try configuration.makeClient(RD_KAFKA_PRODUCER)
        rd_kafka_set_log_queue(client, nil)
        queue = rd_kafka_queue_new(client)
        self.callbackContext = callbackContext
    }

    deinit {
        precondition(!isOpen, "an administrator must be closed before it is released")
    }

    /// Asks the brokers how many partitions each of these topics has. The result lacks topics that do not exist, or
    /// that this client is not allowed to see.
    ///
    /// - Throws: if the request fails, or if one of these topics has another error, which does not say whether the
    ///   topic exists.
    public func fetchPartitionCounts(
        of names: [String],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [String: Int] {
        precondition(isOpen)
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let code = rd_kafka_metadata(client, 1, nil, &metadata, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let metadata else { throw KafkaError(code) }
        defer { rd_kafka_metadata_destroy(metadata) }
        var counts: [String: Int] = [:]
        for topic in UnsafeBufferPointer(start: metadata.pointee.topics, count: Int(metadata.pointee.topic_cnt)) {
            let name = String(cString: topic.topic)
            if names.contains(name) { counts[name] = try topic.partitionCount() }
        }
        return counts
    }

    /// Creates topics. If one fails, the others may still be created.
    ///
    /// - Returns: for each topic that was not created, why. A topic that already exists does not count as failed.
    /// - Throws: the failure of the whole request. Some topics may have been created.
    public func create(
        _ topics: [NewTopic],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [String: KafkaError] {
        precondition(isOpen)
        var requests: [OpaquePointer?] = []
        defer { for request in requests { rd_kafka_NewTopic_destroy(request) } }
        for topic in topics { requests.append(try Self.makeRequest(for: topic)) }
        let options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_CREATETOPICS)
        defer { rd_kafka_AdminOptions_destroy(options) }
        var text = ErrorTextBuffer()
        for set in [rd_kafka_AdminOptions_set_request_timeout, rd_kafka_AdminOptions_set_operation_timeout] {
            let code = set(options, timeoutMilliseconds, &text.bytes, ErrorTextBuffer.capacity)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code, text.string) }
        }
        rd_kafka_CreateTopics(client, &requests, requests.count, options, queue)
        // The request has a timeout of its own. Wait a little longer, so that the request's result comes first.
        guard let event = rd_kafka_queue_poll(queue, timeoutMilliseconds + 5_000) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT)
        }
        defer { rd_kafka_event_destroy(event) }
        let code = rd_kafka_event_error(event)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw KafkaError(code, rd_kafka_event_error_string(event).map { String(cString: $0) })
        }
        return Self.readFailures(in: event)
    }

    private static func makeRequest(for topic: NewTopic) throws(KafkaError) -> OpaquePointer {
        var text = ErrorTextBuffer()
        guard
            let request = rd_kafka_NewTopic_new(
                topic.name,
                topic.partitionCount,
                topic.replicationFactor == 0 ? -1 : topic.replicationFactor,
                &text.bytes,
                ErrorTextBuffer.capacity
            )
        else { throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "topic \"\(topic.name)\": \(text.string)") }
        for setting in topic.settings {
            let code = rd_kafka_NewTopic_set_config(request, setting.name, setting.value)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                rd_kafka_NewTopic_destroy(request)
                throw KafkaError(code, "topic \"\(topic.name)\": \(setting.name)")
            }
        }
        return request
    }

    /// Returns why topics were not created, by the topics' names. Leaves out topics that already existed.
    private static func readFailures(in event: OpaquePointer) -> [String: KafkaError] {
        var count = 0
        guard let result = rd_kafka_event_CreateTopics_result(event),
            let topics = rd_kafka_CreateTopics_result_topics(result, &count)
        else { return [:] }
        var failures: [String: KafkaError] = [:]
        for topic in UnsafeBufferPointer(start: topics, count: count) {
            let code = rd_kafka_topic_result_error(topic)
            guard code != RD_KAFKA_RESP_ERR_NO_ERROR, code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS else { continue }
            let reason = rd_kafka_topic_result_error_string(topic).map { String(cString: $0) }
            failures[String(cString: rd_kafka_topic_result_name(topic))] = KafkaError(code, reason)
        }
        return failures
    }

    /// Frees the client. Afterwards no other call is allowed.
    public func close(timeoutMilliseconds: Int64) -> CloseResult {
        guard isOpen else { return .closed }
        isOpen = false
        rd_kafka_queue_destroy(queue)
        let closeResult = destroy(client, until: Deadline(afterMilliseconds: timeoutMilliseconds))
        if closeResult == .unfinished { callbackContext.keepUntilProcessEnds() }
        return closeResult
    }
}

extension rd_kafka_metadata_topic {
    /// Returns the number of partitions; nil if the topic does not exist, or if this client is not allowed to see it.
    ///
    /// - Throws: any other error, because it may be temporary. For example, a topic that is just being created has no
    ///   leaders yet.
    func partitionCount() throws(KafkaError) -> Int? {
        switch err {
        case RD_KAFKA_RESP_ERR_NO_ERROR: return Int(partition_cnt)
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
            RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
            return nil
        default: throw KafkaError(err, "\(String(cString: topic)): \(String(cString: rd_kafka_err2str(err)))")
        }
    }
}
