import ActivityStore
import LiveActivity
import Reactor
import Testbed
import Testing

@testable import Redis

/// Nodes that refuse calls or reply wrongly. A call is repeated until it gets its reply, unless the error is proven to
/// be the call's own. (R23)
@Suite(.serialized, .ownThread) struct HostileClusterTests {
    private func makeCaller(_ loop: EventLoop, _ nodes: FakeNode...) throws -> TopologyCaller {
        let url = "redis://" + nodes.map(\.location).joined(separator: ",")
        var configuration = RedisConfiguration(url: try RedisURL(url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        return try TopologyCaller(configuration, loop: loop)
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
        let caller = try makeCaller(loop, node)
        #expect(caller.runLoop { caller.client.isReady })
        node.callReplies = ["-\(text)\r\n"]
        caller.enqueue(0..<10, claim: 1)
        #expect(caller.awaitAllReplies())
        #expect(caller.verdicts.count == 10 && caller.verdicts.values.allSatisfy { $0 == .duplicate })
        #expect(caller.repeatedFailureCounts[code] ?? 0 >= 1 && caller.refusedFailureCounts.isEmpty)
    }

    @Test(arguments: [("WRONGTYPE Operation", RedisError.Code.foreignValue), ("MALFORMED value", .foreignValue)])
    func `A call that failed for an error of its own is not repeated`(text: String, code: RedisError.Code) throws {
        let loop = try EventLoop()
        let node = try FakeNode(loop: loop)
        let caller = try makeCaller(loop, node)
        #expect(caller.runLoop { caller.client.isReady })
        node.callReplies = ["-\(text)\r\n"]
        caller.enqueue(0..<10, claim: 1)
        #expect(caller.awaitAllReplies())
        #expect(
            caller.verdicts.count == 9 && caller.refusedFailureCounts == [code: 1]
                && caller.repeatedFailureCounts.isEmpty
        )
    }

    @Test func `ASK sends one call to another server, and the next one to the slot's owner`() throws {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let other = try FakeNode(loop: loop)
        let caller = try makeCaller(loop, owner)
        #expect(caller.callAndAwaitReplies())
        owner.callReplies = ["-ASK 1 \(other.location)\r\n"]
        #expect(caller.callAndAwaitReplies() && other.callCount == 1 && other.askingCount == 1)
        #expect(caller.callAndAwaitReplies() && other.callCount == 1 && other.askingCount == 1)
    }

    /// The slot stays with its owner, so the client has no reason to look up the slots again.
    @Test func `The connection to a server that ASK has named closes some time after the last ASK`() throws {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let other = try FakeNode(loop: loop)
        other.slotsReply = owner.allSlotsReply
        var configuration = RedisConfiguration(url: try RedisURL("redis://\(owner.location)"), topology: .cluster)
        configuration.connectionKeptAfterAskMilliseconds = 3_000
        let caller = try TopologyCaller(configuration, loop: loop)
        #expect(caller.callAndAwaitReplies())
        // The client may look up the slots once more, because the owner was not ready after the first look-up.
        let spacingMilliseconds = Cluster.lookupIntervalMillisecondsMin + Cluster.lookupJitterMillisecondsMax
        #expect(!caller.runLoop(limitMilliseconds: spacingMilliseconds + 500) { false })
        let lookUpCount = owner.lookUpCount + other.lookUpCount
        for _ in 0..<2 {
            owner.callReplies = ["-ASK 1 \(other.location)\r\n"]
            #expect(caller.callAndAwaitReplies() && other.connectionCount == 1)
        }
        #expect(other.callCount == 2)
        #expect(caller.runLoop(limitMilliseconds: 30_000) { other.connectionCount == 0 })
        #expect(owner.connectionCount == 1 && caller.lossReasons.isEmpty)
        #expect(owner.lookUpCount + other.lookUpCount == lookUpCount)
    }

    /// The first server refuses the client, because it requires a password. Nothing listens at the second server's
    /// address.
    @Test func `The error of the last server does not hide the refusals of the others`() throws {
        let loop = try EventLoop()
        let seed = try FakeNode(loop: loop)
        seed.slotsReply = "-NOAUTH Authentication required.\r\n"
        let silentLocation = "127.0.0.1:\(try Listener.findUnusedLoopbackPort())"
        let url = try RedisURL("redis://\(seed.location),\(silentLocation)")
        let caller = try TopologyCaller(RedisConfiguration(url: url, topology: .cluster), loop: loop)
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events.first == .lost(.noAuthentication))
        let reason = caller.lossReasons.first ?? ""
        #expect(reason.contains("\(seed.location): ") && reason.contains("\(silentLocation): "), "\(reason)")
    }

    @Test func `If the server that ASK names does not reply, the call goes back to the owner`() throws {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let caller = try makeCaller(loop, owner)
        #expect(caller.callAndAwaitReplies())
        owner.callReplies = ["-ASK 1 127.0.0.1:\(try Listener.findUnusedLoopbackPort())\r\n"]
        // The call goes back to the owner without another look-up of the slots.
        #expect(caller.callAndAwaitReplies() && owner.callCount == 3 && owner.lookUpCount == 1)
    }

    @Test func `If the server that MOVED names does not reply, the next look-up of the slots corrects the owner`()
        throws
    {
        let loop = try EventLoop()
        let owner = try FakeNode(loop: loop)
        let caller = try makeCaller(loop, owner)
        #expect(caller.callAndAwaitReplies(1))
        let slot = TopologyCaller.withKey(of: 1) { KeyHashSlot($0).hashSlot }
        owner.callReplies = ["-MOVED \(slot) 127.0.0.1:\(try Listener.findUnusedLoopbackPort())\r\n"]
        #expect(caller.callAndAwaitReplies(1))
        #expect(caller.repeatedFailureCounts[.moved] == 1 && owner.callCount == 3)
    }

    @Test func `A call that two nodes send to each other gets its reply when one of them accepts it`() throws {
        let loop = try EventLoop()
        let nodes = [try FakeNode(loop: loop), try FakeNode(loop: loop)]
        let caller = try makeCaller(loop, nodes[0])
        #expect(caller.callAndAwaitReplies(1))
        let slot = TopologyCaller.withKey(of: 1) { KeyHashSlot($0).hashSlot }
        nodes[0].callReplies = Array(repeating: "-MOVED \(slot) \(nodes[1].location)\r\n", count: 50)
        nodes[1].callReplies = Array(repeating: "-MOVED \(slot) \(nodes[0].location)\r\n", count: 50)
        #expect(caller.callAndAwaitReplies(1))
        #expect(caller.refusedFailureCounts.isEmpty)
    }

    @Test func `The client skips a configured server that knows no slots`() throws {
        let loop = try EventLoop()
        let seeds = [try FakeNode(loop: loop), try FakeNode(loop: loop), try FakeNode(loop: loop)]
        seeds[0].slotsReply = ":1\r\n"
        seeds[1].slotsReply = "*0\r\n"
        let caller = try makeCaller(loop, seeds[0], seeds[1], seeds[2])
        #expect(caller.callAndAwaitReplies())
        #expect(seeds[2].callCount == 1 && caller.lossReasons.isEmpty)
    }

    @Test func `A node that lost its slots is dropped`() throws {
        let loop = try EventLoop()
        let nodes = [try FakeNode(loop: loop), try FakeNode(loop: loop)]
        var configuration = RedisConfiguration(url: try RedisURL("redis://\(nodes[0].location)"), topology: .cluster)
        // When a node has lost its slots, the client closes the connection to the node after twice this time.
        configuration.replyDeadlineMilliseconds = 1_000
        let caller = try TopologyCaller(configuration, loop: loop)
        #expect(caller.callAndAwaitReplies(1))
        let slot = TopologyCaller.withKey(of: 1) { KeyHashSlot($0).hashSlot }
        nodes[0].slotsReply = nodes[1].allSlotsReply
        nodes[0].callReplies = ["-MOVED \(slot) \(nodes[1].location)\r\n"]
        #expect(caller.callAndAwaitReplies(1) && nodes[1].callCount == 1)
        #expect(caller.runLoop { nodes[0].connectionCount == 0 && nodes[1].connectionCount == 1 })
        #expect(caller.lossReasons.isEmpty)
    }
}
