import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore

extension ScriptTests {
    @Test func `A start that was sent is never sent again`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.perform(start(100)).timestamp == 100)
        #expect(comparison.verdict(start(100, claim: 2)) == .unknown)
        // Only `settle` stores the outcome `unknown`. If the reply with this verdict was lost, the next attempt
        // therefore gets `unknown` again.
        #expect(comparison.verdict(start(100, claim: 2)) == .unknown)
        comparison.settle(unknownSettlement(100))
        #expect(comparison.verdict(start(100, claim: 3)) == .duplicate)
        #expect(comparison.verdict(start(101)) == .send)
        // The start stays `unknown` when a newer update comes.
        #expect(comparison.verdict(command(.update, 102)) == .noToken)
        #expect(comparison.verdict(start(101, claim: 2)) == .unknown)
        #expect(comparison.verdict(start(103)) == .send)
        comparison.settle(acceptedSettlement(103, digest: 7))
        #expect(comparison.verdict(start(103, claim: 2)) == .duplicate)
        #expect(comparison.verdict(start(101)) == .superseded)
    }

    @Test func `A start whose verdict was lost gets the same verdict again, and nothing changes`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.end, 150, token: token("aa"))) == .send)
        comparison.settle(acceptedSettlement(150))
        #expect(comparison.perform(start(151)).timestamp == 151)
        let storedHash = comparison.server.hash(comparison.key.text)
        for _ in 0..<2 {
            let repeatedReply = comparison.perform(start(151))
            #expect(repeatedReply.verdict == .send && repeatedReply.timestamp == 151)
        }
        #expect(comparison.verdict(start(151, claim: 2)) == .unknown)
        #expect(comparison.server.hash(comparison.key.text) == storedHash)
        // The start must still be sent after a late registration of the previous life, and after an update that
        // waits for the new life's token.
        #expect(comparison.verdict(makeRegistration("old", at: 150)) == .registered)
        #expect(comparison.perform(start(151)).timestamp == 151)
        #expect(comparison.verdict(.unregister(atMilliseconds: 150)) == .unregistered)
        #expect(comparison.verdict(command(.update, 152)) == .noToken)
        #expect(comparison.perform(start(151)).timestamp == 151)
    }

    /// The end belongs to an earlier life. For example, the end was deferred, and the start came before a worker read
    /// the end again.
    @Test(arguments: [true, false])
    func `An end that is older than the newest start is superseded`(isStartAccepted: Bool) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(start(100)) == .send)
        if isStartAccepted { comparison.settle(acceptedSettlement(100)) }
        #expect(comparison.verdict(command(.end, 99)) == .superseded)
        #expect(comparison.verdict(command(.end, 98, token: token("aa"))) == .superseded)
        #expect(comparison.verdict(command(.update, 103, digest: 7)) == .send)
        comparison.settle(acceptedSettlement(103, digest: 7))
        #expect(comparison.verdict(command(.end, 99)) == .superseded)
        // An update never supersedes an end of its own life.
        #expect(comparison.verdict(command(.end, 101)) == .send)
        comparison.settle(acceptedSettlement(101))
        #expect(comparison.verdict(command(.update, 104)) == .ended)
    }

    @Test func `An end that applies to newer lives ends a life whose start is newer`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(start(100)) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(makeRegistration("aa", at: 1)) == .registered)
        #expect(comparison.verdict(command(.end, 99)) == .superseded)
        #expect(comparison.verdict(command(.end, 99, endsNewerLife: true)) == .send)
    }

    @Test func `A start whose verdict was lost is superseded by an end, and by signs that the activity lives`() throws {
        let endedComparison = try ScriptComparison()
        #expect(endedComparison.verdict(start(100)) == .send)
        #expect(endedComparison.verdict(command(.end, 101)) == .noToken)
        #expect(endedComparison.verdict(start(100)) == .superseded)
        let liveComparison = try ScriptComparison()
        #expect(liveComparison.verdict(start(100)) == .send)
        #expect(liveComparison.verdict(command(.update, 101, token: token("aa"))) == .send)
        #expect(liveComparison.verdict(start(100)) == .superseded)
        let restartedComparison = try ScriptComparison()
        #expect(restartedComparison.verdict(start(100)) == .send)
        #expect(restartedComparison.verdict(start(101, claim: 2)) == .send)
        #expect(restartedComparison.verdict(start(100)) == .superseded)
    }

    @Test(arguments: [true, false])
    func `If one record of a start is accepted and another is unknown, the start is accepted`(isUnknownFirst: Bool)
        throws
    {
        let comparison = try ScriptComparison()
        #expect(comparison.perform(start(100)).timestamp == 100)
        #expect(comparison.verdict(start(100, claim: 2)) == .unknown)
        if isUnknownFirst { comparison.settle(unknownSettlement(100)) }
        // The verdict for the start's first record was lost, so this record is admitted again. The `unknown` of the
        // second record must not stop the first one.
        #expect(comparison.perform(start(100)).timestamp == 100)
        comparison.settle(acceptedSettlement(100, digest: 7))
        if !isUnknownFirst { comparison.settle(unknownSettlement(100)) }
        #expect(comparison.verdict(start(100, claim: 3)) == .duplicate)
        // The accepted start shows the same state, so the update must not be sent.
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.verdict(command(.update, 101, digest: 7)) == .unchanged)
    }

    @Test func `A start that arrives after a newer update still starts the activity`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 105)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(105), command: [5])) == .held)
        #expect(comparison.perform(start(100)).timestamp == 100)
        #expect(comparison.verdict(start(100, claim: 2)) == .unknown)
        comparison.settle(acceptedSettlement(100))
        // The update is still held for the started activity's token.
        #expect(comparison.perform(makeRegistration("aa")).heldCommand == [5])
        #expect(comparison.perform(command(.update, 105)).timestamp == 105)
        #expect(comparison.verdict(start(101)) == .superseded)
    }

    @Test func `A start is superseded by signs that the activity lives, and by its end`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 105, token: token("aa"))) == .send)
        #expect(comparison.verdict(start(100)) == .superseded)
        let endedComparison = try ScriptComparison()
        #expect(endedComparison.verdict(command(.end, 105)) == .noToken)
        #expect(endedComparison.verdict(start(100)) == .superseded)
    }

    @Test func `A start opens a new life without the old token`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.end, 100, token: token("aa"))) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(start(101)) == .send)
        #expect(comparison.verdict(command(.update, 102)) == .noToken)
        #expect(comparison.verdict(makeRegistration("old", at: 99)) == .stale)
        #expect(comparison.verdict(makeRegistration("bb", at: 101)) == .registered)
        #expect(comparison.verdict(command(.update, 102)) == .send)
    }
}
