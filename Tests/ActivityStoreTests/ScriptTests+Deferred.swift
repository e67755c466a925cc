import LiveActivity
import Testbed
import Testing

@testable import ActivityStore

extension ScriptTests {
    @Test func `A deferred start is sent by the first worker that reads it again`() throws {
        let comparison = try ScriptComparison()
        func makeDeferredStart(_ timestamp: Int64, claim: UInt64, after previousClaim: UInt64) -> Operation {
            .admitStart(version: version(timestamp), claim: claim, previousClaim: previousClaim)
        }
        #expect(
            comparison.verdict(makeDeferredStart(100, claim: 2, after: 1)) == .send,
            "the first record of the start was never admitted"
        )
        #expect(comparison.verdict(makeDeferredStart(100, claim: 3, after: 1)) == .unknown)
        #expect(comparison.perform(makeDeferredStart(100, claim: 3, after: 2)).timestamp == 100)
        #expect(
            comparison.perform(makeDeferredStart(100, claim: 3, after: 2)).timestamp == 100,
            "the reply was lost, so the call is repeated"
        )
        #expect(comparison.verdict(makeDeferredStart(100, claim: 4, after: 2)) == .unknown)
        #expect(comparison.verdict(start(100, claim: 2)) == .unknown)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(makeDeferredStart(100, claim: 4, after: 3)) == .duplicate)
        #expect(comparison.verdict(makeDeferredStart(100, claim: 4, after: 0)) == .duplicate)
        // The activity's end came while the start was deferred.
        #expect(comparison.verdict(makeDeferredStart(101, claim: 1, after: 9)) == .send)
        #expect(comparison.verdict(command(.end, 102)) == .noToken)
        #expect(comparison.verdict(makeDeferredStart(101, claim: 2, after: 1)) == .superseded)
    }
}
