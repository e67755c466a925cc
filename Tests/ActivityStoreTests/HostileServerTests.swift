import Glibc
import LiveActivity
import Reactor
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// A server replies late, wrongly or not at all. Each call still ends exactly once, and calls end in their
/// order.
@Suite(.serialized, .ownThread) struct HostileServerTests {
    private let update = Operation.command(
        event: .update,
        version: Version.at(7, 0),
        digest: 1,
        spacingMilliseconds: 0,
        registration: nil
    )
    private let settle = Operation.settlement(
        attributesType: "Game",
        version: Version(timestamp: 7, sequence: 0),
        outcome: .accepted,
        digest: 1
    )
    private let key = TestKey.activity("one")
    private let phone = TestKey.device("phone")

    /// Returns a connected caller and its server. No test takes as long as the default deadline, a minute.
    private func connectedCaller(deadlineMilliseconds: Int64 = 60_000) throws -> (StoreCaller, FakeRedis) {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        var configuration = RedisConfiguration(url: try RedisURL(fake.url))
        configuration.replyDeadlineMilliseconds = deadlineMilliseconds
        let caller = try StoreCaller(configuration, loop: loop, server: fake)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        return (caller, fake)
    }

    @Test(arguments: [
        ":0\r\n", "+send1700000000\r\n", "$-1\r\n", "*0\r\n", "*1\r\n$9\r\nduplicate\r\n", "$0\r\n\r\n",
        "$7\r\nunheard\r\n",
        "$10\r\nregistered\r\n", "$10\r\nduplicates\r\n", "$4\r\nsend\r\n", "$14\r\nsend1700000000\r\n",
        "$4\r\nwait\r\n", "$5\r\nwait0\r\n",
        "$6\r\nwait-1\r\n", "$24\r\nwait99999999999999999999\r\n",
        makeSendReply(timestamp: 10_000_000_000), makeSendReply(timestamp: -1), makeSendReply(priority: 0),
        makeSendReply(budget: 10_001),
        "*1\r\n\(packedPush)", packedPush, "*2\r\n\(packedPush):1\r\n",
        makeShortSendReply(clock: ":-1\r\n"), makeShortSendReply(clock: "$1\r\n1\r\n"),
        String(makeShortSendReply().dropFirst("*2\r\n".count)),
        "*2\r\n\(packedPush)$-1\r\n", "*2\r\n\(packedPush)$4\r\nsend\r\n",
        "HTTP/1.1 200 OK\r\n\r\n", "*2\r\n*1\r\n:1\r\n:1\r\n",
    ])
    func `A reply that does not fit its call ends the connection`(reply: String) throws {
        let (caller, fake) = try connectedCaller()
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        fake.send(reply)
        #expect(caller.runLoop { caller.events.contains(.lost(.protocolViolation)) })
        // The call with the wrong reply fails first. The report of the lost connection may come before or after this
        // failure. So the test compares only the failures.
        let failureEvents = caller.events.filter { if case .failed = $0 { true } else { false } }
        #expect(failureEvents == [.failed(1, .admit, .protocolViolation), .failed(2, .settle, .protocolViolation)])
        caller.store.close()
    }

    @Test(arguments: [
        makeSendReply(kind: "\u{05}"), makeSendReply(kind: "\u{08}"), makeShortSendReply(kind: "\u{05}"),
        makeSendReply(registeredAt: "\0\0\u{73}\u{4E}\u{18}\u{09}"), makeSendReply(token: ""),
        makeSendReply(token: String(repeating: "a", count: 127) + String(repeating: "a", count: 400)),
        makeShortSendReply(token: ""), "$9\r\nalertHeld\r\n", "$15\r\nalertHeld123456\r\n",
        "$45\r\nalertHeld123456000000000100000000000000000000\r\n",
        "$47\r\nalertHeld123456x000000000100000000000000000000a\r\n",
    ])
    func `A foreign value is an error of that call only`(reply: String) throws {
        let (caller, fake) = try connectedCaller()
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        fake.send(reply + ":0\r\n")
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(caller.events == [.failed(1, .admit, .foreignValue), .settled(2, hasRetiredToken: false)])
        caller.store.close()
    }

    @Test func `Replies that are shifted by one are detected`() throws {
        let (caller, fake) = try connectedCaller()
        for tag in 1...3 as ClosedRange<UInt64> {
            #expect(caller.store.issue(update, key: key, tag: tag * 2) == .issued)
            #expect(caller.store.issue(settle, key: phone, tag: tag * 2 + 1) == .issued)
        }
        fake.send("$9\r\nduplicate\r\n$9\r\nduplicate\r\n:0\r\n")
        #expect(caller.runLoop { caller.events.contains(.lost(.protocolViolation)) })
        #expect(
            caller.events == [
                .admitted(2, OwnedReply(.duplicate)), .failed(3, .settle, .protocolViolation),
                .lost(.protocolViolation),
                .failed(4, .admit, .protocolViolation), .failed(5, .settle, .protocolViolation),
                .failed(6, .admit, .protocolViolation), .failed(7, .settle, .protocolViolation),
            ]
        )
        caller.store.close()
    }

    @Test(arguments: [
        "$9\r\nduplicate\r\n", ":0\r\n", "*0\r\n", "*2\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n", "$-1\r\n", "*-1\r\n",
        "*4\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n",
        "*3\r\n:0\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n",
    ])
    func `A reply that does not fit its batch ends the connection`(reply: String) throws {
        let (caller, fake) = try connectedCaller()
        for tag in 1...3 as ClosedRange<UInt64> {
            #expect(caller.store.issue(update, key: key, tag: tag) == .issued)
        }
        #expect(caller.store.issue(settle, key: phone, tag: 4) == .issued)
        fake.send(reply)
        #expect(caller.runLoop { caller.events.contains(.lost(.protocolViolation)) })
        let failureEvents = caller.events.filter { if case .failed = $0 { true } else { false } }
        #expect(failureEvents == (1...4).map { .failed($0, $0 == 4 ? .settle : .admit, .protocolViolation) })
        #expect(caller.events.count == 5)
        caller.store.close()
    }

    @Test func `A batch's replies belong to its calls, and an error among them to one call`() throws {
        let (caller, fake) = try connectedCaller()
        for tag in 1...3 as ClosedRange<UInt64> {
            #expect(caller.store.issue(update, key: key, tag: tag) == .issued)
        }
        #expect(caller.store.issue(settle, key: phone, tag: 4) == .issued)
        fake.send("*3\r\n$5\r\nended\r\n-OOM no\r\n$5\r\nwait7\r\n:1\r\n")
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        var waitReply = OwnedReply(.wait)
        waitReply.waitMilliseconds = 7
        #expect(
            caller.events == [
                .admitted(1, OwnedReply(.ended)), .failed(2, .admit, .outOfMemory), .admitted(3, waitReply),
                .settled(4, hasRetiredToken: true),
            ]
        )
        caller.store.close()
    }

    @Test(arguments: [
        ("-OOM no", RedisError.Code.outOfMemory, false), ("-ERR fault", .unknown, false),
        ("-READONLY replica", .readOnly, true),
    ])
    func `An error instead of a batch's replies is an error of each call`(
        reply: String,
        code: RedisError.Code,
        isLost: Bool
    ) throws {
        let (caller, fake) = try connectedCaller()
        for tag in 1...3 as ClosedRange<UInt64> {
            #expect(caller.store.issue(update, key: key, tag: tag) == .issued)
        }
        #expect(caller.store.issue(settle, key: phone, tag: 4) == .issued)
        fake.send("\(reply)\r\n:1\r\n")
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        let failures = (1...3 as ClosedRange<UInt64>).map { StoreCaller.Event.failed($0, .admit, code) }
        let afterLoss = [StoreCaller.Event.lost(code), .failed(4, .settle, code)]
        #expect(caller.events == failures + (isLost ? afterLoss : [.settled(4, hasRetiredToken: true)]))
        caller.store.close()
    }

    @Test func `A reply before its call is sent is an unexpected reply`() throws {
        let (caller, fake) = try connectedCaller()
        // The reply arrives before the lane sends the call, so it cannot be the reply to this call.
        fake.send("$9\r\nduplicate\r\n")
        caller.loop.runIteration(waitMilliseconds: 0)
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events == [.lost(.protocolViolation), .failed(1, .admit, .protocolViolation)])
        caller.store.close()
    }

    @Test func `An unexpected reply ends the connection`() throws {
        let (caller, fake) = try connectedCaller()
        fake.send(":1\r\n")
        #expect(caller.runLoop { caller.events == [.lost(.protocolViolation)] })
        caller.store.close()
    }

    @Test func `A reply that arrives byte by byte is read`() throws {
        let (caller, fake) = try connectedCaller()
        fake.sendsByteByByte = true
        fake.makeReply = { $0 == "EVALSHA" ? Self.makeSendReply() : nil }
        var expectedReply = OwnedReply(.send)
        expectedReply.timestamp = 0x6543_2100
        expectedReply.priority = 5
        expectedReply.isDemoted = true
        expectedReply.budgetLeft = 42
        expectedReply.registration = OwnedToken(
            token: Array("010203".utf8),
            environment: .production,
            registeredAtMilliseconds: 99
        )
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(
            caller.runLoop {
                fake.sendNextByte()
                return caller.events == [.admitted(1, expectedReply)]
            }
        )
        caller.store.close()
    }

    @Test func `A push that is permitted as requested gets the short reply`() throws {
        let (caller, fake) = try connectedCaller()
        fake.makeReply = { $0 == "EVALSHA" ? Self.makeShortSendReply() : nil }
        var expectedReply = OwnedReply(.send)
        expectedReply.timestamp = 7
        expectedReply.priority = 5
        expectedReply.budgetLeft = 15
        expectedReply.registration = OwnedToken(
            token: Array("010203".utf8),
            environment: .production,
            registeredAtMilliseconds: 99
        )
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.runLoop { caller.events == [.admitted(1, expectedReply)] })
        caller.store.close()
    }

    @Test func `No reply in time ends the connection, and it comes back`() throws {
        // The server must complete the next handshake within the deadline, even on a busy machine.
        let (caller, _) = try connectedCaller(deadlineMilliseconds: 2_000)
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        #expect(caller.runLoop { caller.events.count == 4 })
        #expect(
            caller.events == [.lost(.deadline), .failed(1, .admit, .deadline), .failed(2, .settle, .deadline), .ready]
        )
        caller.store.close()
    }

    @Test func `A handshake without a reply is given up`() throws {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        fake.makeReply = { $0 == "INFO" ? nil : FakeRedis.defaultReply($0) }
        var configuration = RedisConfiguration(url: try RedisURL(fake.url))
        configuration.replyDeadlineMilliseconds = 50
        let caller = try StoreCaller(configuration, loop: loop, server: fake)
        #expect(caller.runLoop { caller.events == [.lost(.deadline), .lost(.deadline)] })
        fake.makeReply = FakeRedis.defaultReply
        #expect(caller.runLoopUntilReady())
        caller.store.close()
    }

    @Test func `A server that cannot run the scripts is not used`() throws {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        fake.makeReply = { $0 == "INFO" ? "$21\r\nredis_version:4.0.14\n\r\n" : FakeRedis.defaultReply($0) }
        let caller = try StoreCaller(RedisConfiguration(url: RedisURL(fake.url)), loop: loop, server: fake)
        #expect(caller.runLoop { caller.events == [.lost(.serverTooOld), .lost(.serverTooOld)] })
        #expect(caller.errorTexts.first == "Redis is older than version 5")
        fake.makeReply = FakeRedis.defaultReply
        #expect(caller.runLoopUntilReady())
        caller.store.close()
    }

    @Test func `A reply that arrives in time counts even if the lane reads it after the deadline`() throws {
        let (caller, fake) = try connectedCaller(deadlineMilliseconds: 2_000)
        fake.makeReply = { $0 == "EVALSHA" ? "$9\r\nduplicate\r\n" : nil }
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        // The call is sent and its reply arrives. Then the lane pauses for longer than the deadline, before it reads
        // the reply.
        caller.loop.runIteration(waitMilliseconds: 0)
        caller.loop.runIteration(waitMilliseconds: 0)
        usleep(2_500_000)
        caller.loop.refreshClock()
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events == [.admitted(1, OwnedReply(.duplicate))])
        caller.store.close()
    }

    @Test(arguments: [
        ("-LOADING wait", RedisError.Code.loading), ("-READONLY replica", .readOnly),
        ("-NOAUTH first", .noAuthentication),
    ])
    func `An error that every call would get ends the connection`(reply: String, code: RedisError.Code) throws {
        let (caller, fake) = try connectedCaller()
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        fake.send("\(reply)\r\n")
        #expect(caller.runLoop { caller.store.isReady && caller.events.last == .ready })
        #expect(caller.events == [.failed(1, .admit, code), .lost(code), .failed(2, .settle, code), .ready])
        caller.store.close()
    }

    @Test(arguments: [
        ("-OOM no", RedisError.Code.outOfMemory), ("-BUSY script", .busy), ("-MOVED 1 a:1", .moved),
        ("-ERR fault", .unknown),
    ])
    func `An error of one call fails only that call`(reply: String, code: RedisError.Code) throws {
        let (caller, fake) = try connectedCaller()
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        fake.send("\(reply)\r\n:1\r\n")
        #expect(caller.runLoop { caller.events.count == 2 })
        #expect(caller.events == [.failed(1, .admit, code), .settled(2, hasRetiredToken: true)])
        caller.store.close()
    }

    @Test func `A server that forgets the scripts twice loses the connection`() throws {
        let (caller, fake) = try connectedCaller()
        fake.makeReply = { $0 == "EVALSHA" ? "-NOSCRIPT none\r\n" : FakeRedis.defaultReply($0) }
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.runLoop { caller.events == [.failed(1, .admit, .noScript)] })
        #expect(caller.store.isReady)
        #expect(caller.store.issue(update, key: key, tag: 2) == .issued)
        #expect(caller.runLoop { caller.events.count >= 3 })
        #expect(caller.events[1...].prefix(2) == [.failed(2, .admit, .noScript), .lost(.noScript)])
        caller.store.close()
    }

    @Test func `Closing fails all outstanding calls, and no more events follow`() throws {
        let (caller, fake) = try connectedCaller()
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        caller.store.close()
        caller.store.close()
        #expect(caller.events == [.failed(1, .admit, .closed), .failed(2, .settle, .closed)])
        #expect(caller.store.issue(update, key: key, tag: 3) == .notReady)
        fake.send(":1\r\n")
        #expect(!caller.runLoop(limitMilliseconds: 150) { caller.events.count > 2 })
    }

    @Test func `A handler that closes from inside a reply gets no more events`() throws {
        let (caller, fake) = try connectedCaller()
        for tag in 1...3 as ClosedRange<UInt64> {
            #expect(caller.store.issue(update, key: key, tag: tag) == .issued)
        }
        caller.onEvent = { [unowned caller] event in if case .replied = event { caller.store.close() } }
        caller.loop.runIteration(waitMilliseconds: 0)
        fake.send("*3\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n$9\r\nduplicate\r\n")
        #expect(caller.runLoop { caller.events.count >= 3 })
        #expect(
            caller.events == [
                .admitted(1, OwnedReply(.duplicate)), .failed(2, .admit, .closed), .failed(3, .admit, .closed),
            ]
        )
    }

    @Test func `Calls beyond the limits are refused`() throws {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        var configuration = RedisConfiguration(url: try RedisURL(fake.url))
        configuration.outstandingCallsMax = 2
        let caller = try StoreCaller(configuration, loop: loop, server: fake)
        #expect(caller.store.issue(update, key: key, tag: 1) == .notReady)
        #expect(caller.runLoopUntilReady())
        let version = Version.at(7, 0)
        let longToken = OwnedToken(
            token: Array(repeating: 1, count: StoreLimits.tokenBytesMax + 1),
            environment: .sandbox,
            registeredAtMilliseconds: 0
        )
        let device = TestKey.device("device")
        let wrongCalls: [(Operation, TestKey)] = [
            (update, .activity("")), (update, .activity(String(repeating: "x", count: SubjectKey.bytesMax))),
            (update, device),
            (.hold(attributesType: nil, version: version, command: []), key),
            (
                .hold(
                    attributesType: nil,
                    version: version,
                    command: Array(repeating: 0, count: StoreLimits.heldCommandBytesMax + 1)
                ), key
            ),
            (.hold(attributesType: "T", version: version, command: [1]), key),
            (.settlement(version: .at(10_000_000_000), outcome: .accepted, digest: 0), key),
            (.hold(attributesType: nil, version: version, command: [1]), device),
            (.register(attributesType: nil, registration: longToken, shownVersion: nil), key),
            (.takeStartToken(attributesType: "", registration: nil), device),
            (
                .takeStartToken(
                    attributesType: String(repeating: "T", count: StoreLimits.attributesTypeBytesMax + 1),
                    registration: nil
                ), device
            ),
        ]
        for (call, key) in wrongCalls { #expect(caller.store.issue(call, key: key, tag: 9) == .outOfBounds, "\(call)") }
        #expect(caller.store.issue(update, key: key, tag: 1) == .issued)
        #expect(caller.store.issue(settle, key: phone, tag: 2) == .issued)
        #expect(caller.store.issue(update, key: key, tag: 3) == .full)
        fake.send("$9\r\nduplicate\r\n")
        #expect(caller.runLoop { caller.store.outstandingCallCount == 1 })
        #expect(caller.store.issue(update, key: key, tag: 3) == .issued)
        caller.store.close()
    }
}
