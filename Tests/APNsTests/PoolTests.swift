import Glibc
import Reactor
import Testbed
import Testing

@testable import APNs

@Suite(.ownThread) struct PoolTests {
    @Test func `The response to an accepted push has the push's tag`() throws {
        let fixture = try PoolFixture()
        var request: ServedRequest?
        fixture.server.respond = {
            request = $0
            return .accepted
        }
        fixture.pool.start()
        #expect(!fixture.submit(7))
        fixture.runLoop(until: { fixture.submit(7) })
        fixture.runLoop(until: { fixture.recorder.responseCount == 1 })
        let response = try fixture.recorder.onlyResponse(to: 7)
        #expect(response.completion == .responded)
        #expect(response.status == 200)
        #expect(response.reason == .absent)
        #expect(response.disposition == .accepted)
        #expect(response.wasSent)
        #expect(response.connection == 1)
        #expect(request?.body == fixture.bodyContent)
        #expect(fixture.pool.inFlightPushCount == 0)
    }

    @Test func `An unauthenticated connection sends one request and waits for its response`() throws {
        let fixture = try PoolFixture()
        var heldRequest: ServedRequest?
        fixture.server.respond = {
            if $0.ordinal > 0 { return .accepted }
            heldRequest = $0
            return nil
        }
        fixture.pool.start()
        fixture.runLoop(until: { fixture.submit(0) })
        for tag in 1...50 { #expect(!fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { heldRequest != nil })
        for tag in 1...50 { #expect(!fixture.submit(UInt64(tag))) }
        #expect(fixture.server.requestCount == 1)
        #expect(fixture.pool.freeStreamCount == 0)

        var hasReportedRoom = false
        fixture.recorder.onRoom = { _ in hasReportedRoom = true }
        let request = try #require(heldRequest)
        request.connection.respond(.accepted, stream: request.stream)
        fixture.runLoop(until: { hasReportedRoom })
        #expect(fixture.pool.freeStreamCount == 1_000)
        #expect(request.connection.peakOpenStreamCount == 1)
    }

    /// A connection sends one request at a time until a response proves that APNs accepts the provider token. A 403
    /// proves the opposite. A key whose topic is refused cannot be used either. The other responses may come from an
    /// overloaded server, which has not checked the token.
    @Test(
        arguments: [
            (403, "Forbidden", .providerRefused), (400, "TopicDisallowed", .providerRefused),
            (429, "TooManyRequests", .throttled),
            (500, "InternalServerError", .retryLater), (503, "ServiceUnavailable", .retryLater),
        ] as [(Int, String, ResponseDisposition)]
    )
    func `A connection stays unauthenticated until APNs accepts the token`(
        status: Int,
        reason: String,
        expected: ResponseDisposition
    )
        throws
    {
        let fixture = try PoolFixture()
        fixture.server.respond = { $0.ordinal < 3 ? .status(status, reason: reason) : .accepted }
        fixture.pool.start()
        for tag in 0..<4 {
            fixture.runLoop(until: { fixture.submit(UInt64(tag)) })
            #expect(!fixture.submit(99))
            fixture.runLoop(until: { fixture.recorder.responseCount == tag + 1 })
        }
        #expect(fixture.pool.freeStreamCount == 1_000)
        #expect(try fixture.recorder.onlyResponse(to: 2).disposition == expected)
        #expect(fixture.authenticatedConnectionCount == 1)
    }

    /// Without a pause, every worker would reconnect at once and without end to a server that is shutting down. (R21)
    @Test func `A server that ends each connection with a 503 gets fewer and fewer connections`() throws {
        let fixture = try PoolFixture {
            ($0.backoffBaseMilliseconds, $0.backoffJitterMillisecondsMax) = (60_000, 60_000)
        }
        fixture.server.respond = { _ in .status(503, reason: "Shutdown") }
        fixture.pool.start()
        fixture.runLoop(until: { fixture.submit(1) })
        fixture.runLoop(until: { fixture.recorder.closeCauses == [.retired] })
        #expect(fixture.recorder.retirementCauses == [.serverClosing])
        #expect(fixture.pool.openingSchedule.waitMilliseconds(nowMilliseconds: fixture.loop.nowMilliseconds) > 0)
    }

    /// APNs accepts connections but does not respond. After the first timeout, each connection is retired at the
    /// timeout of one probe.
    @Test func `The pause before the next connection does not grow while APNs does not respond`() throws {
        let fixture = try PoolFixture {
            $0.requestTimeoutMilliseconds = 50
            ($0.backoffBaseMilliseconds, $0.backoffJitterMillisecondsMax) = (20, 60_000)
            $0.breaker.failureWindowPushesMin = 1
            $0.breaker.probeDelayMilliseconds = 1
        }
        fixture.server.respond = { _ in nil }
        fixture.pool.start()
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.pool.inFlightPushCount == 0, fixture.submit(tag) { tag += 1 }
            return fixture.recorder.retirementCauses.count == 6
        })
        #expect(fixture.recorder.retirementCauses.allSatisfy { $0 == .unresponsive })
        let (schedule, nowMilliseconds) = (fixture.pool.openingSchedule, fixture.loop.nowMilliseconds)
        let waits = (0..<100).map { _ in schedule.waitMilliseconds(nowMilliseconds: nowMilliseconds) }
        #expect(waits.allSatisfy { (10...30).contains($0) })
    }

    /// The pool prefers a new connection for the next push. A 503 ends this preference for the sizing interval.
    /// Otherwise an overloaded server would get every push of a pool with few pushes, and its responses would open the
    /// breaker.
    @Test func `A new connection whose server responds with 503 loses its priority`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
            $0.openingIntervalMilliseconds = 200
        }
        var healthyConnection: ServerConnection?
        fixture.server.respond = { request in
            healthyConnection = healthyConnection ?? request.connection
            return request.connection === healthyConnection ? .accepted : .status(503, reason: "ServiceUnavailable")
        }
        fixture.warmUp()
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 2 && fixture.pool.inFlightPushCount == 0 })
        for tag in UInt64(0)..<4 {
            #expect(fixture.submit(tag))
            fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        }
        #expect(try (0..<4).map { try fixture.recorder.onlyResponse(to: $0).status } == [503, 200, 200, 200])
        fixture.pool.beginSizingInterval()
        #expect(fixture.submit(4))
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(try fixture.recorder.onlyResponse(to: 4).status == 503, "each interval tries the connection once")
    }

    /// A new connection gets the next push, even if the first connection has free streams. This push tests the new
    /// connection.
    @Test func `A new connection gets the next push`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
            $0.openingIntervalMilliseconds = 200
        }
        fixture.warmUp()
        #expect(fixture.submit(1))
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 2 && fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.submit(2))
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(
            try fixture.recorder.onlyResponse(to: 1).connection == 1
                && fixture.recorder.onlyResponse(to: 2).connection == 2
        )
    }

    @Test func `A hundred thousand pushes get one response each`() throws {
        let fixture = try PoolFixture(bodyBytes: 40)
        fixture.warmUp()
        let totalCount: UInt64 = 100_000
        var nextTag: UInt64 = 0
        var peakInFlightPushCount = 0
        let fill: () -> Void = { [unowned fixture] in
            while nextTag < totalCount, fixture.submit(nextTag) { nextTag += 1 }
            peakInFlightPushCount = max(peakInFlightPushCount, fixture.pool.inFlightPushCount)
        }
        fixture.recorder.onRoom = { _ in fill() }
        fill()
        let responseCountBefore = fixture.recorder.responseCount
        fixture.runLoop(until: { fixture.recorder.responseCount - responseCountBefore == Int(totalCount) })
        #expect(peakInFlightPushCount == 1_000)
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
        #expect(fixture.recorder.count(.responded) == fixture.recorder.responseCount)
        #expect(fixture.pool.inFlightPushCount == 0)
        #expect(fixture.pool.statistics.apnsIdMismatchCount == 0)
    }

    @Test func `Pushes are spread over the connections`() throws {
        let fixture = try PoolFixture(bodyBytes: 40) {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.warmUp(connectionCount: 2)
        fixture.server.respond = { _ in nil }
        for tag in 0..<2_000 { #expect(fixture.submit(UInt64(tag))) }
        #expect(!fixture.submit(2_000))
        let counts = fixture.pool.connections.map(\.inFlightPushCount)
        #expect(counts == [1_000, 1_000])
        fixture.pool.close()
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
        #expect(fixture.recorder.count(.ambiguous) + fixture.recorder.count(.notProcessed) == 2_000)
    }

    @Test func `A retry goes to another connection`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.warmUp(connectionCount: 2)
        for tag in 0..<100 { #expect(fixture.submit(UInt64(tag), avoiding: 1)) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        for tag in 0..<100 { #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).connection == 2) }
    }

    /// If the retry waited for another connection, every push behind the retry would wait too, although the
    /// first connection has free streams.
    @Test func `A retry goes to the same connection if no other has room`() throws {
        let fixture = try PoolFixture(bodyBytes: 40) {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.warmUp(connectionCount: 2)
        fixture.server.respond = { _ in nil }
        for tag in 0..<1_000 { #expect(fixture.submit(UInt64(tag), avoiding: 1)) }
        #expect(fixture.pool.connections.map(\.inFlightPushCount) == [0, 1_000])
        #expect(fixture.submit(1_000, avoiding: 1))
        #expect(fixture.pool.connections.map(\.inFlightPushCount) == [1, 1_000])
        fixture.pool.close()
    }

    /// The token of the first connection is too old, and APNs permits no other token on a connection so soon.
    @Test func `A push goes to another connection if the first one has no usable token`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.warmUp(connectionCount: 2)
        let connection = try #require(fixture.pool.connections.first)
        let seconds = fixture.loop.wallMilliseconds / 1_000
        connection.providerToken = ProviderToken(token: Array("old".utf8), issuedAtSeconds: seconds - 55 * 60)
        connection.tokenUsedSinceSeconds = seconds - 60
        connection.newerTokenCheckAtWallMilliseconds = 0
        // Both connections have the same number of free streams, so the pool now chooses the first one.
        fixture.pool.preferredConnection = nil
        #expect(fixture.submit(1))
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(try fixture.recorder.onlyResponse(to: 1).connection == 2)
    }

    @Test func `A pool that is full of malformed pushes reports room after it has responded to them`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        var roomReportCount = 0
        fixture.recorder.onRoom = { _ in roomReportCount += 1 }
        var tag: UInt64 = 0
        while tag < 1_000, fixture.submit(tag, priority: 1) { tag += 1 }
        #expect(tag == 256 && roomReportCount == 0)
        // All pushes are malformed, so the pool has sent none, and no response of APNs can make it report room. The
        // pool itself must report room at the end of this iteration, after it has responded to these pushes.
        fixture.loop.runIteration(waitMilliseconds: 0)
        #expect(fixture.recorder.count(.malformed) == 256 && roomReportCount == 1)
    }

    /// The open breaker permits no probe as long as a push is in flight. The last push in flight ends together with its
    /// connection, and then the other connection can carry the probe.
    @Test(arguments: [false, true]) func `An open breaker probes after a connection's end`(isGoAway: Bool) throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
            $0.breaker.providerTokenRefusalsMax = 1
            $0.breaker.probeDelayMilliseconds = 1
        }
        fixture.warmUp(connectionCount: 2)
        var heldRequest: ServedRequest?
        fixture.server.respond = {
            guard heldRequest == nil else { return .status(403, reason: "InvalidProviderToken") }
            heldRequest = $0
            return nil
        }
        #expect(fixture.submit(1))
        fixture.runLoop(until: { heldRequest != nil })
        #expect(fixture.submit(2))
        fixture.runLoop(until: { fixture.pool.breakerCause == .providerToken })
        let probeAtMilliseconds = try #require(fixture.pool.breaker.probeAtMilliseconds)
        fixture.runLoop(until: { fixture.loop.nowMilliseconds >= probeAtMilliseconds })
        // The timer of the probe fires in this iteration at the latest.
        fixture.loop.runIteration(waitMilliseconds: 0)
        #expect(!fixture.submit(3))
        var hasReportedRoom = false
        fixture.recorder.onRoom = { _ in hasReportedRoom = true }
        let request = try #require(heldRequest)
        if isGoAway {
            request.connection.respond(.accepted, stream: request.stream)
            request.connection.goAway(lastStream: request.stream, reason: "Shutdown")
        } else {
            request.connection.closeWithoutCloseNotify()
        }
        // The pool must report room in the iteration in which the connection ends, before it has another connection.
        fixture.runLoop(until: { !fixture.recorder.closeCauses.isEmpty })
        #expect(hasReportedRoom && fixture.submit(3))
    }

    @Test func `A malformed push gets its response at the end of the iteration`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let requestCountBefore = fixture.server.requestCount
        #expect(fixture.submit(1, priority: 1))
        #expect(fixture.submit(2, expirationSeconds: -1))
        for (tag, token) in [(3, "abc"), (4, ""), (5, "abcg"), (6, "ABCD"), (7, String(repeating: "a", count: 202))] {
            let bytes = Array(token.utf8)
            let isTaken = bytes.withUnsafeBytes {
                fixture.pool.submit(
                    PushRequest(
                        tag: UInt64(tag),
                        address: $0,
                        priority: 5,
                        expirationSeconds: 0,
                        identifier: (0, 0),
                        body: $0
                    )
                )
            }
            #expect(isTaken)
        }
        #expect(fixture.recorder.responsesByTag[1] == nil)
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        for tag in 1...7 {
            let response = try fixture.recorder.onlyResponse(to: UInt64(tag))
            #expect(response.completion == .malformed)
            #expect(response.disposition == .rejected)
        }
        #expect(fixture.server.requestCount == requestCountBefore)
    }

    @Test func `A drain waits for the pushes in flight`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        var heldRequests: [ServedRequest] = []
        fixture.server.respond = {
            heldRequests.append($0)
            return nil
        }
        for tag in 0..<10 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { heldRequests.count == 10 })
        fixture.pool.drain()
        #expect(!fixture.submit(10))
        #expect(fixture.pool.inFlightPushCount == 10)
        for request in heldRequests { request.connection.respond(.accepted, stream: request.stream) }
        fixture.runLoop(until: { fixture.recorder.events.contains { if case .drained = $0 { true } else { false } } })
        for tag in 0..<10 { #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).status == 200) }
        #expect(fixture.recorder.closeCauses == [.retired])
        fixture.runLoop(until: { fixture.server.openConnections.isEmpty })
        #expect(fixture.server.connections.map(\.goAwayCount) == [1])
    }

    @Test func `Closing the pool inside a response gives the other pushes their responses`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let responseCountBefore = fixture.recorder.responseCount
        for tag in 0..<100 { #expect(fixture.submit(UInt64(tag))) }
        fixture.recorder.onResponse = { [pool = fixture.pool] _ in pool.close() }
        fixture.runLoop(until: { fixture.recorder.responseCount - responseCountBefore == 100 })
        #expect(fixture.recorder.count(.ambiguous) > 0)
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
        #expect(fixture.pool.connections.isEmpty)
    }
}
