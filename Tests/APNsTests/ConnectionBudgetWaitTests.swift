import Dispatch
import Glibc
import Synchronization
import Testbed
import Testing

@testable import APNs
@testable import Reactor

/// A pool wants connections for which its ``ConnectionBudget`` has no room, or it has connections that it no longer
/// wants.
@Suite(.ownThread) struct ConnectionBudgetWaitTests {
    /// Each measured step must take less time than this. A pool that took a lack of room for a failure would wait
    /// longer: at least 30 s, half of its back-off's base.
    private static let stepMillisecondsMax: Int64 = 25_000

    private func makeFixture(connectionsMin: Int, budget: ConnectionBudget) throws -> PoolFixture {
        try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = connectionsMin
            $0.connectionBudget = budget
            $0.backoffBaseMilliseconds = 60_000
            $0.backoffJitterMillisecondsMax = 60_000
        }
    }

    private func makeOtherPool(beside fixture: PoolFixture, budget: ConnectionBudget, _ recorder: PushRecorder) throws
        -> Pool
    {
        var configuration = try PoolFixture.configuration(port: fixture.server.port)
        configuration.connectionBudget = budget
        return try Pool(
            loop: fixture.loop,
            configuration: configuration,
            tokenSource: TestCredentials.makeTokenSource(),
            handler: recorder
        )
    }

    private func measureMilliseconds(_ fixture: PoolFixture, _ body: () throws -> Void) rethrows -> Int64 {
        fixture.loop.refreshClock()
        let begin = fixture.loop.nowMilliseconds
        try body()
        return fixture.loop.nowMilliseconds - begin
    }

    /// Each pair: the limit for all connections of the process, and the limit for each address.
    static let budgets = [(2, 16), (16, 2)]

    @Test(arguments: budgets)
    func `A connection is opened soon after there is room`(connectionsMax: Int, perAddressMax: Int) throws {
        let budget = ConnectionBudget(connectionsMax: connectionsMax, connectionsPerAddressMax: perAddressMax)
        let fixture = try makeFixture(connectionsMin: 2, budget: budget)
        let recorder = PushRecorder()
        let otherPool = try makeOtherPool(beside: fixture, budget: budget, recorder)
        defer { otherPool.close() }
        otherPool.start()
        fixture.runLoop(until: { otherPool.gauges.readyConnectionCount == 1 })
        fixture.warmUp()
        fixture.runLoop(until: { fixture.pool.gauges.awaitsConnectionBudget })
        // Waits long enough that the pool asks for room again.
        let end = fixture.loop.nowMilliseconds + ConnectionOpeningSchedule.connectionBudgetWaitMilliseconds.upperBound
        fixture.runLoop(until: { fixture.loop.nowMilliseconds >= end })
        #expect(fixture.pool.connections.count == 1 && budget.connectionCount == 2)
        #expect(fixture.recorder.connectionLimitEventCount == 1)
        let waitedMilliseconds = measureMilliseconds(fixture) {
            otherPool.close()
            fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 2 })
        }
        #expect(waitedMilliseconds < Self.stepMillisecondsMax)
        #expect(!fixture.pool.gauges.awaitsConnectionBudget)
        #expect(!fixture.recorder.events.contains { if case .resolveFailed = $0 { true } else { false } })
    }

    @Test(arguments: [(1, 16), (16, 1)])
    func `The only connection is replaced at once if there is no room`(connectionsMax: Int, perAddressMax: Int) throws {
        let budget = ConnectionBudget(connectionsMax: connectionsMax, connectionsPerAddressMax: perAddressMax)
        let fixture = try makeFixture(connectionsMin: 2, budget: budget)
        fixture.warmUp()
        fixture.runLoop(until: { fixture.pool.gauges.awaitsConnectionBudget })
        let waitedMilliseconds = measureMilliseconds(fixture) {
            fixture.server.connections[0].closeWithoutCloseNotify()
            fixture.runLoop(until: { !fixture.recorder.closeCauses.isEmpty })
            // A pool without a connection may always open one, so it does not wait for room.
            #expect(!fixture.pool.gauges.awaitsConnectionBudget)
            fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 1 })
        }
        #expect(waitedMilliseconds < Self.stepMillisecondsMax)
    }

    @Test func `A pool that no longer wants a connection does not wait for room`() throws {
        let budget = ConnectionBudget(connectionsMax: 1)
        let fixture = try makeFixture(connectionsMin: 2, budget: budget)
        fixture.warmUp()
        fixture.runLoop(until: { fixture.pool.gauges.awaitsConnectionBudget })
        fixture.wantOnlyOneConnection()
        fixture.runLoop(until: { !fixture.pool.gauges.awaitsConnectionBudget })
        #expect(fixture.pool.openingSchedule.timer == .none)
        #expect(fixture.server.acceptedConnectionCount == 1)
    }

    // MARK: - Connections that are no longer wanted

    @Test func `A connection that is no longer wanted is not opened`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
            // The pause is long, so that the first connection is ready before the second is due, even on a busy
            // machine.
            $0.openingIntervalMilliseconds = 4_000
        }
        fixture.warmUp()
        try #require(fixture.pool.openingSchedule.timer != .none)
        fixture.wantOnlyOneConnection()
        fixture.runLoop(until: { fixture.pool.openingSchedule.timer == .none })
        #expect(!fixture.pool.openingSchedule.isAttemptUnderWay)
        #expect(fixture.pool.connections.count == 1 && fixture.pool.statistics.connectionAttemptCount == 1)
        // The server closes the only connection, so the pool opens another one.
        fixture.server.connections[0].closeWithoutCloseNotify()
        fixture.runLoop(until: { !fixture.recorder.closeCauses.isEmpty })
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 1 })
        #expect(fixture.pool.statistics.connectionAttemptCount == 2)
    }

    /// The demand falls while the host's name is being resolved, so the pool no longer needs the connection.
    @Test func `No connection is made to the addresses of a needless look-up`() throws {
        let nameServer = GatedNameServer()
        let fixture = try PoolFixture {
            $0.host = "apns.example.com"
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.loop.hostLookup = { nameServer.lookUp(port: $1) }
        nameServer.permitOne()
        fixture.pool.start()
        // The first look-up succeeds; the second waits for the test.
        fixture.runLoop(until: { !fixture.pool.connections.isEmpty })
        fixture.runLoop(until: { nameServer.lookUpCount.load(ordering: .acquiring) == 2 })
        fixture.wantOnlyOneConnection()
        nameServer.permitOne()
        fixture.runLoop(until: { !fixture.pool.openingSchedule.isAttemptUnderWay })
        #expect(fixture.pool.connections.count == 1 && fixture.pool.statistics.connectionAttemptCount == 1)
    }

    /// The pool has two connections more than it wants. At the end of each sizing interval, it retires the connection
    /// with the fewest pushes in flight.
    @Test func `A surplus connection is closed at the next interval`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 3
            $0.connectionsMin = 3
        }
        fixture.warmUp(connectionCount: 3)
        fixture.server.respond = { _ in nil }
        for tag in 0..<10 { #expect(fixture.submit(UInt64(tag))) }
        let busyConnection = try #require(fixture.pool.connections.max { $0.inFlightPushCount < $1.inFlightPushCount })
        fixture.wantOnlyOneConnection()
        fixture.runLoop(until: { fixture.pool.connections.count == 1 })
        #expect(fixture.recorder.retirementCauses == [.surplus, .surplus])
        #expect(fixture.pool.connections.first === busyConnection && fixture.pool.inFlightPushCount == 10)
    }

    /// Both connections are idle. The pool closes the connection that has never carried a push.
    @Test func `An unused surplus connection is closed first`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
            $0.openingIntervalMilliseconds = 200
            $0.backoffBaseMilliseconds = 10_000
            $0.backoffJitterMillisecondsMax = 10_000
        }
        fixture.warmUp()
        fixture.runLoop(until: { fixture.pool.gauges.readyConnectionCount == 2 })
        try #require(fixture.pool.connections.map(\.phase) == [.open, .unauthenticated])
        fixture.wantOnlyOneConnection()
        fixture.runLoop(until: { fixture.pool.connections.count == 1 })
        #expect(fixture.pool.connections.first?.number == 1)
        // A closed surplus connection is no failure. After an hour, only a back-off could still make the pool wait, and
        // there is none.
        let hourLaterMilliseconds = fixture.loop.nowMilliseconds + 3_600_000
        #expect(fixture.pool.openingSchedule.waitMilliseconds(nowMilliseconds: hourLaterMilliseconds) == 0)
    }
}

/// A name server that responds to each look-up with the loopback address when the test permits it.
private final class GatedNameServer: Sendable {
    private let permits = DispatchSemaphore(value: 0)
    let lookUpCount = Atomic(0)

    func permitOne() { permits.signal() }

    func lookUp(port: UInt16) -> Resolution {
        lookUpCount.add(1, ordering: .acquiringAndReleasing)
        // The wait is bounded, so that a failing test does not leave a blocked thread.
        _ = permits.wait(timeout: .now() + .seconds(20))
        return .success([.loopback(port: port)])
    }
}

extension PushRecorder {
    fileprivate var connectionLimitEventCount: Int {
        events.count { if case .connectionLimitReached = $0 { true } else { false } }
    }
}

extension PoolFixture {
    /// Lowers the number of connections that the pool wants to one.
    fileprivate func wantOnlyOneConnection() {
        var configuration = pool.configuration
        configuration.connectionsMin = 1
        pool.sizing = PoolSizing(configuration)
    }
}
