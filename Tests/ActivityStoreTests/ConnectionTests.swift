import Glibc
import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The store's connection to real Redis servers: addresses, users and TLS; then restarts, lost scripts, late replies,
/// full memory, and a change of role.
@Suite(.serialized, .ownThread) struct ConnectionTests {
    private let key = TestKey.activity("one")

    private func makeUpdate(_ timestamp: UInt64, digest: UInt64 = 1) -> Operation {
        .command(
            event: .update,
            version: Version.at(timestamp, 0),
            digest: digest,
            spacingMilliseconds: 0,
            registration: nil
        )
    }

    /// Whether a call gets its reply.
    private func getsReply(_ caller: StoreCaller, tag: UInt64 = 1_000_000) -> Bool {
        caller.store.issue(makeUpdate(1), key: .activity("probe"), tag: tag) == .issued
            && caller.runLoop {
                caller.events.contains { if case .replied(tag, _) = $0 { true } else { false } }
            }
    }

    // MARK: - Reaching a server

    @Test func `Unix sockets, and TCP addresses by number and by name, work`() throws {
        let server = try RedisServer()
        for url in [server.unixURL, "redis://127.0.0.1:\(server.port)", "redis://localhost:\(server.port)/"] {
            let caller = try StoreCaller(url)
            #expect(caller.runLoopUntilReady(), "\(url)")
            #expect(caller.events == [.ready])
            #expect(getsReply(caller))
            caller.store.close()
        }
    }

    @Test func `A user with a password and only the required rights is enough`() throws {
        let server = try RedisServer([
            "--user", "default", "off", "--user", "causeway", "on", ">s@cret", "~{app*", "+evalsha", "+script|load",
            "+mget", "+get", "+set", "+setrange", "+hmget", "+hget", "+hgetall", "+hset", "+pexpire", "+time",
        ])
        let caller = try StoreCaller("unix://causeway:s%40cret@\(server.socketPath)")
        #expect(caller.runLoopUntilReady())
        // The Redis user may use neither CONFIG nor INFO. The connection needs neither right. It warns that it does not
        // know the eviction policy and the version, and becomes ready.
        #expect(
            caller.events == [
                .warning(.evictionPolicyUnknown(RedisError(.noPermission))),
                .warning(.versionUnknown(RedisError(.noPermission))),
                .ready,
            ]
        )
        #expect(try !caller.connection().serverSupportsScriptFlags)
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test func `The default user's password is accepted`() throws {
        let server = try RedisServer(["--requirepass", "pa:ss"])
        let caller = try StoreCaller("redis://:pa:ss@127.0.0.1:\(server.port)")
        #expect(caller.runLoopUntilReady())
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test(arguments: ["wrong:hunter2@", ":hunter2@", ""])
    func `Wrong or missing credentials are reported without being repeated, until they are right`(credentials: String)
        throws
    {
        let server = try RedisServer(["--requirepass", "right"])
        let caller = try StoreCaller("redis://\(credentials)127.0.0.1:\(server.port)")
        let code: RedisError.Code = credentials.isEmpty ? .noAuthentication : .wrongPassword
        #expect(caller.runLoop { caller.events == [.lost(code), .lost(code)] })
        #expect(caller.errorTexts.allSatisfy { !$0.contains("hunter2") && !$0.contains("wrong:") })
        if credentials == ":hunter2@" {
            server.password = "right"
            server.command("CONFIG", "SET", "requirepass", "hunter2")
            #expect(caller.runLoopUntilReady())
        }
        caller.store.close()
    }

    @Test func `TLS works, and an untrusted server is refused`() throws {
        let directory = try TemporaryDirectory()
        let files = try GeneratedCertificate.write(directory: directory.path, hosts: ["localhost"])
        let server = try RedisServer(
            certificateFiles: .init(
                authority: files.caFile,
                certificate: files.certificateFile,
                key: files.keyFile
            )
        )
        let trustingContext = try TLSContext.client(caFile: files.caFile, applicationProtocols: [])
        let caller = try StoreCaller(
            RedisConfiguration(url: RedisURL("rediss://localhost:\(server.tlsPort)"), tls: trustingContext)
        )
        #expect(caller.runLoopUntilReady())
        #expect(getsReply(caller))
        caller.store.close()

        let strictContext = try TLSContext.client(caFile: nil, applicationProtocols: [])
        for (host, tls) in [("127.0.0.1", trustingContext), ("localhost", strictContext)] {
            let refusedCaller = try StoreCaller(
                RedisConfiguration(url: RedisURL("rediss://\(host):\(server.tlsPort)"), tls: tls)
            )
            #expect(refusedCaller.runLoop { refusedCaller.events.first == .lost(.stream) })
            #expect(!refusedCaller.store.isReady)
            refusedCaller.store.close()
        }
    }

    @Test func `A caller uses the configured database`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller("\(server.unixURL)?db=3")
        #expect(caller.runLoopUntilReady())
        #expect(getsReply(caller))
        #expect(server.command("DBSIZE") == ["0"])
        #expect(server.command("INFO", "keyspace").contains { $0.contains("db3:keys=1") })
        caller.store.close()
        let wrongCaller = try StoreCaller("\(server.unixURL)?db=99")
        #expect(wrongCaller.runLoop { wrongCaller.events.first == .lost(.unknown) })
        #expect(wrongCaller.errorTexts.first == "Redis replied: ERR DB index is out of range")
        wrongCaller.store.close()
    }

    @Test func `An eviction policy causes a warning`() throws {
        let server = try RedisServer(["--maxmemory-policy", "volatile-ttl"])
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        #expect(caller.events == [.warning(.mayEvictKeys(policy: "volatile-ttl")), .ready])
        caller.store.close()
    }

    @Test func `The lane waits for a server that does not run yet`() throws {
        let server = try RedisServer()
        server.kill()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoop { caller.events.count >= 3 })
        #expect(caller.events.allSatisfy { $0 == .lost(.stream) })
        try server.start()
        #expect(caller.runLoopUntilReady())
        caller.store.close()
    }

    // MARK: - Losing a server

    @Test func `If the server is killed and restarted, each call ends once, in order`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        for round in 0..<5 {
            caller.events = []
            let tags = UInt64(round) * 10_000..<UInt64(round) * 10_000 + 3_000
            for tag in tags {
                let call = Operation.settlement(
                    version: .at(tag),
                    outcome: .accepted,
                    digest: 1
                )
                if tag % 3 == 0 {
                    #expect(caller.store.issue(call, key: key, tag: tag) == .issued)
                } else {
                    #expect(caller.store.issue(makeUpdate(tag), key: key, tag: tag) == .issued)
                }
                // When the server dies, some calls have a reply, some are sent, and some are not sent yet.
                if tag == tags.lowerBound + 1_000 { caller.loop.runIteration(waitMilliseconds: 0) }
                if tag == tags.lowerBound + 2_000 {
                    #expect(caller.runLoop { !caller.events.isEmpty })
                    server.kill()
                }
            }
            #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
            #expect(endedTags(caller.events) == Array(tags))
            #expect(caller.events.contains { if case .failed(_, _, .stream) = $0 { true } else { false } })
            try server.start()
            #expect(caller.runLoopUntilReady())
        }
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test func `Scripts flushed under load are loaded again`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        for tag in 0..<2_000 as Range<UInt64> {
            #expect(caller.store.issue(makeUpdate(tag), key: key, tag: tag) == .issued)
            if tag == 1_000 {
                #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
                server.command("SCRIPT", "FLUSH")
            }
        }
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(endedTags(caller.events) == Array(0..<2_000))
        let callCountWithoutScript = caller.events.count {
            if case .failed(_, .admit, .noScript) = $0 { true } else { false }
        }
        // The calls 1,001 to 1,999 were issued after the scripts had been flushed.
        #expect(callCountWithoutScript == 999)
        #expect(caller.store.isReady && getsReply(caller))
        // If the server loses the scripts a second time on one connection, the call fails, and the connection is
        // closed and opened again.
        server.command("SCRIPT", "FLUSH")
        caller.events = []
        #expect(caller.store.issue(makeUpdate(1), key: key, tag: 1) == .issued)
        #expect(caller.runLoop { caller.events == [.failed(1, .admit, .noScript), .lost(.noScript), .ready] })
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test func `A server that has lost its data admits again`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        #expect(caller.store.issue(makeUpdate(5), key: key, tag: 1) == .issued)
        #expect(caller.store.issue(makeUpdate(4), key: key, tag: 2) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        server.command("FLUSHALL")
        #expect(caller.store.issue(makeUpdate(4), key: key, tag: 3) == .issued)
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        #expect(
            caller.events == [
                .admitted(1, OwnedReply(.noToken)), .admitted(2, OwnedReply(.superseded)),
                .admitted(3, OwnedReply(.noToken)),
            ]
        )
        caller.store.close()
    }

    @Test func `A caller whose connection Redis has closed connects again`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        #expect(caller.runLoop { caller.events == [.lost(.stream), .ready] })
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test func `A server that does not reply before the deadline is left, and found again`() throws {
        let server = try RedisServer()
        var configuration = RedisConfiguration(url: try RedisURL(server.unixURL))
        configuration.replyDeadlineMilliseconds = 1_000
        let caller = try StoreCaller(configuration)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        server.command("CLIENT", "PAUSE", "4000")
        #expect(caller.store.issue(makeUpdate(1), key: key, tag: 1) == .issued)
        #expect(caller.store.issue(makeUpdate(2), key: key, tag: 2) == .issued)
        #expect(caller.runLoop { caller.store.isReady && caller.events.last == .ready })
        #expect(
            caller.events.prefix(3) == [.lost(.deadline), .failed(1, .admit, .deadline), .failed(2, .admit, .deadline)]
        )
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test func `Out of memory, a call is refused as a whole`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        let information = server.command("INFO", "server").joined()
        let isOlderThan7 = information.contains("redis_version:6.")
        #expect(try caller.connection().serverSupportsScriptFlags != isOlderThan7)
        let registration = OwnedToken(token: Array("00ff".utf8), environment: .sandbox, registeredAtMilliseconds: 5)
        #expect(
            caller.store.issue(
                .register(attributesType: nil, registration: registration, shownVersion: nil),
                key: key,
                tag: 1
            )
                == .issued
        )
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        let hashBefore = server.hash(key.text)
        server.command("CONFIG", "SET", "maxmemory", "1")
        caller.events = []
        #expect(caller.store.issue(makeUpdate(5), key: key, tag: 2) == .issued)
        #expect(caller.runLoop { caller.events == [.failed(2, .admit, .outOfMemory)] })
        #expect(server.hash(key.text) == hashBefore)
        server.command("CONFIG", "SET", "maxmemory", "0")
        #expect(getsReply(caller))
        caller.store.close()
    }

    @Test func `A server that has become a replica is left`() throws {
        let server = try RedisServer()
        let caller = try StoreCaller(server.unixURL)
        #expect(caller.runLoopUntilReady())
        caller.events = []
        server.command("REPLICAOF", "127.0.0.1", "1")
        #expect(caller.store.issue(makeUpdate(5), key: key, tag: 1) == .issued)
        #expect(caller.runLoop { caller.events.count >= 2 })
        let errorText = try #require(caller.errorTexts.first)
        #expect([RedisError.Code.readOnly.explanation, RedisError.Code.masterDown.explanation].contains(errorText))
        #expect(
            caller.events.first == .failed(1, .admit, .readOnly)
                || caller.events.first == .failed(1, .admit, .masterDown)
        )
        server.command("REPLICAOF", "NO", "ONE")
        #expect(caller.runLoop { caller.store.isReady && getsReply(caller) })
        caller.store.close()
    }

    @Test func `The pause before a reconnection grows to its limit, and a reset makes it short again`() {
        var reconnectPause = RetryPause()
        var longestPause: Int64 = 0
        for _ in 0..<2_000 { longestPause = max(longestPause, reconnectPause.nextPauseMilliseconds()) }
        let pauseMillisecondsMax = RetryPause.pauseMillisecondsMax
        #expect(longestPause <= pauseMillisecondsMax && longestPause > pauseMillisecondsMax / 2)
        reconnectPause.reset()
        #expect(reconnectPause.nextPauseMilliseconds() <= RetryPause.firstPauseMillisecondsMax)
    }

    /// Returns the tags of all calls that have ended, in their order.
    private func endedTags(_ events: [StoreCaller.Event]) -> [UInt64] {
        events.compactMap { event in
            switch event {
            case .replied(let tag, _), .failed(let tag, _, _): tag
            case .ready, .lost, .warning, .replicas: nil
            }
        }
    }
}
