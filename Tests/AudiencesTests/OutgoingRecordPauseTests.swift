import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// If Kafka has not taken a record, the core pauses before it produces further records.
@Suite struct OutgoingRecordPauseTests {
    /// While the producer is full, the lane takes no outgoing records. The next delivery report wakes the lane, so
    /// no timer has to wake it.
    @Test func `A pause that has ended is not due again while the producer is full`() throws {
        let harness = RoundHarness()
        harness.handOver(1, .update)
        harness.core.endBatch(now: harness.moment)
        harness.core.advance(now: harness.moment)
        while let call = harness.nextCall() { harness.reply(to: call) }
        let firstOutgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment)
        let outgoingRecord = try #require(firstOutgoingRecord)
        harness.core.removeNextOutgoingRecord()
        harness.core.deliveryReportReceived(outgoingRecord, .failed, now: harness.moment)
        harness.nowMilliseconds += 250
        #expect((harness.core.nextDueMilliseconds ?? .max) <= harness.nowMilliseconds)
        harness.core.advance(now: harness.moment)
        let repeatedOutgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment)
        #expect(repeatedOutgoingRecord == outgoingRecord)
        #expect((harness.core.nextDueMilliseconds ?? .max) > harness.nowMilliseconds)
    }
}
