import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Many registrations and confirmations are sent as one Redis command, on a real server.
@Suite(.serialized, .ownThread) struct RegistrationBatchTests {
    private let server: RedisServer
    private let caller: StoreCaller
    private var model: StoreModel

    /// Connects a caller. The server counts commands from zero.
    init() throws {
        server = try RedisServer()
        var configuration = try RedisConfiguration(url: RedisURL(server.unixURL))
        configuration.replyDeadlineMilliseconds = 60_000
        caller = try StoreCaller(configuration)
        try #require(caller.runLoopUntilReady())
        caller.events = []
        model = StoreModel(nowMilliseconds: caller.loop.wallMilliseconds)
        server.command("CONFIG", "RESETSTAT")
    }

    private func makeRegistration(
        _ text: String = "0af7",
        at: Int64 = 100,
        in audiences: [UInt64]? = nil,
        shownVersion: Version? = nil,
        source: RegistrationSource = .record
    ) -> Operation {
        .register(
            attributesType: nil,
            registration: OwnedToken(
                token: Array(text.utf8),
                environment: .production,
                registeredAtMilliseconds: at
            ),
            shownVersion: shownVersion,
            source: source,
            audiences: audiences?.flatMap { digest in withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
        )
    }

    /// Lets Redis hold a command of this length for an activity without a token.
    private func hold(byteCount: Int, of key: TestKey) throws {
        let update = Operation.command(
            event: .update,
            version: .at(5),
            digest: 5,
            spacingMilliseconds: 0,
            registration: nil
        )
        let command = [UInt8](repeating: 0x41, count: byteCount)
        #expect(caller.store.issue(update, key: key, tag: 0) == .issued)
        #expect(
            caller.store.issue(.hold(attributesType: nil, version: .at(5), command: command), key: key, tag: 0)
                == .issued
        )
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        caller.events = []
    }

    /// Issues the calls in one iteration. Each call's tag is its index.
    private func perform(_ calls: [(key: TestKey, operation: Operation)]) {
        caller.events = []
        for (tag, call) in calls.enumerated() {
            #expect(caller.store.issue(call.operation, key: call.key, tag: UInt64(tag)) == .issued)
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
    }

    /// Performs the calls in the model. Returns the replies as events of the caller.
    private mutating func modelReplies(to calls: [(key: TestKey, operation: Operation)]) -> [StoreCaller.Event] {
        calls.enumerated()
            .map { index, call in
                let tag = UInt64(index)
                return StoreCaller.Event.replied(tag, model.perform(call.key.call(call.operation, tag: tag)))
            }
    }

    @Test(arguments: [(1, 1), (64, 1), (65, 2), (129, 3)])
    mutating func `One command carries as many registrations as fit`(callCount: Int, commandCount: Int) throws {
        let registrations = (0..<callCount)
            .map { (key: TestKey.activity("\($0)"), operation: makeRegistration(in: [1, 2])) }
        perform(registrations)
        let expected = modelReplies(to: registrations)
        #expect(caller.events == expected)
        #expect(server.callCount(of: "evalsha") == commandCount)
        caller.store.close()
    }

    @Test mutating func `One activity may occur several times, with its confirmations in between`() throws {
        let key = TestKey.activity("one")
        let calls: [(key: TestKey, operation: Operation)] = [
            (key, makeRegistration(at: 100, in: [1, 2])), (.activity("other"), makeRegistration(at: 100, in: nil)),
            (key, makeRegistration(at: 200, in: [2])), (key, .confirmDepartures(atMilliseconds: 100)),
            (key, makeRegistration("bb", at: 300, in: [2], shownVersion: .at(5))),
            (key, .confirmDepartures(atMilliseconds: 300)),
            (.activity("nobody"), .confirmDepartures(atMilliseconds: 1)),
            (key, makeRegistration("bb", at: 300, in: [2])),
            (key, makeRegistration("cc", at: 299, in: [3])),
            (key, makeRegistration("dd", at: 400, in: [], source: .readAgain(at: 400))),
            (key, makeRegistration("ee", at: 500, in: [])),
        ]
        perform(calls)
        let expected = modelReplies(to: calls)
        #expect(caller.events == expected)
        #expect(server.callCount(of: "evalsha") == 1)
        caller.store.close()
    }

    @Test mutating func `A fault in one value is an error of that registration only`() throws {
        // No script would write these values of the activities 0, 3, 5 and 6.
        server.command("SET", TestKey.activity("0").text, "")
        server.command("HSET", TestKey.activity("3").text, "not", "an activity")
        server.command("SET", TestKey.activity("5").text, String(repeating: "9", count: 49))
        server.command("SET", TestKey.activity("6").text, String(repeating: "9", count: 500))
        perform((0..<8).map { (key: .activity("\($0)"), operation: makeRegistration(in: [1])) })
        let expected = (0..<8 as Range<UInt64>)
            .map { tag -> StoreCaller.Event in
                [0, 3, 5, 6].contains(tag)
                    ? .failed(tag, .admit, .foreignValue) : .replied(tag, OwnedReply(.registered))
            }
        #expect(caller.events == expected)
        #expect(server.callCount(of: "evalsha") == 1)
        #expect(caller.store.isReady)
        caller.store.close()
    }

    @Test func `Out of memory, all of a command's calls fail and nothing is written`() throws {
        server.command("CONFIG", "SET", "maxmemory", "1")
        perform((0..<20).map { (key: .activity("\($0)"), operation: makeRegistration()) })
        #expect(caller.events == (0..<20).map { .failed($0, .admit, .outOfMemory) })
        #expect(server.command("DBSIZE") == ["0"])
        caller.store.close()
    }

    @Test func `A held command without room in the reply is asked for again, and stays held`() throws {
        for (index, length) in [StoreLimits.heldCommandBytesMax, 70_000, 61_000, 10].enumerated() {
            try hold(byteCount: length, of: .activity("\(index)"))
        }
        func readCommandLengths(_ indices: [Int]) -> [Int?] {
            perform(indices.map { (key: .activity("\($0)"), operation: makeRegistration()) })
            return caller.events.map { event in
                guard case .replied(_, let reply) = event else { return -1 }
                return reply.verdict == .full ? nil : reply.heldCommand?.count ?? -1
            }
        }
        // A reply has room for the held command of activity 0 alone, or for those of activities 1 and 2. Activity 3's
        // does not fit beside these two.
        #expect(readCommandLengths([0, 1, 2]) == [StoreLimits.heldCommandBytesMax, nil, nil])
        #expect(readCommandLengths([1, 2, 3]) == [70_000, 61_000, nil])
        #expect(readCommandLengths([3]) == [10])
        caller.store.close()
    }

    @Test func `Tokens that came with commands are registered one by one, so the held command has room`() throws {
        for index in 0..<2 { try hold(byteCount: StoreLimits.heldCommandBytesMax, of: .activity("\(index)")) }
        server.command("CONFIG", "RESETSTAT")
        perform((0..<2).map { (key: .activity("\($0)"), operation: makeRegistration(source: .command)) })
        for event in caller.events {
            guard case .replied(_, let reply) = event else {
                Issue.record("\(event)")
                continue
            }
            #expect(reply.heldCommand?.count == StoreLimits.heldCommandBytesMax)
        }
        #expect(server.callCount(of: "evalsha") == 2)
        caller.store.close()
    }
}
