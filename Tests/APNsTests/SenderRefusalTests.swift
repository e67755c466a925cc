import Testbed
import Testing

@testable import APNs

/// APNs, or a proxy in its place, refuses something that every push of a pool has: the topic, the path, a header. (R18)
@Suite(.ownThread) struct SenderRefusalTests {
    /// Refusals with a reason of APNs.
    static let reasons = [APNs.Reason.topicDisallowed, .badTopic, .missingTopic, .badPath, .duplicateHeaders]
    /// Statuses of proxies.
    static let proxyStatuses = [302, 400, 401, 404, 407]

    /// The push waits, because it is no fault of its own. After five refusals, the pool sends only probes.
    @Test(
        arguments: reasons.map { ServedResponse.status(Int($0.documentedStatus), reason: "\($0)") }
            + proxyStatuses.map {
                ServedResponse(fields: [(":status", String($0))], body: Array("<html>Proxy</html>".utf8))
            }
    )
    func `A refusal that every push would get opens the breaker`(_ refusal: ServedResponse) throws {
        let fixture = try PoolFixture { $0.breaker.probeDelayMilliseconds = 60_000 }
        fixture.server.respond = { _ in refusal }
        fixture.pool.start()
        for tag in UInt64(0)..<5 {
            #expect(fixture.pool.breakerCause == nil)
            fixture.runLoop(until: { fixture.submit(tag) })
            fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
            #expect(try fixture.recorder.onlyResponse(to: tag).disposition == .providerRefused)
        }
        #expect(fixture.pool.breakerCause == .providerToken)
        #expect(!fixture.submit(5))
        #expect(fixture.authenticatedConnectionCount == 0)
    }

    /// Submits five broadcasts, one after the other. A proxy refuses each, and permits only pushes to devices.
    private func submitRefusedBroadcasts(status: Int, to fixture: PoolFixture) throws {
        fixture.server.respond = { request in
            guard request.value(":path")?.hasPrefix("/4/broadcasts/") == true else { return .accepted }
            return ServedResponse(fields: [(":status", String(status))], body: Array("<html>Proxy</html>".utf8))
        }
        fixture.pool.start()
        for tag in UInt64(0)..<5 {
            #expect(fixture.pool.breakerCause == nil)
            fixture.runLoop(until: { fixture.submit(tag, toChannel: "dHN0LXNyY2gtY2hubA==") })
            fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
            #expect(try fixture.recorder.onlyResponse(to: tag).disposition == .providerRefused)
        }
    }

    @Test(arguments: [403, 404]) func `Refused broadcasts do not stop the pushes to devices`(status: Int) throws {
        let fixture = try PoolFixture { $0.breaker.probeDelayMilliseconds = 60_000 }
        try submitRefusedBroadcasts(status: status, to: fixture)
        try #require(fixture.pool.breakerCause == nil)
        fixture.runLoop(until: { fixture.submit(5) })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(try fixture.recorder.onlyResponse(to: 5).disposition == .accepted)
    }

    /// The pool has the host for broadcasts, so no other push waits for the breaker.
    @Test func `Refused broadcasts open the breaker of a pool that sends only broadcasts`() throws {
        let fixture = try PoolFixture {
            $0.sendsDevicePushes = false
            $0.breaker.probeDelayMilliseconds = 60_000
        }
        try submitRefusedBroadcasts(status: 404, to: fixture)
        #expect(fixture.pool.breakerCause == .providerToken)
    }

    /// A refused key or topic concerns all pushes of the pool, so broadcasts show it too.
    @Test(arguments: [(403, "InvalidProviderToken"), (400, "BadTopic")])
    func `Broadcasts with a refused key or topic open the breaker`(status: Int, reason: String) throws {
        let fixture = try PoolFixture {
            $0.breaker.providerTokenRefusalsMax = 1
            $0.breaker.probeDelayMilliseconds = 60_000
        }
        fixture.server.respond = { _ in .status(status, reason: reason) }
        fixture.pool.start()
        fixture.runLoop(until: { fixture.submit(0, toChannel: "dHN0LXNyY2gtY2hubA==") })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.pool.breakerCause == .providerToken)
    }

    /// APNs ties a connection to the bundle ids that the key may use when it is opened. So after a correction at Apple
    /// only a new connection can send. A connection that was just opened stays: each probe would need another one.
    @Test func `A connection whose topic is refused is replaced, but not at once`() throws {
        let fixture = try PoolFixture {
            $0.breaker.providerTokenRefusalsMax = 1
            $0.breaker.probeDelayMilliseconds = 1
        }
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = {
            $0.connection === firstConnection ? .status(400, reason: "TopicDisallowed") : .accepted
        }
        #expect(fixture.submit(1))
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.pool.breakerCause == .providerToken && fixture.recorder.retirementCauses.isEmpty)
        let connection = try #require(fixture.pool.connections.first)
        connection.tokenUsedSinceSeconds -= Pool.refusedTopicSecondsMin
        fixture.runLoop(until: { fixture.submit(2) })
        fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil })
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        let tokenFailures: [String] = fixture.recorder.events.compactMap {
            if case .providerTokenFailed(let reason, let detail) = $0 { "\(reason): \(detail)" } else { nil }
        }
        #expect(tokenFailures.count == 1 && tokenFailures[0].contains("TopicDisallowed: the key may not send"))
        fixture.runLoop(until: { fixture.submit(3) })
        fixture.runLoop(until: { fixture.recorder.responsesByTag[3] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 3).disposition == .accepted)
        #expect(fixture.pool.breakerCause == nil)
    }
}
