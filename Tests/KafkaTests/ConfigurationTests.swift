import Kafka
import Testbed
import Testing

@Suite(.ownThread) struct ConfigurationTests {
    final class RebalanceIgnorer: ConsumerHandler {
        func partitionsAssigned(_ partitions: [TopicPartition]) {}
        func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
    }

    static let requiredProperties: [(name: String, value: String)] = [
        ("bootstrap.servers", "127.0.0.1:1"), ("group.id", "g"),
    ]

    /// Returns the error of a `Consumer` with these properties; nil if the consumer starts. The consumer is then closed
    /// before it gets an assignment.
    private func consumerError(_ properties: [(name: String, value: String)], topics: [String] = ["t"]) -> KafkaError? {
        do throws(KafkaError) {
            let consumer = try Consumer(properties: properties, topics: topics, handler: RebalanceIgnorer())
            _ = consumer.close(timeoutMilliseconds: 0)
            return nil
        } catch {
            return error
        }
    }

    private func producerError(_ properties: [(name: String, value: String)]) -> KafkaError? {
        do throws(KafkaError) {
            let producer = try Producer(properties: properties)
            #expect(producer.close(timeoutMilliseconds: eventWaitMillisecondsMax) == .closed)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        ("no.such.property", "1"), ("session.timeout.ms", "soon"), ("session.timeout.ms", "-1"),
        ("auto.offset.reset", "sometimes"), ("check.crcs", "perhaps"), ("client.id", "a\0b"), ("", "x"),
        ("compression.type", "rar"),
    ])
    func `A bad property is named`(name: String, value: String) throws {
        let error = try #require(consumerError(Self.requiredProperties + [(name, value)]))
        #expect(error.reason.contains("property \(name):"))
        #expect(!error.isRetriable)
        #expect(producerError(Self.requiredProperties + [(name, value)])?.reason.contains("property \(name):") == true)
    }

    @Test(arguments: [
        ("enable.auto.offset.store", "true", "enable.auto.offset.store"),
        ("enable.auto.commit", "true", "enable.auto.commit"),
        ("log.queue", "false", "log.queue"),
        ("auto.commit.interval.ms", "0", "auto.commit.interval.ms"),
    ])
    func `The consumer refuses properties that break a promise`(name: String, value: String, named: String) throws {
        let error = try #require(consumerError(Self.requiredProperties + [(name, value)]))
        #expect(error.reason.hasPrefix("property \(named): must"))
    }

    @Test(arguments: [
        ("enable.idempotence", "false", "enable.idempotence"),
        ("delivery.report.only.error", "true", "delivery.report.only.error"),
        ("transactional.id", "t", "transactional.id"),
        ("log.queue", "false", "log.queue"),
    ])
    func `The producer refuses properties that break a promise`(name: String, value: String, named: String) throws {
        let error = try #require(producerError(Self.requiredProperties + [(name, value)]))
        #expect(error.reason.hasPrefix("property \(named): must"))
    }

    @Test func `Acknowledgement by one broker is refused`() throws {
        for name in ["acks", "request.required.acks"] {
            let error = try #require(producerError(Self.requiredProperties + [(name, "1")]))
            #expect(error.reason.contains("acks"))
        }
    }

    @Test func `Required properties are named`() {
        #expect(consumerError([("group.id", "g")])?.reason == "property bootstrap.servers: is required")
        #expect(consumerError([("bootstrap.servers", "127.0.0.1:1")])?.reason == "property group.id: is required")
        #expect(producerError([])?.reason == "property bootstrap.servers: is required")
    }

    @Test func `A later property overrides an earlier one and the default`() {
        #expect(consumerError(Self.requiredProperties + [("check.crcs", "nonsense"), ("check.crcs", "true")]) != nil)
        #expect(
            producerError(Self.requiredProperties + [("enable.idempotence", "false"), ("enable.idempotence", "true")])
                == nil
        )
    }

    @Test(arguments: [[], [""], ["^pattern.*"], ["a", "a"], ["a\0b"], ["a", "b", "^c"]])
    func `A bad topic is refused`(topics: [String]) throws {
        let error = try #require(consumerError(Self.requiredProperties, topics: topics))
        #expect(error.reason.contains("topic"))
    }

    @Test func `An error names its code`() {
        let error = KafkaError(code: -185, reason: "late")
        #expect(error.name == "_TIMED_OUT")
        #expect(error.description == "_TIMED_OUT: late")
    }
}
