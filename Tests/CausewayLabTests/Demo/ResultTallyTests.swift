import LiveActivity
import Testbed
import Testing

@testable import CausewayLab

@Suite("The tally of results", .ownThread)
struct ResultTallyTests {
    private func makeResult(
        _ outcome: Outcome,
        offset: Int64 = 0,
        partition: Int = 0,
        priority: Int = 5,
        attemptCount: Int = 1
    ) -> ScannedResult {
        ScannedResult(
            outcome: outcome,
            priority: priority,
            attemptCount: attemptCount,
            isFromCommandsTopic: true,
            sourcePartition: partition,
            sourceOffset: offset,
            recordTimestampMilliseconds: 1_000,
            responseAtMilliseconds: 1_250
        )
    }

    @Test func `Each command counts once`() {
        var tally = ResultTally()
        tally.add(makeResult(.accepted), isFreshnessCounted: true)
        tally.add(makeResult(.duplicate), isFreshnessCounted: true)
        tally.add(makeResult(.superseded, offset: 9), isFreshnessCounted: true)
        tally.add(makeResult(.accepted, partition: 3, priority: 10, attemptCount: 3), isFreshnessCounted: true)
        #expect(tally.commandCount == 3)
        #expect(tally.repeatedResultCount == 1)
        #expect(tally[.accepted] == 2 && tally[.superseded] == 1 && tally[.duplicate] == 0)
        #expect(tally.pushCount == 2 && tally.priority10PushCount == 1 && tally.retryCount == 2)
        #expect(tally.freshness.percentileMilliseconds(50) == 250)
    }

    @Test func `The superseded commands that a result reports are counted`() {
        let source = #"{"topic":"causeway.commands","partition":0,"offset":7}"#
        let record = #"{"command":"c","outcome":"held","superseded":12,"source":\#(source)}"#
        var tally = ResultTally()
        let result = Array(record.utf8).withUnsafeBytes { ScannedResult(scanning: $0) }
        tally.add(result, isFreshnessCounted: true)
        tally.add(result, isFreshnessCounted: true)
        var releasedResult = makeResult(.accepted)
        releasedResult.isFromCommandsTopic = false
        releasedResult.supersededCommandCount = 3
        tally.add(releasedResult, isFreshnessCounted: true)
        #expect(tally.commandCount == 16 && tally.repeatedResultCount == 1)
        #expect(tally[.held] == 1 && tally[.superseded] == 15)
    }

    @Test func `A command to an audience has one result`() throws {
        let source = #""source":{"topic":"causeway.commands","partition":0,"offset":7}"#
        let times = #""times":{"record":1000,"admitted":1005,"first":1100,"last":1400}"#
        let members = #""members":{"delivered":49,"unregistered":1}"#
        let name = #""command":"c","app":"a","audience":"m""#
        let range = #"{\#(name),"segments":[0,255],"outcome":"delivered",\#(members),\#(source)}"#
        let totalResult =
            #"{\#(name),"outcome":"delivered",\#(members),"ranges":1,\#(source),\#(times)}"#
        let supersededResult = #"{"audience":"m","outcome":"superseded",\#(source.replacing("7", with: "8"))}"#
        var tally = ResultTally(of: .audiences)
        for record in [range, totalResult, totalResult, supersededResult] {
            tally.add(Array(record.utf8).withUnsafeBytes { ScannedResult(scanning: $0) }, isFreshnessCounted: true)
        }
        #expect(tally.commandCount == 2 && tally.repeatedResultCount == 1 && tally.unreadableRecordCount == 0)
        #expect(tally.fanoutCount(of: .reachedAllMembers) == 1 && tally.fanoutCount(of: .superseded) == 1)
        #expect(tally.pushCount == 49)
        #expect(tally.freshness.percentileMilliseconds(50) == 400)
        #expect(DemoFigures.OutcomeCount.all(of: tally).map(\.outcome) == ["delivered", "superseded"])
    }

    @Test func `The result of a broadcast is not the result of its command`() {
        let source = #""source":{"topic":"causeway.commands","partition":0,"offset":7}"#
        let broadcast =
            #"{"audience":"m","channel":"dHN0","environment":"sandbox","outcome":"delivered",\#(source)}"#
        let totalResult =
            #"{"audience":"m","channel":"none","outcome":"delivered","members":{"delivered":49},"ranges":1,\#(source)}"#
        var tally = ResultTally(of: .audiences)
        for record in [broadcast, totalResult] {
            tally.add(Array(record.utf8).withUnsafeBytes { ScannedResult(scanning: $0) }, isFreshnessCounted: true)
        }
        #expect(tally.commandCount == 1 && tally.repeatedResultCount == 0 && tally.unreadableRecordCount == 0)
        #expect(tally.fanoutCount(of: .reachedAllMembers) == 1 && tally.pushCount == 49)
    }

    /// For a start to an audience, the worker itself writes a command for each device.
    @Test func `The starts of devices do not count as the producer's commands`() {
        var tally = ResultTally(of: .audiences)
        tally.add(makeResult(.accepted), isFreshnessCounted: true)
        #expect(tally.commandCount == 0 && tally.pushCount == 1 && tally.freshness.count == 0)
    }

    @Test func `A released command has its own result`() {
        var tally = ResultTally()
        tally.add(makeResult(.held), isFreshnessCounted: true)
        var releasedResult = makeResult(.accepted)
        releasedResult.isFromCommandsTopic = false
        tally.add(releasedResult, isFreshnessCounted: true)
        #expect(tally.commandCount == 1 && tally.repeatedResultCount == 0 && tally.releasedCommandCount == 1)
        #expect(tally[.held] == 1 && tally[.accepted] == 0 && tally.pushCount == 1)
        #expect(tally.freshness.count == 0)
    }

    @Test func `An unreadable record does not count as a result`() {
        var tally = ResultTally()
        tally.add(ScannedResult(), isFreshnessCounted: true)
        tally.add(makeResult(.accepted, offset: .max), isFreshnessCounted: true)
        tally.add(makeResult(.accepted, partition: .max), isFreshnessCounted: true)
        #expect(tally.commandCount == 0 && tally.unreadableRecordCount == 3)
    }

    @Test func `Demotions are counted, and the time of the last response is kept`() {
        var tally = ResultTally()
        var demotedResult = makeResult(.accepted, offset: 1)
        demotedResult.isDemoted = true
        tally.add(makeResult(.superseded), isFreshnessCounted: true)
        tally.add(demotedResult, isFreshnessCounted: true)
        #expect(tally.demotionCount == 1)
        #expect(tally.lastResponseAtMilliseconds == 1_250)
    }

    @Test func `Starts do not count towards freshness`() {
        var tally = ResultTally()
        tally.add(makeResult(.accepted), isFreshnessCounted: false)
        #expect(tally.pushCount == 1 && tally.freshness.count == 0)
    }
}

@Suite("Reading a result record", .ownThread)
struct ScannedResultTests {
    private func scanResult(_ text: String) -> ScannedResult {
        Array(text.utf8).withUnsafeBytes { ScannedResult(scanning: $0) }
    }

    @Test func `A record of the worker's own writer is read`() {
        let topic = Array("causeway.commands".utf8)
        let activity = Array("a \"quoted\" {brace} \\".utf8)
        var writer = JSONWriter()
        topic.withUnsafeBytes { topic in
            activity.withUnsafeBytes { activity in
                var record = ResultRecord(
                    outcome: .accepted,
                    sourceTopic: topic,
                    sourcePartition: 7,
                    sourceOffset: 123_456
                )
                record.activity = activity
                record.status = 200
                record.priority = 10
                record.attemptCount = 2
                record.sentTimestamp = 1_790_000_000
                record.recordTimestampMilliseconds = 1_790_000_000_001
                record.receivedAtMilliseconds = 1_790_000_000_100
                record.sentAtMilliseconds = 1_790_000_000_200
                record.responseAtMilliseconds = 1_790_000_000_250
                record.write(to: &writer)
            }
        }
        let result = ScannedResult(scanning: writer.bytes)
        #expect(
            result
                == ScannedResult(
                    outcome: .accepted,
                    namesActivityOrDevice: true,
                    priority: 10,
                    attemptCount: 2,
                    isFromCommandsTopic: true,
                    sourcePartition: 7,
                    sourceOffset: 123_456,
                    recordTimestampMilliseconds: 1_790_000_000_001,
                    responseAtMilliseconds: 1_790_000_000_250
                )
        )
        #expect(result.hasOutcomeAndSource)
    }

    @Test func `The order of members does not matter`() {
        let result = scanResult(
            #" { "times" : {"responded":5,"record":2}, "source":{"offset":4,"partition":1,"topic":"t"}, "outcome":"held"}"#
        )
        // The worker writes no spaces, but the reader must accept them.
        #expect(result.outcome == .held)
    }

    @Test(arguments: Outcome.allCases)
    func `Every outcome is read`(outcome: Outcome) {
        let result = scanResult(#"{"outcome":"\#(outcome.name)","source":{"topic":"t","partition":0,"offset":0}}"#)
        #expect(result.outcome == outcome && result.hasOutcomeAndSource)
    }

    @Test func `A demotion is read`() {
        let otherMembers = #""outcome":"accepted","source":{"topic":"t","partition":0,"offset":0}}"#
        #expect(scanResult(#"{"demoted":true,"priority":5,"# + otherMembers).isDemoted)
        #expect(!scanResult(#"{"priority":5,"reason":"demoted","# + otherMembers).isDemoted)
        #expect(!scanResult(#"{"payload":{"demoted":true},"# + otherMembers).isDemoted)
    }

    @Test func `A name inside a value is not mistaken for a member`() {
        let result = scanResult(
            #"{"reason":"outcome","outcome":"accepted","payload":{"outcome":"failed","priority":9},"source":{"partition":2,"offset":3}}"#
        )
        #expect(result.outcome == .accepted && result.priority == 0 && result.sourcePartition == 2)
    }

    @Test(arguments: [
        "", "{", "{\"", "{\"outcome\"", "{\"outcome\":", "{\"outcome\":\"", "{\"a\":\"\\", "}}}}",
        "{\"outcome\":\"no\"}",
    ])
    func `Garbage counts as incomplete`(text: String) {
        #expect(!scanResult(text).hasOutcomeAndSource)
    }
}

@Suite("The histogram", .ownThread)
struct DurationHistogramTests {
    @Test func `Percentiles are calculated`() {
        var histogram = DurationHistogram()
        #expect(histogram.percentileMilliseconds(50) == nil)
        for value in 1...100 { histogram.add(milliseconds: Int64(value)) }
        #expect(
            histogram.percentileMilliseconds(50) == 50 && histogram.percentileMilliseconds(99) == 99
                && histogram.percentileMilliseconds(100) == 100
        )
        #expect(histogram.longestMilliseconds == 100)
    }

    @Test func `Values beyond the last bucket are counted`() {
        var histogram = DurationHistogram()
        histogram.add(milliseconds: -3)
        histogram.add(milliseconds: 1_000_000)
        #expect(histogram.percentileMilliseconds(1) == 0)
        #expect(histogram.percentileMilliseconds(99) == Int64(DurationHistogram.millisecondsMax))
        #expect(histogram.longestMilliseconds == 1_000_000)
    }
}
