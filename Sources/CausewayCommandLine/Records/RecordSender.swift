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
    static let flushMilliseconds: Int64 = 120_000
    static let closeMilliseconds: Int64 = 5_000
    private static let pauseMicroseconds: UInt32 = 500

    private let producer: Producer
    private let topic: ProducerTopic
    private let rate: RecordRate
    private let startNanoseconds = RecordSender.nanoseconds()
    package private(set) var tally = Tally()

    package init(producer: Producer, topic: String, rate: Double?) throws(KafkaError) {
        self.producer = producer
        self.topic = try producer.topic(topic)
        self.rate = RecordRate(perSecond: rate)
    }

    /// Waits for the record's turn, and for room in the producer's queue.
    package mutating func send(_ record: [UInt8]) {
        _ = waitForTurn { false }
        send(record, key: RecordKey.key(of: record), copy: nil, mark: 0)
    }

    /// Waits until the rate allows another record.
    ///
    /// - Parameter isOver: asked meanwhile.
    /// - Returns: false if it was over before.
    package mutating func waitForTurn(until isOver: () -> Bool) -> Bool {
        while !rate.allows(another: tally.sent, elapsedSeconds: elapsedSeconds) {
            if isOver() { return false }
            takeReports()
            usleep(Self.pauseMicroseconds)
        }
        return !isOver()
    }

    /// Waits for room in the producer's queue, and for nothing else.
    ///
    /// - Parameters:
    ///   - copy: of which record this one is a copy; nil: of none.
    ///   - mark: stands in the tally if the record fails; 0 for none.
    package mutating func send(_ record: [UInt8], key: [UInt8]?, copy: RecordCopy?, mark: UInt64) {
        tally.sent += 1
        while true {
            switch produce(record, key: key, copy: copy, mark: mark) {
            case .queued:
                return takeReports()
            case .queueFull:
                takeReports()
                usleep(Self.pauseMicroseconds)
            case .failed(let error):
                return count(failure: error.reason, mark: mark)
            }
        }
    }

    /// Waits for what is on its way, and gives the producer up. What is not acknowledged by then counts as failed.
    package mutating func finish() -> Tally {
        var reports: [Report] = []
        _ = producer.flush(timeoutMilliseconds: Self.flushMilliseconds) { mark, error, _ in
            reports.append(Report(mark: mark, error: error))
        }
        count(reports)
        let missing = tally.sent - tally.acknowledged - tally.failed
        if missing > 0 {
            tally.failed += missing
            tally.reason = tally.reason ?? "no answer within \(Self.flushMilliseconds / 1_000) s"
        }
        _ = producer.close(deadlineMilliseconds: Self.closeMilliseconds)
        return tally
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
