import Glibc
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// ``RedisQueries`` is for code outside the lanes. The tests use it with one server, with a cluster and with Sentinels.
@Suite(.serialized, .ownThread) struct QueriesTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private func isNow(_ milliseconds: Int64) -> Bool {
        abs(milliseconds / 1_000 - Int64(time(nil))) <= 60
    }

    @Test func `One server is queried`() throws {
        let server = try RedisServer()
        server.command("HSET", "{app:one}", "s", "1", "h", "two")
        server.command("SET", "{app:odd}", "text")
        for index in 0..<3_000 { server.command("HSET", "{other:\(index)}", "s", "1") }
        let queries = try RedisQueries(configuration: RedisConfiguration(url: RedisURL("redis://\(server.location)")))
        let hash = try queries.readHash(bytes("{app:one}"))
        #expect(hash.map(\.field) == [bytes("s"), bytes("h")] && hash.map(\.value) == [bytes("1"), bytes("two")])
        #expect(try queries.readHash(bytes("{app:none}")).isEmpty)
        #expect(throws: RedisError.self) { try queries.readHash(bytes("{app:odd}")) }
        #expect(try queries.readStrings([bytes("{app:none}"), bytes("{app:odd}")]) == [[], bytes("text")])
        #expect(throws: RedisError.self) { try queries.readStrings([bytes("{app:one}")]) }
        server.command("ZADD", "{app:times}", "1790000000123", "one")
        #expect(try queries.readScore(of: bytes("one"), in: bytes("{app:times}")) == 1_790_000_000_123)
        #expect(try queries.readScore(of: bytes("two"), in: bytes("{app:times}")) == nil)
        #expect(try queries.readScore(of: bytes("one"), in: bytes("{app:none}")) == nil)
        #expect(throws: RedisError.self) { try queries.readScore(of: bytes("one"), in: bytes("{app:odd}")) }
        server.command("DEL", "{app:times}")
        #expect(try isNow(queries.readServerWallMilliseconds()))
        #expect(try queries.readPrimaryWallMilliseconds().map(isNow) == [true])
        let appScan = try queries.scanKeys(match: "{app:*}")
        #expect(Set(appScan.keys) == [bytes("{app:one}"), bytes("{app:odd}")] && appScan.isComplete)
        let limitedScan = try queries.scanKeys(match: "{other:*}", keysMax: 1_000)
        #expect(limitedScan.keys.count == 1_000 && !limitedScan.isComplete)
        let shortScan = try queries.scanKeys(match: "{other:*}", stepsMax: 2)
        #expect((1..<3_000).contains(shortScan.keys.count) && !shortScan.isComplete)
        let allKeys = try queries.scanKeys(match: "{other:*}").keys
        #expect(allKeys.count == 3_000)
        #expect(try queries.readHashes(allKeys).allSatisfy { $0.count == 1 })
        // The connection is lost between two queries, so the next one connects again.
        server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        #expect(try queries.readHash(bytes("{app:one}")).count == 2)
        server.kill()
        #expect(throws: RedisError.self) { try queries.readHash(bytes("{app:one}")) }
        #expect(try queries.readPrimaryWallMilliseconds() == [])
        try server.start()
        #expect(try queries.readHash(bytes("{app:one}")).isEmpty)
    }

    @Test func `A cluster is queried, also while a slot moves`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: false)
        let keys = (0..<300).map { "{app:activity-\($0)}" }
        for key in keys {
            let owner = (0..<3)
                .first {
                    ClusterProcesses.slots(of: $0, among: 3)
                        .contains(bytes(key).withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) })
                }
            cluster.primaries[owner ?? 0].command("HSET", key, "name", key)
        }
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let queries = try RedisQueries(configuration: configuration)
        func hasAll() throws -> Bool {
            try queries.readHashes(keys.map(bytes)).map { $0.first?.value } == keys.map(bytes)
        }
        #expect(try hasAll())
        let scan = try queries.scanKeys(match: "{app:*}")
        #expect(Set(scan.keys) == Set(keys.map(bytes)) && scan.isComplete)
        #expect(try isNow(queries.readServerWallMilliseconds(for: bytes(keys[0]))))
        #expect(try queries.readPrimaryWallMilliseconds().map(isNow) == [true, true, true])
        var resharding = try Resharding(cluster)
        var stepCount = 0
        while resharding.step() {
            stepCount += 1
            if stepCount % 7 == 0 { #expect(try hasAll()) }
        }
        #expect(try hasAll())
    }

    /// The move of the slot never ends, so nothing else would close the connection.
    @Test func `No connection stays open to a server without slots that ASK has named`() throws {
        let cluster = try ClusterProcesses(primaryCount: 1, emptyPrimaryCount: 1, hasReplicas: false)
        let (owner, importer) = (cluster.primaries[0], cluster.emptyPrimaries[0])
        let key = "{app:one}"
        let slot = String(bytes(key).withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) })
        #expect(importer.command("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.identifiers[0]) == ["OK"])
        #expect(owner.command("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.identifiers[1]) == ["OK"])
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let queries = try RedisQueries(configuration: configuration)
        for _ in 0..<2 { #expect(try queries.readHash(bytes(key)).isEmpty) }
        let commandStatistics = importer.command("INFO", "commandstats").first ?? ""
        #expect(commandStatistics.contains("cmdstat_asking:calls=2"), "\(commandStatistics)")
        // The only client is the one that asks.
        try waitUntil([importer], show: "a single client") {
            $0.command("CLIENT", "LIST").countOccurrences(of: " addr=") == 1
        }
        withExtendedLifetime(queries) {}
    }

    /// Each provider token has its own Redis key. All tokens are found before the slots of these keys move, and while
    /// they move.
    @Test func `Shared provider tokens are found in a cluster, also while slots move`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: false)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let (store, otherStore) = (
            try ProviderTokenStore(configuration: configuration), try ProviderTokenStore(configuration: configuration)
        )
        let names = (0..<24).map { "TEAM/KEY\($0)" }
        for name in names {
            #expect(try store.acquireLease(name, leaseMilliseconds: 600_000))
            try store.writeToken(name, text: bytes(name), timeToLiveMilliseconds: 600_000)
        }
        #expect(cluster.primaries.allSatisfy { cluster.keyCount([$0]) > 0 })
        for name in names {
            #expect(try otherStore.readToken(name)?.text == bytes(name))
            #expect(try !otherStore.acquireLease(name, leaseMilliseconds: 600_000))
        }
        var resharding = try Resharding(cluster)
        var stepCount = 0
        while resharding.step() {
            stepCount += 1
            guard stepCount % 16 == 0 else { continue }
            // A query about a moved slot may fail. A later one asks for the slots again and succeeds.
            for name in names { try eventually(name) { (try? otherStore.readToken(name)?.text) == bytes(name) } }
        }
        for name in names {
            try eventually(name) { (try? otherStore.readToken(name)?.text) == bytes(name) }
            #expect(try !otherStore.acquireLease(name, leaseMilliseconds: 600_000))
        }
    }

    @Test func `The primary that Sentinels name is queried`() throws {
        let primary = try RedisServer()
        let sentinel = try RedisServer(sentinel: ["sentinel monitor mymaster 127.0.0.1 \(primary.port) 1"])
        primary.command("HSET", "{app:one}", "s", "1")
        let sentinels = try RedisURL("redis://\(sentinel.location)")
        let queries = try RedisQueries(
            configuration: RedisConfiguration(url: RedisURL("redis://mymaster"), topology: .sentinel(sentinels))
        )
        #expect(try queries.readHash(bytes("{app:one}")).map(\.value) == [bytes("1")])
        #expect(try queries.scanKeys(match: "*").keys == [bytes("{app:one}")])
    }

    /// All these calls together have more commands than may wait for their replies on one connection.
    @Test func `A cancelled call leaves no commands for the next calls to wait behind`() throws {
        let server = try RedisServer()
        var isCancelled = false
        var configuration = RedisConfiguration(url: try RedisURL("redis://\(server.location)"))
        configuration.replyDeadlineMilliseconds = 20_000
        let queries = try RedisQueries(configuration: configuration, isCancelled: { isCancelled })
        let keys = (0..<RedisQueries.pipelinedCommandsMax).map { bytes("{app:\($0)}") }
        #expect(try queries.readHashes(keys).count == keys.count)
        server.suspend()
        isCancelled = true
        for _ in 0...(CommandConnection.commandsMax / keys.count) {
            #expect(throws: RedisError.self) { try queries.readHashes(keys) }
        }
        server.resume()
        isCancelled = false
        #expect(try queries.readHashes(keys).count == keys.count)
    }

    @Test func `A silent server is not waited for without end`() throws {
        let server = try RedisServer()
        server.suspend()
        var configuration = RedisConfiguration(url: try RedisURL("redis://\(server.location)"))
        configuration.replyDeadlineMilliseconds = 50
        let queries = try RedisQueries(configuration: configuration)
        #expect {
            try queries.readServerWallMilliseconds()
        } throws: { ($0 as? RedisError)?.code == .deadline }
        server.resume()
    }
}
