import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Many updates, ends and settlements are sent as one Redis command, on a real server. (R15)
@Suite(.serialized, .ownThread) struct BatchTests {
    private func makeUpdate(_ timestamp: UInt64, pace: Policy.Pace = .spaced(0), alert: Bool = false) -> Operation {
        .command(
            event: .update,
            version: .at(timestamp),
            digest: timestamp,
            pace: pace,
            options: AdmissionOptions(requestsHighPriority: false, mayUseReserve: false, hasAlert: alert),
            registration: nil
        )
    }

    private func makeSettlement(_ timestamp: UInt64) -> Operation {
        Operation.settlement(version: .at(timestamp), outcome: .accepted, digest: timestamp)
    }

    private func makeToken(_ time: Int64) -> OwnedToken {
        OwnedToken(token: Array("0af7".utf8), environment: .production, registeredAtMilliseconds: time)
    }

    /// Returns a server and a caller that is connected. The server counts commands from zero.
    private func connectedCaller(_ callsPerCommandMax: Int = 64) throws -> (server: RedisServer, caller: StoreCaller) {
        let server = try RedisServer()
        var configuration = try RedisConfiguration(url: RedisURL(server.unixURL))
        configuration.callsPerCommandMax = callsPerCommandMax
        configuration.replyDeadlineMilliseconds = 60_000
        let caller = try StoreCaller(configuration)
        try #require(caller.runLoopUntilReady())
        caller.events = []
        server.command("CONFIG", "RESETSTAT")
        return (server, caller)
    }

    @Test(arguments: [(1, 1), (2, 1), (63, 1), (64, 1), (65, 2), (128, 2), (129, 3)])
    func `One command carries as many calls as fit`(callCount: Int, commandCount: Int) throws {
        let (server, caller) = try connectedCaller()
        var model = StoreModel(nowMilliseconds: caller.loop.wallMilliseconds)
        var expected: [StoreCaller.Event] = []
        for tag in 0..<UInt64(callCount) {
            let key = TestKey.activity("\(tag)")
            #expect(caller.store.issue(makeUpdate(5), key: key, tag: tag) == .issued)
            expected.append(.admitted(tag, model.perform(key.call(makeUpdate(5), tag: tag))))
        }
        #expect(caller.store.outstandingCallCount == callCount)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(caller.events == expected)
        #expect(server.callCount(of: "evalsha") == commandCount)
        #expect(caller.callCountsPerReply.count == commandCount)
        #expect(caller.callCountsPerReply.reduce(0, +) == callCount)
        #expect((1..<60_000_000).contains(caller.roundTripMicrosecondsMax))
        // Each Redis command reads the clock once for all its calls.
        #expect(server.callCount(of: "time") == commandCount)
        caller.store.close()
    }

    @Test func `In a cluster each call is a separate command`() throws {
        let (server, caller) = try connectedCaller(1)
        for tag in 0..<10 as Range<UInt64> {
            #expect(caller.store.issue(makeUpdate(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(caller.events == (0..<10).map { .admitted($0, OwnedReply(.noToken)) })
        #expect(server.callCount(of: "evalsha") == 10)
        caller.store.close()
    }

    @Test func `Calls of several kinds keep their order`() throws {
        let (server, caller) = try connectedCaller()
        let key = TestKey.activity("one")
        let register = Operation.register(attributesType: nil, registration: makeToken(1), shownVersion: nil)
        var sendReply = OwnedReply(.send)
        sendReply.registration = makeToken(1)
        sendReply.priority = 5
        sendReply.budgetLeft = 15
        let makeExpectedReply = { (timestamp: Int64) in
            var reply = sendReply
            reply.timestamp = timestamp
            return reply
        }
        #expect(caller.store.issue(makeUpdate(1), key: key, tag: 1) == .issued)
        #expect(caller.store.issue(makeUpdate(1), key: .activity("two"), tag: 2) == .issued)
        #expect(caller.store.issue(register, key: key, tag: 3) == .issued)
        #expect(caller.store.issue(makeUpdate(2), key: key, tag: 4) == .issued)
        #expect(caller.store.issue(makeUpdate(2), key: key, tag: 5) == .issued)
        #expect(caller.store.issue(makeSettlement(2), key: key, tag: 6) == .issued)
        #expect(caller.store.issue(makeUpdate(2), key: key, tag: 7) == .issued)
        #expect(caller.store.issue(makeUpdate(1), key: key, tag: 8) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(
            caller.events == [
                .admitted(1, OwnedReply(.noToken)), .admitted(2, OwnedReply(.noToken)),
                .admitted(3, OwnedReply(.registered)), .admitted(4, makeExpectedReply(2)),
                .admitted(5, makeExpectedReply(2)),
                .settled(6, hasRetiredToken: false), .admitted(7, OwnedReply(.duplicate)),
                .admitted(8, OwnedReply(.superseded)),
            ]
        )
        // The server gets three commands: one with the two updates before the registration, one with the
        // registration, and one with all calls after it.
        #expect(server.callCount(of: "evalsha") == 3)
        caller.store.close()
    }

    @Test func `Each call has its own pace, and too many paces need two commands`() throws {
        let (server, caller) = try connectedCaller()
        // Each activity gets two updates. Redis permits the first one. The second one waits for the activity's spacing.
        for round in 1...2 as ClosedRange<UInt64> {
            for index in 0...CommandCallBatch.pacesMax {
                let call = Operation.command(
                    event: .update,
                    version: .at(round),
                    digest: round,
                    pace: .spaced(Int64(index + 1) * 100_000),
                    options: AdmissionOptions(requestsHighPriority: false, mayUseReserve: false, hasAlert: false),
                    registration: makeToken(1)
                )
                #expect(caller.store.issue(call, key: .activity("\(index)"), tag: UInt64(index)) == .issued)
            }
            #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        }
        #expect(server.callCount(of: "evalsha") == 4)
        #expect(caller.events.count == 2 * (CommandCallBatch.pacesMax + 1))
        for (index, event) in caller.events.dropFirst(CommandCallBatch.pacesMax + 1).enumerated() {
            guard case .replied(UInt64(index), let reply) = event, reply.verdict == .wait else {
                Issue.record("\(event)")
                continue
            }
            let spacing = Int64(index + 1) * 100_000
            #expect((spacing - 50_000...spacing).contains(reply.waitMilliseconds))
        }
        caller.store.close()
    }

    @Test func `Each call has its own bucket, independent of the call before it`() throws {
        let (server, caller) = try connectedCaller()
        // The app allows frequent updates for the activities `many` and `none`, but not for `few`. The activity `none`
        // has no token.
        let keys = ["few", "many", "none"].map { TestKey.activity($0) }
        for (index, key) in keys.enumerated() {
            let register = Operation.register(
                attributesType: nil,
                registration: makeToken(1),
                allowsFrequentUpdates: index > 0,
                shownVersion: nil
            )
            #expect(caller.store.issue(register, key: key, tag: 0) == .issued)
            #expect(caller.store.issue(makeUpdate(1), key: key, tag: 0) == .issued)
        }
        #expect(
            caller.store.issue(.unregister(atMilliseconds: 2), key: keys[2], tag: 0) == .issued
        )
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        caller.events = []
        server.command("CONFIG", "RESETSTAT")
        for (tag, index) in [0, 1, 2, 0, 2, 1, 1].enumerated() {
            let update = Operation.command(
                event: .update,
                version: .at(2 + UInt64(tag)),
                digest: 2 + UInt64(tag),
                pace: .spaced(0),
                options: AdmissionOptions(requestsHighPriority: true, mayUseReserve: true, hasAlert: false),
                registration: nil
            )
            #expect(caller.store.issue(update, key: keys[index], tag: UInt64(tag)) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(server.callCount(of: "evalsha") == 1)
        let budgetsLeft = caller.events.map { event in
            if case .replied(_, let reply) = event, reply.verdict == .send { reply.budgetLeft } else { -1 }
        }
        // `few` has a budget of 15 pushes, and `many` one of 200. The updates of `none` are not sent (-1).
        #expect(budgetsLeft == [14, 199, -1, 13, -1, 198, 197])
        caller.store.close()
    }

    @Test func `A fault in one value is an error of that call only`() throws {
        let (server, caller) = try connectedCaller()
        // No script would write these values of the activities 0, 3, 5 and 6.
        server.command("SET", TestKey.activity("0").text, "")
        server.command("HSET", TestKey.activity("3").text, "not", "an activity")
        server.command("SET", TestKey.activity("5").text, String(repeating: "9", count: 49))
        server.command("SET", TestKey.activity("6").text, String(repeating: "9", count: 500))
        for tag in 0..<8 as Range<UInt64> {
            #expect(caller.store.issue(makeUpdate(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        let expected = (0..<8 as Range<UInt64>)
            .map { tag -> StoreCaller.Event in
                [0, 3, 5, 6].contains(tag) ? .failed(tag, .admit, .foreignValue) : .admitted(tag, OwnedReply(.noToken))
            }
        #expect(caller.events == expected)
        #expect(caller.errorTexts.dropFirst().first?.contains("WRONGTYPE") == true)
        #expect(server.callCount(of: "evalsha") == 1)
        for index in 0..<8 where ![0, 3, 5, 6].contains(index) {
            let fixedPart = server.hash(TestKey.activity("\(index)").text)[ActivityPart.fixed]
            #expect(fixedPart?.count == StoredActivity.tokenByteOffset)
        }
        #expect(caller.store.isReady)
        caller.store.close()
    }

    @Test(arguments: [
        StoredActivity.Flag.hasThrottleBit, StoredActivity.Flag.hasClaimBit, StoredActivity.Flag.hasStartBit,
        StoredActivity.Flag.hasRetiredTokenBit,
    ])
    func `A value without the part that a flag names is a fault`(flag: UInt8) throws {
        try expectFault { value in value[StoredActivity.flagsByteOffset] |= flag }
    }

    @Test func `A value with a surplus byte behind its list of audiences is a fault`() throws {
        try expectFault { value in
            let tokenCount = value.count - StoredActivity.tokenByteOffset + StoredActivity.audiencesFollowBit
            value[StoredActivity.tokenByteCountByteOffset] = UInt8(truncatingIfNeeded: tokenCount)
            value[StoredActivity.tokenByteCountByteOffset + 1] = UInt8(tokenCount >> 8)
            let (joinedCount, leftCount) = (0, 1) as (UInt8, UInt8)
            value += [joinedCount, leftCount] + [UInt8](repeating: 7, count: 8)
            value.append(0)
        }
    }

    /// Changes the value of an activity with a token. Then expects that an update and a settlement fail, and change
    /// nothing.
    private func expectFault(_ change: (inout [UInt8]) -> Void) throws {
        let (server, caller) = try connectedCaller()
        let key = TestKey.activity("one")
        let register = Operation.register(attributesType: nil, registration: makeToken(1), shownVersion: nil)
        #expect(caller.store.issue(register, key: key, tag: 0) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        var value = server.value(key.text)
        change(&value)
        server.command(bytes: [Array("SET".utf8), Array(key.text.utf8), value])
        caller.events = []
        #expect(caller.store.issue(makeUpdate(5), key: key, tag: 1) == .issued)
        #expect(caller.store.issue(makeSettlement(5), key: key, tag: 2) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(caller.events == [.failed(1, .admit, .foreignValue), .failed(2, .settle, .foreignValue)])
        #expect(server.value(key.text) == value)
        caller.store.close()
    }

    @Test func `A lost connection fails the collected calls and the sent ones, in order`() throws {
        let (server, caller) = try connectedCaller()
        for tag in 0..<100 as Range<UInt64> {
            #expect(caller.store.issue(makeUpdate(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        server.kill()
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        let expectedFailures = (0..<100 as Range<UInt64>).map { StoreCaller.Event.failed($0, .admit, .stream) }
        #expect(caller.events.filter { if case .failed = $0 { true } else { false } } == expectedFailures)
        try server.start()
        #expect(caller.runLoopUntilReady())
        caller.events = []
        // The next call gets only its own reply, because the connection has dropped the calls from before the loss.
        #expect(caller.store.issue(makeUpdate(5), key: .activity("one"), tag: 1) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(caller.events == [.admitted(1, OwnedReply(.noToken))])
        caller.store.close()
    }

    @Test func `Out of memory, all of a command's calls fail and nothing is written`() throws {
        let (server, caller) = try connectedCaller()
        server.command("CONFIG", "SET", "maxmemory", "1")
        for tag in 0..<20 as Range<UInt64> {
            #expect(caller.store.issue(makeUpdate(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(caller.events == (0..<20).map { .failed($0, .admit, .outOfMemory) })
        #expect(caller.store.isReady)
        #expect(server.command("DBSIZE") == ["0"])
        caller.store.close()
    }

    @Test func `Held commands that do not fit into one reply are asked for again`() throws {
        let (server, caller) = try connectedCaller()
        let longestByteCount = StoreLimits.heldCommandBytesMax
        let commandByteCounts = [longestByteCount, 10, 60_000, 70_000, 60_000]
        for (index, length) in commandByteCounts.enumerated() {
            let key = TestKey.activity("\(index)")
            let held = Operation.hold(
                attributesType: nil,
                version: .at(5),
                command: Array(repeating: 0x41, count: length),
                hasAlert: true
            )
            #expect(caller.store.issue(makeUpdate(5, alert: true), key: key, tag: 1) == .issued)
            #expect(caller.store.issue(held, key: key, tag: 2) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        // A reply has room for the longest held command alone, or for the first three of the other four.
        #expect(heldLengths(caller, indices: [0, 1]) == [longestByteCount, nil])
        #expect(heldLengths(caller, indices: [1, 2, 3, 4]) == [10, 60_000, 70_000, nil])
        #expect(heldLengths(caller, indices: [4]) == [60_000])
        #expect(caller.store.isReady)
        caller.store.close()
        withExtendedLifetime(server) {}
    }

    /// Updates the activities with these numbers. Returns the length of the held command in each reply; nil if the
    /// reply had no room for it, so that the update must wait.
    private func heldLengths(_ caller: StoreCaller, indices: [Int]) -> [Int?] {
        caller.events = []
        for index in indices {
            #expect(caller.store.issue(makeUpdate(6), key: .activity("\(index)"), tag: UInt64(index)) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        return caller.events.map { event in
            guard case .replied(_, let reply) = event else { return -1 }
            if reply.verdict == .wait && reply.waitMilliseconds == 1 { return nil }
            return reply.heldCommand?.count ?? -1
        }
    }
}

extension RedisServer {
    /// Returns how many times a command ran since the counters were reset, including runs by scripts.
    func callCount(of command: String) -> Int {
        let statistics = self.command("INFO", "commandstats").joined()
        let line = statistics.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line?.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) } ?? 0
    }
}
