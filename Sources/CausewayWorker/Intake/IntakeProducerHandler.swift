import Kafka

/// Passes the producer's errors to the intake, whose thread polls the producer. Leaves out the producer's log lines,
/// because most repeat those of the consumer, which connects to the same brokers. Statistics of one client suffice.
final class IntakeProducerHandler: ClientEventHandler {
    /// `weak`, because the intake owns this handler.
    weak var intake: Intake?

    func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {}
    func clientReportedError(_ error: KafkaError) { intake?.producerReportedError(error) }
    func clientReportedStatistics(json: UnsafeRawBufferPointer) {}
}
