import Glibc
import Kafka

/// A record that is written once more.
package struct RecordCopy {
    /// The header that says so; its value is where the record stood: `topic/partition/offset`.
    package static let header: StaticString = "replayed"

    package var source: [UInt8]
    /// The record's time, which it keeps: a token that it carries is as old as the record. 0: now.
    package var timestampMilliseconds: Int64

    package init(topic: String, partition: Int32, offset: Int64, timestampMilliseconds: Int64) {
        source = Array("\(topic)/\(partition)/\(offset)".utf8)
        // A record without a time has -1.
        self.timestampMilliseconds = max(0, timestampMilliseconds)
    }
}

/// Writes records to one topic, at a rate if one is asked for, and counts what becomes of them.
package struct RecordSender {
    package struct Tally: Equatable {
        package var sent = 0
        package var acknowledged = 0
        package var failed = 0
        /// The marks of records that failed, as far as they were given one.
        package var failedMarks: [UInt64] = []
        /// What the first failure was.
        package var reason: String?
    }

    /// How long the last acknowledgements are waited for.
    package static let flushMilliseconds: Int64 = 120_000
    /// How long librdkafka may take to say which records were given up.
    private static let purgeMilliseconds: Int64 = 1_000
    static let closeMilliseconds: Int64 = 5_000
    /// Between two looks at a full queue.
    private static let roomSeconds = 0.001

    private let producer: Producer
    private let topic: ProducerTopic
    private let rate: RecordRate
    private let startNanoseconds = RecordSender.nanoseconds()
    package private(set) var tally = Tally()

    /// - Parameter producer: is closed by ``finish(flushMilliseconds:)``, or at once if this throws.
    package init(producer: Producer, topic: String, rate: Double?) throws(KafkaError) {
        do throws(KafkaError) {
            self.topic = try producer.topic(topic)
        } catch {
            _ = producer.close(deadlineMilliseconds: Self.closeMilliseconds)
            throw error
        }
        self.producer = producer
        self.rate = RecordRate(perSecond: rate)
    }

    /// Waits for the record's turn, and for room in the producer's queue.
    package mutating func send(_ record: [UInt8]) {
        _ = waitForTurn { false }
        _ = send(record, key: RecordKey.key(of: record), copy: nil, mark: 0) { false }
    }

    /// Waits until the rate allows another record.
    ///
    /// - Parameter isOver: asked meanwhile.
    /// - Returns: false if it was over before.
    package mutating func waitForTurn(until isOver: () -> Bool) -> Bool {
        while !isOver() {
            let seconds = rate.secondsUntil(another: tally.sent, elapsedSeconds: elapsedSeconds)
            takeReports()
            if seconds == 0 { return true }
            rate.sleep(seconds: seconds)
        }
        return false
    }

    /// Waits for room in the producer's queue, and for nothing else.
    ///
    /// - Parameters:
    ///   - copy: of which record this one is a copy; nil: of none.
    ///   - mark: stands in the tally if the record fails; 0 for none.
    ///   - isOver: asked while there is no room.
    /// - Returns: false if it was over before there was room: the record is not sent.
    package mutating func send(
        _ record: [UInt8],
        key: [UInt8]?,
        copy: RecordCopy?,
        mark: UInt64,
        until isOver: () -> Bool
    ) -> Bool {
        while true {
            switch produce(record, key: key, copy: copy, mark: mark) {
            case .queued:
                tally.sent += 1
                takeReports()
                return true
            case .queueFull:
                if isOver() { return false }
                takeReports()
                rate.sleep(seconds: Self.roomSeconds)
            case .failed(let error):
                tally.sent += 1
                count(failure: error.reason, mark: mark)
                return true
            }
        }
    }

    /// Waits for what is on its way, and gives the producer up. What is not acknowledged by then is given up and counts as failed, though a
    /// broker may have it.
    package mutating func finish(flushMilliseconds: Int64 = flushMilliseconds) -> Tally {
        if !flush(flushMilliseconds) {
            tally.reason = tally.reason ?? "no answer within \(flushMilliseconds / 1_000) s"
            producer.purge()
            _ = flush(Self.purgeMilliseconds)
        }
        tally.failed = tally.sent - tally.acknowledged
        _ = producer.close(deadlineMilliseconds: Self.closeMilliseconds)
        return tally
    }

    /// - Returns: whether everything was reported.
    private mutating func flush(_ milliseconds: Int64) -> Bool {
        var reports: [Report] = []
        let isFlushed = producer.flush(timeoutMilliseconds: milliseconds) { mark, error, _ in
            reports.append(Report(mark: mark, error: error))
        }
        count(reports)
        return isFlushed
    }

    package var elapsedSeconds: Double {
        Double(Self.nanoseconds() - startNanoseconds) / 1_000_000_000
    }

    private struct Report {
        var mark: UInt64
        var error: Int32
    }

    private func produce(_ record: [UInt8], key: [UInt8]?, copy: RecordCopy?, mark: UInt64) -> ProduceOutcome {
        func withKey(_ body: (UnsafeRawBufferPointer?) -> ProduceOutcome) -> ProduceOutcome {
            guard let key else { return body(nil) }
            return key.withUnsafeBytes { body($0) }
        }
        return record.withUnsafeBytes { value in
            withKey { key in
                guard let copy else {
                    return producer.produce(topic: topic, key: key, value: value, opaque: mark)
                }
                var headers = ProducedHeaders(capacity: 1)
                copy.source.withUnsafeBytes { headers.append(RecordCopy.header, $0) }
                return producer.produce(
                    topic: topic,
                    key: key,
                    value: value,
                    headers: headers,
                    timestampMilliseconds: copy.timestampMilliseconds,
                    opaque: mark
                )
            }
        }
    }

    private mutating func takeReports() {
        var reports: [Report] = []
        producer.pollReports { mark, error, _ in reports.append(Report(mark: mark, error: error)) }
        count(reports)
    }

    private mutating func count(_ reports: [Report]) {
        for report in reports {
            if report.error == 0 {
                tally.acknowledged += 1
            } else {
                count(failure: KafkaError(code: report.error, reason: "").description, mark: report.mark)
            }
        }
    }

    private mutating func count(failure reason: String, mark: UInt64) {
        tally.failed += 1
        tally.reason = tally.reason ?? reason
        if mark != 0 { tally.failedMarks.append(mark) }
    }

    private static func nanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
