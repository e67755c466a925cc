import Kafka

/// A setting that is allowed but probably a mistake.
package struct ConfigurationWarning: Sendable, Equatable, CustomStringConvertible {
    /// The key, such as `kafka.consumer.session.timeout.ms`.
    package var key: String
    package var message: String

    package var description: String { "\(key): \(message)" }

    package static func findAll(in configuration: WorkerConfiguration) -> [ConfigurationWarning] {
        sessionWarnings(configuration.kafka)
    }
}

extension ConfigurationWarning {
    /// The session timeouts that brokers accept by default: `group.min.session.timeout.ms` to
    /// `group.max.session.timeout.ms`.
    private static let sessionTimeoutsMilliseconds = 6_000...1_800_000
    /// The minimum number of heartbeats within a session timeout. With fewer, a worker loses its partitions after one
    /// late heartbeat.
    private static let heartbeatsPerSessionMin = 3

    private static func sessionWarnings(_ kafka: WorkerConfiguration.Kafka) -> [ConfigurationWarning] {
        let session = sessionTimeout(of: kafka)
        let heartbeat = integerProperty(
            "heartbeat.interval.ms",
            of: kafka,
            default: KafkaProperties.heartbeatIntervalMilliseconds
        )
        var warnings: [ConfigurationWarning] = []
        if session.value < sessionTimeoutsMilliseconds.lowerBound {
            warnings.append(
                ConfigurationWarning(
                    key: session.key,
                    message: """
                        \(session.value) is less than brokers accept by default (group.min.session.timeout.ms, \
                        \(sessionTimeoutsMilliseconds.lowerBound)), so they reject the worker
                        """
                )
            )
        }
        if session.value > sessionTimeoutsMilliseconds.upperBound {
            warnings.append(
                ConfigurationWarning(
                    key: session.key,
                    message: """
                        \(session.value) is more than brokers accept by default (group.max.session.timeout.ms, \
                        \(sessionTimeoutsMilliseconds.upperBound)), so they reject the worker
                        """
                )
            )
        }
        if heartbeat.value > session.value / heartbeatsPerSessionMin {
            warnings.append(
                ConfigurationWarning(
                    key: heartbeat.key,
                    message:
                        "\(heartbeat.value) is more than a third of session.timeout.ms, which is \(session.value): "
                        + "a worker loses its partitions after one late heartbeat"
                )
            )
        }
        return warnings
    }

    /// Returns the consumer's session timeout in milliseconds, and its key.
    fileprivate static func sessionTimeout(of kafka: WorkerConfiguration.Kafka) -> (key: String, value: Int) {
        integerProperty("session.timeout.ms", of: kafka, default: KafkaProperties.sessionTimeoutMilliseconds)
    }

    /// Returns the value that an integer property of librdkafka has in the consumer, and the configuration key that
    /// sets the property. If no key sets the property, returns `defaultValue`, and the key with which an operator can
    /// set it.
    private static func integerProperty(
        _ name: String,
        of kafka: WorkerConfiguration.Kafka,
        default defaultValue: Int
    ) -> (key: String, value: Int) {
        for (section, properties) in [("kafka.consumer", kafka.consumer), ("kafka.properties", kafka.properties)] {
            if let configuredValue = properties.last(where: { $0.name == name }).flatMap({ Int($0.value) }) {
                return ("\(section).\(name)", configuredValue)
            }
        }
        return ("kafka.consumer.\(name)", defaultValue)
    }
}

extension WorkerConfiguration.Kafka {
    /// The consumer's session timeout: the least time after which the consumer group notices that a worker has died.
    package var sessionTimeoutMilliseconds: Int { ConfigurationWarning.sessionTimeout(of: self).value }
}
