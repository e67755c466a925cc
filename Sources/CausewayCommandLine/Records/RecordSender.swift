import Glibc
import Kafka

/// Writes records to one topic, at a rate if one is asked for, and counts what becomes of them.
package struct RecordSender {
    package struct Tally: Equatable {
        package var sent = 0
        package var acknowledged = 0
        package var failed = 0
        /// What the first failure was.
        package var reason: String?
    }

    /// How long the last acknowledgements are waited for.
    static let flushMilliseconds: Int64 = 120_000
    static let closeMilliseconds: Int64 = 5_000
    private static let pauseMicroseconds: UInt32 = 500

    private let producer: Producer
    private let topic: ProducerTopic
    /// Records a second; nil: as fast as Kafka takes them.
    private let rate: Double?
    private let startNanoseconds = RecordSender.nanoseconds()
    package private(set) var tally = Tally()

    package init(producer: Producer, topic: String, rate: Double?) throws(KafkaError) {
        self.producer = producer
        self.topic = try producer.topic(topic)
        self.rate = rate
    }

    /// Waits for the record's turn, and for room in the producer's queue.
    package mutating func send(_ record: [UInt8]) {
        while let rate, Double(tally.sent) > elapsedSeconds * rate {
            takeReports()
            usleep(Self.pauseMicroseconds)
        }
        let key = RecordKey.key(of: record)
        tally.sent += 1
        while true {
            switch produce(record, key: key) {
            case .queued:
                return takeReports()
            case .queueFull:
                takeReports()
                usleep(Self.pauseMicroseconds)
            case .failed(let error):
                return count(failure: error.reason)
            }
        }
    }

    /// Waits for what is on its way, and gives the producer up. What is not acknowledged by then counts as failed.
    package mutating func finish() -> Tally {
        var reports: [Int32] = []
        _ = producer.flush(timeoutMilliseconds: Self.flushMilliseconds) { _, error, _ in reports.append(error) }
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

    private func produce(_ record: [UInt8], key: [UInt8]?) -> ProduceOutcome {
        record.withUnsafeBytes { value in
            guard let key else { return producer.produce(topic: topic, key: nil, value: value, opaque: 0) }
            return key.withUnsafeBytes { producer.produce(topic: topic, key: $0, value: value, opaque: 0) }
        }
    }

    private mutating func takeReports() {
        var reports: [Int32] = []
        producer.pollReports { _, error, _ in reports.append(error) }
        count(reports)
    }

    private mutating func count(_ reports: [Int32]) {
        for error in reports {
            if error == 0 {
                tally.acknowledged += 1
            } else {
                count(failure: KafkaError(code: error, reason: "").description)
            }
        }
    }

    private mutating func count(failure reason: String) {
        tally.failed += 1
        tally.reason = tally.reason ?? reason
    }

    private static func nanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
