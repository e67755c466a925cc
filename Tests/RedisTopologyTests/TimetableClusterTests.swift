import ActivityStore
import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// Timetables of lifetimes in a real cluster.
@Suite(.serialized, .ownThread) struct TimetableClusterTests {
    private let beganAtMilliseconds: Int64 = 1_700_000_000_000

    /// MIGRATE moves the keys of a slot in batches, in any order. Here the sorted set moves first, and the lives follow
    /// later. In the meantime, the lives seem to be missing at their new owner. No hash has commands for a restart, so
    /// two of the timetable's keys are missing at both servers until the move is complete.
    @Test func `While a timetable's keys move to another server, calls wait, and no life is lost`() throws {
        let cluster = try ClusterProcesses(primaryCount: 2, hasReplicas: false)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let caller = try TopologyCaller(configuration)
        let shared = try SharedRedisData(configuration: configuration)
        func claim(_ timetable: [UInt8], _ names: [[UInt8]]) throws -> [SharedRedisData.Claim] {
            try shared.claimEntries(
                timetable,
                names,
                firstClaimDurationMilliseconds: 60_000,
                ageMillisecondsMax: .max
            )
            .claims
        }
        // Load the script at both servers: without the script, the new owner refuses the call.
        for number in 0..<LifetimeKey.timetableCount { _ = try claim(LifetimeKey.timetableKey(number), []) }
        #expect(caller.runLoop { caller.client.isReady })

        let checkedKey = TopologyCaller.withKey(of: 1) { Array($0) }
        let claimedKey = Array("claimed".utf8)
        let number = checkedKey.withUnsafeBytes { LifetimeKey.timetableNumber(ofActivityKey: $0) }
        let (timetable, lives) = (LifetimeKey.timetableKey(number), LifetimeKey.livesKey(number))
        let move = TimetableMove(cluster, timetable)
        for name in [checkedKey, claimedKey] {
            move.sendToSource("ZADD", timetable, "1".utf8, name)
            move.sendToSource("HSET", lives, name, "b \(beganAtMilliseconds) 0".utf8)
        }
        move.begin()
        move.migrate(timetable)
        let error = #expect(throws: RedisError.self) { try claim(timetable, [claimedKey]) }
        #expect(error?.code == .tryAgain)
        caller.enqueueLifetimeCheck(1, beganAtMilliseconds: beganAtMilliseconds)
        #expect(caller.runLoop { caller.repeatedFailureCounts[.tryAgain] ?? 0 > 0 || caller.replyCount > 0 })
        #expect(caller.replyCount == 0)

        move.migrate(lives)
        move.complete()
        #expect(caller.awaitAllReplies())
        #expect(caller.verdicts[1] == .retry)
        #expect(try claim(timetable, [claimedKey]).map(\.entryText) == ["b \(beganAtMilliseconds) 1"])
    }
}

/// Moves the hash slot of a timetable from one of two primaries to the other, key by key.
private struct TimetableMove {
    private let slot: String
    private let source: RedisServer
    private let target: RedisServer
    private let sourceIdentifier: String
    private let targetIdentifier: String

    init(_ cluster: ClusterProcesses, _ timetable: [UInt8]) {
        let slot = timetable.withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) }
        let sourceIndex = ClusterProcesses.slots(of: 0, among: 2).contains(slot) ? 0 : 1
        self.slot = String(slot)
        (source, target) = (cluster.primaries[sourceIndex], cluster.primaries[1 - sourceIndex])
        sourceIdentifier = cluster.identifiers[sourceIndex]
        targetIdentifier = cluster.identifiers[1 - sourceIndex]
    }

    func sendToSource(_ command: String, _ key: [UInt8], _ field: some Sequence<UInt8>, _ value: some Sequence<UInt8>) {
        #expect(source.command(bytes: [Array(command.utf8), key, Array(field), Array(value)]) == [Array("1".utf8)])
    }

    func begin() {
        #expect(target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceIdentifier) == ["OK"])
        #expect(source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", targetIdentifier) == ["OK"])
    }

    func migrate(_ key: [UInt8]) {
        let words = ["MIGRATE", "127.0.0.1", String(target.port)].map { Array($0.utf8) }
        #expect(source.command(bytes: words + [key] + ["0", "5000"].map { Array($0.utf8) }) == [Array("OK".utf8)])
    }

    func complete() {
        for server in [target, source] {
            #expect(server.command("CLUSTER", "SETSLOT", slot, "NODE", targetIdentifier) == ["OK"])
        }
    }
}
