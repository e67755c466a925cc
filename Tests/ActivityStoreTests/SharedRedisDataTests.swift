import Redis
import RedisTestbed
import Testbed
import Testing

@Suite(.ownThread) struct SharedRedisDataTests {
    /// The worker may die after any reply, so the expiry must be sent together with the fields. In this test the
    /// first reply is an error, which ends the call: key `a` has a value that is no hash.
    @Test func `A new hash has an expiry as soon as it has its fields`() throws {
        let server = try RedisServer()
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: RedisURL(server.unixURL)))
        let fields: SharedRedisData.HashFields = [(Array("hp".utf8), Array("channel".utf8))]
        server.command("SET", "a", "text")
        #expect(throws: RedisError.self) {
            try shared.setFields(["a", "b"].map { (Array($0.utf8), fields) }, timeToLiveMilliseconds: 60_000)
        }
        #expect(server.command("HGET", "b", "hp") == ["channel"])
        #expect(try (1...60_000).contains(Self.timeToLiveMilliseconds(of: "b", on: server)))
    }

    @Test func `A field is removed only if it has the expected value`() throws {
        let server = try RedisServer()
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: RedisURL(server.unixURL)))
        let (key, field) = (Array("hash".utf8), Array("field".utf8))
        server.command("HSET", "hash", "field", "new")
        #expect(try !shared.removeField(key, if: .init(field, Array("old".utf8))))
        #expect(server.command("HGET", "hash", "field") == ["new"])
        #expect(try shared.removeField(key, if: .init(field, Array("new".utf8))))
        #expect(try !shared.removeField(key, if: .init(field, Array("new".utf8))))
        #expect(server.command("EXISTS", "hash") == ["0"])
    }

    @Test func `A process neither extends nor ends a lease that another has taken since`() throws {
        let server = try RedisServer()
        let configuration = RedisConfiguration(url: try RedisURL(server.unixURL))
        let firstWorker = try SharedRedisData(configuration: configuration)
        let secondWorker = try SharedRedisData(configuration: configuration)
        let key = Array("lease".utf8)
        let lostLease = try #require(try firstWorker.acquireLease(key, leaseMilliseconds: 60_000))
        let isTakenTwice = try secondWorker.acquireLease(key, leaseMilliseconds: 60_000) != nil
        #expect(!isTakenTwice)
        // The test deletes the lease. For the workers it looks as if the lease's time were over.
        server.command("DEL", "lease")
        let heldLease = try #require(try secondWorker.acquireLease(key, leaseMilliseconds: 60_000))

        try firstWorker.extendLease(lostLease, leaseMilliseconds: 600_000)
        try firstWorker.releaseLease(lostLease)
        #expect(try (1...60_000).contains(Self.timeToLiveMilliseconds(of: "lease", on: server)))
        try secondWorker.extendLease(heldLease, leaseMilliseconds: 600_000)
        #expect(try (60_001...600_000).contains(Self.timeToLiveMilliseconds(of: "lease", on: server)))
        try secondWorker.releaseLease(heldLease)
        #expect(try !firstWorker.isLeased(key))
    }

    private static func timeToLiveMilliseconds(of key: String, on server: RedisServer) throws -> Int64 {
        try #require(server.command("PTTL", key).first.flatMap { Int64($0) })
    }
}
