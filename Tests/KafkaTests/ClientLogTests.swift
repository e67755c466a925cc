import Glibc
import Kafka
import Testbed
import Testing

@Suite(.ownThread) struct ClientLogTests {
    final class LogRecorder: ClientEventHandler {
        let thread = pthread_self()
        var lines: [String] = []
        var errors: [KafkaError] = []
        var statistics: [String] = []
        var hasBrokerUp = false
        var isOnOneThread = true

        func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {
            isOnOneThread = isOnOneThread && pthread_equal(thread, pthread_self()) != 0
            let words = [facility, message].map { String(decoding: $0, as: UTF8.self) }
            lines.append("\(level) \(words[0]) \(words[1])")
        }

        func clientReportedError(_ error: KafkaError) {
            isOnOneThread = isOnOneThread && pthread_equal(thread, pthread_self()) != 0
            errors.append(error)
        }

        func clientReportedStatistics(json: UnsafeRawBufferPointer) {
            isOnOneThread = isOnOneThread && pthread_equal(thread, pthread_self()) != 0
            statistics.append(String(decoding: json, as: UTF8.self))
            hasBrokerUp = BrokerStatistics(json: json).isAnyBrokerUp(wasUp: hasBrokerUp)
        }
    }

    @Test func `The producer logs on the polling thread`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let log = LogRecorder()
        let wakeup = WakeupPipe()
        let producer = try Producer(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("statistics.interval.ms", "20")],
            eventHandler: log
        )
        producer.setWakeup(descriptor: wakeup.writeDescriptor)
        let deadlineMilliseconds = monotonicMilliseconds() + eventWaitMillisecondsMax
        func poll(until condition: () -> Bool) {
            while !condition(), monotonicMilliseconds() < deadlineMilliseconds {
                _ = wakeup.waitBlocking(milliseconds: deadlineMilliseconds - monotonicMilliseconds())
                producer.pollReports { _, _, _ in }
            }
        }
        poll { log.hasBrokerUp }
        #expect(log.hasBrokerUp)
        try broker.takeDown()
        poll {
            log.errors.contains { $0.name == "_ALL_BROKERS_DOWN" } && log.lines.contains { $0.contains("FAIL") }
                && !log.hasBrokerUp
        }
        #expect(!log.hasBrokerUp)
        #expect(log.errors.contains { $0.areAllBrokersDown })
        #expect(log.statistics.first?.hasPrefix("{") == true)
        #expect(log.errors.contains { $0.name == "_ALL_BROKERS_DOWN" && $0.isRetriable })
        #expect(log.lines.contains { $0.contains("FAIL") })
        #expect(log.isOnOneThread)
        #expect(producer.close(timeoutMilliseconds: eventWaitMillisecondsMax) == .closed)
    }

    @Test func `The consumer logs on the polling thread`() throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("commands", partitionCount: 1)
        let log = LogRecorder()
        let handler = ConfigurationTests.RebalanceIgnorer()
        let wakeup = WakeupPipe()
        let consumer = try Consumer(
            properties: [("bootstrap.servers", broker.bootstrapServers), ("group.id", "g"), ("debug", "cgrp")],
            topics: ["commands"],
            handler: handler,
            eventHandler: log
        )
        consumer.setWakeup(descriptor: wakeup.writeDescriptor)
        let deadlineMilliseconds = monotonicMilliseconds() + eventWaitMillisecondsMax
        while consumer.assignment.isEmpty, monotonicMilliseconds() < deadlineMilliseconds {
            _ = wakeup.waitBlocking(milliseconds: deadlineMilliseconds - monotonicMilliseconds())
            while true {
                if case .none = consumer.poll() { break }
            }
        }
        #expect(log.lines.contains { $0.hasPrefix("7 ") })
        #expect(log.isOnOneThread)
        #expect(consumer.close(timeoutMilliseconds: eventWaitMillisecondsMax) == .closed)
    }
}
