import Kafka
import Logging

/// librdkafka's own lines.
extension Intake: ClientLogHandler {
    func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {
        let text = String(decoding: message, as: UTF8.self)
        logger.log(
            level: Self.logLevel(syslog: level),
            "\(text)",
            metadata: ["librdkafka": "\(String(decoding: facility, as: UTF8.self))"]
        )
    }

    func clientFailed(_ error: KafkaError) { logger.warning("Kafka", metadata: ["error": "\(error)"]) }

    func clientStatistics(json: UnsafeRawBufferPointer) {}

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
