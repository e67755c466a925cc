import Delivery
import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker
@testable import Observability

/// Kafka does not take what a lane produces. The broker refuses the first requests with a code of Kafka's protocol.
@Suite(.ownThread) struct UnwrittenRecordTests {
    private static let recordCount = 2

    /// Kafka limits the size of a batch, not of a record, and refuses all records of a batch that is too large. Error
    /// 29 means that the producer is not authorized for the topic.
    @Test(arguments: [KafkaError.messageTooLargeCode, 29])
    func `Results that Kafka refuses with their batch arrive later, and the log has the refusal`(code: Int32) throws {
        try Self.runLane(refusals: [code, code]) { lane, events in
            #expect(lane.publishedTotals().sum(.outcomes) == Int64(Self.recordCount))
            #expect(events[.resultNotProduced].count > 0)
            #expect(events[.resultNotProduced].lastLineMetadata.contains("topic=causeway."))
            #expect(events[.recordGivenUp].count == 0)
        }
    }

    @Test func `Results that Kafka always refuses as too large are given up, and the log says so`() throws {
        let refusals = [Int32](repeating: KafkaError.messageTooLargeCode, count: 1_000)
        try Self.runLane(refusals: refusals) { lane, events in
            #expect(lane.publishedTotals().sum(.outcomes) == 0)
            #expect(events[.recordGivenUp].count > 0)
        }
    }

    /// No broker responds. The test polls the producer, but not the consumer, whose errors are in the log too.
    @Test func `The log has the producer's errors`() throws {
        try withIntake { intake, setup, _ in
            try eventually("an error of the producer") {
                intake.passDeliveryReports()
                return setup.metricRegistry.events[.kafkaError].count > 0
            }
            #expect(setup.metricRegistry.events[.kafkaError].lastLineMetadata.contains("client=producer"))
        }
    }

    /// Gives a lane invalid records, and lets it run until all are settled. Then calls `body`. Expects that the Kafka
    /// thread counts the refusals.
    private static func runLane(refusals: [Int32], _ body: (Lane, RecentEvents) throws -> Void) throws {
        let broker = try EmbeddedBroker()
        try LaneOverflowTests.makeTopics(of: broker, recordCount: recordCount)
        for topic in ["results", "dead-letters"] { try broker.createTopic("causeway.\(topic)", partitionCount: 1) }
        try withIntake(bootstrapServers: broker.bootstrapServers) { intake, setup, laneSetup in
            defer { LaneOverflowTests.discardRecords(of: intake) }
            let mailbox = setup.mailboxes[0]
            try eventually("the commands", every: .milliseconds(1)) {
                intake.loop.runIteration(waitMilliseconds: 10)
                return mailbox.inbox.count == recordCount
            }
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            lane.takeLaneOrders()
            broker.failNextRequests(.produce, with: refusals)
            lane.takeRecords()
            try #require(lane.delivery.inProgressRecordCount == recordCount)
            try eventually("the end of all records", every: .milliseconds(1)) {
                lane.loop.refreshClock()
                lane.takeDeliveryReports()
                lane.delivery.advance(now: lane.now)
                lane.produceOutgoingRecords()
                intake.loop.runIteration(waitMilliseconds: 10)
                return lane.delivery.inProgressRecordCount == 0
            }
            intake.publishMetrics()
            let totals = setup.metricRegistry.totals(nowMilliseconds: intake.loop.nowMilliseconds)
            #expect(totals.sum(.kafkaErrors) > 0)
            try body(lane, setup.metricRegistry.events)
        }
    }
}
