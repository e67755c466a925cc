import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Calls that wait until replicas have acknowledged their writes. An acknowledged write must survive the end of the
/// primary. In most tests, the replica of a real primary is frozen, cut off or promoted.
@Suite(.serialized, .ownThread) struct ReplicaTests {
    private let key = TestKey.activity("final")
    private let token = OwnedToken(
        token: [1, 2, 3, 4],
        environment: .sandbox,
        registeredAtMilliseconds: 1_700_000_000_000
    )

    private var register: Operation { .register(attributesType: nil, registration: token, shownVersion: nil) }

    private var update: Operation {
        .command(event: .update, version: .at(1_700_000_001), digest: 1, spacingMilliseconds: 0, registration: nil)
    }

    private struct ReplicatedPair {
        let primary: RedisServer
        let replica: RedisServer
        let caller: StoreCaller
    }

    /// - Parameter replicas: how many replicas must acknowledge a call's writes before the call gets its reply.
    private func makePair(replicas: Int, deadlineMilliseconds: Int64 = 10_000) throws -> ReplicatedPair {
        let primary = try RedisServer(["--repl-diskless-sync-delay", "0"])
        let replica = try RedisServer([
            "--replicaof", "127.0.0.1", String(primary.port), "--repl-diskless-sync-delay", "0", "--repl-timeout",
            "3600",
        ])
        let caller = try makeCaller(primary, replicas: replicas, deadlineMilliseconds: deadlineMilliseconds)
        #expect(caller.runLoop { isLinked(replica) && hasReplica(primary) })
        return ReplicatedPair(primary: primary, replica: replica, caller: caller)
    }

    /// - Parameter deadlineMilliseconds: the deadline of calls. The lane waits for replicas for a tenth of this time.
    private func makeCaller(
        _ server: RedisServer,
        replicas: Int,
        deadlineMilliseconds: Int64 = 10_000
    ) throws -> StoreCaller {
        var configuration = RedisConfiguration(url: try RedisURL(server.unixURL))
        configuration.connectTimeoutMilliseconds = 60_000
        configuration.replyDeadlineMilliseconds = deadlineMilliseconds
        configuration.requiredReplicaCount = replicas
        let caller = try StoreCaller(configuration)
        try #require(caller.runLoopUntilReady())
        caller.events = []
        return caller
    }

    private func isLinked(_ replica: RedisServer) -> Bool { reportsReplication("master_link_status:up", replica) }

    /// Whether the primary has a replica that is on line.
    private func hasReplica(_ primary: RedisServer) -> Bool { reportsReplication("state=online", primary) }

    private func reportsReplication(_ text: String, _ server: RedisServer) -> Bool {
        server.command("INFO", "replication").joined().contains(text)
    }

    /// Cuts the replica off, so that it gets no further writes.
    private func cutOff(_ pair: ReplicatedPair) {
        pair.replica.suspend()
        pair.primary.command("CLIENT", "KILL", "TYPE", "replica")
    }

    /// Issues the call again until it gets a reply, as the core does.
    private func performUntilReplied(_ call: Operation, tag: UInt64, _ caller: StoreCaller) -> OwnedReply? {
        var receivedReply: OwnedReply?
        var isOutstanding = false
        _ = caller.runLoop {
            for case let event in caller.events {
                if case .replied(tag, let reply) = event { receivedReply = reply }
                if case .failed(tag, _, _) = event { isOutstanding = false }
            }
            caller.events.removeAll { if case .failed = $0 { true } else { false } }
            if !isOutstanding, receivedReply == nil {
                isOutstanding = caller.store.issue(call, key: key, tag: tag) == .issued
            }
            return receivedReply != nil
        }
        return receivedReply
    }

    /// Makes the replica the primary, and returns its verdict about the activity.
    private func verdictAfterFailover(_ pair: ReplicatedPair) throws -> StoreVerdict? {
        pair.caller.store.close()
        pair.primary.kill()
        pair.replica.resume()
        pair.replica.command("REPLICAOF", "NO", "ONE")
        let caller = try makeCaller(pair.replica, replicas: 0)
        defer { caller.store.close() }
        return performUntilReplied(update, tag: 9, caller)?.verdict
    }

    @Test func `Without acknowledgement a failover loses the token`() throws {
        let pair = try makePair(replicas: 0)
        cutOff(pair)
        #expect(performUntilReplied(register, tag: 1, pair.caller)?.verdict == .registered)
        #expect(try verdictAfterFailover(pair) == .noToken)
    }

    @Test func `An acknowledged write survives when the primary is killed at once`() throws {
        let pair = try makePair(replicas: 1)
        cutOff(pair)
        #expect(pair.caller.store.issue(register, key: key, tag: 1) == .issued)
        let isRefused = pair.caller.runLoop { pair.caller.events.contains(.failed(1, .admit, .replicasMissing)) }
        #expect(isRefused)
        #expect(pair.caller.events.first == .failed(1, .admit, .replicasMissing))
        #expect(pair.caller.events.contains(.replicas(.missing(acknowledgedCount: 0, isGivenUp: false, nil))))
        // The lane sends the next WAIT after a pause. Until then it takes no call that needs replicas.
        #expect(pair.caller.store.issue(register, key: key, tag: 2) == .replicasMissing)
        pair.replica.resume()
        pair.caller.events = []
        #expect(performUntilReplied(register, tag: 3, pair.caller)?.verdict == .registered)
        #expect(pair.caller.runLoop { pair.caller.events.contains(.replicas(.acknowledging)) })
        #expect(try verdictAfterFailover(pair) == .send)
    }

    @Test func `A held state that a replica has acknowledged survives a failover`() throws {
        let pair = try makePair(replicas: 1)
        let hold = Operation.hold(attributesType: nil, version: .at(1_700_000_001), command: Array("{}".utf8))
        #expect(performUntilReplied(update, tag: 1, pair.caller)?.verdict == .noToken)
        #expect(performUntilReplied(hold, tag: 2, pair.caller)?.verdict == .held)
        pair.caller.store.close()
        pair.primary.kill()
        pair.replica.command("REPLICAOF", "NO", "ONE")
        let caller = try makeCaller(pair.replica, replicas: 0)
        #expect(performUntilReplied(register, tag: 3, caller)?.heldCommand == Array("{}".utf8))
        caller.store.close()
    }

    @Test func `Replies keep their order, one WAIT covers all calls of an iteration, and other calls need none`() throws
    {
        // The deadline is long, because a busy machine may run the replica late.
        let pair = try makePair(replicas: 1, deadlineMilliseconds: 100_000)
        let caller = pair.caller
        #expect(caller.store.issue(update, key: .activity("a"), tag: 1) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(pair.primary.callCount(of: "wait") == 0)
        #expect(caller.store.issue(update, key: .activity("b"), tag: 2) == .issued)
        for tag in 3..<40 as Range<UInt64> {
            #expect(caller.store.issue(register, key: .activity("\(tag)"), tag: tag) == .issued)
        }
        for tag in 40..<60 as Range<UInt64> {
            #expect(caller.store.issue(update, key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        let tags = caller.events.compactMap { if case .replied(let tag, _) = $0 { tag } else { nil } }
        #expect(tags == Array(1..<60))
        #expect(pair.primary.callCount(of: "wait") == 1)
        caller.store.close()
    }

    /// What all other calls write can be lost, as K12 says.
    @Test func `Only registrations, unregistrations and held commands wait for replicas`() {
        let kinds = (0...UInt8.max).compactMap { StoreCallKind(rawValue: $0) }
        #expect(kinds.filter(\.needsReplicas) == [.hold, .register, .unregister])
    }

    /// The replica is connected but frozen. A call that needs no replica waits at most for the WAIT in progress.
    @Test func `While a replica is frozen, only calls that need it wait, and after ten seconds none waits`() throws {
        let pair = try makePair(replicas: 1)
        pair.replica.suspend()
        let beganAtMilliseconds = pair.caller.loop.nowMilliseconds
        #expect(pair.caller.store.issue(register, key: key, tag: 1) == .issued)
        #expect(pair.caller.store.issue(update, key: .activity("other"), tag: 2) == .issued)
        #expect(pair.caller.runLoop { pair.caller.events.contains(.replied(2, OwnedReply(.noToken))) })
        #expect(performUntilReplied(update, tag: 3, pair.caller)?.verdict == .send)
        #expect(performUntilReplied(register, tag: 4, pair.caller)?.verdict == .registered)
        #expect(pair.caller.events.contains(.replicas(.missing(acknowledgedCount: 0, isGivenUp: true, nil))))
        #expect(
            pair.caller.loop.nowMilliseconds - beganAtMilliseconds >= ReplicaWatch.missingReplicasWaitMillisecondsMax
        )
        // The lane has given up on the replica, so from now on no call waits for it.
        #expect(pair.caller.store.issue(register, key: key, tag: 5) == .issued)
        #expect(pair.caller.runLoop { pair.caller.store.outstandingCallCount == 0 })
        #expect(pair.caller.events.last == .replied(5, OwnedReply(.registered)))
        pair.replica.resume()
        pair.caller.store.close()
    }

    @Test func `A primary that is killed during WAIT leaves no call without an end`() throws {
        let pair = try makePair(replicas: 1, deadlineMilliseconds: 600_000)
        pair.replica.suspend()
        for tag in 0..<20 as Range<UInt64> {
            let call = tag.isMultiple(of: 2) ? register : update
            #expect(pair.caller.store.issue(call, key: .activity("\(tag)"), tag: tag) == .issued)
        }
        // Redis has replied to all calls, but the lane withholds the replies.
        #expect(pair.caller.runLoop(limitMilliseconds: 30_000) { pair.primary.callCount(of: "evalsha") >= 11 })
        pair.caller.loop.runIteration(waitMilliseconds: 20)
        #expect(pair.caller.events.isEmpty)
        pair.primary.kill()
        #expect(pair.caller.runLoop(limitMilliseconds: 30_000) { pair.caller.events.count >= 21 })
        let failedTags = pair.caller.events.compactMap {
            if case .failed(let tag, _, .stream) = $0 { tag } else { nil }
        }
        #expect(failedTags == Array(0..<20))
        #expect(pair.caller.store.outstandingCallCount == 0)
        pair.replica.resume()
        try pair.primary.start()
        #expect(pair.caller.runLoopUntilReady())
        pair.caller.events = []
        #expect(pair.caller.runLoop { isLinked(pair.replica) })
        #expect(performUntilReplied(register, tag: 30, pair.caller)?.verdict == .registered)
        pair.caller.store.close()
    }

    /// The Redis user is not allowed to use WAIT. Calls still end, and the event about missing replicas names the
    /// reason.
    @Test func `A server that refuses WAIT counts as one without replicas`() throws {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        let caller = try connectedCaller(fake, loop)
        fake.makeReply = { $0 == "EVALSHA" ? "$10\r\nregistered\r\n" : "-NOPERM no\r\n" }
        #expect(caller.store.issue(register, key: key, tag: 1) == .issued)
        #expect(caller.runLoop { caller.events.count == 2 })
        let refusal = RedisError(.noPermission)
        #expect(
            caller.events == [
                .failed(1, .admit, .replicasMissing),
                .replicas(.missing(acknowledgedCount: 0, isGivenUp: false, refusal)),
            ]
        )
        caller.store.close()
    }

    @Test func `Replies that come byte by byte end no call early`() throws {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        let caller = try connectedCaller(fake, loop)
        fake.sendsByteByByte = true
        for count in ["1", "0"] {
            let registeredReplies = String(repeating: "$10\r\nregistered\r\n", count: 3)
            fake.makeReply = { $0 == "EVALSHA" ? "*3\r\n\(registeredReplies)" : $0 == "WAIT" ? ":\(count)\r\n" : nil }
            for tag in 1...3 as ClosedRange<UInt64> {
                #expect(caller.store.issue(register, key: .activity("\(tag)"), tag: tag) == .issued)
            }
            var seenEarly = false
            #expect(
                caller.runLoop {
                    seenEarly = seenEarly || (!caller.events.isEmpty && fake.unsentByteCount > 0)
                    fake.sendNextByte()
                    return caller.store.outstandingCallCount == 0
                }
            )
            #expect(!seenEarly)
            let expected: [StoreCaller.Event] = (1...3)
                .map { count == "1" ? .replied($0, OwnedReply(.registered)) : .failed($0, .admit, .replicasMissing) }
            #expect(Array(caller.events.prefix(3)) == expected)
            caller.events = []
        }
        caller.store.close()
    }

    /// A confirmation needs no replicas. But it is sent in one command with a registration that needs them, so the
    /// common reply waits for the replicas.
    @Test func `A call in one command with a registration waits for the replicas, too`() throws {
        let loop = try EventLoop()
        let fake = try FakeRedis(loop: loop)
        let caller = try connectedCaller(fake, loop)
        let confirm = Operation.confirmDepartures(atMilliseconds: 1)
        for count in ["1", "0"] {
            fake.makeReply = {
                $0 == "EVALSHA"
                    ? "*2\r\n$7\r\nsettled\r\n$10\r\nregistered\r\n" : $0 == "WAIT" ? ":\(count)\r\n" : nil
            }
            #expect(caller.store.issue(confirm, key: key, tag: 1) == .issued)
            #expect(caller.store.issue(register, key: key, tag: 2) == .issued)
            #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
            let expected: [StoreCaller.Event] =
                count == "1"
                ? [.replied(1, OwnedReply(.settled)), .replied(2, OwnedReply(.registered))]
                : [.failed(1, .admit, .replicasMissing), .failed(2, .admit, .replicasMissing)]
            #expect(Array(caller.events.prefix(2)) == expected)
            caller.events = []
        }
        caller.store.close()
    }

    private func connectedCaller(_ fake: FakeRedis, _ loop: EventLoop) throws -> StoreCaller {
        var configuration = RedisConfiguration(url: try RedisURL(fake.url))
        configuration.requiredReplicaCount = 1
        let caller = try StoreCaller(configuration, loop: loop, server: fake)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        return caller
    }
}

/// Tests when calls wait for missing replicas. Each test sets the time itself.
@Suite struct ReplicaWatchTests {
    /// A class around the watch, because `#expect` cannot call a mutating method of a value.
    private final class ClockedReplicaWatch {
        private var watch = ReplicaWatch()
        var nowMilliseconds: Int64 = 0

        /// Whether the lane may issue a call that needs replicas.
        var acceptsCalls: Bool { watch.acceptsCalls(nowMilliseconds: nowMilliseconds) }
        /// Tells the watch that a call was issued. Returns whether the reply is withheld until replicas acknowledge.
        func withholdsReply() -> Bool { watch.noteIssuedCall(nowMilliseconds: nowMilliseconds) == .afterWaitCommand }
        func beginWaitCommandIfNeeded() -> Bool { watch.beginWaitCommandIfNeeded() }
        func handleWaitCommandReply(areEnough: Bool) -> ReplicaWatch.ReportedStatus? {
            watch.handleWaitCommandReply(hasEnoughReplicas: areEnough, nowMilliseconds: nowMilliseconds)
        }
        func handleLostConnection() { watch.handleLostConnection() }
    }

    @Test func `One WAIT is sent at a time, and another for what was written meanwhile`() {
        let watched = ClockedReplicaWatch()
        #expect(!watched.beginWaitCommandIfNeeded())
        #expect(watched.withholdsReply() && watched.withholdsReply())
        #expect(watched.beginWaitCommandIfNeeded())
        #expect(watched.withholdsReply())
        #expect(!watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: true) == nil)
        #expect(watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: true) == nil)
        #expect(!watched.beginWaitCommandIfNeeded())
    }

    @Test func `While replicas are missing, WAIT is sent each second, then seldom, until they are found again`() {
        let watched = ClockedReplicaWatch()
        for second in 0..<10 {
            #expect(watched.acceptsCalls && watched.withholdsReply() && watched.beginWaitCommandIfNeeded(), "\(second)")
            #expect(second == 0 || !watched.acceptsCalls, "only one WAIT is under way")
            #expect(watched.handleWaitCommandReply(areEnough: false) == .missing(isGivenUp: false), "\(second)")
            watched.nowMilliseconds += ReplicaWatch.pauseWhileMissingMilliseconds - 1
            #expect(!watched.acceptsCalls)
            watched.nowMilliseconds += 1
        }
        #expect(watched.acceptsCalls && watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: false) == .missing(isGivenUp: true))
        watched.nowMilliseconds += ReplicaWatch.pauseAfterGivingUpMilliseconds - 1
        #expect(watched.acceptsCalls && !watched.withholdsReply() && !watched.beginWaitCommandIfNeeded())
        watched.nowMilliseconds += 1
        #expect(!watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        // The watch has given up on the replicas. So a call that is issued during a WAIT gets its reply at once, and
        // needs no WAIT of its own.
        #expect(!watched.withholdsReply())
        #expect(watched.handleWaitCommandReply(areEnough: true) == .acknowledging)
        #expect(!watched.beginWaitCommandIfNeeded())
        // The watch no longer gives up, because replicas have acknowledged. So calls wait again if a replica is
        // missing.
        #expect(watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: false) == .missing(isGivenUp: false))
    }

    /// The next connection may be to another server, whose replicas may acknowledge. So the lane again waits
    /// for up to ten seconds before it gives up on missing replicas.
    @Test func `After a lost connection, missing replicas get the whole time again`() {
        let watched = ClockedReplicaWatch()
        #expect(watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: false) == .missing(isGivenUp: false))
        watched.handleLostConnection()
        watched.nowMilliseconds += ReplicaWatch.missingReplicasWaitMillisecondsMax
        #expect(watched.acceptsCalls && watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: false) == .missing(isGivenUp: false))
        watched.nowMilliseconds += ReplicaWatch.missingReplicasWaitMillisecondsMax
        #expect(watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        #expect(watched.handleWaitCommandReply(areEnough: false) == .missing(isGivenUp: true))
        watched.handleLostConnection()
        #expect(watched.acceptsCalls && watched.withholdsReply() && watched.beginWaitCommandIfNeeded())
        #expect(
            watched.handleWaitCommandReply(areEnough: true) == .acknowledging,
            "the operator learns that the replicas are back"
        )
    }

    @Test func `After a lost connection, no WAIT is sent for earlier calls`() {
        let watched = ClockedReplicaWatch()
        #expect(watched.withholdsReply())
        watched.handleLostConnection()
        #expect(!watched.beginWaitCommandIfNeeded())
    }
}
