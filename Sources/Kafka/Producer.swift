import CRdkafka
import Glibc
import Synchronization

/// What `produce` did with a record.
public enum QueueingResult: Sendable {
    /// The record was copied and queued. `pollReports` reports it later.
    case queued
    /// The queue has the maximum of records or bytes, so the record was not taken. Try again after the next reports.
    case queueFull
    /// The record was not taken, and there will be no report.
    case failed(KafkaError)
}

/// Whether the topic has a record, as far as the producer knows. Reported beside the record's error, because even a
/// record with an error may be in the topic.
public enum Persistence: Int32, Sendable {
    /// The record was never sent, or the broker refused it. The topic does not have the record.
    case notPersisted = 0
    /// The record was sent, but no acknowledgement came, so the topic may have it.
    case possiblyPersisted = 1
    /// The broker acknowledged the record.
    case persisted = 2
}

/// A topic to produce to. Valid as long as its producer is open.
public struct ProducerTopic: @unchecked Sendable {
    let handle: OpaquePointer

    public var name: String { String(cString: rd_kafka_topic_name(handle)) }
}

/// An idempotent producer. Any thread may call `produce`, even several at once. Only one thread at a time may call the
/// other methods. Call `close` after the last `produce` has returned.
public final class Producer: @unchecked Sendable {
    /// The maximum number of events that one `pollReports` takes, because the polling thread also has other work. One
    /// event has all reports of a batch.
    public static let eventsPerPollMax = 256

    let client: OpaquePointer
    /// The main queue: delivery reports, errors, statistics and log lines.
    let queue: OpaquePointer
    private let callbackContext: CallbackContext
    private let topics = Mutex<[ProducerTopic]>([])
    private var wakeupDescriptor: Int32 = -1
    private(set) var isOpen = true

    /// - Parameter properties: librdkafka properties, which override `KafkaProperties.producerDefaults`.
    ///   `bootstrap.servers` is required.
    /// - Throws: an error. If it is known which property is wrong, the error names it.
    public init(
        properties: [(name: String, value: String)],
        eventHandler: (any ClientEventHandler)? = nil
    ) throws(KafkaError) {
        let callbackContext = CallbackContext(eventHandler: eventHandler)
        let configuration = ClientConfiguration()
        try Self.configure(configuration, properties: properties)
        callbackContext.install(on: configuration)
        configuration.withHandle { rd_kafka_conf_set_events($0, RD_KAFKA_EVENT_DR) }
        client = try configuration.makeClient(RD_KAFKA_PRODUCER)
        rd_kafka_set_log_queue(client, nil)
        queue = rd_kafka_queue_get_main(client)
        self.callbackContext = callbackContext
    }

    private static func configure(
        _ configuration: borrowing ClientConfiguration,
        properties: [(name: String, value: String)]
    ) throws(KafkaError) {
        try configuration.apply(
            defaults: KafkaProperties.producerDefaults,
            overrides: properties,
            rules: KafkaProperties.producerRules
        )
        try configuration.require("bootstrap.servers", reason: "is required")
    }

    deinit {
        precondition(!isOpen, "a producer must be closed before it is released")
    }

    /// Creates a handle with which `produce` names the topic. Call this once per topic, at the start.
    public func makeTopic(_ name: String) throws(KafkaError) -> ProducerTopic {
        precondition(isOpen)
        guard !name.isEmpty, !name.utf8.contains(0) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, "topic \"\(name)\": not a topic name")
        }
        guard let topic = rd_kafka_topic_new(client, name, nil) else {
            let code = rd_kafka_last_error()
            throw KafkaError(code, "topic \"\(name)\": \(String(cString: rd_kafka_err2str(code)))")
        }
        let producerTopic = ProducerTopic(handle: topic)
        topics.withLock { $0.append(producerTopic) }
        return producerTopic
    }

    /// Queues a copy of a record. Any thread may call this method, which never waits.
    ///
    /// - Parameters:
    ///   - partition: -1 lets the partitioner choose: by key, or at random without a key.
    ///   - key: nil for none; an empty key counts as a key.
    ///   - value: nil for a tombstone; an empty value does not count as one.
    ///   - tag: a number that the record's report repeats.
    public func produce(
        topic: borrowing ProducerTopic,
        partition: Int32 = -1,
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        tag: UInt64
    ) -> QueueingResult {
        let produceResult = rd_kafka_produce(
            topic.handle,
            partition,
            RD_KAFKA_MSG_F_COPY,
            value.map { UnsafeMutableRawPointer(mutating: nonNilAddress(of: $0)) },
            value?.count ?? 0,
            key.map { nonNilAddress(of: $0) },
            key?.count ?? 0,
            UnsafeMutableRawPointer(bitPattern: UInt(tag))
        )
        if produceResult == 0 { return .queued }
        let code = rd_kafka_last_error()
        return code == RD_KAFKA_RESP_ERR__QUEUE_FULL ? .queueFull : .failed(makeError(code))
    }

    /// Queues a copy of a record with headers. Any thread may call this method, which never waits.
    ///
    /// - Parameter timestampMilliseconds: the record's wall time in ms; 0 for the present time.
    public func produce(
        topic: borrowing ProducerTopic,
        partition: Int32 = -1,
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        headers: consuming ProducedHeaders,
        timestampMilliseconds: Int64 = 0,
        tag: UInt64
    ) -> QueueingResult {
        let (topic, list) = (topic.handle, headers.list)
        let error = withUnsafeTemporaryAllocation(of: rd_kafka_vu_t.self, capacity: 8) { arguments in
            arguments.initialize(repeating: rd_kafka_vu_t())
            arguments[0].vtype = RD_KAFKA_VTYPE_RKT
            arguments[0].u.rkt = topic
            arguments[1].vtype = RD_KAFKA_VTYPE_PARTITION
            arguments[1].u.i32 = partition
            arguments[2].vtype = RD_KAFKA_VTYPE_MSGFLAGS
            arguments[2].u.i = RD_KAFKA_MSG_F_COPY
            arguments[3].vtype = RD_KAFKA_VTYPE_KEY
            arguments[3].u.mem.ptr = key.map { UnsafeMutableRawPointer(mutating: nonNilAddress(of: $0)) }
            arguments[3].u.mem.size = key?.count ?? 0
            arguments[4].vtype = RD_KAFKA_VTYPE_VALUE
            arguments[4].u.mem.ptr = value.map { UnsafeMutableRawPointer(mutating: nonNilAddress(of: $0)) }
            arguments[4].u.mem.size = value?.count ?? 0
            arguments[5].vtype = RD_KAFKA_VTYPE_HEADERS
            arguments[5].u.headers = list
            arguments[6].vtype = RD_KAFKA_VTYPE_OPAQUE
            arguments[6].u.ptr = UnsafeMutableRawPointer(bitPattern: UInt(tag))
            arguments[7].vtype = RD_KAFKA_VTYPE_TIMESTAMP
            arguments[7].u.i64 = timestampMilliseconds
            return rd_kafka_produceva(client, arguments.baseAddress, arguments.count)
        }
        // If librdkafka took the record, it now owns the list of headers too, so the list must not be freed here.
        guard let error else {
            headers.releaseOwnership()
            return .queued
        }
        let code = rd_kafka_error_code(error)
        rd_kafka_error_destroy(error)
        return code == RD_KAFKA_RESP_ERR__QUEUE_FULL ? .queueFull : .failed(makeError(code))
    }

    /// The error that made this producer unusable; nil if there was none, and after `close`. Such an error occurs when
    /// the producer can no longer guarantee that each record is written once and in order. Close the producer then, and
    /// produce the records that were not reported as `.persisted` with a new producer.
    public var fatalError: KafkaError? { isOpen ? Kafka.fatalError(of: client) : nil }

    /// The number of records without a report, plus the number of other events that wait for `pollReports`.
    public var outstandingEventCount: Int { isOpen ? Int(rd_kafka_outq_len(client)) : 0 }

    private func makeError(_ code: rd_kafka_resp_err_t) -> KafkaError {
        code == RD_KAFKA_RESP_ERR__FATAL ? fatalError ?? KafkaError(code) : KafkaError(code)
    }
}

// MARK: - Delivery reports, and the end

extension Producer {
    /// Makes librdkafka write to `descriptor`, a non-blocking eventfd, once when the queue of reports becomes
    /// non-empty. The reader must empty the descriptor first and poll afterwards: in the other order, it would lose a
    /// write between the two steps. If `pollReports` stops at `eventsPerPollMax`, it writes to the descriptor itself,
    /// so that the reader polls again.
    public func setWakeup(descriptor: Int32) {
        precondition(isOpen)
        wakeupDescriptor = descriptor
        enableWakeup(of: queue, descriptor: descriptor)
    }

    /// Makes `pollReports` pass errors and log lines to this object, to which the producer refers weakly. For a caller
    /// that makes the handler later than the producer.
    public func setEventHandler(_ eventHandler: any ClientEventHandler) {
        callbackContext.eventHandler = eventHandler
    }

    /// Calls `body` with the reports that have arrived, in at most `eventsPerPollMax` events. Does not wait for more.
    /// The event handler gets errors and log lines.
    ///
    /// - Parameter body: gets the error 0 if the record was acknowledged, else an `rd_kafka_resp_err_t`.
    /// - Returns: the number of reports.
    @discardableResult
    public func pollReports(
        _ body: (_ tag: UInt64, _ error: Int32, _ persistence: Persistence) -> Void
    ) -> Int {
        precondition(isOpen)
        var count = 0
        for _ in 0..<Self.eventsPerPollMax {
            guard let event = rd_kafka_queue_poll(queue, 0) else { return count }
            defer { rd_kafka_event_destroy(event) }
            guard rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR else {
                callbackContext.passToEventHandler(event)
                continue
            }
            while let message = rd_kafka_event_message_next(event) {
                let tag = UInt64(UInt(bitPattern: message.pointee._private))
                let error = message.pointee.err.rawValue
                body(tag, error, error == 0 ? .persisted : persistence(of: message))
                count += 1
            }
        }
        if wakeupDescriptor >= 0 { wake(wakeupDescriptor) }
        return count
    }

    /// Sends the queued records at once, without `linger.ms`. Calls `body` with reports until all have arrived or the
    /// time has passed.
    ///
    /// - Returns: whether all records were reported.
    public func flush(
        timeoutMilliseconds: Int64,
        _ body: (_ tag: UInt64, _ error: Int32, _ persistence: Persistence) -> Void
    ) -> Bool {
        let deadline = Deadline(afterMilliseconds: timeoutMilliseconds)
        while true {
            pollReports(body)
            if outstandingEventCount == 0 { return true }
            if deadline.hasPassed { return false }
            // While `rd_kafka_flush` waits, the client sends records at once, without `linger.ms`. The function takes
            // no reports from the queue: `pollReports` above does.
            rd_kafka_flush(client, deadline.remainingMilliseconds(atMost: Self.flushWaitMillisecondsMax))
        }
    }

    /// Discards all records that wait or are in flight. A later `pollReports` reports each as failed.
    public func purge() {
        precondition(isOpen)
        rd_kafka_purge(client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING)
    }

    /// Frees the client. Records that are still queued or in flight are discarded without a report.
    public func close(timeoutMilliseconds: Int64) -> CloseResult {
        guard isOpen else { return .closed }
        purge()
        pollReports { _, _, _ in }
        isOpen = false
        disableWakeup(of: queue)
        rd_kafka_queue_destroy(queue)
        topics.withLock { topics in
            for topic in topics { rd_kafka_topic_destroy(topic.handle) }
            topics.removeAll()
        }
        let closeResult = destroy(client, until: Deadline(afterMilliseconds: timeoutMilliseconds))
        if closeResult == .unfinished { callbackContext.keepUntilProcessEnds() }
        return closeResult
    }

    /// The longest single wait inside `flush`. It is short, because reports are polled only between two waits.
    private static let flushWaitMillisecondsMax: Int32 = 5

    private func persistence(of message: UnsafePointer<rd_kafka_message_t>) -> Persistence {
        // An unknown status counts as `.possiblyPersisted`. The other two values would say for certain whether the
        // topic has the record.
        Persistence(rawValue: Int32(rd_kafka_message_status(message).rawValue)) ?? .possiblyPersisted
    }
}

/// Returns the base address of a buffer, never nil: librdkafka takes nil for "no value", and the base address of an
/// empty buffer may be nil.
private func nonNilAddress(of bytes: UnsafeRawBufferPointer) -> UnsafeRawPointer {
    bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 1).unsafelyUnwrapped
}
