import Testing

@testable import CausewayWorker

@Suite("Redis URL")
struct RedisEndpointTests {
    @Test("Forms that are right")
    func right() throws {
        let plain = try RedisEndpoint(url: "redis://cache")
        #expect((plain.host, plain.port, plain.database, plain.isTLS) == ("cache", 6379, 0, false))
        #expect(plain.user == nil && plain.password == nil)
        let full = try RedisEndpoint(url: "rediss://us%40er:p%3A%2f:w@[::1]:7000/3")
        #expect((full.host, full.port, full.database, full.isTLS) == ("::1", 7000, 3, true))
        #expect(full.user == "us@er")
        #expect(full.password == "p:/:w")
        let password = try RedisEndpoint(url: "redis://:p/w@h/")
        #expect(password.user == nil && password.password == "p/w" && password.host == "h")
        #expect(try RedisEndpoint(url: "redis://[fe80::1]").host == "fe80::1")
    }

    @Test(
        "Forms that are wrong",
        arguments: [
            "", "cache:6379", "http://h", "redis://", "redis://:6379", "redis://h:0", "redis://h:65536", "redis://h:+1",
            "redis://h/x",
            "redis://h/-1", "redis://u@h", "redis://u:%zz@h", "redis://u:%4@h", "redis://u:%ff@h", "redis://::1",
            "redis://h?a=b",
            "redis://a b", "redis://h/1/2",
        ]
    )
    func wrong(url: String) {
        #expect(throws: RedisEndpoint.FormatError.self) { try RedisEndpoint(url: url) }
    }
}
