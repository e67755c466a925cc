import Kafka
import Logging
import Observability
import Reactor

/// The values from which the Kafka thread is built. They never change.
struct IntakeSetup: Sendable {
    var consumerProperties: [(name: String, value: String)]
    /// The names of the topics that the Kafka thread reads, each at its index in ``Intake``: those of commands,
    /// registrations, deferred commands and fan-out records.
    var topics: [String]
    var producer: Producer
    var mailboxes: [LaneMailbox]
    var wakeup: Wakeup
    var drainMilliseconds: Int64
    /// The maximum number of bytes of the records in a lane's inbox. A larger record is accepted only into an empty
    /// inbox.
    var inboxBytesMax: Int
    var storeWatchMailbox: StoreWatchMailbox
    /// After Redis has lost data, only commands of at most this age are read again.
    var rereadCommandAgeMillisecondsMax: Int64
    var metricRegistry: MetricRegistry
    var logger: Logger

    /// The addresses of the brokers, for the log.
    var bootstrapServers: String { consumerProperties.last { $0.name == "bootstrap.servers" }?.value ?? "" }
}
