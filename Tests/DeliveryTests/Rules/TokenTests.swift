import Delivery
import LiveActivity
import Testing

/// Tokens: held commands, registrations, tombstones, and tokens that APNs calls dead.
@Suite struct TokenTests {
    static let startMilliseconds = CoreHarness.startSeconds * 1_000

    // MARK: - Holding

    @Test func aCommandWithoutATokenIsHeld() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        #expect(core.waiting == ["hold u1"])
        #expect(core.outcomes == [], "not before it is stored")
        core.reply(.held)
        #expect(core.outcomes == ["u1 held"])
        #expect(core.settlements == [])
    }

    @Test func aStartWithoutAPushToStartTokenIsHeld() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.noToken)
        #expect(core.waiting == ["hold s1"])
        core.reply(.held)
        #expect(core.outcomes == ["s1 held"])
    }

    @Test func onlyTheNewestStateIsHeld() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(2))
        core.reply(.noToken)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.waiting == ["admit u2"])
    }

    @Test(arguments: [(StoreVerdict.superseded, "superseded"), (.duplicate, "duplicate")])
    func anotherWorkerWasFasterThanTheHold(verdict: StoreVerdict, outcome: String) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(verdict)
        #expect(core.outcomes == ["u1 \(outcome)"])
    }

    @Test func aTokenThatRegistersBeforeTheHoldIsUsed() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(.retry)
        #expect(core.waiting == ["admit u1"])
        core.carry()
        #expect(core.outcomes == ["u1 accepted"])
    }

    @Test func aPushToStartTokenThatRegistersBeforeTheHoldIsLookedUpAgain() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.noToken)
        core.reply(.retry)
        #expect(core.waiting == ["address s1"])
    }

    @Test func aReplyThatNoHoldGivesFailsTheCommand() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(.send)
        #expect(core.outcomes == ["u1 failed"])
    }

    @Test func whatIsHeldHasItsOwnTimestampAndNotOneThatAnAttemptHasRaised() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, number: CoreHarness.startSeconds + 9)
        core.push()
        core.answer(.retryLater)
        core.elapse(2_000)
        core.reply(.noToken)
        #expect(core.waiting == ["hold u1"])
        let body = String(decoding: try core.calledView.body, as: UTF8.self)
        #expect(body.hasPrefix(#"{"aps":{"timestamp":1790000001,"#))
    }

    // MARK: - Registering

    @Test(arguments: [StoreVerdict.registered, .stale])
    func aRegistrationHasNoResultAndIsSettledWithItsReply(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.register(CommandText.registration())
        #expect(core.waiting == ["register a"])
        #expect(core.committableOffset(core.registrations) == 0)
        core.reply(verdict)
        #expect(core.results.isEmpty)
        #expect(core.committableOffset(core.registrations) == 1)
    }

    @Test func aRegistrationSetsAHeldCommandFree() throws {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: .update(1))
        #expect(core.waiting == ["admit u1"])
        core.carry()
        #expect(core.outcomes == ["u1 accepted"])
        let result = try #require(core.results.first)
        #expect(result.topic == .registrations)
        #expect(core.committableOffset(core.registrations) == 0)
        core.acknowledgeAll()
        #expect(core.committableOffset(core.registrations) == 1)
    }

    @Test func aPushToStartRegistrationSetsAHeldStartFree() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        #expect(core.waiting == ["register device d"])
        core.reply(.registered, held: .start(1))
        #expect(core.waiting == ["address s1"])
    }

    @Test func aNewerStateThatWaitsSupersedesTheOneSetFree() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(3))
        core.register(CommandText.registration())
        core.reply(.held)
        #expect(core.waiting == ["register a", "admit u3"])
        core.reply(.registered, held: .update(2))
        core.reply(.unchanged)
        #expect(core.waiting == ["admit u2"], "what is with Redis is compared by Redis")
    }

    @Test(arguments: ["{", #"{"app":"com.example.match"}"#, "\u{0}"])
    func aHeldCommandThatIsNoneIsLetGoAndTheRegistrationStands(held: String) {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: held)
        #expect(core.results.isEmpty)
        #expect(core.committableOffset(core.registrations) == 1)
        #expect(core.recordsHeld == 0)
    }

    @Test func aCommandMayBringItsToken() throws {
        let core = CoreHarness()
        let record = CommandText.update(1, beside: #""token":"ABCDEF0123456789","environment":"sandbox","#)
        core.receiveOne(record, partition: core.commands, recordMilliseconds: Self.startMilliseconds - 70)
        core.endBatch()
        let token = TokenRegistration(
            token: Array("abcdef0123456789".utf8),
            environment: .sandbox,
            registeredAtMilliseconds: Self.startMilliseconds - 70
        )
        #expect(try core.called.registration == token)
    }

    // MARK: - Unregistering

    @Test func aTombstoneUnregistersInEachApp() {
        let core = CoreHarness(applications: [CommandText.app, "com.example.other"])
        core.unregister(key: "a")
        let expected: [StoreTicket.Purpose] = [
            .unregisterActivity, .unregisterDevice, .unregisterActivity, .unregisterDevice,
        ]
        #expect(core.calls.map(\.ticket.purpose) == expected)
        #expect(core.calls.map(\.ticket.application) == [0, 0, 1, 1])
        for _ in 0..<3 { core.reply(.unregistered) }
        #expect(core.committableOffset(core.registrations) == 0)
        core.reply(.stale)
        #expect(core.committableOffset(core.registrations) == 1)
        #expect(core.results.isEmpty)
    }

    // MARK: - Dead tokens

    @Test func aTokenThatDiedAfterItsRegistrationIsInvalidated() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, registeredAtMilliseconds: Self.startMilliseconds)
        core.push()
        core.answer(.tokenDead, status: 410, reason: "Unregistered", invalidAt: Self.startMilliseconds + 1)
        #expect(core.outcomes == ["u1 unregistered"])
        #expect(
            core.invalidations == [
                SeenInvalidation(
                    activity: "a",
                    device: "",
                    token: CoreHarness.token,
                    environment: .production,
                    reason: "Unregistered",
                    invalidAtMilliseconds: Self.startMilliseconds + 1
                )
            ]
        )
        #expect(try core.called.retirement?.invalidAtMilliseconds == Self.startMilliseconds + 1)
        core.report(.acknowledged, on: .result)
        core.acknowledgeSettlements()
        #expect(core.committableOffset == 0, "the invalidation is not acknowledged")
        core.report(.acknowledged, on: .invalidation)
        #expect(core.committableOffset == 1)
    }

    @Test(arguments: [0, 1])
    func aTokenThatWasRegisteredSinceItDiedIsKept(milliseconds: Int64) throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, registeredAtMilliseconds: Self.startMilliseconds)
        core.push()
        core.answer(.tokenDead, status: 410, invalidAt: Self.startMilliseconds - milliseconds)
        #expect(core.outcomes == ["u1 failed"])
        #expect(core.invalidations.isEmpty)
        guard case .settle(_, _, _, retirement: nil, _) = try core.called.operation else {
            Issue.record("a settlement that retires nothing was expected")
            return
        }
    }

    @Test func aTokenThatIsDeadWithoutATimeIsInvalidatedAsOfNow() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.elapse(30)
        core.answer(.tokenDead, status: 400, reason: "BadDeviceToken")
        #expect(core.outcomes == ["u1 unregistered"])
        #expect(core.invalidations.map(\.invalidAtMilliseconds) == [Self.startMilliseconds + 30])
        let retirement = try #require(try core.called.retirement)
        #expect(retirement.invalidAtMilliseconds == nil)
    }

    @Test func aDeadPushToStartTokenNamesItsDevice() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.address)
        core.reply(.send)
        core.push()
        core.answer(.tokenDead, status: 410, invalidAt: Self.startMilliseconds + 1)
        #expect(core.outcomes == ["s1 unregistered"])
        #expect(core.invalidations.map(\.device) == ["d"])
        #expect(core.settlements == ["s1 notShown", "s1 notShown (device)"])
    }
}
