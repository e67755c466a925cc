import Kafka

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
    func clientReportedError(_ error: KafkaError) { intake?.clientReportedError(error) }
    func clientReportedStatistics(json: UnsafeRawBufferPointer) { intake?.clientReportedStatistics(json: json) }
}
