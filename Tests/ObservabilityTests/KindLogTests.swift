import Logging
import Reactor
import Testing

@testable import Observability

struct KindLogTests {
    @Test func `Each kind of log line has its limit`() {
        let collector = LogCollector()
        let events = RecentEvents()
        var log = KindLog(logger: collector.logger, events: events)
        var written: [Bool] = []
        for number in 0..<25 {
            written.append(
                log.log(.redisLost, nowMilliseconds: Int64(number), wallMilliseconds: 5, ["n": "\(number)"])
            )
        }
        #expect(written.count { $0 } == 10 && written.prefix(10).allSatisfy { $0 })
        // Another kind has its own window.
        let other = log.log(.redisReady, nowMilliseconds: 25, wallMilliseconds: 5)
        #expect(other)
        #expect(collector.lines.count == 11)
        #expect(collector.lines[0].metadata["kind"] == "redis-lost")
        #expect(collector.lines[0].level == .warning)
        // The next window begins, and reports the dropped lines once.
        log.log(.redisLost, nowMilliseconds: 60_000, wallMilliseconds: 6)
        log.log(.redisLost, nowMilliseconds: 60_001, wallMilliseconds: 6)
        #expect(collector.lines[11].metadata["suppressed"].map { "\($0)" } == "15")
        #expect(collector.lines[12].metadata["suppressed"] == nil)
        #expect(events[.redisLost].count == 27)
    }

    /// Logs without their own cells: the control side's, and the endpoint's.
    @Test func `The lines that any log suppresses are counted`() throws {
        let registry = Fixture.registry()
        let shared = SharedKindLog(logger: LogCollector().logger, events: registry.events)
        for _ in 0..<14 { shared(.configurationReloaded, ["changed": "nothing"]) }
        let loop = try EventLoop()
        let pages = WorkerPages(registry: registry, logger: LogCollector().logger, loop: loop)
        withExtendedLifetime(loop) {
            for _ in 0..<13 { _ = pages.refusal(status: 400) }
        }
        let totals = registry.totals(nowMilliseconds: 1)
        #expect(totals[.logLinesSuppressed, Int(LogKind.configurationReloaded.rawValue)] == 4)
        #expect(totals[.logLinesSuppressed, Int(LogKind.httpFailed.rawValue)] == 3)
        #expect(totals.sum(.logLinesSuppressed) == 7)
    }

    @Test func `A suppressed line creates no text`() {
        let collector = LogCollector()
        var log = KindLog(logger: collector.logger, events: RecentEvents())
        var made = 0
        func metadata() -> Logger.Metadata {
            made += 1
            return [:]
        }
        for _ in 0..<100 { log.log(.kafkaError, nowMilliseconds: 0, wallMilliseconds: 0, metadata()) }
        #expect(made == 10)
    }

    @Test func `The details for the status page are masked and short`() {
        let events = RecentEvents()
        var log = KindLog(logger: LogCollector().logger, events: events)
        let token = String(repeating: "ab12", count: 16)
        log.log(
            .apnsClosed,
            nowMilliseconds: 0,
            wallMilliseconds: 0,
            ["detail": "token \(token)", "cause": "connectFailed"]
        )
        #expect(!events[.apnsClosed].lastDetail.contains("ab12ab12"))
        #expect(events[.apnsClosed].lastDetail.hasPrefix("cause=connectFailed detail="))
        log.log(
            .apnsClosed,
            nowMilliseconds: 0,
            wallMilliseconds: 0,
            ["detail": "\(String(repeating: "x ", count: 9_000))"]
        )
        #expect(events[.apnsClosed].lastDetail.count == RecentEvents.detailMax)
    }

    @Test func `The latest event comes first`() {
        let events = RecentEvents()
        var log = KindLog(logger: LogCollector().logger, events: events)
        log.log(.redisReady, nowMilliseconds: 0, wallMilliseconds: 10)
        log.log(.kafkaAway, nowMilliseconds: 0, wallMilliseconds: 30)
        log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 20)
        #expect(events.happened.map(\.kind) == [.kafkaAway, .redisLost, .redisReady])
    }
}
