import Glibc
import Kafka

/// The record from which another record is copied, to the same or another topic (`causeway replay send`). The copy gets
/// the original's time, if Kafka knows it, and a header with the original's place.
package struct RecordOrigin {
    /// The name of the Kafka header that only copies have. Its value is the place of the original record:
    /// `topic/partition/offset`.
    package static let headerName: StaticString = "replayed"

    package var positionText: [UInt8]
    /// The time of the original record, UNIX milliseconds; 0: the copy gets the present time. The time must be the
    /// original's, because a token in a command counts as registered at this time: an old token with a new time would
    /// replace a newer one.
    package var timestampMilliseconds: Int64

    package init(topic: String, partition: Int32, offset: Int64, timestampMilliseconds: Int64) {
        positionText = Array("\(topic)/\(partition)/\(offset)".utf8)
        // Kafka gives -1 for a record without a time. Pass 0 instead: the copy then gets the present time.
        self.timestampMilliseconds = max(0, timestampMilliseconds)
    }
}

/// Writes records to one topic, with a rate limit if one is given, and counts the outcomes.
package struct RecordSender {
    package struct Tally: Equatable {
        /// The records that the producer has taken or refused.
        package var attemptedCount = 0
        package var acknowledgedCount = 0
        package var failedCount = 0
        /// The tags of the failed records that were sent with a tag.
        package var failedTags: [UInt64] = []
        /// The tags of the records that were sent with a tag and have no report yet.
        private var unreportedTags: Set<UInt64> = []
        /// Why the first failed record failed, also if it was not acknowledged in time; nil: no record failed. If no
        /// broker has responded, ``RecordSender/flushAndClose(flushTimeoutMilliseconds:)`` sets the reason that the
        /// `brokerMonitor` knows, because librdkafka reports only timeouts.
        package var failureReason: String?

        /// Counts a record that the producer has taken.
        ///
        /// - Parameter tag: the record's tag; 0 if it has none.
        mutating func countQueuedRecord(tag: UInt64) {
            attemptedCount += 1
            if tag != 0 { unreportedTags.insert(tag) }
        }

        /// Counts a record that the producer has refused. No report comes for such a record.
        mutating func countRefusedRecord(_ reason: String, tag: UInt64) {
            attemptedCount += 1
            countFailure(reason, tag: tag)
        }

        /// Counts the producer's report about a record that it has taken.
        ///
        /// - Parameter error: 0 if the record was acknowledged, else an `rd_kafka_resp_err_t`.
        mutating func countDeliveryReport(tag: UInt64, error: Int32) {
            unreportedTags.remove(tag)
            if error == 0 {
                acknowledgedCount += 1
            } else {
                countFailure(KafkaError(code: error, reason: "").description, tag: tag)
            }
        }

        /// Counts the records without a report as failed, because the sender waits for no more reports.
        mutating func countUnreportedRecordsAsFailed(_ reason: String) {
            guard acknowledgedCount + failedCount < attemptedCount else { return }
            failureReason = failureReason ?? reason
            failedCount = attemptedCount - acknowledgedCount
            failedTags += unreportedTags.sorted()
            unreportedTags = []
        }

        private mutating func countFailure(_ reason: String, tag: UInt64) {
            failedCount += 1
            failureReason = failureReason ?? reason
            if tag != 0 { failedTags.append(tag) }
        }
    }

    /// The longest wait for the last acknowledgements: `delivery.timeout.ms` in `KafkaProperties.producerDefaults`,
    /// after which librdkafka reports a record without an acknowledgement as failed.
    package static let flushTimeoutMilliseconds: Int64 = 120_000
    static let closeTimeoutMilliseconds: Int64 = 5_000
    /// The time between two checks whether a broker has responded.
    private static let brokerCheckIntervalMilliseconds: Int64 = 100
    /// The time between two checks of a full queue.
    private static let queueCheckIntervalSeconds = 0.001

    private let producer: Producer
    private let topic: ProducerTopic
    private var rateLimit: RecordRateLimit
    private let brokerMonitor: BrokerMonitor?
    private let startedAtNanoseconds = RecordSender.readMonotonicNanoseconds()
    package private(set) var tally = Tally()

    /// - Parameters:
    ///   - producer: the producer to use. Do not close it: ``flushAndClose(flushTimeoutMilliseconds:)`` does. If this
    ///     initializer throws, the producer is already closed.
    ///   - brokerMonitor: the producer's event handler, which prints a message if no broker responds; nil: no message.
    package init(
        producer: Producer,
        topic: String,
        recordsPerSecond: Double?,
        brokerMonitor: BrokerMonitor? = nil
    ) throws(KafkaError) {
        do throws(KafkaError) {
            self.topic = try producer.makeTopic(topic)
        } catch {
            _ = producer.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
            throw error
        }
        self.producer = producer
        rateLimit = RecordRateLimit(recordsPerSecond: recordsPerSecond)
        self.brokerMonitor = brokerMonitor
    }

    /// Writes a record, after waiting for the rate limit and for room in the producer's queue.
    package mutating func send(_ record: [UInt8]) {
        _ = waitForRateLimit { false }
        _ = send(record, key: RecordKey.key(of: record), origin: nil, tag: 0) { false }
    }

    /// Waits until the rate limit allows another record.
    ///
    /// - Parameter isCancelled: checked while waiting.
    /// - Returns: false if `isCancelled` returned true first.
    package mutating func waitForRateLimit(until isCancelled: () -> Bool) -> Bool {
        while !isCancelled() {
            let seconds = rateLimit.takeWaitSeconds(sentCount: tally.attemptedCount, elapsedSeconds: elapsedSeconds)
            takeDeliveryReports()
            if seconds == 0 { return true }
            rateLimit.sleepBriefly(atMostSeconds: seconds)
        }
        return false
    }

    /// Writes a record, after waiting for room in the producer's queue. Does not wait for the rate limit.
    ///
    /// - Parameters:
    ///   - origin: the original record if the record is a copy; else nil.
    ///   - tag: a number that `Tally.failedTags` contains if the record fails; 0: none.
    ///   - isCancelled: checked while there is no room. If it returns true, the record is not written.
    /// - Returns: false if the record was not written because `isCancelled` returned true. A record that the producer
    ///   refuses counts as failed, and the method returns true.
    package mutating func send(
        _ record: [UInt8],
        key: [UInt8]?,
        origin: RecordOrigin?,
        tag: UInt64,
        until isCancelled: () -> Bool
    ) -> Bool {
        while true {
            switch produce(record, key: key, origin: origin, tag: tag) {
            case .queued:
                tally.countQueuedRecord(tag: tag)
                takeDeliveryReports()
                return true
            case .queueFull:
                if isCancelled() { return false }
                takeDeliveryReports()
                rateLimit.sleepBriefly(atMostSeconds: Self.queueCheckIntervalSeconds)
            case .failed(let error):
                tally.countRefusedRecord(error.reason, tag: tag)
                return true
            }
        }
    }

    /// Waits for outstanding acknowledgements, closes the producer, and returns the final tally. A record that is not
    /// acknowledged in time counts as failed, although a broker may have it.
    package mutating func flushAndClose(flushTimeoutMilliseconds: Int64 = flushTimeoutMilliseconds) -> Tally {
        flush(flushTimeoutMilliseconds)
        // Without a broker, librdkafka reports only a timeout for each record. The monitor knows the cause.
        if tally.acknowledgedCount < tally.attemptedCount,
            let failure = brokerMonitor?.failureReason(producer.hasReachedBroker)
        {
            tally.failureReason = failure
        }
        tally.countUnreportedRecordsAsFailed("no acknowledgement within \(flushTimeoutMilliseconds / 1_000) s")
        _ = producer.close(timeoutMilliseconds: Self.closeTimeoutMilliseconds)
        return tally
    }

    /// Adds the delivery reports that have arrived to the tally, and lets the `brokerMonitor` print its message if this
    /// is due. Call this again and again during a long wait between two records.
    package mutating func takeDeliveryReports() {
        var reports: [DeliveryReport] = []
        producer.pollReports { tag, error, _ in reports.append(DeliveryReport(tag: tag, error: error)) }
        count(reports)
        brokerMonitor?.printIfUnreached(producer.hasReachedBroker)
    }

    /// Waits until all records have a report, or the time has passed.
    private mutating func flush(_ timeoutMilliseconds: Int64) {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + timeoutMilliseconds
        while true {
            var reports: [DeliveryReport] = []
            let remainingMilliseconds = max(0, deadlineMilliseconds - Clock.monotonicMilliseconds)
            let isFlushed = producer.flush(
                timeoutMilliseconds: min(remainingMilliseconds, Self.brokerCheckIntervalMilliseconds)
            ) { tag, error, _ in
                reports.append(DeliveryReport(tag: tag, error: error))
            }
            count(reports)
            if isFlushed || remainingMilliseconds == 0 { return }
            brokerMonitor?.printIfUnreached(producer.hasReachedBroker)
        }
    }

    package var elapsedSeconds: Double {
        Double(Self.readMonotonicNanoseconds() - startedAtNanoseconds) / 1_000_000_000
    }

    private struct DeliveryReport {
        var tag: UInt64
        var error: Int32
    }

    private func produce(_ record: [UInt8], key: [UInt8]?, origin: RecordOrigin?, tag: UInt64) -> QueueingResult {
        func withKey(_ body: (UnsafeRawBufferPointer?) -> QueueingResult) -> QueueingResult {
            guard let key else { return body(nil) }
            return key.withUnsafeBytes { body($0) }
        }
        return record.withUnsafeBytes { value in
            withKey { key in
                guard let origin else {
                    return producer.produce(topic: topic, key: key, value: value, tag: tag)
                }
                var headers = ProducedHeaders(capacity: 1)
                origin.positionText.withUnsafeBytes { headers.append(RecordOrigin.headerName, $0) }
                return producer.produce(
                    topic: topic,
                    key: key,
                    value: value,
                    headers: headers,
                    timestampMilliseconds: origin.timestampMilliseconds,
                    tag: tag
                )
            }
        }
    }

    private mutating func count(_ reports: [DeliveryReport]) {
        for report in reports { tally.countDeliveryReport(tag: report.tag, error: report.error) }
    }

    private static func readMonotonicNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
