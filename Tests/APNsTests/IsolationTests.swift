import Glibc
import Reactor
import Testbed
import Testing

@testable import APNs

/// Several apps on one loop, as in a lane: the faults of one do not affect the others. (R22)
@Suite(.ownThread) struct IsolationTests {
    enum Trouble: CaseIterable, Sendable {
        /// No server listens at the port.
        case refusedConnection
        /// TCP connects, but the TLS handshake never ends.
        case silentHandshake
        /// TLS connects, but SETTINGS never come.
        case noSettings
        /// The first push gets a response. All later pushes arrive, but never get one.
        case noResponses
        /// The server closes the connection at each push.
        case endsAtEachPush
        /// Every push gets a 403, because the key is wrong.
        case refusedKey
        /// Every push gets a 503.
        case unavailable
        /// Every device token is refused, as in the wrong environment.
        case wrongEnvironment
    }

    @Test(arguments: Trouble.allCases)
    func `One app's trouble does not affect the others`(_ trouble: Trouble) throws {
        let fixture = try PoolFixture(bodyBytes: 40) {
            $0.connectionBudget = ConnectionBudget(connectionsMax: 2)
            $0.requestTimeoutMilliseconds = 60_000
        }
        let troubledApp = try TroubledApp(trouble, beside: fixture)
        defer { troubledApp.end() }
        fixture.warmUp()
        let warmUpPushCount = fixture.recorder.responseCount
        troubledApp.begin()
        fixture.runLoop(until: { troubledApp.hasShownTrouble })

        let totalCount: UInt64 = 4_000
        var nextTag: UInt64 = 0
        var slowestMilliseconds: Int64 = 0
        let fill: () -> Void = { [unowned fixture] in
            while nextTag < totalCount, fixture.pool.inFlightPushCount < 200, fixture.submit(nextTag) { nextTag += 1 }
        }
        fixture.recorder.onResponse = {
            slowestMilliseconds = max(
                slowestMilliseconds,
                $0.responseAtWallMilliseconds - ($0.sentAtWallMilliseconds ?? 0)
            )
            troubledApp.push()
            fill()
        }
        fill()
        fixture.runLoop(until: { fixture.recorder.responseCount - warmUpPushCount == Int(totalCount) })
        fixture.recorder.onResponse = nil

        #expect((0..<totalCount).allSatisfy { fixture.recorder.responsesByTag[$0]?.map(\.status) == [200] })
        // Pushes of the troubled app time out after a minute. If a push of the healthy app waited for such a push, it
        // would take longer than 20 s.
        #expect(slowestMilliseconds < 20_000)
        #expect(fixture.recorder.closeCauses.isEmpty && fixture.recorder.retirementCauses.isEmpty)
        #expect(fixture.pool.breakerCause == nil)
        #expect(fixture.server.acceptedConnectionCount == 1)
        let acceptedCount = troubledApp.recorder.responsesByTag.values.joined().count { $0.status == 200 }
        #expect(acceptedCount == (trouble == .noResponses ? 1 : 0))
        #expect(troubledApp.pool.breakerCause == troubledApp.expectedBreakerCause)
    }

    /// Four pools use one server: two apps of two teams, each app with two environments. Each pool has connections of
    /// its own, and no connection carries the provider tokens of two teams.
    @Test func `Pools never share a connection`() throws {
        let fixture = try PoolFixture(bodyBytes: 40)
        var keysByConnection: [ObjectIdentifier: Set<String>] = [:]
        var topicsByConnection: [ObjectIdentifier: Set<String>] = [:]
        fixture.server.respond = { request in
            let connection = ObjectIdentifier(request.connection)
            keysByConnection[connection, default: []].insert(request.value("authorization") ?? "")
            topicsByConnection[connection, default: []].insert(request.value("apns-topic") ?? "")
            return .accepted
        }
        let key = try SigningKey(path: TestCredentials.files.get().signingKeyFile)
        var pools: [Pool] = []
        var recorders: [PushRecorder] = []
        for (team, bundle) in [("TEAM000001", "com.example.a"), ("TEAM000002", "com.example.b")] {
            let tokens = try ProviderTokenSource(key: key, keyId: "ABC123DEFG", teamId: team)
            // A pool for each environment of the app, with the same provider token.
            for _ in 0..<2 {
                var configuration = try PoolFixture.configuration(port: fixture.server.port)
                configuration.appHeaders = try AppPushHeaders(liveActivitiesOf: bundle)
                recorders.append(PushRecorder())
                let recorder = recorders[recorders.count - 1]
                let pool = Pool(
                    loop: fixture.loop,
                    configuration: configuration,
                    tokenSource: tokens,
                    handler: recorder
                )
                pool.start()
                pools.append(pool)
            }
        }
        defer { for pool in pools { pool.close() } }
        for (pool, recorder) in zip(pools, recorders) {
            for tag in 0..<50 { fixture.runLoop(until: { fixture.submit(UInt64(tag), to: pool) }) }
            fixture.runLoop(until: { recorder.responseCount == 50 })
            #expect(recorder.singleResponseCount == 50)
        }
        #expect(keysByConnection.count == 4)
        #expect(
            keysByConnection.values.allSatisfy { $0.count == 1 }
                && topicsByConnection.values.allSatisfy { $0.count == 1 }
        )
        let topics = ["com.example.a", "com.example.b"].map { $0 + ".push-type.liveactivity" }
        #expect(Set(topicsByConnection.values.joined()) == Set(topics))
        #expect(Set(keysByConnection.values.joined()).count == 2)
    }
}

extension PoolFixture {
    /// Submits a push without a body to another pool on the fixture's loop.
    func submit(_ tag: UInt64, to pool: Pool) -> Bool {
        deviceToken(tag)
            .withUnsafeBytes { token in
                pool.submit(
                    PushRequest(
                        tag: tag,
                        address: token,
                        priority: 10,
                        expirationSeconds: 0,
                        identifier: (7, tag),
                        body: UnsafeRawBufferPointer(start: nil, count: 0)
                    )
                )
            }
    }
}

/// Another app on the fixture's loop. Its server fails, or refuses its pushes.
private final class TroubledApp {
    let trouble: IsolationTests.Trouble
    let recorder = PushRecorder()
    let pool: Pool
    private unowned let fixture: PoolFixture
    private let server: PushServer
    private let silentAcceptor = SilentAcceptor()
    private var silentListener: Listener?
    private var nextTag: UInt64 = 0

    init(_ trouble: IsolationTests.Trouble, beside fixture: PoolFixture) throws {
        self.trouble = trouble
        self.fixture = fixture
        server = try PushServer(loop: fixture.loop, tls: fixture.server.tls)
        var configuration = try PoolFixture.configuration(port: server.port)
        configuration.connectionBudget = fixture.pool.configuration.connectionBudget
        configuration.requestTimeoutMilliseconds = 60_000
        configuration.settingsTimeoutMilliseconds = 100
        configuration.connectTimeoutMilliseconds = 100
        configuration.breaker.probeDelayMilliseconds = 60_000
        // The app wants more connections than the budget of the process allows. Its first connection is always
        // allowed.
        configuration.connectionsMax = 4
        configuration.connectionsMin = 4
        if trouble == .silentHandshake {
            let listener = try Listener(loop: fixture.loop, address: .loopback(port: 0), handler: silentAcceptor)
            silentListener = listener
            configuration.port = listener.port
        }
        // The test does not use the port of a listener that it has just closed, because a server of another test could
        // get that port.
        if trouble == .refusedConnection { configuration.port = try Listener.findUnusedLoopbackPort() }
        pool = try Pool(
            loop: fixture.loop,
            configuration: configuration,
            tokenSource: TestCredentials.makeTokenSource(),
            handler: recorder
        )
        switch trouble {
        case .refusedConnection, .silentHandshake: break
        case .noSettings: server.sendsSettings = false
        case .noResponses: server.respond = { $0.ordinal == 0 ? .accepted : nil }
        case .endsAtEachPush:
            server.respond = {
                $0.connection.closeWithoutCloseNotify()
                return nil
            }
        case .refusedKey: server.respond = { _ in .status(403, reason: "InvalidProviderToken") }
        case .unavailable: server.respond = { _ in .status(503, reason: "ServiceUnavailable") }
        case .wrongEnvironment: server.respond = { _ in .status(400, reason: "BadDeviceToken") }
        }
    }

    func begin() {
        recorder.onRoom = { [weak self] _ in self?.push() }
        pool.start()
        push()
    }

    /// Submits as many pushes as the pool accepts.
    func push() {
        while fixture.submit(nextTag, to: pool) { nextTag += 1 }
    }

    /// Whether the app's fault has shown an effect.
    var hasShownTrouble: Bool {
        switch trouble {
        case .refusedConnection, .silentHandshake, .noSettings, .endsAtEachPush: recorder.closeCauses.count >= 2
        case .noResponses: pool.inFlightPushCount >= 1_000
        case .refusedKey, .unavailable, .wrongEnvironment: pool.breakerCause != nil
        }
    }

    var expectedBreakerCause: BreakerCause? {
        switch trouble {
        case .refusedKey: .providerToken
        case .unavailable: .unavailability
        case .wrongEnvironment: .deviceTokens
        case .refusedConnection, .silentHandshake, .noSettings, .noResponses, .endsAtEachPush: nil
        }
    }

    func end() {
        recorder.onRoom = nil
        pool.close()
        silentListener?.close()
        server.stop()
    }
}

/// Accepts connections and does nothing with them.
private final class SilentAcceptor: ListenerHandler {
    private var descriptors: [Int32] = []

    deinit { for descriptor in descriptors { close(descriptor) } }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) { descriptors.append(descriptor) }
}
