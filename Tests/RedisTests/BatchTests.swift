import Reactor
import ScriptModel
import Testbed
import Testing

@testable import Redis

/// Updates and ends that leave as one command, on a real server.
@Suite(.serialized, .ownThread) struct BatchTests {
    private func update(_ timestamp: UInt64, pace: PaceNumbers = .spaced(0), alert: Bool = false) -> AdmitCall {
        .command(
            event: .update,
            version: .at(timestamp),
            digest: timestamp,
            pace: pace,
            request: PushRequest(isHigh: false, mayUseReserve: false, carriesAlert: alert),
            registration: nil
        )
    }

    private func settle(_ timestamp: UInt64) -> SettleCall {
        SettleCall(version: .at(timestamp), outcome: .accepted, digest: timestamp)
    }

    private func token(_ time: Int64) -> ModelToken {
        ModelToken(token: Array("0af7".utf8), environment: .production, registeredAtMilliseconds: time)
    }

    /// A server and a lane that is ready, with what the server has counted so far forgotten.
    private func connected(_ admissionsPerCommandMax: Int = 64) throws -> (RedisServer, Lane) {
        let server = try RedisServer()
        var configuration = try RedisConfiguration(url: RedisURL(server.unixURL))
        configuration.admissionsPerCommandMax = admissionsPerCommandMax
        configuration.responseDeadlineMilliseconds = 60_000
        let lane = try Lane(configuration)
        try #require(lane.turnUntilReady())
        lane.events = []
        server.command("CONFIG", "RESETSTAT")
        return (server, lane)
    }

    @Test(arguments: [(1, 1), (2, 1), (63, 1), (64, 1), (65, 2), (128, 2), (129, 3)])
    func `As many leave as one command as it can carry`(calls: Int, commands: Int) throws {
        let (server, lane) = try connected()
        var model = ScriptModel(nowMilliseconds: lane.loop.wallMilliseconds)
        var expected: [Lane.Event] = []
        for tag in 0..<UInt64(calls) {
            let key = TestKey.activity("\(tag)")
            #expect(lane.connection.issue(update(5), key: key, tag: tag) == .issued)
            expected.append(.admitted(tag, model.admit(key: key.text, update(5))))
        }
        #expect(lane.connection.outstandingCount == calls)
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        #expect(lane.events == expected)
        #expect(server.calls("evalsha") == commands)
        #expect(lane.answered.count == commands && lane.answered.reduce(0, +) == calls)
        #expect((1..<60_000_000).contains(lane.roundTripMicrosecondsMost))
        // The clock is read once for all.
        #expect(server.calls("time") == commands)
        lane.connection.close()
    }

    @Test func `In a cluster's way, each is a command of its own`() throws {
        let (server, lane) = try connected(1)
        for tag in 0..<10 as Range<UInt64> {
            #expect(lane.connection.issue(update(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        #expect(lane.events == (0..<10).map { .admitted($0, ModelReply(.noToken)) })
        #expect(server.calls("evalsha") == 10)
        lane.connection.close()
    }

    @Test func `Other calls between keep their place`() throws {
        let (server, lane) = try connected()
        let key = TestKey.activity("one")
        let register = AdmitCall.register(attributesType: nil, registration: token(1), shows: nil)
        var sent = ModelReply(.send)
        sent.token = token(1)
        sent.priority = 5
        sent.budgetLeft = 15
        let send = { (timestamp: UInt64) in
            var reply = sent
            reply.timestampSeconds = timestamp
            return reply
        }
        #expect(lane.connection.issue(update(1), key: key, tag: 1) == .issued)
        #expect(lane.connection.issue(update(1), key: .activity("two"), tag: 2) == .issued)
        #expect(lane.connection.issue(register, key: key, tag: 3) == .issued)
        #expect(lane.connection.issue(update(2), key: key, tag: 4) == .issued)
        #expect(lane.connection.issue(update(2), key: key, tag: 5) == .issued)
        #expect(lane.connection.issue(settle(2), key: key, tag: 6) == .issued)
        #expect(lane.connection.issue(update(2), key: key, tag: 7) == .issued)
        #expect(lane.connection.issue(update(1), key: key, tag: 8) == .issued)
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        #expect(
            lane.events == [
                .admitted(1, ModelReply(.noToken)), .admitted(2, ModelReply(.noToken)),
                .admitted(3, ModelReply(.registered)), .admitted(4, send(2)), .admitted(5, send(2)),
                .settled(6, false), .admitted(7, ModelReply(.duplicate)), .admitted(8, ModelReply(.superseded)),
            ]
        )
        // What stands before the registration is one command, and so is all that stands behind it, the settlement among it.
        #expect(server.calls("evalsha") == 3)
        lane.connection.close()
    }

    @Test func `Each goes by its own pace, and too many paces are two commands`() throws {
        let (server, lane) = try connected()
        // Sent once, each waits for as long as its own pace says.
        for round in 1...2 as ClosedRange<UInt64> {
            for index in 0...AdmissionBatch.pacesMax {
                let call = AdmitCall.command(
                    event: .update,
                    version: .at(round),
                    digest: round,
                    pace: .spaced(Int64(index + 1) * 100_000),
                    request: PushRequest(isHigh: false, mayUseReserve: false, carriesAlert: false),
                    registration: token(1)
                )
                #expect(lane.connection.issue(call, key: .activity("\(index)"), tag: UInt64(index)) == .issued)
            }
            #expect(lane.turn { lane.connection.outstandingCount == 0 })
        }
        #expect(server.calls("evalsha") == 4)
        #expect(lane.events.count == 2 * (AdmissionBatch.pacesMax + 1))
        for (index, event) in lane.events.dropFirst(AdmissionBatch.pacesMax + 1).enumerated() {
            guard case .admitted(UInt64(index), let reply) = event, reply.verdict == .wait else {
                Issue.record("\(event)")
                continue
            }
            let spacing = Int64(index + 1) * 100_000
            #expect((spacing - 50_000...spacing).contains(reply.waitMilliseconds))
        }
        lane.connection.close()
    }

    @Test func `Each goes by its own bucket, whatever the one before it went by`() throws {
        let (server, lane) = try connected()
        // With and without frequent updates; with a token and without one, frequent updates still allowed.
        let keys = ["few", "many", "none"].map { TestKey.activity($0) }
        for (index, key) in keys.enumerated() {
            let register = AdmitCall.register(
                attributesType: nil,
                registration: token(1),
                frequentUpdates: index > 0,
                shows: nil
            )
            #expect(lane.connection.issue(register, key: key, tag: 0) == .issued)
            #expect(lane.connection.issue(update(1), key: key, tag: 0) == .issued)
        }
        #expect(
            lane.connection.issue(.unregister(attributesType: nil, atMilliseconds: 2), key: keys[2], tag: 0) == .issued
        )
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        lane.events = []
        server.command("CONFIG", "RESETSTAT")
        for (tag, index) in [0, 1, 2, 0, 2, 1, 1].enumerated() {
            let update = AdmitCall.command(
                event: .update,
                version: .at(2 + UInt64(tag)),
                digest: 2 + UInt64(tag),
                pace: .spaced(0),
                request: PushRequest(isHigh: true, mayUseReserve: true, carriesAlert: false),
                registration: nil
            )
            #expect(lane.connection.issue(update, key: keys[index], tag: UInt64(tag)) == .issued)
        }
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        #expect(server.calls("evalsha") == 1)
        let left = lane.events.map { event in
            if case .admitted(_, let reply) = event, reply.verdict == .send { reply.budgetLeft } else { -1 }
        }
        #expect(left == [14, 199, -1, 13, -1, 198, 197])
        lane.connection.close()
    }

    @Test func `What is wrong with one value is that call's error alone`() throws {
        let (server, lane) = try connected()
        server.command("SET", TestKey.activity("0").text, "")
        server.command("HSET", TestKey.activity("3").text, "not", "an activity")
        server.command("SET", TestKey.activity("5").text, String(repeating: "9", count: 49))
        server.command("SET", TestKey.activity("6").text, String(repeating: "9", count: 500))
        for tag in 0..<8 as Range<UInt64> {
            #expect(lane.connection.issue(update(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        let expected = (0..<8 as Range<UInt64>)
            .map { tag -> Lane.Event in
                [0, 3, 5, 6].contains(tag) ? .failed(tag, .admit, .unknown) : .admitted(tag, ModelReply(.noToken))
            }
        #expect(lane.events == expected)
        #expect(lane.reasons.dropFirst().first?.contains("WRONGTYPE") == true)
        #expect(server.calls("evalsha") == 1)
        for index in 0..<8 where ![0, 3, 5, 6].contains(index) {
            #expect(server.hash(TestKey.activity("\(index)").text)["r"]?.count == StoredRecord.token)
        }
        #expect(lane.connection.isReady)
        lane.connection.close()
    }

    @Test func `A connection that is lost fails what was collected and what had left, in order`() throws {
        let (server, lane) = try connected()
        for tag in 0..<100 as Range<UInt64> {
            #expect(lane.connection.issue(update(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        server.kill()
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        let failures = (0..<100 as Range<UInt64>).map { Lane.Event.failed($0, .admit, .stream) }
        #expect(lane.events.filter { if case .failed = $0 { true } else { false } } == failures)
        try server.start()
        #expect(lane.turnUntilReady())
        lane.events = []
        // Nothing of it is left behind.
        #expect(lane.connection.issue(update(5), key: .activity("one"), tag: 1) == .issued)
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        #expect(lane.events == [.admitted(1, ModelReply(.noToken))])
        lane.connection.close()
    }

    @Test func `Out of memory, all of a command's calls fail and nothing is written`() throws {
        let (server, lane) = try connected()
        server.command("CONFIG", "SET", "maxmemory", "1")
        for tag in 0..<20 as Range<UInt64> {
            #expect(lane.connection.issue(update(5), key: .activity("\(tag)"), tag: tag) == .issued)
        }
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        #expect(lane.events == (0..<20).map { .failed($0, .admit, .outOfMemory) })
        #expect(lane.connection.isReady)
        #expect(server.command("DBSIZE") == [Array("0".utf8)])
        lane.connection.close()
    }

    @Test func `Held commands that one reply cannot bring are asked for again`() throws {
        let (server, lane) = try connected()
        let longest = RedisConnection.heldCommandBytesMax
        let lengths = [longest, 10, 60_000, 70_000, 60_000]
        for (index, length) in lengths.enumerated() {
            let key = TestKey.activity("\(index)")
            let held = AdmitCall.hold(
                attributesType: nil,
                version: .at(5),
                command: Array(repeating: 0x41, count: length),
                carriesAlert: true
            )
            #expect(lane.connection.issue(update(5, alert: true), key: key, tag: 1) == .issued)
            #expect(lane.connection.issue(held, key: key, tag: 2) == .issued)
        }
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        // The longest fills a reply by itself; of the others, the first two fit.
        #expect(heldLengths(lane, indices: [0, 1]) == [longest, nil])
        #expect(heldLengths(lane, indices: [1, 2, 3, 4]) == [10, 60_000, 70_000, nil])
        #expect(heldLengths(lane, indices: [4]) == [60_000])
        #expect(lane.connection.isReady)
        lane.connection.close()
        withExtendedLifetime(server) {}
    }

    /// What a newer update of each without an alert is told is held; nil: it is to wait.
    private func heldLengths(_ lane: Lane, indices: [Int]) -> [Int?] {
        lane.events = []
        for index in indices {
            #expect(lane.connection.issue(update(6), key: .activity("\(index)"), tag: UInt64(index)) == .issued)
        }
        #expect(lane.turn { lane.connection.outstandingCount == 0 })
        return lane.events.map { event in
            guard case .admitted(_, let reply) = event else { return -1 }
            if reply.verdict == .wait && reply.waitMilliseconds == 1 { return nil }
            return reply.held?.command.count ?? -1
        }
    }
}

extension RedisServer {
    /// How often a command was run since the counts were reset, by scripts too.
    func calls(_ command: String) -> Int {
        let statistics = self.command("INFO", "commandstats").map { String(decoding: $0, as: UTF8.self) }.joined()
        let line = statistics.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line.flatMap { Int($0.drop { $0 != "=" }.dropFirst().prefix { $0 != "," }) } ?? 0
    }
}
