import Foundation
import Redis
import Testbed
import Testing

@testable import CausewayConfiguration

@Suite("Keys of Redis")
struct RedisKeysTests {
    private func configurationText(_ redis: String) -> String {
        smallestFile.replacingRequired(
            "  url: redis://cache\n",
            with: redis.split(separator: "\n").map { "  \($0)\n" }.joined()
        )
    }

    private func loadRedis(_ text: String) throws -> RedisConfiguration {
        try RedisConfiguration(load(configurationText(text)).redis)
    }

    @Test func `One server is found by its host or its socket`() throws {
        let server = try loadRedis("url: redis://u:p@cache:7000/3\nresponseTimeoutMilliseconds: 250")
        guard case .single = server.topology else { return #expect(Bool(false), "\(server)") }
        #expect(server.url.firstLocation == .host("cache", port: 7_000) && server.url.database == 3)
        #expect(server.replyDeadlineMilliseconds == 250 && server.tls == nil)
        #expect(server.addresses == "redis://cache:7000/3", "the text leaves out the password")
        #expect(try loadRedis("url: unix:///run/redis.sock").url.firstLocation == .unix(path: "/run/redis.sock"))
        #expect(try loadRedis("url: rediss://cache").tls != nil)
    }

    @Test func `A cluster is found by some of its servers`() throws {
        let cluster = try loadRedis("mode: cluster\nurl: rediss://:p@a,b:7001,[::1]:7002")
        guard case .cluster = cluster.topology else { return #expect(Bool(false), "\(cluster)") }
        #expect(
            cluster.url.locations == [.host("a", port: 6_379), .host("b", port: 7_001), .host("::1", port: 7_002)]
        )
        #expect(cluster.tls != nil)
    }

    @Test func `Sentinels may have a password of their own`() throws {
        let directory = try TemporaryDirectory()
        let passwords = try ["data", "watch"].map { try directory.write("\($0)-secret\n", to: $0).path }
        let configuration = try loadRedis(
            """
            mode: sentinel
            url: redis://user@mymaster
            sentinelURL: rediss://s1,s2:7000
            passwordFile: \(passwords[0])
            sentinelPasswordFile: \(passwords[1])
            """
        )
        guard case .sentinel(let sentinels) = configuration.topology else {
            return #expect(Bool(false), "\(configuration)")
        }
        #expect(sentinels.locations == [.host("s1", port: 26_379), .host("s2", port: 7_000)])
        #expect(configuration.url.firstLocation == .host("mymaster", port: 6_379))
        #expect(configuration.url.credentials?.username == "user" && sentinels.credentials?.username == nil)
        // If only the Sentinels use TLS, the TLS settings are still needed.
        #expect(!configuration.url.usesTLS && sentinels.usesTLS && configuration.tls != nil)
        #expect(!"\(configuration)".contains("secret"))
        #expect(configuration.addresses == "rediss://s1:26379,s2:7000/0")
    }

    @Test(arguments: [
        (
            "url: redis://a,b",
            "c.yaml:4:8: redis.url: has several hosts, which need redis.mode: cluster"
        ),
        ("mode: ring\nurl: redis://a", "c.yaml:4:9: redis.mode: is not one of single, sentinel, cluster"),
        ("url: redis://m\nmode: sentinel", "c.yaml: redis.sentinelURL: is required with redis.mode: sentinel"),
        (
            "url: redis://m,n\nmode: sentinel\nsentinelURL: redis://s",
            "c.yaml:4:8: redis.url: must have the primary's name at the Sentinels as its host, such as redis://mymaster"
        ),
        (
            "url: unix:///s\nmode: sentinel\nsentinelURL: redis://s",
            "c.yaml:4:8: redis.url: must have the primary's name at the Sentinels as its host, such as redis://mymaster"
        ),
        (
            "url: unix:///s\nmode: cluster",
            "c.yaml:4:8: redis.url: must have hosts: a cluster cannot be reached through a Unix socket"
        ),
        (
            "url: redis://a/1\nmode: cluster",
            "c.yaml:4:8: redis.url: has a database other than 0, but a cluster has only database 0"
        ),
        (
            "url: redis://a\nsentinelURL: redis://s",
            "c.yaml:5:16: redis.sentinelURL: is only for redis.mode: sentinel"
        ),
        (
            "url: redis://a\nmode: cluster\nsentinelPasswordFile: f",
            "c.yaml:6:25: redis.sentinelPasswordFile: is only for redis.mode: sentinel"
        ),
        (
            "url: redis://m\nmode: sentinel\nsentinelURL: unix:///s",
            "c.yaml:6:16: redis.sentinelURL: Sentinels need a host and a port"
        ),
        (
            "url: redis://m\nmode: sentinel\nsentinelURL: redis://s/1",
            "c.yaml:6:16: redis.sentinelURL: Sentinels have no databases"
        ),
    ])
    func `A key that the mode of Redis does not allow is a fault`(redis: String, line: String) {
        #expect(faults(of: configurationText(redis)) == [line])
    }

    @Test func `A wrong Sentinel URL is not repeated`() {
        let lines = faults(
            of: configurationText("url: redis://m\nmode: sentinel\nsentinelURL: redis://:hunter2@s:port")
        )
        #expect(lines.count == 1 && lines[0].hasPrefix("c.yaml:6:16: redis.sentinelURL: Redis URL: port must be"))
        #expect(!lines[0].contains("hunter2"))
    }
}
