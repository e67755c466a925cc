import ActivityStore
import LiveActivity
import Reactor
import Testbed
import Testing

@testable import Redis

/// Nodes that refuse calls or reply wrongly. A call is repeated until it gets its reply, unless the error is proven to
/// be the call's own. (R23)
@Suite(.serialized, .ownThread) struct HostileClusterTests {
    private func caller(_ loop: EventLoop, _ nodes: FakeNode...) throws -> Caller {
        let url = "redis://" + nodes.map(\.location).joined(separator: ",")
        var configuration = RedisConfiguration(url: try RedisURL(url), topology: .cluster)
        configuration.responseDeadlineMilliseconds = 20_000
        return try Caller(configuration, loop: loop)
    }

    @Test(
        arguments: [
            ("TRYAGAIN later", RedisError.Code.tryAgain), ("CLUSTERDOWN no slot", .clusterDown), ("LOADING", .loading),
            ("READONLY", .readOnly), ("MASTERDOWN", .masterDown), ("BUSY script", .busy), ("OOM", .outOfMemory),
            ("NOSCRIPT", .noScript), ("NOAUTH", .noAuthentication), ("NOREPLICAS", .noReplicas),
            ("MISCONF disk", .misconfigured), ("MOVED x y", .moved), ("ASK", .ask),
            ("ERR fault in the script", .unknown), ("EXECABORT", .transactionAborted), ("CROSSSLOT", .clusterEnabled),
        ]
    )
    func `A call that failed temporarily is repeated`(text: String, code: RedisError.Code) throws {
        let loop = try EventLoop()
        let node = try FakeNode(loop: loop)
        let caller = try caller(loop, node)
        #expect(caller.turn { caller.client.isReady })
        node.answers = ["-\(text)\r\n"]
        caller.enqueue(0..<10, claim: 1)
        #expect(caller.turnUntilAllAnswered())
        #expect(caller.verdicts.count == 10 && caller.verdicts.values.allSatisfy { $0 == .duplicate })
        #expect(caller.repeatedFailures[code] ?? 0 >= 1 && caller.refusedFailures.isEmpty)
    }

    @Test(arguments: [("WRONGTYPE Operation", RedisError.Code.foreignValue), ("MALFORMED value", .foreignValue)])
    func `A call that failed for an error of its own is not repeated`(text: String, code: RedisError.Code) throws {
        let loop = try EventLoop()
        let node = try FakeNode(loop: loop)
        let caller = try caller(loop, node)
        #expect(caller.turn { caller.client.isReady })
        node.answers = ["-\(text)\r\n"]
        caller.enqueue(0..<10, claim: 1)
        #expect(caller.turnUntilAllAnswered())
        #expect(caller.verdicts.count == 9 && caller.refusedFailures == [code: 1] && caller.repeatedFailures.isEmpty)
    }

    @Test func `ASK sends one call to another server, and the next one to the slot's owner`() throws {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let other = try FakeNode(loop: loop)
        let caller = try caller(loop, owner)
        #expect(caller.works())
        owner.answers = ["-ASK 1 \(other.location)\r\n"]
        #expect(caller.works() && other.calls == 1 && other.askings == 1)
        #expect(caller.works() && other.calls == 1 && other.askings == 1)
    }

    @Test func `ASK to a server that does not answer comes back to the owner`() throws {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let caller = try caller(loop, owner)
        #expect(caller.works())
        owner.answers = ["-ASK 1 127.0.0.1:\(try Listener.unusedLoopbackPort())\r\n"]
        // The call goes back to the owner without another look-up of the slots.
        #expect(caller.works() && owner.calls == 3 && owner.lookUps == 1)
    }

    @Test func `MOVED to a server that does not answer is corrected by the next look-up of the slots`() throws {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let caller = try caller(loop, owner)
        #expect(caller.works(1))
        let slot = Caller.key(1) { KeySlot($0).slot }
        owner.answers = ["-MOVED \(slot) 127.0.0.1:\(try Listener.unusedLoopbackPort())\r\n"]
        #expect(caller.works(1))
        #expect(caller.repeatedFailures[.moved] == 1 && owner.calls == 3)
    }

    @Test func `Two nodes that name each other are left when one of them learns the owner`() throws {
        let loop = try EventLoop()
        let nodes = [try FakeNode(loop: loop), try FakeNode(loop: loop)]
        let caller = try caller(loop, nodes[0])
        #expect(caller.works(1))
        let slot = Caller.key(1) { KeySlot($0).slot }
        nodes[0].answers = Array(repeating: "-MOVED \(slot) \(nodes[1].location)\r\n", count: 50)
        nodes[1].answers = Array(repeating: "-MOVED \(slot) \(nodes[0].location)\r\n", count: 50)
        #expect(caller.works(1))
        #expect(caller.refusedFailures.isEmpty)
    }

    @Test func `A seed that knows nothing is skipped`() throws {
        let loop = try EventLoop()
        let seeds = [try FakeNode(loop: loop), try FakeNode(loop: loop), try FakeNode(loop: loop)]
        seeds[0].slots = ":1\r\n"
        seeds[1].slots = "*0\r\n"
        let caller = try caller(loop, seeds[0], seeds[1], seeds[2])
        #expect(caller.works())
        #expect(seeds[2].calls == 1 && caller.reasons.isEmpty)
    }

    @Test func `A node that lost its slots is dropped`() throws {
        let loop = try EventLoop()
        let nodes = [try FakeNode(loop: loop), try FakeNode(loop: loop)]
        var configuration = RedisConfiguration(url: try RedisURL("redis://\(nodes[0].location)"), topology: .cluster)
        // When a node has lost its slots, the client closes the connection to the node after twice this time.
        configuration.responseDeadlineMilliseconds = 1_000
        let caller = try Caller(configuration, loop: loop)
        #expect(caller.works(1))
        let slot = Caller.key(1) { KeySlot($0).slot }
        nodes[0].slots = nodes[1].allSlots
        nodes[0].answers = ["-MOVED \(slot) \(nodes[1].location)\r\n"]
        #expect(caller.works(1) && nodes[1].calls == 1)
        #expect(caller.turn { nodes[0].connectionCount == 0 && nodes[1].connectionCount == 1 })
        #expect(caller.reasons.isEmpty)
    }
}
