import Reactor
import Testbed
import Testing

@testable import APNs

/// The number of connections that a pool keeps.
@Suite(.ownThread) struct PoolSizingTests {
    private func makeSizing(min: Int = 1, max: Int = 4, shrinkAfterMilliseconds: Int64 = 3_000) throws -> PoolSizing {
        var configuration = try PoolFixture.configuration(port: 1)
        configuration.connectionsMax = max
        configuration.connectionsMin = min
        configuration.shrinkAfterMilliseconds = shrinkAfterMilliseconds
        return PoolSizing(configuration)
    }

    /// Returns the counts of an interval with 100 responses.
    private func counts(
        starvedMilliseconds: Int64 = 0,
        peakCount: Int = 0,
        failureCount: Int = 0,
        roundTripMilliseconds: Int64 = 60
    ) -> PoolSizing.Interval {
        var interval = PoolSizing.Interval()
        interval.starvedMilliseconds = starvedMilliseconds
        interval.peakInFlightPushCount = peakCount
        for response in 0..<100 {
            interval.countEndedPush(
                isFailure: response < failureCount,
                hasFinalStatus: true,
                roundTripMilliseconds: roundTripMilliseconds
            )
        }
        return interval
    }

    /// Only a push with a response measures the round trip. A push that was lost or timed out does not.
    @Test func `The round trip is measured only from responses`() throws {
        var sizing = try makeSizing()
        var firstCounts = counts(roundTripMilliseconds: 300)
        for _ in 0..<10 {
            firstCounts.countEndedPush(isFailure: false, hasFinalStatus: false, roundTripMilliseconds: 1)
        }
        #expect(sizing.endInterval(firstCounts, openConnectionCount: 1, streamsMax: 1_000, nowMilliseconds: 0) == .none)
        // The first interval made 300 ms the usual round trip. So 300 ms do not count as slow in this interval.
        var secondCounts = counts(starvedMilliseconds: 1_000, roundTripMilliseconds: 300)
        for _ in 0..<10 {
            secondCounts.countEndedPush(isFailure: true, hasFinalStatus: false, roundTripMilliseconds: 1_000_000)
        }
        #expect(
            sizing.endInterval(secondCounts, openConnectionCount: 1, streamsMax: 1_000, nowMilliseconds: 1_000) == .grow
        )
        // In this interval no push got a response and none failed.
        var thirdCounts = PoolSizing.Interval()
        thirdCounts.starvedMilliseconds = 1_000
        thirdCounts.countEndedPush(isFailure: false, hasFinalStatus: false, roundTripMilliseconds: 1)
        #expect(
            sizing.endInterval(thirdCounts, openConnectionCount: 2, streamsMax: 1_000, nowMilliseconds: 2_000) == .grow
        )
    }

    @Test func `Lost pushes do not count as round trips`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        fixture.server.respond = {
            $0.connection.closeWithoutCloseNotify()
            return nil
        }
        fixture.pool.sizingInterval = PoolSizing.Interval()
        for tag in 0..<5 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.count(.ambiguous) + fixture.recorder.count(.notProcessed) == 5)
        #expect(fixture.pool.sizingInterval.responseCount == 0)
        #expect(fixture.pool.sizingInterval.roundTripMillisecondsMin == .max)
    }

    /// The pool wants a second connection, but never gets one, for example because the process has reached its limit of
    /// connections. When the demand has been low for the shrink time, the pool no longer wants the second connection.
    @Test func `A connection that never came up is given up`() throws {
        var sizing = try makeSizing()
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 1_000),
                openConnectionCount: 1,
                streamsMax: 100,
                nowMilliseconds: 0
            )
                == .grow
        )
        #expect(
            sizing.endInterval(counts(peakCount: 51), openConnectionCount: 1, streamsMax: 100, nowMilliseconds: 1_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 50), openConnectionCount: 1, streamsMax: 100, nowMilliseconds: 2_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 50), openConnectionCount: 1, streamsMax: 100, nowMilliseconds: 4_999)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 50), openConnectionCount: 1, streamsMax: 100, nowMilliseconds: 5_000)
                == .shrink
        )
        #expect(sizing.wantedConnectionCount == 1)
    }

    @Test func `The pool grows one connection at a time, up to its limit`() throws {
        var sizing = try makeSizing()
        #expect(sizing.wantedConnectionCount == 1)
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 499),
                openConnectionCount: 1,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .none
        )
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 500),
                openConnectionCount: 1,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .grow
        )
        // The second connection is still being opened, so the pool wants no third one.
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 1_000),
                openConnectionCount: 1,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .none
        )
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 1_000),
                openConnectionCount: 2,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .grow
        )
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 1_000),
                openConnectionCount: 3,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .grow
        )
        #expect(
            sizing.endInterval(
                counts(starvedMilliseconds: 1_000),
                openConnectionCount: 4,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .none
        )
        #expect(sizing.wantedConnectionCount == 4)
    }

    @Test func `The pool does not grow while its pushes fail`() throws {
        var sizing = try makeSizing()
        let failingCounts = counts(starvedMilliseconds: 1_000, failureCount: 11)
        #expect(
            sizing.endInterval(failingCounts, openConnectionCount: 1, streamsMax: 1_000, nowMilliseconds: 0) == .none
        )
        // Round trips of 60 ms are known, and these responses take five times as long. At first the pool
        // assumes that APNs is slow, so it does not grow.
        let slowCounts = counts(starvedMilliseconds: 1_000, roundTripMilliseconds: 300)
        #expect(
            sizing.endInterval(slowCounts, openConnectionCount: 1, streamsMax: 1_000, nowMilliseconds: 1_000) == .none
        )
        // After two minutes the longer time counts as the usual round trip, so the pool grows.
        #expect(
            sizing.endInterval(slowCounts, openConnectionCount: 1, streamsMax: 1_000, nowMilliseconds: 121_000) == .grow
        )
        var nearSizing = try makeSizing()
        #expect(
            nearSizing.endInterval(
                counts(roundTripMilliseconds: 1),
                openConnectionCount: 1,
                streamsMax: 1_000,
                nowMilliseconds: 0
            )
                == .none
        )
        let lessNearCounts = counts(starvedMilliseconds: 1_000, roundTripMilliseconds: 40)
        #expect(
            nearSizing.endInterval(lessNearCounts, openConnectionCount: 1, streamsMax: 1_000, nowMilliseconds: 0)
                == .grow
        )
    }

    @Test func `The pool shrinks when one connection fewer was enough for long`() throws {
        var sizing = try makeSizing(min: 1, max: 4)
        for openConnections in 1...3 {
            #expect(
                sizing.endInterval(
                    counts(starvedMilliseconds: 1_000),
                    openConnectionCount: openConnections,
                    streamsMax: 100,
                    nowMilliseconds: 0
                ) == .grow
            )
        }
        // Three connections have 300 streams. The pool keeps the fourth connection while the peak of an interval is
        // above half of that: above 150 pushes in flight.
        #expect(
            sizing.endInterval(counts(peakCount: 151), openConnectionCount: 4, streamsMax: 100, nowMilliseconds: 1_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 150), openConnectionCount: 4, streamsMax: 100, nowMilliseconds: 2_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 150), openConnectionCount: 4, streamsMax: 100, nowMilliseconds: 4_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 151), openConnectionCount: 4, streamsMax: 100, nowMilliseconds: 5_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 1), openConnectionCount: 4, streamsMax: 100, nowMilliseconds: 6_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 1), openConnectionCount: 4, streamsMax: 100, nowMilliseconds: 9_000)
                == .shrink
        )
        #expect(
            sizing.endInterval(counts(peakCount: 1), openConnectionCount: 3, streamsMax: 100, nowMilliseconds: 11_000)
                == .none
        )
        #expect(
            sizing.endInterval(counts(peakCount: 1), openConnectionCount: 3, streamsMax: 100, nowMilliseconds: 12_000)
                == .shrink
        )
        #expect(
            sizing.endInterval(counts(peakCount: 0), openConnectionCount: 2, streamsMax: 100, nowMilliseconds: 15_000)
                == .shrink
        )
        #expect(
            sizing.endInterval(counts(peakCount: 0), openConnectionCount: 1, streamsMax: 100, nowMilliseconds: 90_000)
                == .none
        )
        #expect(sizing.wantedConnectionCount == 1)
    }

    @Test func `The retry budget is a tenth of the first attempts`() {
        var budget = RetryBudget()
        var retryCount = 0
        while budget.permitsRetry {
            budget.drawRetry()
            retryCount += 1
        }
        #expect(retryCount == RetryBudget.retriesSavedMax && budget.remainingRatio == 0)
        for _ in 0..<1_000 {
            budget.addShareForFirstAttempt()
            if budget.permitsRetry {
                budget.drawRetry()
                retryCount += 1
            }
        }
        #expect(retryCount == RetryBudget.retriesSavedMax + 100)
        for _ in 0..<100_000 { budget.addShareForFirstAttempt() }
        #expect(budget.remainingRatio == 1)
    }

    /// The server delays each response by 20 ms and allows ten streams, so one connection carries 500 pushes a second.
    /// The demand has no limit at first, and is zero later.
    @Test func `A pool grows until the demand is met, and shrinks again`() throws {
        let fixture = try PoolFixture(bodyBytes: 40) {
            $0.connectionsMax = 4
            $0.shrinkAfterMilliseconds = 10
        }
        let server = DelayedServer(fixture: fixture)
        fixture.server.streamsMax = 10
        fixture.server.respond = { server.hold($0) }
        fixture.pool.start()
        var nextTag: UInt64 = 0
        var hasDemand = true
        let fill: () -> Void = { [unowned fixture] in while hasDemand, fixture.submit(nextTag) { nextTag += 1 } }
        fixture.recorder.onRoom = { _ in fill() }
        fixture.recorder.onResponse = { _ in fill() }
        fill()
        fixture.runLoop(until: { fixture.pool.gauges.streamsMax == 40 })
        #expect(fixture.pool.gauges.readyConnectionCount == 4)
        hasDemand = false
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 1 && fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.retirementCauses == [.surplus, .surplus, .surplus])
        #expect(fixture.recorder.singleResponseCount == Int(nextTag))
        #expect(fixture.recorder.count(.responded) == Int(nextTag))
        fixture.runLoop(until: { fixture.pool.connections.count == 1 })
        fixture.recorder.onRoom = nil
        fixture.recorder.onResponse = nil
    }

    /// The process limit counts the connections of all pools together. But a pool without a connection may always open
    /// one. Otherwise one app could keep another from sending (R22).
    @Test func `Pools share the process's connections`() throws {
        let budget = ConnectionBudget(connectionsMax: 2)
        let fixture = try PoolFixture {
            $0.connectionsMax = 4
            $0.connectionsMin = 4
            $0.connectionBudget = budget
        }
        fixture.pool.start()
        fixture.runLoop(until: { fixture.pool.gauges.awaitsConnectionBudget })
        #expect(fixture.pool.connections.count == 2)
        #expect(budget.connectionCount == 2)
        // A pool of another app still gets its first connection.
        let other = PushRecorder()
        var configuration = try PoolFixture.configuration(port: fixture.server.port)
        configuration.connectionBudget = budget
        configuration.connectionsMax = 4
        configuration.connectionsMin = 4
        let pool = try Pool(
            loop: fixture.loop,
            configuration: configuration,
            tokenSource: TestCredentials.makeTokenSource(),
            handler: other
        )
        pool.start()
        fixture.runLoop(until: { pool.gauges.awaitsConnectionBudget })
        #expect(pool.connections.count == 1)
        #expect(budget.connectionCount == 3)
        pool.close()
        fixture.pool.close()
        #expect(budget.connectionCount == 0)
    }
}

/// Responds to each request to the fixture's server 20 ms after its arrival.
private final class DelayedServer: TimerHandler {
    private unowned let fixture: PoolFixture
    private var heldRequests: [(request: ServedRequest, dueMilliseconds: Int64)] = []

    init(fixture: PoolFixture) {
        self.fixture = fixture
    }

    func hold(_ request: ServedRequest) -> ServedResponse? {
        if heldRequests.isEmpty { _ = fixture.loop.schedule(afterMilliseconds: 20, handler: self, tag: 0) }
        heldRequests.append((request, fixture.loop.nowMilliseconds + 20))
        return nil
    }

    func timerFired(tag: UInt64) {
        let nowMilliseconds = fixture.loop.nowMilliseconds
        while let first = heldRequests.first, first.dueMilliseconds <= nowMilliseconds {
            heldRequests.removeFirst()
            if !first.request.connection.isClosed {
                first.request.connection.respond(.accepted, stream: first.request.stream)
            }
        }
        if let first = heldRequests.first {
            _ = fixture.loop.schedule(afterMilliseconds: first.dueMilliseconds - nowMilliseconds, handler: self, tag: 0)
        }
    }
}
