import Redis
import RedisTestbed
import Testbed
import Testing

@Suite(.ownThread) struct SharedHashesTests {
    /// The worker may die after any reply, so the expiry must be sent together with the fields. In this test the
    /// first reply is an error, which ends the call: key `a` has a value that is no hash.
    @Test func `A new hash has an expiry as soon as it has its fields`() throws {
        let server = try RedisServer()
        let shared = try SharedHashes(configuration: RedisConfiguration(url: RedisURL(server.unixURL)))
        let fields: SharedHashes.Hash = [(Array("hp".utf8), Array("channel".utf8))]
        server.command("SET", "a", "text")
        #expect(throws: RedisError.self) {
            try shared.set(["a", "b"].map { (Array($0.utf8), fields) }, timeToLiveMilliseconds: 60_000)
        }
        #expect(server.command("HGET", "b", "hp") == ["channel"])
        let life = try #require(server.command("PTTL", "b").first.flatMap { Int64($0) })
        #expect((1...60_000).contains(life))
    }
}
