import Kafka

/// The lab's producer of commands and registrations. In production, an app's server writes these records.
final class CommandProducer {
    static let commandsTopicName = "causeway.commands"
    static let registrationsTopicName = "causeway.registrations"
    static let deferredTopicName = "causeway.deferred"

    let producer: Producer
    let commandsTopic: ProducerTopic
    private let registrationsTopic: ProducerTopic
    /// Records that the broker refused, or did not acknowledge in time.
    private(set) var undeliveredRecordCount = 0

    init(bootstrapServers: String) throws(LabError) {
        do throws(KafkaError) {
            producer = try Producer(properties: [
                ("bootstrap.servers", bootstrapServers), ("client.id", "demo"), ("linger.ms", "20"),
                ("compression.type", "lz4"),
            ])
        } catch {
            throw LabError("the demo cannot write to Kafka: \(error)")
        }
        do throws(KafkaError) {
            commandsTopic = try producer.makeTopic(Self.commandsTopicName)
            registrationsTopic = try producer.makeTopic(Self.registrationsTopicName)
        } catch {
            _ = producer.close(timeoutMilliseconds: 0)
            throw LabError("the demo cannot write to Kafka: \(error)")
        }
    }

    /// Writes a registration. Returns false if the producer's queue is full.
    func produceRegistration(key: String, value: [UInt8]) throws(LabError) -> Bool {
        var key = key
        let queueingResult = value.withUnsafeBytes { value in
            key.withUTF8 { key in
                producer.produce(topic: registrationsTopic, key: UnsafeRawBufferPointer(key), value: value, tag: 0)
            }
        }
        switch queueingResult {
        case .queued: return true
        case .queueFull: return false
        case .failed(let error): throw LabError("a registration could not be produced: \(error)")
        }
    }

    func produceCommand(key: String, value: [UInt8]) -> QueueingResult {
        var key = key
        return value.withUnsafeBytes { value in
            key.withUTF8 { key in
                producer.produce(topic: commandsTopic, key: UnsafeRawBufferPointer(key), value: value, tag: 0)
            }
        }
    }

    /// Takes the delivery reports that have arrived, and counts the records that did not reach the broker.
    func takeDeliveryReports() {
        producer.pollReports { _, error, _ in
            if error != 0 { undeliveredRecordCount += 1 }
        }
    }

    func close() {
        _ = producer.close(timeoutMilliseconds: 1_000)
    }
}
