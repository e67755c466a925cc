import Delivery
import LiveActivity
import Testing

/// A command is not sent after its expiration, wherever it waited. (R20)
@Suite struct ExpirationTests {
    /// An expiration in the first second of the test: the command is valid in this second, and expired in the
    /// next.
    static let expirationAtStart = #""expiration":1790000000,"#
    /// An expiration one second before the test: the command has already expired.
    static let expirationBeforeStart = #""expiration":1789999999,"#
    /// An expiration nearly three hours after the start of the test, so that it does not pass during the test.
    static let farExpiration = #""expiration":1790009999,"#

    @Test func `A command that comes after its expiration is not admitted`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.expirationBeforeStart))
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.calls.isEmpty)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    @Test func `A command may still be sent in the second of its expiration`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.expirationAtStart))
        core.elapse(999)
        core.reply(.send)
        #expect(core.push()?.command == "u1")
    }

    @Test func `A command expires while another of its activity is in flight`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2, beside: Self.expirationAtStart))
        core.elapse(1_000)
        core.respond(.accepted)
        #expect(core.outcomes == ["u1 accepted", "u2 expired"])
        #expect(core.outstandingCalls == [])
    }

    @Test func `A command that waits behind an expired one is sent`() {
        let core = CoreHarness()
        core.receive(.start(1, beside: Self.expirationBeforeStart), .update(2))
        #expect(core.outcomes == ["s1 expired"])
        #expect(core.outstandingCalls == ["admit u2"])
    }

    /// If Redis kept the command, each further registration would release it, and it would have one more result.
    @Test(arguments: [false, true])
    func `A held command that has expired when a token releases it is settled in Redis`(isTokenOfCommand: Bool) {
        let core = CoreHarness()
        if isTokenOfCommand {
            core.receive(.update(0, beside: #""token":"ABCDEF0123456789","environment":"production","#))
            core.reply(.superseded)
            core.acknowledgeAll()
        } else {
            core.register(CommandText.registration())
        }
        core.elapse(1_000)
        core.reply(.registered, held: .update(1, beside: Self.expirationAtStart))
        #expect(core.outcomes.last == "u1 expired" && core.settlements == ["u1 notShown"])
        core.acknowledgeAll()
        #expect(core.inProgressRecordCount == 0)
    }

    /// Redis may hold an older command, whose alert this command would have carried.
    @Test func `A waiting command that has expired is not settled in Redis`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.expirationAtStart))
        core.reply(.wait, waitMilliseconds: 1_000)
        core.elapse(1_010)
        #expect(core.outcomes == ["u1 expired"] && core.settlements == [])
    }

    @Test func `A push expires while it waits for a stream`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.expirationAtStart))
        core.reply(.send)
        core.elapse(1_000)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.settlements == ["u1 notShown"])
    }

    @Test func `The default time for which APNs stores a state begins when the state is sent`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.elapse(600_000)
        let push = try #require(core.push())
        #expect(push.sentExpirationSeconds == CoreHarness.startSeconds + 600 + 600)
    }

    /// APNs accepts no push. The policy's 600 s for an update and 14,400 s for an end say only how long APNs stores a
    /// push. (R18)
    @Test(arguments: [(false, 28_800), (true, 43_200)] as [(Bool, Int64)])
    func `A state without an expiration waits for its pool until it is too old`(isEnd: Bool, ageSecondsMax: Int64) {
        for isTooOld in [false, true] {
            let core = CoreHarness()
            core.receive(isEnd ? CommandText.end(0) : CommandText.update(0))
            core.reply(.send)
            core.elapse((ageSecondsMax + (isTooOld ? 1 : 0)) * 1_000)
            let push = core.push()
            #expect((push == nil) == isTooOld)
            #expect(core.outcomes == (isTooOld ? [isEnd ? "e0 expired" : "u0 expired"] : []))
        }
    }

    /// The newest state is right although the phone shows it as stale at once.
    @Test func `An update that waited until after its stale date is sent`() throws {
        let core = CoreHarness()
        core.receive(CommandText.update(1, inside: #","stale-date":\#(CoreHarness.startSeconds + 120)"#))
        core.reply(.send)
        core.elapse(700_000)
        let push = try #require(core.push())
        #expect(push.sentExpirationSeconds == CoreHarness.startSeconds + 700 + 600)
    }

    @Test func `An old update of a known activity is sent only if its own expiration permits it`() {
        let core = CoreHarness()
        core.receive(.update(-28_801), .update(-28_801, of: "b", beside: Self.farExpiration))
        core.reply(.send)
        core.reply(.send)
        #expect(core.push()?.command == "b.u-28801")
        #expect(core.outcomes == ["u-28801 expired"])
    }

    @Test(
        arguments: [
            (1, 1), (600, 600), (601, 601), (28_800, 28_800), (28_801, 28_800), (999_999, 28_800),
            (0, 600), (-1, 600), (-1_000_000, 600),
        ] as [(Int64, Int64)]
    )
    func `APNs stores an update until its stale date`(staleAfterSeconds: Int64, expiresAfterSeconds: Int64) throws {
        let core = CoreHarness()
        let staleDateSeconds = CoreHarness.startSeconds + staleAfterSeconds
        core.receive(CommandText.update(1, inside: #","stale-date":\#(staleDateSeconds)"#))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.sentExpirationSeconds == CoreHarness.startSeconds + expiresAfterSeconds)
        #expect(push.body.contains("stale-date"))
    }

    @Test(arguments: [-1, 0, 1] as [Int64])
    func `A start keeps its stale date`(staleAfterSeconds: Int64) throws {
        let core = CoreHarness()
        let staleDateSeconds = CoreHarness.startSeconds + staleAfterSeconds
        core.receive(CommandText.start(1, inside: #","stale-date":\#(staleDateSeconds)"#))
        core.reply(.tokenFound)
        core.reply(.send)
        let body = try #require(core.push()).body
        #expect(body.hasSuffix(#""body":"It begins"},"stale-date":\#(staleDateSeconds)}}"#))
    }

    @Test func `A push expires while it backs off`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.expirationAtStart))
        core.admitAndRespond(.retrySoon)
        core.elapse(1_000)
        #expect(core.outcomes == ["u1 expired"])
        #expect(core.settlements == ["u1 notShown"])
        #expect(core.push() == nil)
    }
}
