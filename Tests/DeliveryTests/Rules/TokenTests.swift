import Delivery
import LiveActivity
import Testing

/// A command without a token is held until a token is registered. A tombstone removes a token. A response that concerns
/// the token alone retires it. (R17)
@Suite struct TokenTests {
    static let startMilliseconds = CoreHarness.startSeconds * 1_000

    // MARK: - Holding

    @Test func `A command without a token is held`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold u1"])
        #expect(core.outcomes == [], "there is no result before Redis holds the command")
        core.reply(.held)
        #expect(core.outcomes == ["u1 held"])
        #expect(core.settlements == [])
    }

    @Test func `A start without a push-to-start token is held`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold s1"])
        core.reply(.held)
        #expect(core.outcomes == ["s1 held"])
    }

    @Test func `Only the newest state is held`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(2))
        core.reply(.noToken)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test(arguments: [(StoreVerdict.superseded, "superseded"), (.duplicate, "duplicate")])
    func `If another worker settles the version before the hold, the command gets Redis' verdict`(
        verdict: StoreVerdict,
        outcome: String
    ) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(verdict)
        #expect(core.outcomes == ["u1 \(outcome)"])
    }

    @Test func `If a token registers before the hold, the command is admitted again`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(.retry)
        #expect(core.outstandingCalls == ["admit u1"])
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
    }

    @Test func `If a push-to-start token registers before the hold, the core asks for it again`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.noToken)
        core.reply(.retry)
        #expect(core.outstandingCalls == ["takeStartToken s1"])
    }

    @Test func `A verdict that no hold can get fails the command`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.noToken)
        core.reply(.send)
        #expect(core.outcomes == ["u1 failed"])
    }

    @Test func `A held command has its own timestamp, not one that an attempt has raised`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, timestamp: CoreHarness.startSeconds + 9)
        core.push()
        core.respond(.retryLater)
        core.elapse(2_000)
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold u1"])
        let body = String(decoding: try core.oldestCallView.body, as: UTF8.self)
        #expect(body.hasPrefix(#"{"aps":{"timestamp":1790000001,"#))
    }

    // MARK: - Registering

    @Test(arguments: [StoreVerdict.registered, .stale])
    func `A registration has no result, and is settled with its reply`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.register(CommandText.registration())
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.reply(verdict)
        #expect(core.results.isEmpty)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A registration releases a held command`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: .update(1))
        #expect(core.outstandingCalls == ["admit u1"])
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
        let result = try #require(core.results.first)
        #expect(result.topic == .registrations)
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.acknowledgeAll()
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A push-to-start registration releases a held start`() {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration())
        #expect(core.outstandingCalls == ["registerToken device d"])
        core.reply(.registered, held: .start(1))
        #expect(core.outstandingCalls == ["takeStartToken s1"])
    }

    @Test func `A newer waiting state supersedes a released one`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.update(3))
        core.register(CommandText.registration())
        core.reply(.held)
        #expect(core.outstandingCalls == ["registerToken a", "admit u3"])
        core.reply(.registered, held: .update(2))
        core.reply(.unchanged)
        #expect(core.outstandingCalls == ["admit u2"], "Redis already has u3, so Redis compares the two versions")
    }

    @Test(arguments: ["{", #"{"app":"com.example.match"}"#, "\u{0}"])
    func `A held value that is no command is dropped, and the registration stays`(held: String) {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, held: held)
        #expect(core.results.isEmpty)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A command's own token is registered with the time of its record`() throws {
        let core = CoreHarness()
        let record = CommandText.update(1, beside: #""token":"ABCDEF0123456789","environment":"sandbox","#)
        core.receiveOne(
            record,
            partition: core.commandsPartition,
            recordTimestampMilliseconds: Self.startMilliseconds - 70
        )
        core.endBatch()
        let token = TokenRegistration(
            token: Array("abcdef0123456789".utf8),
            environment: .sandbox,
            registeredAtMilliseconds: Self.startMilliseconds - 70
        )
        #expect(try core.oldestCall.registration == token)
    }

    /// A year ahead, the registration would be newer than all later registrations, tombstones and refusals.
    @Test(arguments: [startMilliseconds - 70, -1], [CommandText.registration(at: 365 * 86_400), deviceOneYearAhead])
    func `A registration from the future counts as five minutes after its record`(
        recordTimestampMilliseconds: Int64,
        registration: String
    ) throws {
        let core = CoreHarness()
        core.receiveOne(
            registration,
            partition: core.registrationsPartition,
            recordTimestampMilliseconds: recordTimestampMilliseconds
        )
        core.endBatch()
        let hasTimestamp = recordTimestampMilliseconds >= 0
        let recordAtMilliseconds = hasTimestamp ? recordTimestampMilliseconds : Self.startMilliseconds
        #expect(try core.oldestCall.registration?.registeredAtMilliseconds == recordAtMilliseconds + 300_000)
    }

    private static let deviceOneYearAhead = CommandText.deviceRegistration()
        .replacing("\(CoreHarness.startSeconds)", with: "\(CoreHarness.startSeconds + 365 * 86_400)")

    // MARK: - Unregistering

    @Test func `A tombstone unregisters its activity and its device in each app, one app after another`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"])
        core.unregister(key: "a")
        for appIndex in UInt16(0)...1 {
            #expect(core.calls.map(\.ticket.purpose) == [.unregisterActivity, .unregisterDevice])
            #expect(core.calls.map(\.ticket.appIndex) == [appIndex, appIndex])
            #expect(core.committableOffset(core.registrationsPartition) == 0)
            core.reply(.unregistered)
            core.reply(.stale)
        }
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.results.isEmpty)
    }

    // MARK: - Dead tokens

    @Test func `A token that died after its registration is invalidated`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, registeredAtMilliseconds: Self.startMilliseconds)
        core.push()
        core.respond(.tokenDead, status: 410, reason: "Unregistered", invalidAt: Self.startMilliseconds + 1)
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
        core.acknowledgeOutgoingRecords()
        #expect(try core.oldestCall.retirement?.invalidAtMilliseconds == Self.startMilliseconds + 1)
        #expect(try core.oldestCall.retirement?.token == Array(CoreHarness.token.utf8))
    }

    /// The record has room for one token. The retirement and the invalidation need the dead token, so the core holds
    /// the command only when both are acknowledged.
    @Test func `A command with a dead token is held for the next token`() throws {
        let core = CoreHarness()
        core.receive(.end(1))
        core.reply(.send, timestamp: CoreHarness.startSeconds + 9)
        core.push()
        core.respond(.tokenDead, status: 410, reason: "ExpiredToken", invalidAt: Self.startMilliseconds + 1)
        core.acknowledgeOutgoingRecords()
        #expect(core.outstandingCalls == [] && core.outcomes == [])
        core.acknowledgeAll()
        #expect(core.settlements == ["e1 retires"])
        #expect(core.outstandingCalls == ["hold e1"])
        let body = String(decoding: try core.oldestCallView.body, as: UTF8.self)
        #expect(
            body.hasPrefix(#"{"aps":{"timestamp":1790000001,"#),
            "with the command's own timestamp, not the raised one"
        )
        core.reply(.held)
        #expect(core.outcomes == ["e1 held"])
        #expect(core.results.first?.status == 410)
        #expect(core.results.first?.reason == "ExpiredToken")
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    /// After a crash between the two, the next owner finds the token in Redis, and APNs refuses it again. If Redis had
    /// retired it first, no worker would ever write the invalidation. The activity's next command waits meanwhile,
    /// because Redis would admit it with the dead token.
    @Test(arguments: [false, true])
    func `Redis retires a token only when Kafka has its invalidation`(isStart: Bool) {
        let core = CoreHarness()
        core.receive(isStart ? CommandText.start(1) : CommandText.update(1))
        if isStart { core.reply(.tokenFound) }
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.receive(.update(2))
        #expect(core.invalidations.count == 1)
        #expect(core.settlements == [] && core.outstandingCalls == [] && core.outcomes == [])
        core.report(.failed, on: .invalidation)
        core.elapse(1_000)
        #expect(core.settlements == [] && core.outstandingCalls == [] && core.outcomes == [])
        core.report(.acknowledged, on: .invalidation)
        #expect(core.settlements == (isStart ? ["s1 notShown", "s1 notShown (device)"] : ["u1 retires"]))
    }

    @Test func `The alert of a command with a dead token is held too`() throws {
        let core = CoreHarness()
        core.receive(CommandText.update(1, alert: true))
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.acknowledgeAll()
        guard case .hold(_, let command, hasAlert: true) = try core.oldestCall.operation else {
            Issue.record("\(try core.oldestCall)")
            return
        }
        #expect(String(decoding: command, as: UTF8.self).contains("alert"))
    }

    @Test func `A command with a dead token goes to a token that came meanwhile`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.acknowledgeAll()
        core.reply(.retry)
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.send, token: "ffeeddccbbaa9988")
        #expect(core.push()?.token == "ffeeddccbbaa9988")
        core.respond(.accepted, status: 200)
        #expect(core.outcomes == ["u1 accepted"])
        core.acknowledgeAll()
        #expect(core.settlements == ["u1 retires", "u1 accepted"])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A dead token is retired even after the revocation`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.beginRevoking(core.commandsPartition)
        #expect(!core.isDrained(core.commandsPartition))
        core.acknowledgeAll()
        core.reply(.held)
        core.acknowledgeAll()
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.outcomes == ["u1 held"])
    }

    @Test func `If Redis refuses a retirement, the command is still held`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.acknowledgeOutgoingRecords()
        core.refuseOldestCall("NOPERM")
        #expect(core.outstandingCalls == ["hold u1"])
    }

    /// The token was registered at or after the time of its death that APNs names, so perhaps APNs does not know
    /// this registration yet.
    @Test(arguments: [0, 1])
    func `A token that was registered after its death is kept, and the push waits`(milliseconds: Int64) {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, registeredAtMilliseconds: Self.startMilliseconds)
        core.push()
        core.respond(.tokenDead, status: 410, invalidAt: Self.startMilliseconds - milliseconds)
        #expect(core.outcomes == [] && core.settlements == [])
        #expect(core.invalidations.isEmpty)
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
    }

    @Test func `If APNs gives no time of death, the token is invalid from now on`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.elapse(30)
        core.respond(.tokenSuspect, status: 400, reason: "BadDeviceToken")
        #expect(core.invalidations.map(\.invalidAtMilliseconds) == [Self.startMilliseconds + 30])
        core.acknowledgeOutgoingRecords()
        let retirement = try #require(try core.oldestCall.retirement)
        #expect(retirement.invalidAtMilliseconds == nil)
        core.acknowledgeAll()
        core.reply(.held)
        #expect(core.outcomes == ["u1 held"])
    }

    /// APNs accepts no token of this pool, so the responses say nothing about a single token. Probably the pool's
    /// environment is wrong.
    @Test func `No token is retired in a pool that accepts none`() {
        let core = CoreHarness()
        for number in 0..<50 { core.receive(.update(1, of: "x\(number)")) }
        for _ in 0..<50 {
            core.reply(.send)
            core.push()
            core.respond(.tokenSuspect, status: 400, reason: "BadDeviceToken", isTokenRefusalTrusted: false)
        }
        #expect(core.invalidations.isEmpty && core.settlements == [] && core.outcomes == [])
        // An update is too old after eight hours.
        core.elapse(28_802_000)
        #expect(core.outcomes.allSatisfy { $0.hasSuffix("expired") } && core.outcomes.count == 50)
        #expect(core.results.first?.reason == "BadDeviceToken")
    }

    @Test func `The invalidation of a dead push-to-start token names its device`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound)
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410, invalidAt: Self.startMilliseconds + 1)
        core.acknowledgeOutgoingRecords()
        #expect(core.outcomes == ["s1 unregistered"])
        #expect(core.invalidations.map(\.device) == ["d"])
        #expect(core.settlements == ["s1 notShown", "s1 notShown (device)"])
    }
}
