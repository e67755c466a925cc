import Delivery
import LiveActivity
import Testing

/// A verdict of Redis gives a command its outcome, or permits its push. An update or end is sent with the timestamp and
/// the token of the verdict. A start is sent with the device's token, which Redis returned before the verdict.
@Suite struct AdmissionTests {
    static let start = CoreHarness.startSeconds

    @Test(arguments: [
        (StoreVerdict.held, "held"), (.ended, "ended"), (.superseded, "superseded"), (.duplicate, "duplicate"),
        (.unchanged, "unchanged"),
    ])
    func `A verdict that is an outcome becomes the result, and Redis needs no settlement`(
        verdict: StoreVerdict,
        outcome: String
    ) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(verdict)
        #expect(core.outcomes == ["u1 \(outcome)"])
        #expect(core.calls.isEmpty)
        #expect(core.push() == nil)
        core.acknowledgeOutgoingRecords()
        #expect(core.committableOffset == 1)
    }

    @Test func `A start that another record may have sent is unknown, and settled`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.unknown)
        #expect(core.outcomes == ["s1 unknown"])
        #expect(core.settlements == ["s1 unknown", "s1 refunded", "s1 unknown (device)"])
    }

    @Test(arguments: StoreVerdict.allCases.filter { AdmissionVerdict($0) == nil })
    func `A verdict that no admission can get fails the command, not the lane`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(verdict)
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.reason == "unexpected reply of the admit script")
        #expect(core.outstandingCalls == ["admit b.u1"])
    }

    @Test(arguments: StoreVerdict.allCases.filter { StartTokenVerdict($0) == nil })
    func `A verdict that no call for a start's token can get fails the start, not the lane`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.receive(.start(1), .update(1, of: "b"))
        core.reply(verdict)
        #expect(core.outcomes == ["s1 failed"])
        #expect(core.results.first?.reason == "unexpected reply of the admit script")
        #expect(core.outstandingCalls == ["admit b.u1"])
    }

    @Test(arguments: StoreVerdict.allCases.filter { HoldVerdict($0) == nil })
    func `A verdict that no hold can get fails the command, not the lane`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(.noToken)
        core.reply(verdict, toNewest: true)
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.reason == "unexpected reply of the admit script")
        #expect(core.outstandingCalls == ["admit b.u1"])
    }

    @Test(arguments: [0, 999_999_999, 10_000_000_000, Int64.min, Int64.max])
    func `A timestamp that APNs would refuse fails the command`(timestamp: Int64) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, timestamp: timestamp)
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.settlements == ["u1 notShown"])
    }

    @Test func `An empty token fails the command`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, token: "")
        #expect(core.outcomes == ["u1 failed"])
    }

    @Test func `A token of an environment without a key fails the command`() {
        let core = CoreHarness(hasSandboxPool: false)
        core.receive(.update(1))
        core.reply(.send, environment: .sandbox)
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.results.first?.reason == "no key for this environment")
        #expect(core.settlements == ["u1 notShown"])
    }

    @Test func `The push has the timestamp and the token of the verdict`() throws {
        let core = CoreHarness()
        core.receive(.update(1, beside: #""payload":{"x":[1]},"#))
        core.reply(.send, timestamp: Self.start + 77, token: "abcdef0123456789")
        let push = try #require(core.push())
        #expect(push.token == "abcdef0123456789")
        #expect(
            push.body
                == #"{"aps":{"timestamp":1790000077,"event":"update","content-state":{"n":1}},"x":[1]}"#
        )
    }

    @Test func `A push goes to the pool of its environment`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, environment: .sandbox)
        #expect(core.push(environment: .production) == nil)
        #expect(core.push(environment: .sandbox) != nil)
    }

    @Test func `A start goes to the token of its device`() throws {
        let core = CoreHarness()
        core.receive(.start(1))
        #expect(core.outstandingCalls == ["takeStartToken s1"])
        core.reply(.tokenFound, token: "aaaa0000aaaa0000")
        #expect(core.outstandingCalls == ["admit s1"])
        core.reply(.send, token: "ffffffffffffffff")
        #expect(try #require(core.push()).token == "aaaa0000aaaa0000")
        core.respond(.accepted)
        #expect(core.settlements == ["s1 accepted", "s1 accepted (device)"])
    }

    @Test func `Each push has its own identifier`() throws {
        let core = CoreHarness()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(.send)
        core.reply(.send)
        let firstIdentifier = try #require(core.push()).apnsId
        let secondIdentifier = try #require(core.push()).apnsId
        #expect(firstIdentifier != secondIdentifier)
        for identifier in [firstIdentifier, secondIdentifier] {
            #expect(identifier[0] & 0xF000 == 0x4000, "the version of RFC 9562")
            #expect(identifier[1] >> 62 == 2, "the variant of RFC 9562")
        }
    }

    @Test(
        arguments: [
            (CommandText.update(1), 5),
            (CommandText.update(1, alert: true), 10),
            (CommandText.end(1), 10),
            (CommandText.update(1, beside: #""priority":10,"#), 10),
            (CommandText.update(1, alert: true, beside: #""priority":5,"#), 5),
        ] as [(String, UInt8)]
    )
    func `By default only a silent update has priority 5`(record: String, priority: UInt8) throws {
        let core = CoreHarness()
        core.receive(record)
        core.reply(.send)
        #expect(try #require(core.push()).priority == priority)
    }

    @Test(
        arguments: [
            (CommandText.update(1), 600), (CommandText.end(1), 14_400),
            (CommandText.update(1, beside: #""expiration":1790000042,"#), 42),
        ] as [(String, Int64)]
    )
    func `A command without an expiration gets the default of its event`(record: String, seconds: Int64) throws {
        let core = CoreHarness()
        core.receive(record)
        core.reply(.send)
        #expect(try #require(core.push()).sentExpirationSeconds == Self.start + seconds)
    }

    @Test func `A start without an expiration gets the default for starts`() throws {
        let core = CoreHarness { $0.reloadable.policies[0].expiration.startSeconds = 33 }
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.sentExpirationSeconds == Self.start + 34)
        #expect(push.priority == 10)
    }

    @Test func `A command without an id is named by its topic, partition and offset`() {
        let core = CoreHarness { $0.commandsTopic = Array("scores".utf8) }
        let fourthPartition = core.assign(.commands, number: 3)
        let record = CommandText.update(1).replacing(#""id":"u1","#, with: "")
        core.receiveOne(record, partition: fourthPartition, offset: 9_007_199_254_740_993)
        core.endBatch()
        core.reply(.unchanged)
        #expect(core.outcomes == ["scores/3/9007199254740993 unchanged"])
    }

    @Test func `The result has all facts about the command`() throws {
        let core = CoreHarness()
        core.receiveOne(
            .update(1),
            partition: core.commandsPartition,
            offset: 5,
            recordTimestampMilliseconds: Self.start * 1_000 - 40
        )
        core.elapse(10)
        core.endBatch()
        core.elapse(10)
        core.reply(.send, timestamp: Self.start + 2)
        core.elapse(10)
        core.push()
        core.elapse(10)
        core.respond(.accepted, status: 200)
        let result = try #require(core.results.first)
        #expect(result.outcome == "accepted")
        #expect(result.activity == "a")
        #expect(result.status == 200)
        #expect(result.reason == "")
        #expect(result.attempts == 1)
        #expect(result.priority == 5)
        #expect(result.sentTimestamp == Self.start + 2)
        #expect(result.offset == 5)
        #expect(result.timesMilliseconds.map { $0 - Self.start * 1_000 } == [-40, 0, 20, 30, 40])
    }
}
