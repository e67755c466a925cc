import ActivityStore
import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// Real Sentinels watch a primary and its replica. The servers of `WatchedServers` require passwords.
@Suite(.serialized, .ownThread) struct SentinelTests {
    private let activities = 0..<2_000

    private final class WatchedServers {
        let servers: [RedisServer]
        let sentinels: [RedisServer]

        var sentinelHosts: String { sentinels.map(\.location).joined(separator: ",") }

        init() throws {
            let arguments = ["--requirepass", "data", "--masterauth", "data"]
            let primary = try RedisServer(arguments)
            let replica = try RedisServer(arguments + ["--replicaof", "127.0.0.1 \(primary.port)"])
            servers = [primary, replica]
            sentinels = try (0..<3)
                .map { _ in
                    try RedisServer(sentinel: [
                        "requirepass watch", "sentinel sentinel-pass watch",
                        "sentinel monitor mymaster 127.0.0.1 \(primary.port) 2", "sentinel auth-pass mymaster data",
                        // A Sentinel waits three seconds before it calls a server down, because on a busy
                        // machine a server may be silent for half a second.
                        "sentinel down-after-milliseconds mymaster 3000", "sentinel failover-timeout mymaster 5000",
                    ])
                }
            for server in servers { server.password = "data" }
            for sentinel in sentinels {
                sentinel.password = "watch"
                // By default a Sentinel reads INFO from the servers every ten seconds, and announces itself every two.
                // The test would wait for both.
                sentinel.command("SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "200")
            }
            try waitUntil(sentinels, show: "a replica and the other Sentinels") { sentinel in
                let readField = Self.readMasterInformation(of: sentinel)
                return readField("num-slaves") == "1" && readField("num-other-sentinels") == "2"
            }
            try waitUntil([replica], show: "a link to the primary") {
                $0.command("INFO", "replication").first?.contains("master_link_status:up") == true
            }
        }

        func primary() -> RedisServer? { servers.first { $0.command("ROLE").first == "master" } }

        /// Asks the first Sentinel to make `server` the primary. Call this method again until it succeeds: on a busy
        /// machine a server may reply too late, and the Sentinel then gives up.
        func move(to server: RedisServer) {
            let readField = Self.readMasterInformation(of: sentinels[0])
            guard let port = readField("port"), port != "\(server.port)",
                readField("flags")?.contains("failover_in_progress") == false
            else { return }
            sentinels[0].command("SENTINEL", "FAILOVER", "mymaster")
        }

        private static func readMasterInformation(of sentinel: RedisServer) -> (_ name: String) -> String? {
            let masterInformation = sentinel.command("SENTINEL", "MASTER", "mymaster")
            return { name in masterInformation.firstIndex(of: name).map { masterInformation[$0 + 1] } }
        }
    }

    private func makeCaller(_ sentinels: String, name: String = "mymaster") throws -> TopologyCaller {
        let url = try RedisURL(sentinels, defaultPort: RedisURL.defaultSentinelPort)
        var configuration = RedisConfiguration(url: try RedisURL("redis://:data@\(name)/0"), topology: .sentinel(url))
        configuration.replyDeadlineMilliseconds = 20_000
        return try TopologyCaller(configuration)
    }

    private func sendVerdictCount(_ caller: TopologyCaller) -> Int { caller.verdicts.values.count { $0 == .send } }

    @Test func `The primary is found, killed, replaced, and moved by hand`() throws {
        let watched = try WatchedServers()
        let previousPrimary = watched.servers[0]
        // Nothing listens at the first Sentinel's address, so the client must ask the next one.
        let caller = try makeCaller(
            "redis://:watch@127.0.0.1:\(try Listener.findUnusedLoopbackPort()),\(watched.sentinelHosts)"
        )
        caller.enqueue(activities, claim: 1)
        #expect(caller.awaitAllReplies())
        #expect(sendVerdictCount(caller) == activities.count && caller.events == [.ready])
        try awaitReplication(from: previousPrimary, to: watched.servers[1])
        caller.reset()

        previousPrimary.kill()
        caller.enqueue(activities, claim: 2)
        #expect(caller.awaitAllReplies())
        #expect(
            caller.verdicts.count == activities.count && sendVerdictCount(caller) == 0,
            "the replica did not have everything"
        )
        #expect(watched.servers[1].command("ROLE").first == "master")

        try previousPrimary.start()
        try waitUntil([previousPrimary], show: "a link to the new primary") { server in
            server.command("ROLE").first == "slave"
                && server.command("INFO", "replication").first?.contains("master_link_status:up") == true
        }
        // The primary moves back while calls are in progress.
        caller.reset()
        #expect(
            caller.runLoop {
                if caller.waitingCallCount < 500 {
                    watched.move(to: previousPrimary)
                    caller.enqueue(activities, claim: 2)
                }
                return caller.events.contains(.ready)
            }
        )
        #expect(caller.awaitAllReplies())
        #expect(sendVerdictCount(caller) == 0 && caller.refusedFailureCounts.isEmpty)
        #expect(watched.primary() === previousPrimary)
    }

    /// A shared provider token survives the failure of the primary. Both stores find it on the new primary.
    @Test func `A shared provider token is found on the primary that takes over`() throws {
        let watched = try WatchedServers()
        let url = try RedisURL("redis://:watch@\(watched.sentinelHosts)", defaultPort: RedisURL.defaultSentinelPort)
        var configuration = RedisConfiguration(url: try RedisURL("redis://:data@mymaster/0"), topology: .sentinel(url))
        configuration.replyDeadlineMilliseconds = 20_000
        let (store, otherStore) = (
            try ProviderTokenStore(configuration: configuration), try ProviderTokenStore(configuration: configuration)
        )
        #expect(try store.acquireLease("TEAM/KEY", leaseMilliseconds: 600_000))
        #expect(try !otherStore.acquireLease("TEAM/KEY", leaseMilliseconds: 600_000))
        try store.writeToken("TEAM/KEY", text: [0, 255], timeToLiveMilliseconds: 600_000)
        #expect(try otherStore.readToken("TEAM/KEY")?.text == [0, 255])
        // The replica has the token and the lease before its primary dies.
        try waitUntil([watched.servers[1]], show: "both keys") { $0.command("DBSIZE") == ["2"] }
        watched.servers[0].kill()
        #expect(throws: RedisError.self) { try store.readToken("TEAM/KEY") }
        try waitUntil([watched.servers[1]], show: "the role of the primary") { $0.command("ROLE").first == "master" }
        // A call fails until the Sentinels name the new primary. Each further call asks the Sentinels again.
        try eventually("the token in the first store") { (try? store.readToken("TEAM/KEY")?.text) == [0, 255] }
        try eventually("the token in the other store") { (try? otherStore.readToken("TEAM/KEY")?.text) == [0, 255] }
        #expect(
            try !otherStore.acquireLease("TEAM/KEY", leaseMilliseconds: 600_000),
            "the new primary has the lease, too"
        )
    }

    @Test func `An unknown name, and a wrong password of the Sentinels, are reported`() throws {
        let sentinel = try RedisServer(sentinel: [
            "requirepass watch", "sentinel monitor mymaster 127.0.0.1 \(try Listener.findUnusedLoopbackPort()) 1",
        ])
        let callerOfUnknownName = try makeCaller("redis://:watch@\(sentinel.location)", name: "other")
        #expect(callerOfUnknownName.runLoop { !callerOfUnknownName.events.isEmpty })
        #expect(callerOfUnknownName.events.first == .lost(.resolve))
        #expect(callerOfUnknownName.lossReasons.first?.contains("knows no primary other") == true)

        let callerWithWrongPassword = try makeCaller("redis://:hunter2@\(sentinel.location)")
        #expect(callerWithWrongPassword.runLoop { !callerWithWrongPassword.events.isEmpty })
        #expect(callerWithWrongPassword.events.first == .lost(.wrongPassword))
        #expect(callerWithWrongPassword.lossReasons.allSatisfy { !$0.contains("hunter2") })

        let callerWithoutSentinel = try makeCaller("redis://:watch@127.0.0.1:\(try Listener.findUnusedLoopbackPort())")
        #expect(callerWithoutSentinel.runLoop { callerWithoutSentinel.events.count > 1 })
        #expect(callerWithoutSentinel.events.allSatisfy { $0 == .lost(.stream) })
    }

    /// The first Sentinel requires a password. Nothing listens at the second one's address.
    @Test func `The error of the last Sentinel does not hide the refusal of the first one`() throws {
        let sentinel = try RedisServer(sentinel: [
            "requirepass watch", "sentinel monitor mymaster 127.0.0.1 \(try Listener.findUnusedLoopbackPort()) 1",
        ])
        let silentLocation = "127.0.0.1:\(try Listener.findUnusedLoopbackPort())"
        let caller = try makeCaller("redis://\(sentinel.location),\(silentLocation)")
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events.first == .lost(.noAuthentication))
        let reason = caller.lossReasons.first ?? ""
        #expect(reason.contains("\(sentinel.location): ") && reason.contains("\(silentLocation): "), "\(reason)")
        // The next look-up begins with another Sentinel, or with the same one again.
        #expect(caller.runLoop { caller.events.count > 2 })
        #expect(caller.events.allSatisfy { $0 == .lost(.noAuthentication) })
    }

    @Test func `A server that Sentinel names but that is still a replica is refused`() throws {
        let primary = try RedisServer()
        let replica = try RedisServer(["--replicaof", "127.0.0.1 \(primary.port)"])
        // Only this Sentinel takes the replica for the primary. It needs a second Sentinel to start a failover.
        let sentinel = try RedisServer(sentinel: ["sentinel monitor mymaster 127.0.0.1 \(replica.port) 2"])
        let url = try RedisURL("redis://\(sentinel.location)")
        let caller = try TopologyCaller(RedisConfiguration(url: RedisURL("redis://mymaster"), topology: .sentinel(url)))
        #expect(caller.runLoop { caller.events.count > 1 })
        #expect(caller.events.allSatisfy { $0 == .lost(.readOnly) })
        replica.command("REPLICAOF", "NO", "ONE")
        #expect(caller.runLoop { caller.client.isReady })
        #expect(caller.callAndAwaitReplies())
    }

    /// The first Sentinel names a server that does not know the command ROLE. If the server replied with NOPERM, the
    /// client would trust the Sentinel.
    @Test func `If the server that a Sentinel names replies to ROLE with an error, the next Sentinel is asked`() throws
    {
        let strangeServer = try RedisServer(["--rename-command", "ROLE", "OTHERROLE"])
        let primary = try RedisServer()
        let sentinels = try [strangeServer, primary]
            .map { try RedisServer(sentinel: ["sentinel monitor mymaster 127.0.0.1 \($0.port) 2"]) }
        func makeCaller(_ sentinels: [RedisServer]) throws -> TopologyCaller {
            let url = try RedisURL("redis://" + sentinels.map(\.location).joined(separator: ","))
            return try TopologyCaller(RedisConfiguration(url: RedisURL("redis://mymaster"), topology: .sentinel(url)))
        }
        let caller = try makeCaller(sentinels)
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events == [.ready], "\(caller.lossReasons)")
        #expect(caller.callAndAwaitReplies() && primary.command("DBSIZE") == ["1"])

        let callerWithoutPrimary = try makeCaller([sentinels[0]])
        #expect(callerWithoutPrimary.runLoop { !callerWithoutPrimary.events.isEmpty })
        #expect(callerWithoutPrimary.events.first == .lost(.unknown))
        #expect(callerWithoutPrimary.lossReasons.first?.contains("ROLE") == true, "\(callerWithoutPrimary.lossReasons)")
    }
}
