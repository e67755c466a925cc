import ActivityStore
import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// Connects to a single server in several ways, and tests several failures of the server.
@Suite(.serialized, .ownThread) struct ServerTests {
    private func makeCaller(
        _ url: String,
        tls: TLSContext? = nil,
        topology: RedisTopology = .single,
        deadlineMilliseconds: Int64 = 20_000
    ) throws -> TopologyCaller {
        var configuration = RedisConfiguration(url: try RedisURL(url), topology: topology, tls: tls)
        configuration.replyDeadlineMilliseconds = deadlineMilliseconds
        return try TopologyCaller(configuration)
    }

    // MARK: - Connecting

    @Test func `The client connects over a Unix socket`() throws {
        let server = try RedisServer()
        let caller = try makeCaller("unix://\(server.socketPath)")
        #expect(caller.callAndAwaitReplies() && caller.events == [.ready])
    }

    /// A server whose TLS port has a certificate for `localhost` and 127.0.0.1, and requires a client certificate.
    private struct SecureServer {
        let server: RedisServer
        let port: UInt16
        let caFile: String
        let client: (certificateFile: String, keyFile: String)

        init(_ arguments: [String] = []) throws {
            let directory = try TemporaryDirectory()
            let files = try GeneratedCertificate.write(directory: directory.path, hosts: ["localhost", "127.0.0.1"])
            client = try ClientCertificate.write(directory: directory.path)
            caFile = files.caFile
            port = try Listener.findUnusedLoopbackPort()
            server = try RedisServer(
                [
                    "--tls-port", String(port), "--tls-cert-file", files.certificateFile, "--tls-key-file",
                    files.keyFile, "--tls-ca-cert-file", client.certificateFile, "--tls-auth-clients", "yes",
                ] + arguments,
                directory: directory
            )
        }

        func context(showsCertificate: Bool) throws -> TLSContext {
            try TLSContext.client(
                caFile: caFile,
                applicationProtocols: [],
                certificateFile: showsCertificate ? client.certificateFile : nil,
                keyFile: showsCertificate ? client.keyFile : nil
            )
        }
    }

    @Test func `TLS connects only with the client's certificate, and to the host of the server's certificate`() throws {
        let secure = try SecureServer()
        let trustedContext = try secure.context(showsCertificate: true)
        for host in ["localhost", "127.0.0.1"] {
            let caller = try makeCaller("rediss://\(host):\(secure.port)", tls: trustedContext)
            #expect(caller.callAndAwaitReplies() && caller.events == [.ready], "\(host)")
        }
        let callerWithoutCertificate = try makeCaller(
            "rediss://localhost:\(secure.port)",
            tls: secure.context(showsCertificate: false)
        )
        #expect(callerWithoutCertificate.runLoop { callerWithoutCertificate.events.count > 1 })
        #expect(callerWithoutCertificate.events.allSatisfy { $0 == .lost(.stream) })
        // 127.0.0.2 also belongs to this machine, but is not in the certificate. So the client refuses the
        // server.
        secure.server.command("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2")
        let callerOfOtherHost = try makeCaller("rediss://127.0.0.2:\(secure.port)", tls: trustedContext)
        #expect(callerOfOtherHost.runLoop { callerOfOtherHost.events.count > 1 })
        #expect(callerOfOtherHost.events.allSatisfy { $0 == .lost(.stream) })
        #expect(
            callerOfOtherHost.lossReasons.allSatisfy { $0.contains("certificate") || $0.contains("mismatch") },
            "\(callerOfOtherHost.lossReasons)"
        )
    }

    @Test func `A cluster over TLS, for a user with only the required rights`() throws {
        let secure = try SecureServer([
            "--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port",
            String(try Listener.findUnusedLoopbackPort()),
            "--user", "causeway", "on", ">s@cret", "~{app*", "+evalsha", "+script|load", "+mget", "+get", "+set",
            "+setrange", "+hmget", "+hget", "+hgetall", "+hset", "+pexpire", "+time", "+cluster|slots", "+asking",
            "+config|get", "+info",
        ])
        secure.server.command("CLUSTER", "ADDSLOTSRANGE", "0", String(KeyHashSlot.hashSlotCount - 1))
        try waitUntil([secure.server], show: "a complete cluster") {
            $0.command("CLUSTER", "INFO").first?.contains("cluster_state:ok") == true
        }
        let caller = try makeCaller(
            "rediss://causeway:s%40cret@localhost:\(secure.port)",
            tls: secure.context(showsCertificate: true),
            topology: .cluster
        )
        caller.enqueue(0..<100, claim: 1)
        #expect(caller.awaitAllReplies())
        #expect(caller.verdicts.count == 100 && caller.refusedFailureCounts.isEmpty)
        let callerWithWrongPassword = try self.makeCaller(
            "rediss://causeway:hunter2@localhost:\(secure.port)",
            tls: secure.context(showsCertificate: true),
            topology: .cluster
        )
        #expect(
            callerWithWrongPassword.runLoop {
                callerWithWrongPassword.events == [.lost(.wrongPassword), .lost(.wrongPassword)]
            }
        )
        #expect(callerWithWrongPassword.lossReasons.allSatisfy { !$0.contains("hunter2") && !$0.contains("s@cret") })
    }

    @Test func `The server is no cluster, although the configuration says so`() throws {
        let server = try RedisServer()
        let caller = try makeCaller("redis://\(server.location)", topology: .cluster)
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events.first == .lost(.unknown))
        #expect(caller.lossReasons.first?.contains("cluster support disabled") == true)
        #expect(!caller.client.isReady)
    }

    /// In a cluster, a command with keys of several slots fails. Such commands occur only under load, so the client
    /// refuses the server as soon as it connects.
    @Test func `The server belongs to a cluster, although the configuration says a single server`() throws {
        let server = try RedisServer([
            "--cluster-enabled", "yes", "--cluster-port", "\(Listener.findUnusedLoopbackPort())",
        ])
        let caller = try makeCaller("redis://\(server.location)", topology: .single)
        #expect(caller.runLoop { !caller.events.isEmpty })
        #expect(caller.events.first == .lost(.clusterEnabled))
        #expect(caller.lossReasons.first?.contains("redis.mode") == true)
        #expect(!caller.client.isReady)
    }

    // MARK: - Failures of the server

    @Test func `A server that loses all data and scripts under load is used again`() throws {
        let server = try RedisServer()
        let caller = try makeCaller("redis://\(server.location)")
        caller.enqueue(0..<1_000, claim: 1)
        #expect(caller.awaitAllReplies())
        caller.reset()
        caller.enqueue(0..<1_000, claim: 2)
        #expect(caller.runLoop { caller.replyCount > 0 })
        server.command("FLUSHALL")
        server.command("SCRIPT", "FLUSH")
        caller.enqueue(0..<1_000, claim: 2)
        #expect(caller.awaitAllReplies())
        // All calls get their replies. Only the missing scripts may have delayed some of them.
        #expect(caller.verdicts.values.contains(.send))
        #expect(caller.repeatedFailureCounts.keys.allSatisfy { $0 == .noScript } && caller.refusedFailureCounts.isEmpty)
        #expect(caller.client.isReady)
    }

    @Test func `The server goes down and comes back repeatedly`() throws {
        let server = try RedisServer()
        let caller = try makeCaller("redis://\(server.location)")
        for round in 1...3 as ClosedRange<UInt64> {
            caller.enqueue(0..<1_000, claim: round)
            caller.step(waitMilliseconds: 0)
            server.kill()
            #expect(caller.runLoop { !caller.client.isReady })
            try server.start()
            #expect(caller.awaitAllReplies())
            #expect(caller.verdicts.count == 1_000)
            caller.reset()
        }
    }

    @Test func `A server that hangs is left, and used again when it continues`() throws {
        let server = try RedisServer()
        let caller = try makeCaller("redis://\(server.location)", deadlineMilliseconds: 1_000)
        #expect(caller.callAndAwaitReplies())
        caller.reset()
        server.suspend()
        caller.enqueue(0..<1_000, claim: 1)
        // The frozen server still accepts connections, but replies to nothing on them.
        #expect(caller.runLoop { caller.events == [.lost(.deadline), .lost(.deadline)] })
        #expect(caller.repeatedFailureCounts == [.deadline: 1_000])
        server.resume()
        #expect(caller.awaitAllReplies())
        #expect(caller.verdicts.count == 1_000 && caller.refusedFailureCounts.isEmpty)
    }
}
