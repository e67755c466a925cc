import Redis
import RedisTestbed
import Testbed
import Testing

@Suite(.ownThread) struct SharedHashesTests {
    /// The worker may die after any reply, so the expiry must be sent together with the fields. Redis refuses
    /// PTTL in this test, so the call must not read the expiry first.
    @Test func `A new hash has an expiry as soon as it has its fields`() throws {
        let server = try RedisServer()
        let shared = try SharedHashes(configuration: RedisConfiguration(url: RedisURL(server.unixURL)))
        let fields: SharedHashes.Hash = [(Array("hp".utf8), Array("channel".utf8))]
        server.command("ACL", "SETUSER", "default", "-pttl")
        try? shared.set(["a", "b"].map { (Array($0.utf8), fields) }, lifeMilliseconds: 60_000)
        server.command("ACL", "SETUSER", "default", "+pttl")
        for key in ["a", "b"] {
            #expect(server.command("HGET", key, "hp") == ["channel"])
            let life = try #require(server.command("PTTL", key).first.flatMap { Int64($0) })
            #expect((1...60_000).contains(life), "\(key)")
        }
    }
}
