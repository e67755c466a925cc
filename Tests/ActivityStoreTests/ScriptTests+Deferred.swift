import LiveActivity
import Testbed
import Testing

@testable import ActivityStore

extension ScriptTests {
    @Test func `A deferred start is sent by the first worker that reads it again`() throws {
        let stage = try ScriptStage()
        func deferred(_ timestamp: Int64, claim: UInt64, after former: UInt64) -> Operation {
            .admitStart(version: version(timestamp), claim: claim, previousClaim: former)
        }
        #expect(stage.verdict(deferred(100, claim: 2, after: 1)) == .send, "it was never admitted")
        #expect(stage.verdict(deferred(100, claim: 3, after: 1)) == .unknown)
        #expect(stage.admit(deferred(100, claim: 3, after: 2)).timestamp == 100)
        #expect(stage.admit(deferred(100, claim: 3, after: 2)).timestamp == 100, "the reply was lost")
        #expect(stage.verdict(deferred(100, claim: 4, after: 2)) == .unknown)
        #expect(stage.verdict(start(100, claim: 2)) == .unknown)
        stage.settle(accepted(100))
        #expect(stage.verdict(deferred(100, claim: 4, after: 3)) == .duplicate)
        #expect(stage.verdict(deferred(100, claim: 4, after: 0)) == .duplicate)
        // Its end came meanwhile.
        #expect(stage.verdict(deferred(101, claim: 1, after: 9)) == .send)
        #expect(stage.verdict(command(.end, 102)) == .noToken)
        #expect(stage.verdict(deferred(101, claim: 2, after: 1)) == .superseded)
    }
}
