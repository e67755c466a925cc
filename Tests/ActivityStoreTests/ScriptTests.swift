import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The scripts' rules one by one, on a real server. Each reply must also be the model's. (R11)
@Suite(.serialized, .ownThread) struct ScriptTests {
    func version(_ timestamp: Int64, _ sequence: UInt64 = 0) -> Version {
        Version.at(timestamp, sequence)
    }

    func command(
        _ event: Event,
        _ timestamp: Int64,
        _ sequence: UInt64 = 0,
        digest: UInt64 = 1,
        spacing: Int64 = 0,
        endsNewerLife: Bool = false,
        isLifetimeEnd: Bool = false,
        token: OwnedToken? = nil
    ) -> Operation {
        .command(
            event: event,
            version: version(timestamp, sequence),
            digest: digest,
            pace: .spaced(spacing),
            options: AdmissionOptions(
                requestsHighPriority: false,
                mayUseReserve: false,
                hasAlert: false,
                endsNewerLife: endsNewerLife,
                isLifetimeEnd: isLifetimeEnd
            ),
            registration: token
        )
    }

    func start(_ timestamp: Int64, claim: UInt64 = 1) -> Operation {
        .start(version: version(timestamp), claim: claim)
    }

    func unknownSettlement(_ timestamp: Int64) -> Operation {
        Operation.settlement(version: version(timestamp), outcome: .unknown, digest: 1)
    }

    func token(_ text: String, at: Int64 = 100) -> OwnedToken {
        OwnedToken(token: Array(text.utf8), environment: .production, registeredAtMilliseconds: at)
    }

    func makeRegistration(_ text: String, at: Int64 = 100, shownVersion: Version? = nil) -> Operation {
        .register(attributesType: nil, registration: token(text, at: at), shownVersion: shownVersion, audiences: [])
    }

    func acceptedSettlement(_ timestamp: Int64, _ sequence: UInt64 = 0, digest: UInt64 = 1) -> Operation {
        Operation.settlement(version: version(timestamp, sequence), outcome: .accepted, digest: digest)
    }

    // MARK: - Updates

    @Test func `The newest version wins, and a settled one is a duplicate`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        let sendReply = comparison.perform(command(.update, 100))
        #expect(sendReply.verdict == .send && sendReply.timestamp == 100 && sendReply.registration == token("aa"))
        #expect(comparison.verdict(command(.update, 99, 7)) == .superseded)
        // A worker died, and the next worker reads the command again. The command keeps its timestamp.
        #expect(comparison.perform(command(.update, 100)).timestamp == 100)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(command(.update, 100)) == .duplicate)
        // A higher sequence in the same second gets the next second as its timestamp.
        #expect(comparison.perform(command(.update, 100, 1, digest: 2)).timestamp == 101)
        #expect(comparison.perform(command(.update, 101, 0, digest: 3)).timestamp == 102)
        #expect(comparison.verdict(command(.update, 100, 1, digest: 2)) == .superseded)
    }

    @Test func `A state that is already shown is unchanged, and a state is known only when it is accepted`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100, token: token("aa"))) == .send)
        #expect(comparison.verdict(command(.update, 101)) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(command(.update, 102)) == .send)
        comparison.settle(acceptedSettlement(102))
        #expect(comparison.verdict(command(.update, 103)) == .unchanged)
        #expect(comparison.verdict(command(.update, 103)) == .duplicate)
        #expect(comparison.verdict(command(.update, 104, digest: 2)) == .send)
        comparison.settle(Operation.settlement(version: version(104), outcome: .unknown, digest: 2))
        #expect(comparison.verdict(command(.update, 104, digest: 2)) == .duplicate)
        #expect(comparison.verdict(command(.update, 105, digest: 2)) == .send)
    }

    @Test func `A newer update of the same second waits for the spacing, and then gets a later timestamp`() throws {
        let comparison = try ScriptComparison()
        // The scripts use the server's own clock here. The clock advances between two calls, so the wait may be shorter
        // than the spacing.
        let spacing: Int64 = 3_000
        #expect(comparison.perform(command(.update, 100, spacing: spacing, token: token("aa"))).verdict == .send)
        let repeatedReply = comparison.perform(command(.update, 100, spacing: spacing))
        #expect(repeatedReply.verdict == .wait && (1...spacing).contains(repeatedReply.waitMilliseconds))
        let issueResult = comparison.caller.store.issue(
            command(.update, 100, 5, digest: 9, spacing: spacing),
            key: comparison.key,
            tag: 7
        )
        #expect(issueResult == .issued)
        #expect(comparison.caller.runLoop { comparison.caller.store.outstandingCallCount == 0 })
        let end = comparison.caller.loop.nowMilliseconds + repeatedReply.waitMilliseconds + 5
        #expect(comparison.caller.runLoop { comparison.caller.loop.nowMilliseconds >= end })
        #expect(
            comparison.caller.store.issue(
                command(.update, 100, 5, digest: 9, spacing: spacing),
                key: comparison.key,
                tag: 8
            )
                == .issued
        )
        #expect(comparison.caller.runLoop { comparison.caller.store.outstandingCallCount == 0 })
        guard case .replied(8, let sendReply)? = comparison.caller.events.last else { return #expect(Bool(false)) }
        #expect(sendReply.verdict == .send && sendReply.timestamp == 101)
    }

    // MARK: - Ends

    @Test func `An end is never superseded, and nothing follows it`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100, token: token("aa"))) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.perform(command(.end, 90)).timestamp == 101)
        #expect(comparison.verdict(command(.update, 100)) == .ended)
        #expect(comparison.verdict(command(.update, 200)) == .ended)
        #expect(comparison.perform(command(.end, 90)).timestamp == 101)
        comparison.settle(acceptedSettlement(90))
        #expect(comparison.verdict(command(.end, 200)) == .ended)
        #expect(comparison.verdict(command(.end, 90)) == .duplicate)
        #expect(comparison.verdict(start(89)) == .superseded)
        #expect(comparison.perform(start(95)).timestamp == 102)
    }

    @Test func `An end with the version of an update is not a duplicate of this update`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100, token: token("aa"))) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.perform(command(.end, 100)).timestamp == 101)
    }

    @Test func `An end that failed may be followed by another`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.end, 100, token: token("aa"))) == .send)
        comparison.settle(Operation.settlement(version: version(100), outcome: .notShown, digest: 1))
        #expect(comparison.verdict(command(.update, 101)) == .ended)
        #expect(comparison.verdict(command(.end, 99)) == .ended)
        #expect(comparison.verdict(command(.end, 100)) == .duplicate)
        #expect(comparison.verdict(command(.end, 101)) == .send)
    }

    /// The lane lets a newer end replace an end that Redis has admitted, for example one whose push is retried.
    @Test func `A newer end supersedes an end that is not settled`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.end, 100)) == .noToken)
        #expect(comparison.verdict(command(.end, 101)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(101), command: [1])) == .held)
        #expect(comparison.verdict(command(.end, 102)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(102), command: [2])) == .held)
        #expect(comparison.perform(makeRegistration("aa")).heldCommand == [2])
        #expect(comparison.verdict(command(.end, 102)) == .send)
        #expect(comparison.verdict(command(.end, 103)) == .send)
        comparison.settle(acceptedSettlement(102))
        #expect(comparison.verdict(command(.update, 104)) == .ended)
        #expect(comparison.verdict(command(.end, 103, spacing: 60_000)) == .wait)
        #expect(comparison.verdict(command(.end, 104, spacing: 60_000)) == .wait)
        #expect(comparison.perform(command(.end, 105)).timestamp == 105)
        comparison.settle(acceptedSettlement(105))
        #expect(comparison.verdict(command(.end, 106)) == .ended)
    }

    @Test func `The end of a lifetime leaves an end that is not settled`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.end, 100, token: token("aa"))) == .send)
        #expect(comparison.verdict(command(.end, 101, isLifetimeEnd: true)) == .ended)
        #expect(comparison.verdict(command(.end, 100)) == .send)
        comparison.settle(Operation.settlement(version: version(100), outcome: .notShown, digest: 1))
        #expect(comparison.verdict(command(.end, 101, isLifetimeEnd: true)) == .send)
        #expect(comparison.verdict(command(.end, 102)) == .send)
    }

    // MARK: - Tokens

    @Test func `A held command is sent when a token registers`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(99), command: [9])) == .superseded)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1, 0, 255])) == .held)
        #expect(comparison.verdict(command(.update, 100)) == .held)
        for _ in 0..<2 {
            let registrationReply = comparison.perform(makeRegistration("aa"))
            #expect(registrationReply.heldCommand == [1, 0, 255])
        }
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .retry)
        #expect(comparison.verdict(command(.update, 100)) == .send)
        // The worker that sends the command may die. So each registration releases the command again until it is
        // settled.
        #expect(comparison.perform(makeRegistration("aa")).heldCommand != nil)
        #expect(comparison.perform(command(.update, 100)).timestamp == 100)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.perform(makeRegistration("aa")).heldCommand == nil)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .duplicate)
    }

    /// The reply to the hold was lost. A registration has released the command before the worker repeats the hold.
    @Test func `A repeated hold leaves the command to the registration that released it`() throws {
        let comparison = try ScriptComparison()
        let hold = Operation.hold(attributesType: nil, version: version(100), command: [1])
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.perform(makeRegistration("aa")).heldCommand == [1])
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.verdict(command(.update, 100)) == .send)
        let hashBefore = comparison.server.hash(comparison.key.text)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.server.hash(comparison.key.text) == hashBefore)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(hold) == .duplicate)
    }

    @Test func `A state that the app already shows is not sent`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .held)
        #expect(comparison.perform(makeRegistration("aa", shownVersion: version(100))).heldCommand == nil)
        #expect(comparison.verdict(command(.update, 100)) == .duplicate)
    }

    @Test func `A newer state replaces a held one`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .held)
        #expect(comparison.verdict(command(.update, 101)) == .noToken)
        #expect(comparison.perform(makeRegistration("aa")).heldCommand == nil)
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(101), command: [2])) == .retry)
        #expect(comparison.verdict(command(.update, 101)) == .send)
    }

    @Test func `A dead token is retired, unless it was registered since`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa", at: 100)) == .registered)
        for (text, environment, before, retires) in [
            ("aa", APNsEnvironment.production, 100, false), ("bb", .production, 200, false),
            ("aa", .sandbox, 200, false),
            ("aa", .production, 101, true), ("aa", .production, 101, false),
        ] as [(String, APNsEnvironment, Int64, Bool)] {
            let retirement = TokenRetirement(
                token: Array(text.utf8),
                environment: environment,
                invalidAtMilliseconds: before
            )
            let call = Operation.settle(version: version(1), .notShown, digest: 0, retirement: retirement)
            #expect(comparison.settleRetiresToken(call) == retires)
        }
        // The registration of the dead token is read again. It does not register the token; a later
        // registration does.
        #expect(comparison.verdict(makeRegistration("aa", at: 100)) == .stale)
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(makeRegistration("aa", at: 101)) == .registered)
        let retirementAtAnyTime = TokenRetirement(
            token: Array("aa".utf8),
            environment: .production,
            invalidAtMilliseconds: nil
        )
        #expect(
            comparison.settleRetiresToken(
                .settle(version: version(1), .notShown, digest: 0, retirement: retirementAtAnyTime)
            )
        )
    }

    @Test func `The later registration counts, in any order of arrival`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa", at: 200)) == .registered)
        #expect(comparison.verdict(makeRegistration("bb", at: 199)) == .stale)
        #expect(
            comparison.perform(command(.update, 100, token: token("cc", at: 150))).registration == token("aa", at: 200)
        )
        #expect(comparison.verdict(.unregister(atMilliseconds: 199)) == .stale)
        #expect(comparison.verdict(.unregister(atMilliseconds: 200)) == .unregistered)
        #expect(comparison.verdict(command(.update, 101)) == .noToken)
        #expect(comparison.verdict(makeRegistration("aa", at: 199)) == .stale)
    }

    // MARK: - The stored value

    @Test func `An activity's value outlives the activity, a device's value outlives many activities`() throws {
        let comparison = try ScriptComparison()
        func readExpiry(_ key: TestKey) -> Int64 {
            comparison.server.command("PTTL", key.text).first.flatMap { Int64($0) } ?? -1
        }
        #expect(comparison.verdict(command(.update, 100, spacing: 0, token: token("aa"))) == .send)
        #expect((24 * 3_600_000...25 * 3_600_000).contains(readExpiry(comparison.key)))
        // The script renews the expiry once in 1,000 seconds of the clock. So in most runs this update does not
        // renew it.
        let nowMilliseconds = comparison.caller.loop.wallMilliseconds
        comparison.server.command("PEXPIRE", comparison.key.text, "80000000")
        #expect(comparison.verdict(command(.update, 101)) == .send)
        comparison.caller.loop.refreshClock()
        #expect(
            readExpiry(comparison.key) <= 80_000_000
                || comparison.caller.loop.wallMilliseconds / 1_000_000 != nowMilliseconds / 1_000_000
        )
        // Sets the last push back by 1,000 seconds, so that the next update renews the expiry.
        let setBackScript = "redis.call('SETRANGE', KEYS[1], '14', struct.pack('<I6', ARGV[1]))"
        comparison.server.command("EVAL", setBackScript, "1", comparison.key.text, String(nowMilliseconds - 1_000_000))
        #expect(comparison.verdict(command(.update, 102)) == .send)
        #expect(readExpiry(comparison.key) > 80_000_000)
        comparison.server.command("PEXPIRE", comparison.key.text, "80000000")
        comparison.settle(acceptedSettlement(102))
        #expect(readExpiry(comparison.key) <= 80_000_000)
        comparison.settle(acceptedSettlement(103), .activity("never admitted"))
        #expect(comparison.server.command("DBSIZE") == ["1"])
        let device = TestKey.device("phone")
        _ = comparison.perform(.register(attributesType: "T", registration: token("aa"), shownVersion: nil), device)
        #expect(readExpiry(device) > 89 * 24 * 3_600_000)
    }

    @Test func `An activity takes less than 400 bytes`() throws {
        let comparison = try ScriptComparison(.activity("0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a111"))
        let registeredToken = OwnedToken(
            token: Array(String(repeating: "8f0c", count: 40).utf8),
            environment: .production,
            registeredAtMilliseconds: 1_760_000_000_000
        )
        #expect(comparison.verdict(start(1_760_000_000)) == .send)
        comparison.settle(acceptedSettlement(1_760_000_000))
        #expect(
            comparison.verdict(.register(attributesType: nil, registration: registeredToken, shownVersion: nil))
                == .registered
        )
        // With this update the value has its usual parts: the token, the accepted alert and the start. It has no held
        // command and no 429. With a 429 (7 bytes), the allocator would give the value a block that is 32 bytes larger.
        let update = Operation.command(
            event: .update,
            version: version(1_760_000_005, .max),
            digest: 2,
            pace: .spaced(0),
            options: AdmissionOptions(requestsHighPriority: true, mayUseReserve: false, hasAlert: true),
            registration: nil
        )
        #expect(comparison.verdict(update) == .send)
        comparison.settle(acceptedSettlement(1_760_000_005, .max, digest: 2))
        // The activity's key is binary. It is the only key, so the script gets it with RANDOMKEY.
        let memoryScript = "return redis.call('MEMORY', 'USAGE', redis.call('RANDOMKEY'))"
        let bytes = comparison.server.command("EVAL", memoryScript, "0").first.flatMap { Int($0) }
        #expect(try #require(bytes) < 400)
    }
}
