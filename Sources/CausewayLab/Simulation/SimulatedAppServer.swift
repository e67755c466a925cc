import APNsSimulator
import CausewayCommandLine
import Kafka

/// Copies registrations from simulated phones to Kafka. In production, an app's server does this with the tokens that
/// phones send.
struct SimulatedAppServer: Sendable {
    private static let waitMilliseconds = 1_000

    private let producer: Producer
    private let topic: String
    private let brokerMonitor: BrokerMonitor

    init(bootstrapServers: String, topic: String) throws(KafkaError) {
        let properties = [("bootstrap.servers", bootstrapServers)]
        brokerMonitor = BrokerMonitor(of: "causeway-lab simulator", properties: properties)
        producer = try Producer(properties: properties, eventHandler: brokerMonitor)
        self.topic = topic
    }

    /// Copies registrations until the task is cancelled, or the simulator stops or refuses a read.
    func run(from simulator: Simulator) async {
        do {
            var sender = try RecordSender(
                producer: producer,
                topic: topic,
                recordsPerSecond: nil,
                brokerMonitor: brokerMonitor
            )
            var cursor = 0
            while !Task.isCancelled,
                let page = try? await simulator.registrations(since: cursor, waitMilliseconds: Self.waitMilliseconds)
            {
                for record in page.records { sender.send(record.value) }
                cursor = page.next
                sender.takeDeliveryReports()
            }
            if let reason = sender.flushAndClose().failureReason {
                StandardStreams.printError("causeway-lab simulator: \(reason)")
            }
        } catch {
            StandardStreams.printError("causeway-lab simulator: \(error)")
        }
    }
}
