import Delivery
import Foundation
import LiveActivity
import Testing

@testable import Audiences

/// If Kafka has not taken a record, the core pauses before it produces further records for the same topic.
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
        harness.core.removeNextOutgoingRecord(outgoingRecord)
        harness.core.handleDeliveryReport(outgoingRecord, .failed, now: harness.moment)
        harness.nowMilliseconds += 250
        #expect((harness.core.nextDueMilliseconds ?? .max) <= harness.nowMilliseconds)
        harness.core.advance(now: harness.moment)
        let repeatedOutgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment)
        #expect(repeatedOutgoingRecord == outgoingRecord)
        #expect((harness.core.nextDueMilliseconds ?? .max) > harness.nowMilliseconds)
    }

    /// librdkafka refuses each record of such a topic at once, for example if the topic is deleted.
    @Test func `A topic that accepts nothing does not delay the records of other topics`() throws {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        harness.respondToPushes(.tokenDead, performsWork: false)
        var refusalRecords: [OutgoingAudienceRecord] = []
        while let outgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment) {
            harness.core.removeNextOutgoingRecord(outgoingRecord)
            refusalRecords.append(outgoingRecord)
        }
        let invalidation = try #require(refusalRecords.first { $0.kind == .invalidation })
        harness.core.handleDeliveryReport(invalidation, .failed, now: harness.moment)

        harness.handOver(2, .update)
        harness.core.endBatch(now: harness.moment)
        harness.core.advance(now: harness.moment)
        while let call = harness.nextCall() { harness.reply(to: call) }
        let firstOutgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment)
        let fanoutRecord = try #require(firstOutgoingRecord)
        #expect(fanoutRecord.kind == .fanout)
        harness.core.removeNextOutgoingRecord(fanoutRecord)

        let recordDuringPause = harness.core.nextOutgoingRecord(now: harness.moment)
        #expect(recordDuringPause == nil)
        #expect((harness.core.nextDueMilliseconds ?? .max) <= harness.nowMilliseconds + 250)
        harness.nowMilliseconds += 250
        harness.core.advance(now: harness.moment)
        let recordAfterPause = harness.core.nextOutgoingRecord(now: harness.moment)
        #expect(recordAfterPause == invalidation)
    }

    /// The fan-out topic takes no writes, but librdkafka keeps the records. The queue of fan-out records has a limit
    /// too: a command has up to 258 of them. (R4)
    @Test func `Fan-out records that are not acknowledged leave the other topics their places`() throws {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        for number in 2...1_100 {
            let identifier = Data("channel-0000\(1_000 + number)".utf8).base64EncodedString()
            harness.handOver(2, .update, channel: identifier, record: number)
        }
        harness.core.endBatch(now: harness.moment)
        harness.core.advance(now: harness.moment)
        while let call = harness.nextCall() { harness.reply(to: call) }
        let fanoutRecords = takeOutgoingRecords(harness)
        #expect(fanoutRecords.count == Audiences.unacknowledgedRecordsPerTopicMax)
        #expect(fanoutRecords.allSatisfy { $0.kind == .fanout })
        harness.respondToPushes(.tokenDead, performsWork: false)
        #expect(takeOutgoingRecords(harness).map(\.kind) == [.memberResult, .invalidation])

        for fanoutRecord in fanoutRecords {
            harness.core.handleDeliveryReport(fanoutRecord, .acknowledged, now: harness.moment)
        }
        let otherFanoutRecords = takeOutgoingRecords(harness)
        #expect(fanoutRecords.count + otherFanoutRecords.count == 1_099)
        #expect(Set((fanoutRecords + otherFanoutRecords).map(\.tag)).count == 1_099)
    }

    /// Kafka refuses all records of a batch that is too large, so the refusal may be due to other records.
    @Test func `A fan-out record that Kafka refuses as too large is produced seven more times`() throws {
        let harness = RoundHarness()
        harness.handOver(1, .update, channel: Data("channel-00001001".utf8).base64EncodedString())
        harness.core.endBatch(now: harness.moment)
        harness.core.advance(now: harness.moment)
        while let call = harness.nextCall() { harness.reply(to: call) }
        for attempt in 1...8 {
            let fanoutRecords = takeOutgoingRecords(harness)
            #expect(fanoutRecords.map(\.kind) == [.fanout])
            let fanoutRecord = try #require(fanoutRecords.first)
            #expect(fanoutRecord.environment == .production)
            let reportedRecord = try #require(OutgoingAudienceRecord(tag: fanoutRecord.tag))
            #expect(reportedRecord == fanoutRecord)
            let isGivenUp = harness.core.handleDeliveryReport(reportedRecord, .tooLarge, now: harness.moment)
            #expect(isGivenUp == (attempt == 8))
            #expect(takeOutgoingRecords(harness).isEmpty)
            harness.nowMilliseconds += 250
            harness.core.advance(now: harness.moment)
        }
        while let call = harness.nextCall() { harness.reply(to: call) }
        let returnedCommand = harness.core.takeReturnedCommand()
        #expect(returnedCommand?.handoverResult == .outcome(.failed))
    }

    @Test func `Results that are not acknowledged leave invalidations their places`() {
        let app = DeliveryConfiguration.App(
            bundleId: RoundHarness.app,
            hasProductionPool: true,
            hasSandboxPool: true
        )
        var queues = OutgoingAudienceRecordQueues(
            AudiencesConfiguration(apps: [app], reloadable: ReloadableSettings(appCount: 1), seed: 1)
        )
        let now = Moment(monotonicMilliseconds: 0, wallMilliseconds: 0)
        let resultsMax = Audiences.unacknowledgedRecordsPerTopicMax
        for number in 0...UInt32(resultsMax) {
            queues.append(.memberResult(RefusedMemberIndex(rawValue: number)))
        }
        queues.append(.invalidation(RefusedMemberIndex(rawValue: 0)))
        for _ in 0..<resultsMax { queues.removeFirst(.memberResult) }
        let recordBesideResults = queues.next(now: now)
        #expect(recordBesideResults?.kind == .invalidation)
        queues.noteReport(.memberResult)
        let recordAfterReport = queues.next(now: now)
        #expect(recordAfterReport?.kind == .memberResult)
    }

    private func takeOutgoingRecords(_ harness: RoundHarness) -> [OutgoingAudienceRecord] {
        var outgoingRecords: [OutgoingAudienceRecord] = []
        while let outgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment) {
            harness.core.removeNextOutgoingRecord(outgoingRecord)
            outgoingRecords.append(outgoingRecord)
        }
        return outgoingRecords
    }
}
