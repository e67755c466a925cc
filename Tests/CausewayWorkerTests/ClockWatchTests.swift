import Logging
import Reactor
import Redis
import RedisTestbed
import Synchronization
import Testbed
import Testing

@testable import CausewayWorker
@testable import Observability

/// ``ClockWatch`` corrects the worker's wall clock by that of a real Redis server.
@Suite(.ownThread) struct ClockWatchTests {
    /// The machine's clock, which is ahead by a time that the test sets.
    private final class MachineClock: Sendable {
        let aheadMilliseconds = Atomic<Int64>(0)

        var milliseconds: Int64 { WallClock.systemMilliseconds + aheadMilliseconds.load(ordering: .relaxed) }
    }

    private struct Fixture {
        let machineClock: MachineClock
        let wallClock = WallClock()
        let condition = SharedWorkerCondition()
        let events = RecentEvents()
        let clockWatch: ClockWatch

        init(url: String, replyDeadlineMilliseconds: Int64 = 2_000) throws {
            let machineClock = MachineClock()
            self.machineClock = machineClock
            var redis = RedisConfiguration(url: try RedisURL(url))
            redis.replyDeadlineMilliseconds = replyDeadlineMilliseconds
            clockWatch = try ClockWatch(
                redis: redis,
                wallClock: wallClock,
                condition: condition,
                log: SharedLimitedLog(
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                    events: events
                ),
                readSystemMilliseconds: { machineClock.milliseconds }
            )
        }

        func setMachineClock(aheadSeconds: Int64) async {
            machineClock.aheadMilliseconds.store(aheadSeconds * 1_000, ordering: .relaxed)
            await clockWatch.poll()
        }

        /// How far the worker's clock is ahead of the server's, which is the clock of the real machine.
        var errorMilliseconds: Int64 { wallClock.wallMilliseconds - WallClock.systemMilliseconds }
    }

    @Test func `A wrong clock is corrected and reported until it is right again`() async throws {
        let server = try RedisServer()
        let fixture = try Fixture(url: server.unixURL)
        await fixture.setMachineClock(aheadSeconds: 0)
        #expect(!fixture.condition.current.isClockCorrected)
        for aheadSeconds in [-360, 660] as [Int64] {
            await fixture.setMachineClock(aheadSeconds: aheadSeconds)
            #expect(fixture.wallClock.bootOffsetMilliseconds != nil && abs(fixture.errorMilliseconds) <= 2_000)
            let condition = fixture.condition.current
            #expect(abs(condition.clockDifferenceMilliseconds + aheadSeconds * 1_000) <= 2_000)
            #expect(condition.isClockCorrected)
        }
        #expect(fixture.events[.clockWrong].count == 1 && fixture.events[.clockRightAgain].count == 0)
        await fixture.setMachineClock(aheadSeconds: 7_200)
        #expect(fixture.wallClock.bootOffsetMilliseconds == nil, "nobody knows which clock is wrong")
        #expect(!fixture.condition.current.isClockCorrected)
        await fixture.setMachineClock(aheadSeconds: 0)
        #expect(!fixture.condition.current.isClockCorrected)
        #expect(fixture.events[.clockWrong].count == 1 && fixture.events[.clockRightAgain].count == 1)
        withExtendedLifetime(server) {}
    }

    /// An operator repairs the machine's clock, which was ahead. Redis may be away, so no reading follows.
    @Test func `The worker's time stays right when the machine's clock is set`() async throws {
        let server = try RedisServer()
        let fixture = try Fixture(url: server.unixURL)
        await fixture.setMachineClock(aheadSeconds: 660)
        // Only the readings of `clockWatch` have the wrong clock. The real machine's clock is right, as after the
        // repair.
        #expect(abs(fixture.errorMilliseconds) <= 2_000)
        #expect(fixture.condition.current.isClockCorrected)
        withExtendedLifetime(server) {}
    }

    /// Only the readings of `clockWatch` have the clock that the test sets, so the worker's time shows which offset it
    /// uses.
    @Test func `Without Redis, the worker follows a clock that is set forward, not one set back`() async throws {
        let server = try RedisServer()
        let fixture = try Fixture(url: server.unixURL)
        await fixture.setMachineClock(aheadSeconds: 0)
        #expect(fixture.wallClock.bootOffsetMilliseconds != nil && abs(fixture.errorMilliseconds) <= 2_000)
        server.kill()
        await fixture.setMachineClock(aheadSeconds: 600)
        #expect(abs(fixture.errorMilliseconds - 600_000) <= 2_000)
        await fixture.setMachineClock(aheadSeconds: -360)
        #expect(fixture.wallClock.bootOffsetMilliseconds != nil && abs(fixture.errorMilliseconds) <= 2_000)
    }

    @Test(arguments: [true, false])
    func `Nothing is corrected before Redis has replied, and the worker does not wait for it`(
        isListening: Bool
    ) async throws {
        // This socket takes connections, but nobody replies on them. The other case has a port on which nobody listens.
        let silentSocket = try ListeningSocket(address: .loopback(port: 0), backlog: 8)
        let port = try isListening ? silentSocket.address.port : Listener.findUnusedLoopbackPort()
        let fixture = try Fixture(url: "redis://127.0.0.1:\(port)", replyDeadlineMilliseconds: 60_000)
        fixture.machineClock.aheadMilliseconds.store(360_000, ordering: .relaxed)
        let began = ContinuousClock.now
        await fixture.clockWatch.awaitFirstReading()
        // The limit is 3 s. This machine may be busy, but without the limit the wait would take a minute.
        #expect(ContinuousClock.now - began < .seconds(20))
        #expect(fixture.wallClock.bootOffsetMilliseconds == nil)
        withExtendedLifetime(silentSocket) {}
    }
}
