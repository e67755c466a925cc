import Kafka
import Testbed
import Testing

@Suite struct ProducerTests {
    @Test func `Every record is reported once, with its tag`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 4)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("results")
        // These tags are all different, and use all 64 bits.
        let tags: [UInt64] = (0..<5_000).map { $0 &* 0x9E37_79B9_7F4A_7C15 } + [0, .max]
        for tag in tags { #expect(producer.send(topic, value: [1, 2, 3], tag: tag).isQueued) }
        #expect(await producer.awaitReports(tags.count))
        #expect(producer.reports.map(\.tag).sorted() == tags.sorted())
        #expect(producer.reports.allSatisfy { $0.error == 0 && $0.persistence == .persisted })
        #expect(producer.producer.outstandingEventCount == 0)
        producer.close()
    }

    @Test func `A full queue is reported as a value, and empties again`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker, [("queue.buffering.max.messages", "10")])
        let topic = try producer.producer.makeTopic("results")
        try broker.takeDown()
        for index in 0..<10 { #expect(producer.send(topic, value: [1], tag: UInt64(index)).isQueued) }
        #expect(producer.send(topic, value: [1]).isQueueFull)
        var headers = ProducedHeaders(capacity: 1)
        withBytes([1]) { headers.append("h", $0) }
        let queueingResult = producer.producer.produce(topic: topic, key: nil, value: nil, headers: headers, tag: 0)
        #expect(queueingResult.isQueueFull)
        try broker.bringUp()
        #expect(await producer.awaitReports(10))
        #expect(producer.reports.allSatisfy { $0.error == 0 })
        #expect(producer.send(topic, value: [1]).isQueued)
        #expect(await producer.awaitReports(11))
        producer.close()
    }

    @Test func `A broker that stays down causes a timeout`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker, [("delivery.timeout.ms", "1000")])
        let topic = try producer.producer.makeTopic("results")
        try broker.takeDown()
        #expect(producer.send(topic, value: [1], tag: 77).isQueued)
        #expect(await producer.awaitReports(1))
        // Error -192 means that the message timed out.
        #expect(producer.reports == [DeliveryReport(tag: 77, error: -192, persistence: .notPersisted)])
        producer.close()
    }

    @Test func `Temporary errors are retried by the client`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker, [("retry.backoff.ms", "1")])
        let topic = try producer.producer.makeTopic("results")
        // The errors mean in this order: connection closed, request timed out, not the leader. The client
        // repeats the request after each error.
        broker.failNextRequests(.produce, with: [-195, 7, 6])
        #expect(producer.send(topic, value: [1], tag: 5).isQueued)
        #expect(await producer.awaitReports(1))
        #expect(producer.reports == [DeliveryReport(tag: 5, error: 0, persistence: .persisted)])
        producer.close()
    }

    @Test func `A refusal is reported with its code`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("results")
        // Error 29 means that the producer is not authorized for the topic.
        broker.failNextRequests(.produce, with: [29])
        #expect(producer.send(topic, value: [1], tag: 9).isQueued)
        #expect(await producer.awaitReports(1))
        #expect(producer.reports.map(\.error) == [29])
        #expect(producer.reports.map(\.persistence) == [.notPersisted])
        producer.close()
    }

    @Test func `A record that is too large is refused at once`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("results")
        let error = try #require(producer.send(topic, value: [UInt8](repeating: 0, count: 2_000_000)).error)
        #expect(error.name == "MSG_SIZE_TOO_LARGE")
        #expect(producer.producer.outstandingEventCount == 0)
        producer.close()
    }

    @Test func `A broken sequence makes the producer fatal`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("results")
        #expect(producer.producer.fatalError == nil)
        // Error 45 means that a sequence number is out of order. Client and broker disagree about the oldest
        // request in flight, so the error is fatal.
        broker.failNextRequests(.produce, with: [45])
        #expect(producer.send(topic, value: [1], tag: 1).isQueued)
        #expect(await producer.awaitReports(1))
        let fatalError = try #require(producer.producer.fatalError)
        #expect(fatalError.isFatal)
        let refusalError = try #require(producer.send(topic, value: [2]).error)
        #expect(refusalError.isFatal)
        producer.close()

        let nextProducer = try TestProducer(broker)
        try await nextProducer.fill("results", count: 1)
        nextProducer.close()
    }

    @Test(.ownThread) func `Flush ignores the linger time`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker, [("linger.ms", "60000")])
        let topic = try producer.producer.makeTopic("results")
        #expect(producer.send(topic, value: [1], tag: 3).isQueued)
        var tags: [UInt64] = []
        let limit = eventWaitMillisecondsMax
        let isEmpty = producer.producer.flush(timeoutMilliseconds: limit) { tag, _, _ in tags.append(tag) }
        #expect(isEmpty)
        #expect(tags == [3])
        producer.close()
    }

    @Test(.ownThread) func `Flush gives up at its deadline, and purge reports the rest`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 1)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("results")
        try broker.takeDown()
        for index in 0..<5 { #expect(producer.send(topic, value: [1], tag: UInt64(index)).isQueued) }
        var earlyReportCount = 0
        #expect(!producer.producer.flush(timeoutMilliseconds: 50) { _, _, _ in earlyReportCount += 1 })
        #expect(earlyReportCount == 0)
        producer.producer.purge()
        #expect(await producer.awaitReports(5))
        // Error -152 means that the record was purged while it was queued.
        #expect(producer.reports.allSatisfy { $0.error == -152 && $0.persistence == .notPersisted })
        producer.close()
    }

    @Test func `Many threads produce at once`() async throws {
        let broker = try EmbeddedBroker()
        try broker.createTopic("results", partitionCount: 4)
        let producer = try TestProducer(broker)
        let topic = try producer.producer.makeTopic("results")
        let sharedProducer = producer.producer
        await withTaskGroup(of: Void.self) { group in
            for lane in 0..<4 {
                group.addTask {
                    for index in 0..<2_000 {
                        let queueingResult = withBytes([UInt8(lane)]) { bytes in
                            sharedProducer.produce(
                                topic: topic,
                                key: bytes,
                                value: bytes,
                                tag: UInt64(lane * 2_000 + index)
                            )
                        }
                        #expect(queueingResult.isQueued)
                    }
                }
            }
        }
        #expect(await producer.awaitReports(8_000))
        #expect(producer.reports.map(\.tag).sorted() == Array(0..<8_000))
        producer.close()
    }
}
