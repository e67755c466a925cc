import ActivityStore
import Glibc
import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// Real clusters on the loopback: how the client finds the servers and handles failures.
@Suite(.serialized, .ownThread) struct ClusterTests {
    /// Most tests start the activities with the first claim, and then again with the second. If a server replies `send`
    /// to the second claim, it has lost the first start.
    private let firstClaim: UInt64 = 1
    private let secondClaim: UInt64 = 2
    private let activities = 0..<6_000

    private func makeCaller(_ cluster: ClusterProcesses, deadlineMilliseconds: Int64 = 20_000) throws -> TopologyCaller
    {
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = deadlineMilliseconds
        return try TopologyCaller(configuration)
    }

    private func sendVerdictCount(_ caller: TopologyCaller) -> Int { caller.verdicts.values.count { $0 == .send } }

    @Test func `The client finds all slots from one server, and follows each slot that moves under load`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: false)
        // The first address has no server. If the client tries it first, it must then try the other one.
        let url = "redis://127.0.0.1:\(try Listener.findUnusedLoopbackPort()),\(cluster.primaries[1].location)"
        var configuration = RedisConfiguration(url: try RedisURL(url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let caller = try TopologyCaller(configuration)
        #expect(caller.runLoop { caller.client.isReady })
        caller.enqueue(activities, claim: firstClaim)
        #expect(caller.awaitAllReplies())
        #expect(sendVerdictCount(caller) == activities.count)
        #expect(caller.repeatedFailureCounts.isEmpty)
        #expect(cluster.keyCount(cluster.primaries) == activities.count)

        caller.reset()
        var resharding = try Resharding(cluster)
        var position = 0
        while resharding.step() {
            if caller.waitingCallCount < 2_000 {
                caller.enqueue((0..<500).map { (position + $0) % activities.count }, claim: secondClaim)
                position += 500
            }
            caller.step(waitMilliseconds: 0)
            // Some keys have already moved to the new owner, but their slots have not. The calls must still get
            // replies.
            if resharding.areKeysAhead && resharding.batchIndex % 8 == 0 { try #require(caller.awaitAllReplies()) }
        }
        #expect(caller.awaitAllReplies())
        // The first redirection tells the client the new owner of a slot, so only few calls are redirected.
        #expect(caller.repeatedFailureCounts[.moved] ?? 0 < caller.replyCount / 4)
        #expect(caller.replyCount > 20_000)
        #expect(sendVerdictCount(caller) == 0, "no server has lost a first start")
        #expect(caller.repeatedFailureCounts[.moved] ?? 0 > 0 && caller.repeatedFailureCounts[.ask] ?? 0 > 0)
        #expect(Set(caller.repeatedFailureCounts.keys).isSubset(of: [.moved, .ask, .tryAgain]))
        #expect(caller.refusedFailureCounts.isEmpty)
        #expect(cluster.keyCount(cluster.primaries) == activities.count)
        // However many MOVED errors come, the client asks for the slots at most once a second.
        let lookUpCount = cluster.primaries.reduce(0) { $0 + Self.callCount(of: "cluster|slots", on: $1) }
        #expect(Int64(lookUpCount) <= resharding.elapsedMilliseconds() / Cluster.lookupIntervalMillisecondsMin + 4)
    }

    private static func callCount(of command: String, on server: RedisServer) -> Int {
        let line = server.command("INFO", "commandstats").first?.split(separator: "\r\n")
            .first { $0.hasPrefix("cmdstat_\(command):") }
        return line?.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) } ?? 0
    }

    @Test func `A primary is killed: the others continue, its replica replaces it, and it comes back as a replica`()
        throws
    {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: true)
        let caller = try makeCaller(cluster)
        #expect(caller.runLoop { caller.client.isReady })
        caller.enqueue(activities, claim: firstClaim)
        #expect(caller.awaitAllReplies())
        try cluster.finishReplication()
        caller.reset()

        // Kills the server while calls to it are in flight.
        caller.enqueue(activities, claim: secondClaim)
        caller.step(waitMilliseconds: 0)
        cluster.primaries[0].kill()
        let activitiesOfKilledPrimary = activities.filter {
            Self.slot($0) < ClusterProcesses.slots(of: 0, among: 3).upperBound
        }
        let otherActivityCount = activities.count - activitiesOfKilledPrimary.count
        var unavailableServerCount = 0
        let haveOthersReplied = caller.runLoop {
            unavailableServerCount = max(unavailableServerCount, caller.client.unavailableServerCount)
            // The other servers may reply before the client notices that the killed server's connection is
            // closed.
            return caller.replyCount >= otherActivityCount && unavailableServerCount > 0
        }
        #expect(haveOthersReplied && caller.client.isReady)
        #expect(caller.waitingCallCount > 0, "the calls to the killed primary wait for its replica")
        #expect((1...2).contains(unavailableServerCount), "the primary, and its replica when it is being connected to")
        #expect(caller.awaitAllReplies())
        #expect(caller.runLoop { caller.client.unavailableServerCount == 0 })
        #expect(caller.verdicts.count == activities.count && sendVerdictCount(caller) == 0)
        #expect(caller.refusedFailureCounts.isEmpty)
        #expect(caller.lossReasons.contains { $0.contains(cluster.primaries[0].location) })

        // The old primary starts again, as the replica of the server that replaced it.
        try cluster.primaries[0].start()
        try waitUntil([cluster.primaries[0]], show: "the role of a replica") { $0.command("ROLE").first == "slave" }
        caller.reset()
        caller.enqueue(activities, claim: secondClaim)
        #expect(caller.awaitAllReplies())
        #expect(sendVerdictCount(caller) == 0 && caller.repeatedFailureCounts.isEmpty)
    }

    @Test func `A primary is frozen: its calls time out, and its replica replies to them`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: true)
        let caller = try makeCaller(cluster, deadlineMilliseconds: 1_000)
        #expect(caller.runLoop { caller.client.isReady })
        caller.enqueue(activities, claim: firstClaim)
        #expect(caller.awaitAllReplies())
        try cluster.finishReplication()
        caller.reset()
        cluster.primaries[1].suspend()
        caller.enqueue(activities, claim: secondClaim)
        #expect(caller.awaitAllReplies())
        #expect(caller.repeatedFailureCounts[.deadline] ?? 0 > 0)
        #expect(caller.verdicts.count == activities.count && sendVerdictCount(caller) == 0)
        // The frozen primary continues. Until it learns of the failover, it still acts as the primary, but the client
        // no longer asks it.
        cluster.primaries[1].resume()
        try waitUntil([cluster.primaries[1]], show: "the role of a replica") { $0.command("ROLE").first == "slave" }
        caller.reset()
        caller.enqueue(activities, claim: secondClaim)
        #expect(caller.awaitAllReplies())
        #expect(sendVerdictCount(caller) == 0)
    }

    @Test func `Replicas of one primary are frozen: registrations for it wait, and all other calls continue`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: true)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        configuration.requiredReplicaCount = 1
        let caller = try TopologyCaller(configuration)
        #expect(caller.runLoop { caller.client.isReady })
        caller.enqueue(activities, claim: firstClaim, isRegistration: true)
        #expect(caller.awaitAllReplies())
        #expect(caller.verdicts.count == activities.count && caller.repeatedFailureCounts.isEmpty)
        #expect(cluster.primaries.allSatisfy { Self.callCount(of: "wait", on: $0) > 0 })

        caller.reset()
        let slots = ClusterProcesses.slots(of: 1, among: 3)
        let activitiesOfPrimary = activities.filter { slots.contains(Self.slot($0)) }
        cluster.replicas[1].suspend()
        caller.enqueue(activities, claim: firstClaim, isRegistration: true)
        let starts = (activities.count..<2 * activities.count).filter { slots.contains(Self.slot($0)) }
        caller.enqueue(starts, claim: firstClaim)
        let expectedReplyCount = activities.count - activitiesOfPrimary.count + starts.count
        #expect(
            caller.runLoop {
                caller.replyCount >= expectedReplyCount && caller.repeatedFailureCounts[.replicasMissing] ?? 0 > 0
            }
        )
        #expect(activitiesOfPrimary.allSatisfy { caller.verdicts[$0] == nil })
        cluster.replicas[1].resume()
        #expect(caller.awaitAllReplies())
        #expect(caller.verdicts.count == activities.count + starts.count)
        #expect(Set(caller.repeatedFailureCounts.keys).isSubset(of: [.replicasMissing]))
    }

    private static func slot(_ activity: Int) -> Int {
        TopologyCaller.withKey(of: activity) { KeyHashSlot($0).hashSlot }
    }
}

/// Moves every slot to the next primary, 512 slots at a time. Each move has five steps, and a test can make calls after
/// each step: the move has begun, some keys have moved, all keys have moved, the new owner knows that the move is
/// complete, all primaries know it.
struct Resharding {
    private static let slotsPerStep = 512

    private let cluster: ClusterProcesses
    private let clients: [BlockingClient]
    private let startTime: timespec
    private var batchStartSlot = 0
    private var stepInMove = 0

    init(_ cluster: ClusterProcesses) throws {
        self.cluster = cluster
        clients = cluster.primaries.compactMap { BlockingClient(port: $0.port) }
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        startTime = now
    }

    func elapsedMilliseconds() -> Int64 {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return Int64(now.tv_sec - startTime.tv_sec) * 1_000 + Int64(now.tv_nsec - startTime.tv_nsec) / 1_000_000
    }

    /// Whether some or all keys of the moving slots are already on the new owner.
    var areKeysAhead: Bool { stepInMove == 2 || stepInMove == 3 }
    var batchIndex: Int { batchStartSlot / Self.slotsPerStep }

    /// Makes the next step. Returns false when all slots have moved.
    mutating func step() -> Bool {
        guard batchStartSlot < KeyHashSlot.hashSlotCount else { return false }
        let slots = batchStartSlot..<min(batchStartSlot + Self.slotsPerStep, KeyHashSlot.hashSlotCount)
        switch stepInMove {
        case 0:
            setSlots(slots, on: \.target) { ["IMPORTING", $0.sourceIdentifier] }
            setSlots(slots, on: \.source) { ["MIGRATING", $0.targetIdentifier] }
        case 1:
            migrate(slots, keysMax: 1)
        case 2:
            migrate(slots, keysMax: 1_000)
        case 3:
            setSlots(slots, on: \.target) { ["NODE", $0.targetIdentifier] }
        default:
            setSlots(slots, on: \.source) { ["NODE", $0.targetIdentifier] }
            setSlots(slots, on: \.bystander) { ["NODE", $0.targetIdentifier] }
        }
        stepInMove += 1
        if stepInMove == 5 {
            stepInMove = 0
            batchStartSlot = slots.upperBound
        }
        return true
    }

    private struct SlotMove {
        var source: Int
        var target: Int
        var bystander: Int
        var sourceIdentifier: String
        var targetIdentifier: String
    }

    private func makeMove(_ slot: Int) -> SlotMove {
        let source = (0..<3).first { ClusterProcesses.slots(of: $0, among: 3).contains(slot) } ?? 0
        let target = (source + 1) % 3
        return SlotMove(
            source: source,
            target: target,
            bystander: (source + 2) % 3,
            sourceIdentifier: cluster.identifiers[source],
            targetIdentifier: cluster.identifiers[target]
        )
    }

    private func setSlots(_ slots: Range<Int>, on node: KeyPath<SlotMove, Int>, _ words: (SlotMove) -> [String]) {
        for slot in slots {
            let move = makeMove(slot)
            clients[move[keyPath: node]].appendCommand(["CLUSTER", "SETSLOT", String(slot)] + words(move))
        }
        for slot in slots { #expect(clients[makeMove(slot)[keyPath: node]].readReply() == ["OK"]) }
    }

    private func migrate(_ slots: Range<Int>, keysMax: Int) {
        for slot in slots {
            clients[makeMove(slot).source].appendCommand(["CLUSTER", "GETKEYSINSLOT", String(slot), String(keysMax)])
        }
        // The keys are read as bytes, because a key may have any bytes.
        let keys = slots.map { slot in clients[makeMove(slot).source].readReplyBytes() }
        for (slot, keys) in zip(slots, keys) where !keys.isEmpty {
            let move = makeMove(slot)
            let port = String(cluster.primaries[move.target].port)
            let words = ["MIGRATE", "127.0.0.1", port, "", "0", "120000", "KEYS"].map { Array($0.utf8) }
            clients[move.source].appendCommand(bytes: words + keys)
        }
        for (slot, keys) in zip(slots, keys) where !keys.isEmpty {
            #expect(clients[makeMove(slot).source].readReply() == ["OK"])
        }
    }
}
