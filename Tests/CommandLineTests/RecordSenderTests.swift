import Kafka
import Testbed
import Testing

@testable import CausewayCommandLine

/// How a sender counts the outcomes of its records. For a failed record, `causeway replay send` undoes what it has
/// changed in Redis.
@Suite(.ownThread) struct RecordSenderTests {
    /// librdkafka may drop a record and report this only after the sender has stopped waiting. For the sender, such a
    /// record has no report.
    @Test func `A record without a report counts as failed, with its tag`() {
        var tally = RecordSender.Tally()
        for tag in [1, 2, 0, 3, 4] as [UInt64] { tally.countQueuedRecord(tag: tag) }
        tally.countRefusedRecord("too large", tag: 5)
        tally.countDeliveryReport(tag: 2, error: 0)
        // Error -192 means that the message timed out.
        tally.countDeliveryReport(tag: 4, error: -192)
        #expect(tally.failedTags == [5, 4] && tally.failedCount == 2)
        tally.countUnreportedRecordsAsFailed("no acknowledgement")
        #expect(tally.failedTags == [5, 4, 1, 3])
        #expect(tally.attemptedCount == 6 && tally.acknowledgedCount == 1 && tally.failedCount == 5)
        #expect(tally.failureReason == "too large")
    }

    @Test func `Nothing has failed if every record was acknowledged`() {
        var tally = RecordSender.Tally()
        tally.countQueuedRecord(tag: 1)
        tally.countDeliveryReport(tag: 1, error: 0)
        tally.countUnreportedRecordsAsFailed("no acknowledgement")
        #expect(
            tally.acknowledgedCount == 1 && tally.failedCount == 0 && tally.failedTags.isEmpty
                && tally.failureReason == nil
        )
    }

    @Test func `A sender whose brokers do not respond names all records as failed`() throws {
        let producer = try Producer(properties: [("bootstrap.servers", "127.0.0.1:1")])
        var sender = try RecordSender(producer: producer, topic: "commands", recordsPerSecond: nil)
        for tag in [7, 0, 3] as [UInt64] {
            let isTaken = sender.send([1], key: nil, origin: nil, tag: tag) { false }
            #expect(isTaken)
        }
        let tally = sender.flushAndClose(flushTimeoutMilliseconds: 0)
        #expect(tally.attemptedCount == 3 && tally.acknowledgedCount == 0 && tally.failedCount == 3)
        #expect(tally.failedTags == [3, 7])
        #expect(tally.failureReason == "no acknowledgement within 0 s")
    }
}
