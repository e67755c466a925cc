import LiveActivity
import Reactor
import RedisTestbed
import Testing

@testable import ActivityStore
@testable import Redis

/// A server with a lane, and the model. Both perform each call, and must give the same reply. Left out are times that
/// depend on the server's own clock.
final class ScriptComparison {
    let server: RedisServer
    let caller: StoreCaller
    var model: StoreModel
    let key: TestKey
    private let usesListedTimes: Bool

    /// - Parameter nowMilliseconds: the scripts' time, which ``advanceClock(_:)`` changes; nil: the scripts use the
    ///   server's clock.
    init(_ key: TestKey = .activity("match-17"), nowMilliseconds: Int64? = nil) throws {
        server = try RedisServer()
        caller = try StoreCaller(server.unixURL)
        model = StoreModel(nowMilliseconds: nowMilliseconds ?? caller.loop.wallMilliseconds)
        self.key = key
        usesListedTimes = nowMilliseconds != nil
        try #require(caller.runLoopUntilReady())
        if usesListedTimes { try server.loadScriptsWithListedTimes(try caller.connection()) }
    }

    /// Advances the time of the scripts and of the model; a negative number sets it back.
    func advanceClock(_ milliseconds: Int64) { model.nowMilliseconds += milliseconds }

    /// Performs a call on the server and in the model, and compares the two replies.
    @discardableResult
    func perform(_ call: Operation, _ key: TestKey? = nil) -> OwnedReply {
        let key = key ?? self.key
        prepareNextCall()
        #expect(caller.store.issue(call, key: key, tag: 1) == .issued)
        #expect(caller.runLoop { !caller.events.isEmpty })
        guard case .replied(1, let reply)? = caller.events.first else {
            Issue.record("\(caller.events)")
            return OwnedReply(.stale)
        }
        var expected = model.perform(key.call(call, tag: 1))
        if !usesListedTimes {
            (expected.waitMilliseconds, expected.drawIdentifier) = clockDependentTimes(reply, as: expected.verdict)
        }
        #expect(reply == expected)
        return reply
    }

    /// Returns the two times of a reply that depend on the server's clock. The wait is 0 if the verdict is not `wait`,
    /// and the draw is 0 if the verdict is not `tokenFound`.
    private func clockDependentTimes(
        _ reply: OwnedReply,
        as verdict: StoreVerdict
    ) -> (waitMilliseconds: Int64, drawIdentifier: Int64) {
        (verdict == .wait ? reply.waitMilliseconds : 0, verdict == .tokenFound ? reply.drawIdentifier : 0)
    }

    func verdict(_ call: Operation) -> StoreVerdict { perform(call).verdict }

    /// Performs a call whose verdict must be `settled`.
    func settle(_ call: Operation, _ key: TestKey? = nil) { _ = settleRetiresToken(call, key) }

    /// Performs a call whose verdict must be `settled`. Returns whether Redis has retired the token.
    func settleRetiresToken(_ call: Operation, _ key: TestKey? = nil) -> Bool {
        let reply = perform(call, key)
        #expect(reply.verdict == .settled)
        return reply.hasRetiredToken
    }

    func refundStart(_ budget: Policy.Bucket, drawIdentifier: Int64) {
        settle(.refundStart(startBudget: budget, drawIdentifier: drawIdentifier))
    }

    private func prepareNextCall() {
        caller.events = []
        if usesListedTimes { server.command("RPUSH", "times", String(model.nowMilliseconds * 1_000 + 7)) }
    }
}

extension RedisServer {
    /// A Lua function that replaces `SET`. It records the key's expiry in the hash `expiry`, instead of setting it.
    private static let setLua = """
        local function set(key, value, _, lifetime, condition)
          redis.call('HSET', 'expiry', key, TIME .. '+' .. lifetime)
          if condition then return redis.pcall("SET", key, value, condition) end
          return redis.pcall("SET", key, value)
        end

        """
    /// Lua code that the test inserts into the loop over a batch of `admit`. It gives each call its own time, and sets
    /// `hasOneClock` to whether all these times are equal.
    private static let nextTimeLua = """
        if index == 1 then
          for _, other in ipairs(redis.call('LRANGE', 'times', 0, count - 2)) do hasOneClock = hasOneClock and other == TIME end
        else
          local before = TIME
          TIME = redis.call('LPOP', 'times')
          if TIME ~= before then now, lastRequestAndPace, prefixMin = nil, nil, math.huge end
        end

        """
    /// Lua code that the test inserts into the loop over a batch of registrations. It gives each call its own time.
    private static let nextRegistrationTimeLua = """
        if index > 1 then
          TIME = redis.call('LPOP', 'times')
          now, seconds = readServerTime()
          updatesUntilSeconds = seconds + UPDATE_PERIOD_SECONDS
        end

        """
    /// Lua code for the place where `admit` replies with the activity's value. Usually the reply has one clock for all
    /// calls of a batch, and the lane uses it to compute the pushes left. If the calls have different times, this code
    /// computes the pushes left instead.
    private static let sendReplyLua = """
        if not hasOneClock then
          local missing = math.max(math.ceil((read('<I6', value, 34) - now) / interval), 0)
          reply = assigned + math.max(pushes - missing, 0) + (isHigh and 32767 or 16384)
          replyCount = replyCount + 1
          replies[replyCount] = value
          break
        end
        reply = value

        """

    /// Loads scripts with another clock. Each call, also in a batch, takes the next time of the list `times`, in UNIX
    /// microseconds. The scripts set no expiry. They record it in the hash `expiry`: `1760000000000007+3600000` means
    /// that the call was made at this time, and that the key expires 3,600,000 ms later.
    func loadScriptsWithListedTimes(_ connection: RedisConnection) throws {
        let clock = "callRedis('TIME')"
        let replacements = [
            (clock, "{string.sub(TIME, 1, 10), tostring(tonumber(string.sub(TIME, 11)))}"),
            ("local version, timestampAndRequest", Self.nextTimeLua + "local version, timestampAndRequest"),
            ("local bits, form, length", Self.nextRegistrationTimeLua + "local bits, form, length"),
            ("else\n        reply = value\n", "else\n" + Self.sendReplyLua),
            ("callRedis('SET', key, ", "set(key, "),
            ("callRedis('PEXPIRE', key, ", "callRedis('HSET', 'expiry', key, TIME .. '+' .. "),
        ]
        for script in StoreScript.allCases {
            var timedSource =
                "local TIME, hasOneClock = redis.call('LPOP', 'times'), true\n\(Self.setLua)\(script.luaSource)"
            for (text, replacement) in replacements {
                // `admit` has all these texts. The other scripts must at least read the clock.
                let isExpected = script == .admit || text == clock
                try #require(timedSource.contains(text) || !isExpected, "\(script) no longer has the text: \(text)")
                timedSource = timedSource.replacing(text, with: replacement)
            }
            let digest = try #require(command("SCRIPT", "LOAD", timedSource).first)
            let isSet = Array(digest.utf8)
                .withUnsafeBytes { connection.scriptCallPrefixes.setDigest($0, of: script.rawValue) }
            #expect(isSet)
        }
    }
}
