import Testbed
import Testing

@testable import Redis

@Suite(.ownThread) struct RedisURLTests {
    @Test(
        arguments: [
            ("redis://localhost", "redis://localhost:6379/0", nil, nil),
            ("redis://127.0.0.1:7000/3", "redis://127.0.0.1:7000/3", nil, nil),
            ("redis://[::1]:7000/", "redis://[::1]:7000/0", nil, nil),
            ("redis://[::1]", "redis://[::1]:6379/0", nil, nil),
            (
                "rediss://causeway:s%40cr%3Aet@cache.example.com/15", "rediss://cache.example.com:6379/15", "causeway",
                "s@cr:et"
            ),
            ("redis://:p:w@host:1", "redis://host:1/0", nil, "p:w"),
            ("redis://a,b:7000,[::1]:7001,[::2]/2", "redis://a:6379,b:7000,[::1]:7001,[::2]:6379/2", nil, nil),
            ("rediss://u:p@a:1,b:2", "rediss://a:1,b:2/0", "u", "p"),
            ("rediss://causeway@redis:6380", "rediss://redis:6380/0", "causeway", ""),
            ("unix:///run/redis.sock", "unix:///run/redis.sock?db=0", nil, nil),
            ("unix://user:word@/run/re%20dis.sock?db=2", "unix:///run/re dis.sock?db=2", "user", "word"),
        ] as [(String, String, String?, String?)]
    )
    func `A good URL is read`(text: String, description: String, username: String?, password: String?) throws {
        let url = try RedisURL(text)
        #expect(url.description == description)
        #expect(url.usesTLS == text.hasPrefix("rediss"))
        #expect(url.credentials?.username == username)
        #expect(url.credentials?.password == password)
    }

    @Test(arguments: [
        ("localhost:6379", RedisURLError.scheme), ("http://localhost", .scheme), ("redis:/localhost", .scheme),
        ("", .scheme),
        ("redis://", .host), ("redis://a b", .host), ("redis://[::1", .host), ("redis://[nonsense]", .host),
        ("redis://::1", .host), ("redis://host:0", .port), ("redis://host:65536", .port), ("redis://host:", .port),
        ("redis://a,,b", .host), ("redis://a,", .host), ("redis://a,b:0", .port), ("redis://a,b c", .host),
        ("redis://\(Array(repeating: "a", count: 65).joined(separator: ","))", .host),
        ("redis://host:6a", .port), ("redis://host/x", .database), ("redis://host/-1", .database),
        ("redis://host/99999999999999999999", .database), ("redis://host/1?x=1", .query), ("redis://host#x", .fragment),
        ("redis://@host", .credentials), ("redis://user:@host", .credentials), ("redis://:%4@host", .credentials),
        ("redis://:%00@host", .credentials), ("redis://:%ff@host", .credentials), ("unix://run/redis.sock", .path),
        ("unix:///run/redis.sock?database=1", .query), ("unix:///\(String(repeating: "x", count: 200))", .path),
    ])
    func `A wrong URL is refused, and the error names the wrong part`(text: String, error: RedisURLError) {
        #expect(throws: error) { try RedisURL(text) }
    }

    @Test func `Hosts without a port have the given default`() throws {
        let url = try RedisURL("redis://a,b:1", defaultPort: RedisURL.defaultSentinelPort)
        #expect(url.locations == [.host("a", port: 26_379), .host("b", port: 1)])
    }

    @Test func `Credentials appear in no description`() throws {
        let url = try RedisURL("redis://someone:hunter2@localhost/1")
        let configuration = RedisConfiguration(url: url)
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in [
            url.description, String(reflecting: url), "\(configuration)", String(reflecting: configuration), dumped,
        ] {
            #expect(!text.contains("hunter2") && !text.contains("someone"))
        }
        #expect(!"\(RedisURLError.credentials)".contains("hunter2"))
    }
}
