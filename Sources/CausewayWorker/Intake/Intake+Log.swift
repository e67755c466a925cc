import Kafka
import Logging
import Observability
import Reactor

/// Handles the log lines, errors and statistics that librdkafka reports about the consumer, and the producer's errors.
extension Intake: ClientEventHandler {
    func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {
        let text = String(decoding: message, as: UTF8.self)
        writeLog(
            .kafkaClient,
            level: Self.logLevel(syslog: level),
            ["facility": "\(String(decoding: facility, as: UTF8.self))", "line": "\(text)"]
        )
    }

    func clientReportedError(_ error: KafkaError) {
        countError(error)
        if error.areAllBrokersDown { return noteBroker(isUp: false, reason: error.reason) }
        writeLog(.kafkaError, level: .warning, ["error": "\(error)"])
    }

    func clientReportedStatistics(json: UnsafeRawBufferPointer) {
        let statistics = BrokerStatistics(json: json)
        noteBroker(
            isUp: statistics.isAnyBrokerUp(wasUp: isAnyBrokerUp),
            reason: statistics.isAnyConnectionUp
                ? "the brokers do not respond, although a connection is up" : "no connection to a broker is up"
        )
    }

    /// Counts and logs an error of the producer. Only the consumer's reports say whether a broker is up.
    func producerReportedError(_ error: KafkaError) {
        guard !error.areAllBrokersDown else { return }
        countError(error)
        writeLog(.kafkaError, level: .warning, ["error": "\(error)", "client": "producer"])
    }

    /// Returns the name of a partition, as used in the metrics.
    func name(of partition: TopicPartition) -> String {
        "\(setup.metricRegistry.labels.topics[Int(partition.topic.index)])/\(partition.partition)"
    }

    private static func logLevel(syslog level: Int32) -> Logger.Level {
        switch level {
        case ...2: .critical
        case 3: .error
        case 4: .warning
        case 5: .notice
        case 6: .info
        default: .debug
        }
    }
}
