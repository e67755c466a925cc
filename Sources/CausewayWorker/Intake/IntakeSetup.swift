import Kafka
import Logging
import Observability
import Reactor

/// The values from which the Kafka thread is built. They never change.
struct IntakeSetup: Sendable {
    var consumerProperties: [(name: String, value: String)]
    /// The names of the topics that the Kafka thread reads: of commands, registrations, deferred commands and fan-out
    /// records. The place of a topic is its index in ``Intake``, such as ``Intake/commandsTopicIndex``.
    var topics: [String]
    var producer: Producer
    var mailboxes: [LaneMailbox]
    var wakeup: Wakeup
    var drainMilliseconds: Int64
    /// The maximum number of bytes of the records in a lane's inbox. A larger record is accepted only into an empty
    /// inbox.
    var inboxBytesMax: Int
    var storeWatchMailbox: StoreWatchMailbox
    /// How far back commands are read again when Redis has lost them.
    var rereadCommandAgeMillisecondsMax: Int64
    var metricRegistry: MetricRegistry
    var logger: Logger

    /// The addresses of the brokers, for the log.
    var bootstrapServers: String { consumerProperties.last { $0.name == "bootstrap.servers" }?.value ?? "" }
}

/// Passes what the consumer reports to the intake. It is an object of its own, because the consumer needs a handler
/// before the intake exists.
final class IntakeConsumerHandler: ConsumerHandler, ClientEventHandler {
    /// `weak`, because the intake owns this handler.
    weak var intake: Intake?

    func partitionsAssigned(_ partitions: [TopicPartition]) { intake?.partitionsAssigned(partitions) }
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {
        intake?.partitionsRevoked(partitions, areLost: areLost)
    }

    func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {
        intake?.clientLogged(level: level, facility: facility, message: message)
    }
    func clientFailed(_ error: KafkaError) { intake?.clientFailed(error) }
    func clientReportedStatistics(json: UnsafeRawBufferPointer) { intake?.clientReportedStatistics(json: json) }
}
