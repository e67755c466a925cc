import Reactor
import ScriptModel
import Testbed
import Testing

@testable import Redis

/// The rules of the scripts one by one, on a real server; each reply is held against the model as well.
@Suite(.serialized, .ownThread) struct ScriptTests {
    private func version(_ timestamp: UInt64, _ sequence: UInt64 = 0) -> ScriptVersion {
        ScriptVersion.at(timestamp, sequence)
    }

    private func command(
        _ event: CommandEvent,
        _ timestamp: UInt64,
        _ sequence: UInt64 = 0,
        digest: UInt64 = 1,
        spacing: Int64 = 0,
        token: ModelToken? = nil
    ) -> AdmitCall {
        .command(
            event: event,
            version: version(timestamp, sequence),
            digest: digest,
            spacingMilliseconds: spacing,
            registration: token
        )
    }

    private func start(_ timestamp: UInt64, claim: UInt64 = 1) -> AdmitCall {
        .start(version: version(timestamp), claim: claim)
    }

    private func unknown(_ timestamp: UInt64) -> SettleCall {
        SettleCall(version: version(timestamp), outcome: .unknown, digest: 1)
    }

    private func token(_ text: String, at: Int64 = 100) -> ModelToken {
        ModelToken(token: Array(text.utf8), environment: .production, registeredAtMilliseconds: at)
    }

    private func register(_ text: String, at: Int64 = 100, shows: ScriptVersion? = nil) -> AdmitCall {
        .register(attributesType: nil, registration: token(text, at: at), shows: shows)
    }

    private func accepted(_ timestamp: UInt64, _ sequence: UInt64 = 0, digest: UInt64 = 1) -> SettleCall {
        SettleCall(version: version(timestamp, sequence), outcome: .accepted, digest: digest)
    }

    // MARK: - Updates

    @Test func `The newest wins, and what was settled is a duplicate`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(register("aa")) == .registered)
        let sent = stage.admit(command(.update, 100))
        #expect(sent.verdict == .send && sent.timestampSeconds == 100 && sent.token == token("aa"))
        #expect(stage.verdict(command(.update, 99, 7)) == .superseded)
        // Its worker died: it is carried on with, and keeps its timestamp.
        #expect(stage.admit(command(.update, 100)).timestampSeconds == 100)
        stage.settle(accepted(100))
        #expect(stage.verdict(command(.update, 100)) == .duplicate)
        // A later sequence in the same second gets the next timestamp.
        #expect(stage.admit(command(.update, 100, 1, digest: 2)).timestampSeconds == 101)
        #expect(stage.admit(command(.update, 101, 0, digest: 3)).timestampSeconds == 102)
        #expect(stage.verdict(command(.update, 100, 1, digest: 2)) == .superseded)
    }

    @Test func `What is shown already is unchanged, and what is shown is only known once accepted`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 100, token: token("aa"))) == .send)
        #expect(stage.verdict(command(.update, 101)) == .send)
        stage.settle(accepted(100))
        #expect(stage.verdict(command(.update, 102)) == .send)
        stage.settle(accepted(102))
        #expect(stage.verdict(command(.update, 103)) == .unchanged)
        #expect(stage.verdict(command(.update, 103)) == .duplicate)
        #expect(stage.verdict(command(.update, 104, digest: 2)) == .send)
        stage.settle(SettleCall(version: version(104), outcome: .unknown, digest: 2))
        #expect(stage.verdict(command(.update, 104, digest: 2)) == .duplicate)
        #expect(stage.verdict(command(.update, 105, digest: 2)) == .send)
    }

    @Test func `Pace: wait, and then send; an assigned timestamp outlives the wait`() throws {
        let stage = try ScriptStage()
        // By the server's own clock, of which little goes by between two calls.
        let spacing: Int64 = 3_000
        #expect(stage.admit(command(.update, 100, spacing: spacing, token: token("aa"))).verdict == .send)
        let again = stage.admit(command(.update, 100, spacing: spacing))
        #expect(again.verdict == .wait && (1...spacing).contains(again.waitMilliseconds))
        let newer = stage.lane.connection.issue(
            command(.update, 100, 5, digest: 9, spacing: spacing),
            key: stage.key,
            tag: 7
        )
        #expect(newer == .issued)
        #expect(stage.lane.turn { stage.lane.connection.outstandingCount == 0 })
        let end = stage.lane.loop.nowMilliseconds + again.waitMilliseconds + 5
        #expect(stage.lane.turn { stage.lane.loop.nowMilliseconds >= end })
        #expect(
            stage.lane.connection.issue(command(.update, 100, 5, digest: 9, spacing: spacing), key: stage.key, tag: 8)
                == .issued
        )
        #expect(stage.lane.turn { stage.lane.connection.outstandingCount == 0 })
        guard case .admitted(8, let sent)? = stage.lane.events.last else { return #expect(Bool(false)) }
        #expect(sent.verdict == .send && sent.timestampSeconds == 101)
    }

    // MARK: - Ends

    @Test func `An end is never superseded, and nothing follows it`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 100, token: token("aa"))) == .send)
        stage.settle(accepted(100))
        #expect(stage.admit(command(.end, 90)).timestampSeconds == 101)
        #expect(stage.verdict(command(.update, 100)) == .ended)
        #expect(stage.verdict(command(.update, 200)) == .ended)
        #expect(stage.verdict(command(.end, 200)) == .ended)
        #expect(stage.admit(command(.end, 90)).timestampSeconds == 101)
        stage.settle(accepted(90))
        #expect(stage.verdict(command(.end, 90)) == .duplicate)
        #expect(stage.verdict(start(89)) == .superseded)
        #expect(stage.admit(start(95)).timestampSeconds == 102)
    }

    @Test func `An end of an update's own version is no duplicate of it`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 100, token: token("aa"))) == .send)
        stage.settle(accepted(100))
        #expect(stage.admit(command(.end, 100)).timestampSeconds == 101)
    }

    @Test func `An end that came to nothing may be followed by another`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.end, 100, token: token("aa"))) == .send)
        stage.settle(SettleCall(version: version(100), outcome: .notShown, digest: 1))
        #expect(stage.verdict(command(.update, 101)) == .ended)
        #expect(stage.verdict(command(.end, 99)) == .ended)
        #expect(stage.verdict(command(.end, 100)) == .duplicate)
        #expect(stage.verdict(command(.end, 101)) == .send)
    }

    // MARK: - Tokens

    @Test func `What is held goes out when a token registers`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 100)) == .noToken)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(99), command: [9])) == .superseded)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(100), command: [1, 0, 255])) == .held)
        #expect(stage.verdict(command(.update, 100)) == .held)
        for _ in 0..<2 {
            let registered = stage.admit(register("aa"))
            #expect(registered.held == .init(version: version(100), command: [1, 0, 255]))
        }
        #expect(stage.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .retry)
        #expect(stage.verdict(command(.update, 100)) == .send)
        // The worker that sends it may die: until it is settled, the registration still brings it.
        #expect(stage.admit(register("aa")).held != nil)
        #expect(stage.admit(command(.update, 100)).timestampSeconds == 100)
        stage.settle(accepted(100))
        #expect(stage.admit(register("aa")).held == nil)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .duplicate)
    }

    @Test func `What the app shows already is not sent to it`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 100)) == .noToken)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .held)
        #expect(stage.admit(register("aa", shows: version(100))).held == nil)
        #expect(stage.verdict(command(.update, 100)) == .duplicate)
    }

    @Test func `A newer state takes the place of a held one`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 100)) == .noToken)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .held)
        #expect(stage.verdict(command(.update, 101)) == .noToken)
        #expect(stage.admit(register("aa")).held == nil)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(101), command: [2])) == .retry)
        #expect(stage.verdict(command(.update, 101)) == .send)
    }

    @Test func `A dead token is retired, unless it was registered since`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(register("aa", at: 100)) == .registered)
        var call = SettleCall(version: nil, outcome: .notShown, digest: 0)
        for (text, environment, before, retires) in [
            ("aa", TokenEnvironment.production, 100, false), ("bb", .production, 200, false),
            ("aa", .sandbox, 200, false),
            ("aa", .production, 101, true), ("aa", .production, 101, false),
        ] as [(String, TokenEnvironment, Int64, Bool)] {
            call.retirement = .init(token: Array(text.utf8), environment: environment, invalidAtMilliseconds: before)
            #expect(stage.settle(call) == retires)
        }
        // Its own registration, delivered again, does not bring it back; a later one does.
        #expect(stage.verdict(register("aa", at: 100)) == .stale)
        #expect(stage.verdict(command(.update, 100)) == .noToken)
        #expect(stage.verdict(register("aa", at: 101)) == .registered)
        call.retirement?.invalidAtMilliseconds = nil
        #expect(stage.settle(call))
    }

    @Test func `The later registration counts, whatever order they come in`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(register("aa", at: 200)) == .registered)
        #expect(stage.verdict(register("bb", at: 199)) == .stale)
        #expect(stage.admit(command(.update, 100, token: token("cc", at: 150))).token == token("aa", at: 200))
        #expect(stage.verdict(.unregister(attributesType: nil, atMilliseconds: 199)) == .stale)
        #expect(stage.verdict(.unregister(attributesType: nil, atMilliseconds: 200)) == .unregistered)
        #expect(stage.verdict(command(.update, 101)) == .noToken)
        #expect(stage.verdict(register("aa", at: 199)) == .stale)
    }

    // MARK: - Starts

    @Test func `A start that was sent is never sent again`() throws {
        let stage = try ScriptStage()
        #expect(stage.admit(start(100)).timestampSeconds == 100)
        #expect(stage.verdict(start(100, claim: 2)) == .unknown)
        // Only `settle` writes it down, so an `unknown` whose reply was lost is heard again.
        #expect(stage.verdict(start(100, claim: 2)) == .unknown)
        stage.settle(unknown(100))
        #expect(stage.verdict(start(100, claim: 3)) == .duplicate)
        #expect(stage.verdict(start(101)) == .send)
        // A newer update does not hide that its outcome is not known.
        #expect(stage.verdict(command(.update, 102)) == .noToken)
        #expect(stage.verdict(start(101, claim: 2)) == .unknown)
        #expect(stage.verdict(start(103)) == .send)
        stage.settle(accepted(103))
        #expect(stage.verdict(start(103, claim: 2)) == .duplicate)
        #expect(stage.verdict(start(101)) == .superseded)
    }

    @Test func `A start whose verdict was lost gets the same again, and nothing changes by it`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.end, 150, token: token("aa"))) == .send)
        stage.settle(accepted(150))
        #expect(stage.admit(start(151)).timestampSeconds == 151)
        let hash = stage.server.hash(stage.key.text)
        for _ in 0..<2 {
            let again = stage.admit(start(151))
            #expect(again.verdict == .send && again.timestampSeconds == 151)
        }
        #expect(stage.verdict(start(151, claim: 2)) == .unknown)
        #expect(stage.server.hash(stage.key.text) == hash)
        // A late registration of the life before, and a state that waits for the token of the one to come, are no hindrance.
        #expect(stage.verdict(register("old", at: 150)) == .registered)
        #expect(stage.admit(start(151)).timestampSeconds == 151)
        #expect(stage.verdict(.unregister(attributesType: nil, atMilliseconds: 150)) == .unregistered)
        #expect(stage.verdict(command(.update, 152)) == .noToken)
        #expect(stage.admit(start(151)).timestampSeconds == 151)
    }

    @Test func `A start whose verdict was lost is superseded by an end, and by what the activity lives by`() throws {
        let ended = try ScriptStage()
        #expect(ended.verdict(start(100)) == .send)
        #expect(ended.verdict(command(.end, 101)) == .noToken)
        #expect(ended.verdict(start(100)) == .superseded)
        let lives = try ScriptStage()
        #expect(lives.verdict(start(100)) == .send)
        #expect(lives.verdict(command(.update, 101, token: token("aa"))) == .send)
        #expect(lives.verdict(start(100)) == .superseded)
        let restarted = try ScriptStage()
        #expect(restarted.verdict(start(100)) == .send)
        #expect(restarted.verdict(start(101, claim: 2)) == .send)
        #expect(restarted.verdict(start(100)) == .superseded)
    }

    @Test(arguments: [true, false])
    func `Accepted wins over the unknown of another record of the same start`(unknownFirst: Bool) throws {
        let stage = try ScriptStage()
        #expect(stage.admit(start(100)).timestampSeconds == 100)
        #expect(stage.verdict(start(100, claim: 2)) == .unknown)
        if unknownFirst { stage.settle(unknown(100)) }
        // The first record's verdict had been lost: the other's `unknown` does not keep it from being sent.
        #expect(stage.admit(start(100)).timestampSeconds == 100)
        stage.settle(accepted(100, digest: 7))
        if !unknownFirst { stage.settle(unknown(100)) }
        #expect(stage.verdict(start(100, claim: 3)) == .duplicate)
        // What it shows is known.
        #expect(stage.verdict(register("aa")) == .registered)
        #expect(stage.verdict(command(.update, 101, digest: 7)) == .unchanged)
    }

    @Test func `A start that comes after a newer update still brings the activity about`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 105)) == .noToken)
        #expect(stage.verdict(.hold(attributesType: nil, version: version(105), command: [5])) == .held)
        #expect(stage.admit(start(100)).timestampSeconds == 100)
        #expect(stage.verdict(start(100, claim: 2)) == .unknown)
        stage.settle(accepted(100))
        // The update that waits for the token that the start brings is still held.
        #expect(stage.admit(register("aa")).held?.command == [5])
        #expect(stage.admit(command(.update, 105)).timestampSeconds == 105)
        #expect(stage.verdict(start(101)) == .superseded)
    }

    @Test func `A start is superseded by what the activity lives by, and by its end`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.update, 105, token: token("aa"))) == .send)
        #expect(stage.verdict(start(100)) == .superseded)
        let ended = try ScriptStage()
        #expect(ended.verdict(command(.end, 105)) == .noToken)
        #expect(ended.verdict(start(100)) == .superseded)
    }

    @Test func `A start opens a new life without the old one's token`() throws {
        let stage = try ScriptStage()
        #expect(stage.verdict(command(.end, 100, token: token("aa"))) == .send)
        stage.settle(accepted(100))
        #expect(stage.verdict(start(101)) == .send)
        #expect(stage.verdict(command(.update, 102)) == .noToken)
        #expect(stage.verdict(register("old", at: 99)) == .stale)
        #expect(stage.verdict(register("bb", at: 101)) == .registered)
        #expect(stage.verdict(command(.update, 102)) == .send)
    }

    @Test func `A device's tokens are kept apart by attributes type`() throws {
        let stage = try ScriptStage(.device("phone"))
        let game = "GameAttributes"
        let race = "RaceAttributes"
        #expect(stage.verdict(.address(attributesType: game, registration: nil)) == .noToken)
        #expect(stage.verdict(.hold(attributesType: game, version: version(100), command: [1])) == .held)
        #expect(stage.verdict(.hold(attributesType: game, version: version(102), command: [2])) == .held)
        #expect(stage.verdict(.hold(attributesType: game, version: version(101), command: [3])) == .superseded)
        #expect(stage.admit(.register(attributesType: race, registration: token("cc"), shows: nil)).held == nil)
        let registered = stage.admit(.register(attributesType: game, registration: token("aa"), shows: nil))
        #expect(registered.held == .init(version: version(102), command: [2]))
        #expect(stage.admit(.address(attributesType: game, registration: nil)).token == token("aa"))
        #expect(stage.verdict(.hold(attributesType: game, version: version(103), command: [3])) == .retry)
        stage.settle(SettleCall(attributesType: game, version: version(102), outcome: .accepted, digest: 0))
        #expect(stage.admit(.register(attributesType: game, registration: token("aa"), shows: nil)).held == nil)
        #expect(
            stage.admit(.address(attributesType: race, registration: token("dd", at: 300))).token
                == token("dd", at: 300)
        )
        // The tombstone is older than the one and newer than the other.
        #expect(stage.verdict(.unregisterAll(atMilliseconds: 200)) == .unregistered)
        #expect(stage.verdict(.address(attributesType: game, registration: nil)) == .noToken)
        #expect(stage.admit(.address(attributesType: race, registration: nil)).token == token("dd", at: 300))
        #expect(stage.verdict(.unregisterAll(atMilliseconds: 200)) == .unregistered)
        #expect(stage.verdict(.unregisterAll(atMilliseconds: 199)) == .stale)
    }

    @Test func `Starts of several activities are held, and come back one after the other, oldest first`() throws {
        let stage = try ScriptStage(.device("phone"))
        let type = "GameAttributes"
        func hold(_ activity: String, _ timestamp: UInt64) -> Verdict {
            let command = Array("\(activity) at \(timestamp)".utf8)
            return stage.verdict(
                .hold(
                    attributesType: type,
                    activity: activity,
                    version: version(timestamp),
                    command: command,
                    carriesAlert: true
                )
            )
        }
        func settle(_ activity: String, _ timestamp: UInt64) {
            let version = version(timestamp)
            stage.settle(
                SettleCall(attributesType: type, activity: activity, version: version, outcome: .accepted, digest: 0)
            )
        }
        func released(after: HeldStartPlace? = nil) -> String? {
            let register = AdmitCall.register(
                attributesType: type,
                registration: token("aa"),
                frequentUpdates: nil,
                shows: nil,
                after: after
            )
            return stage.admit(register).held.map { String(decoding: $0.command, as: UTF8.self) }
        }
        #expect(hold("b", 102) == .held)
        #expect(hold("a", 100) == .held)
        #expect(hold("c", 102) == .held)
        #expect(hold("a", 99) == .superseded)
        #expect(hold("a", 101) == .held)
        for number in 3..<RedisConnection.heldStartsMax { #expect(hold("other \(number)", 200) == .held) }
        #expect(hold("one too many", 99) == .full)
        #expect(hold("c", 103) == .held, "in place of its older one")
        #expect(released() == "a at 101")
        #expect(released() == "a at 101", "until it is settled")
        #expect(released(after: .init(activity: "a", version: version(101))) == "b at 102")
        #expect(released(after: .init(activity: "b", version: version(102))) == "c at 103")
        #expect(released(after: .init(activity: "gone", version: version(102))) == "b at 102")
        #expect(released(after: .init(activity: "gone", version: version(201))) == nil)
        settle("a", 100)
        settle("b", 101)
        #expect(released() == "a at 101", "neither was it")
        settle("a", 101)
        #expect(released() == "b at 102")
        settle("b", 102)
        #expect(released() == "c at 103")
        settle("c", 103)
        for number in 3..<RedisConnection.heldStartsMax {
            #expect(released() == "other \(number) at 200")
            settle("other \(number)", 200)
        }
        #expect(released() == nil)
    }

    // MARK: - The hash

    @Test func `A value outlives an activity, and a device's outlives many`() throws {
        let stage = try ScriptStage()
        func lifetime(_ key: TestKey) -> Int64 {
            stage.server.command("PTTL", key.text).first.flatMap { Int64(String(decoding: $0, as: UTF8.self)) } ?? -1
        }
        #expect(stage.verdict(command(.update, 100, spacing: 0, token: token("aa"))) == .send)
        #expect((24 * 3_600_000...25 * 3_600_000).contains(lifetime(stage.key)))
        // Every 1,000 seconds are soon enough to set it again.
        let now = stage.lane.loop.wallMilliseconds
        stage.server.command("PEXPIRE", stage.key.text, "80000000")
        #expect(stage.verdict(command(.update, 101)) == .send)
        stage.lane.loop.refreshClock()
        #expect(lifetime(stage.key) <= 80_000_000 || stage.lane.loop.wallMilliseconds / 1_000_000 != now / 1_000_000)
        // As though the last send had been 1,000 seconds earlier.
        let setBack = "redis.call('SETRANGE', KEYS[1], '14', struct.pack('<I6', ARGV[1]))"
        stage.server.command("EVAL", setBack, "1", stage.key.text, String(now - 1_000_000))
        #expect(stage.verdict(command(.update, 102)) == .send)
        #expect(lifetime(stage.key) > 80_000_000)
        stage.server.command("PEXPIRE", stage.key.text, "80000000")
        stage.settle(accepted(102))
        #expect(lifetime(stage.key) <= 80_000_000)
        stage.settle(accepted(103), .activity("never admitted"))
        #expect(stage.server.command("DBSIZE") == [Array("1".utf8)])
        let device = TestKey.device("phone")
        _ = stage.admit(.register(attributesType: "T", registration: token("aa"), shows: nil), device)
        #expect(lifetime(device) > 89 * 24 * 3_600_000)
    }

    @Test func `An activity takes less than 400 bytes`() throws {
        let stage = try ScriptStage(.activity("0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a111"))
        let registered = ModelToken(
            token: Array(String(repeating: "8f0c", count: 40).utf8),
            environment: .production,
            registeredAtMilliseconds: 1_760_000_000_000
        )
        #expect(stage.verdict(start(1_760_000_000)) == .send)
        stage.settle(accepted(1_760_000_000))
        #expect(stage.verdict(.register(attributesType: nil, registration: registered, shows: nil)) == .registered)
        // With all that it holds as a rule: a held command goes with its token, and a 429 adds a class of the allocator's, 64 bytes.
        let update = AdmitCall.command(
            event: .update,
            version: version(1_760_000_005, .max),
            digest: 2,
            pace: .spaced(0),
            request: PushRequest(isHigh: true, mayUseReserve: false, carriesAlert: true),
            registration: nil
        )
        #expect(stage.verdict(update) == .send)
        stage.settle(accepted(1_760_000_005, .max, digest: 2))
        // Its key is not text.
        let usage = "return redis.call('MEMORY', 'USAGE', redis.call('RANDOMKEY'))"
        let bytes = stage.server.command("EVAL", usage, "0").first
            .flatMap { Int(String(decoding: $0, as: UTF8.self)) }
        #expect(try #require(bytes) < 400)
    }
}
