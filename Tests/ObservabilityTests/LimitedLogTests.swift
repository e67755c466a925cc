import Logging
import Reactor
import Testing

@testable import Observability

struct LimitedLogTests {
    @Test func `Each kind of log line has its limit`() {
        let collector = LogCollector()
        let events = RecentEvents()
        var log = LimitedLog(logger: collector.logger, events: events)
        var areWritten: [Bool] = []
        for number in 0..<25 {
            areWritten.append(
                log.log(.redisLost, nowMilliseconds: Int64(number), wallMilliseconds: 5, ["n": "\(number)"])
            )
        }
        // Ten lines of a kind may be written in a minute.
        #expect(areWritten.count { $0 } == 10 && areWritten.prefix(10).allSatisfy { $0 })
        // Another kind has its own limit.
        let isOtherKindWritten = log.log(.redisReady, nowMilliseconds: 25, wallMilliseconds: 5)
        #expect(isOtherKindWritten)
        #expect(collector.lines.count == 11)
        #expect(collector.lines[0].metadata["kind"] == "redis-lost")
        #expect(collector.lines[0].level == .warning)
        // In the next minute, the first line of the kind says how many lines of this kind were left out. Later lines do
        // not repeat this number.
        log.log(.redisLost, nowMilliseconds: 60_000, wallMilliseconds: 6)
        log.log(.redisLost, nowMilliseconds: 60_001, wallMilliseconds: 6, ["n": "another"])
        #expect(collector.lines[11].metadata["suppressed"].map { "\($0)" } == "15")
        #expect(collector.lines[12].metadata["suppressed"] == nil)
        #expect(events[.redisLost].count == 27)
    }

    /// The log that several threads share, and the log of the HTTP endpoint, also limit their lines. The lines that
    /// they suppress must be counted, too.
    @Test func `The lines that any log suppresses are counted`() throws {
        let metricRegistry = Fixture.metricRegistry()
        let shared = SharedLimitedLog(logger: LogCollector().logger, events: metricRegistry.events)
        for _ in 0..<14 { shared(.configurationReloaded, ["changed": "nothing"]) }
        let loop = try EventLoop()
        let pages = WorkerEndpoints(metricRegistry: metricRegistry, logger: LogCollector().logger, loop: loop)
        withExtendedLifetime(loop) {
            for number in 0..<13 { _ = pages.refusal(status: 400 + number) }
        }
        let totals = metricRegistry.totals(nowMilliseconds: 1)
        #expect(totals[.logLinesSuppressed, Int(LogKind.configurationReloaded.rawValue)] == 4)
        #expect(totals[.logLinesSuppressed, Int(LogKind.httpFailed.rawValue)] == 3)
        #expect(totals.sum(.logLinesSuppressed) == 7)
    }

    @Test func `A suppressed line creates no text`() {
        let collector = LogCollector()
        var log = LimitedLog(logger: collector.logger, events: RecentEvents())
        var metadataCount = 0
        func metadata() -> Logger.Metadata {
            metadataCount += 1
            return ["made": "\(metadataCount)"]
        }
        for _ in 0..<100 { log.log(.kafkaError, nowMilliseconds: 0, wallMilliseconds: 0, metadata()) }
        #expect(metadataCount == 10)
    }

    @Test func `A failure that repeats is written at growing intervals, with the number of lines left out`() {
        let collector = LogCollector()
        let events = RecentEvents()
        // Two threads report the same failure every second, each with a log of its own. Together they must write each
        // line only once.
        var firstLog = LimitedLog(logger: collector.logger, events: events)
        var secondLog = LimitedLog(logger: collector.logger, events: events)
        func logLine(_ log: inout LimitedLog, lane: Int, second: Int64) -> Bool {
            log.log(
                .redisLost,
                nowMilliseconds: second * 1_000,
                wallMilliseconds: 0,
                ["lane": "\(lane)", "reason": "refused"]
            )
        }
        var writtenAtSeconds: [Int64] = []
        for time in 0..<300 as Range<Int64> {
            if logLine(&firstLog, lane: 0, second: time) { writtenAtSeconds.append(time) }
            if logLine(&secondLog, lane: 1, second: time) { writtenAtSeconds.append(time) }
        }
        // The intervals double from 2 s on, up to 60 s.
        #expect(writtenAtSeconds == [0, 2, 6, 14, 30, 62, 122, 182, 242])
        #expect(
            collector.lines.map { line in line.metadata["repeated"].map { "\($0)" } }
                == [nil, "3", "7", "15", "31", "63", "119", "119", "119"]
        )
        #expect(events[.redisLost].count == 600)
    }

    @Test func `A line with another reason or kind is no repetition, and a line of information never is`() {
        let collector = LogCollector()
        var log = LimitedLog(logger: collector.logger, events: RecentEvents())
        for _ in 0..<2 {
            log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 0, ["reason": "refused"])
            log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 0, ["reason": "no reply"])
            log.log(.redisError, nowMilliseconds: 0, wallMilliseconds: 0, ["reason": "refused"])
            log.log(.redisReady, nowMilliseconds: 0, wallMilliseconds: 0)
            log.log(.apnsClosed, level: .info, nowMilliseconds: 0, wallMilliseconds: 0, ["cause": "retired"])
        }
        #expect(
            collector.lines.map { $0.metadata["kind"].map { "\($0)" } } == [
                "redis-lost", "redis-lost", "redis-error", "redis-ready", "apns-closed", "redis-lost", "redis-lost",
                "redis-ready", "apns-closed",
            ]
        )
    }

    @Test func `A recovery is always written, and the next failure of its pool is written at once`() {
        let collector = LogCollector()
        var log = LimitedLog(logger: collector.logger, events: RecentEvents())
        func logLine(_ kind: LogKind, _ pool: String) -> Bool {
            log.log(kind, nowMilliseconds: 0, wallMilliseconds: 0, ["pool": "\(pool)"])
        }
        // A line of the kind `apnsConnected` reports a recovery. These 20 lines use up the kind's limit for this
        // minute. The line about the recovery below must still be written.
        for _ in 0..<20 { _ = logLine(.apnsConnected, "a") }
        #expect(logLine(.apnsUntrusted, "a") && logLine(.apnsUntrusted, "b"))
        #expect(!logLine(.apnsUntrusted, "a"))
        #expect(logLine(.apnsConnected, "a"))
        #expect(!logLine(.apnsConnected, "a"))
        #expect(logLine(.apnsUntrusted, "a") && !logLine(.apnsUntrusted, "b"))
    }

    @Test func `A recovery says how many lines about its failure were left out`() {
        let collector = LogCollector()
        var log = LimitedLog(logger: collector.logger, events: RecentEvents())
        for _ in 0..<5 { log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 0, ["reason": "refused"]) }
        for _ in 0..<3 { log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 0, ["reason": "no reply"]) }
        for _ in 0..<2 { log.log(.redisReady, nowMilliseconds: 0, wallMilliseconds: 0) }
        #expect(
            collector.lines.map { line in line.metadata["repeated"].map { "\($0)" } } == [nil, nil, "6", nil]
        )
    }

    /// More pools have a failure than the log has room for. The first pool's failure is replaced by a later one.
    @Test func `The recovery of a failure that made room for others still says how many lines were left out`() {
        let collector = LogCollector()
        let events = RecentEvents()
        func logLine(_ kind: LogKind, _ pool: String) -> Bool {
            // A new log for each line, as if each line came from another thread. So no log reaches its limit of lines.
            var log = LimitedLog(logger: collector.logger, events: events)
            return log.log(kind, nowMilliseconds: 0, wallMilliseconds: 0, ["pool": "\(pool)"])
        }
        for _ in 0..<3 { _ = logLine(.apnsUntrusted, "first") }
        for number in 0..<LogRepetitionLimiter.subjectsMax { #expect(logLine(.apnsUntrusted, "\(number)")) }
        var usedUpLog = LimitedLog(logger: collector.logger, events: events)
        func connect(_ pool: String) -> Bool {
            usedUpLog.log(.apnsConnected, nowMilliseconds: 0, wallMilliseconds: 0, ["pool": "\(pool)"])
        }
        while connect("untroubled") {}
        #expect(connect("first"))
        #expect(collector.lines.last?.metadata["repeated"].map { "\($0)" } == "2")
        #expect(!connect("first"))
        #expect(connect("1"))
    }

    @Test func `A replaced subject that comes again says how many of its lines were left out`() {
        var limiter = LogRepetitionLimiter()
        func permit(_ pool: Int, at milliseconds: Int64) -> UInt64? {
            limiter.takeRepeatCountIfLineIsDue(.apnsUntrusted, ["pool": "\(pool)"], nowMilliseconds: milliseconds)
        }
        #expect(permit(0, at: 0) == 0 && permit(0, at: 1) == nil && permit(0, at: 2) == nil)
        for pool in 1...LogRepetitionLimiter.subjectsMax { #expect(permit(pool, at: 3) == 0) }
        #expect(permit(0, at: 4) == 2)
    }

    @Test func `The number of subjects and of comparisons is limited`() {
        var limiter = LogRepetitionLimiter()
        func permit(_ number: Int, at milliseconds: Int64) -> UInt64? {
            limiter.takeRepeatCountIfLineIsDue(.kafkaError, ["error": "\(number)"], nowMilliseconds: milliseconds)
        }
        for number in 0..<LogRepetitionLimiter.subjectsMax { #expect(permit(number, at: Int64(number)) == 0) }
        #expect(permit(0, at: 100) == nil)
        // The log has no room for another subject, so it replaces the one that was seen longest ago.
        #expect(permit(-1, at: 100) == 0 && permit(0, at: 101) == nil && permit(1, at: 101) == 0)
        for pool in 0..<2 * LogRepetitionLimiter.failuresWithForgottenSubjectsMax {
            _ = limiter.takeRepeatCountIfLineIsDue(.apnsUntrusted, ["pool": "\(pool)"], nowMilliseconds: 200)
        }
        let rememberedCount = (0..<2 * LogRepetitionLimiter.failuresWithForgottenSubjectsMax)
            .count { limiter.forgetFailures([.apnsUntrusted], ["pool": "\($0)"]) != nil }
        // The log remembers `subjectsMax` present failures and `failuresWithForgottenSubjectsMax` replaced ones. One of
        // the replaced failures is a `kafkaError`, but `rememberedCount` counts only the kind `apnsUntrusted`.
        #expect(
            rememberedCount == LogRepetitionLimiter.failuresWithForgottenSubjectsMax - 1
                + LogRepetitionLimiter.subjectsMax
        )

        var log = LimitedLog(logger: LogCollector().logger, events: RecentEvents())
        var metadataCount = 0
        func metadata() -> Logger.Metadata {
            metadataCount += 1
            return [:]
        }
        for _ in 0..<1_000 { log.log(.kafkaError, nowMilliseconds: 0, wallMilliseconds: 0, metadata()) }
        #expect(metadataCount == Int(LimitedLog.comparisonsPerPeriodMax))
    }

    @Test func `The details for the status page are masked and short`() {
        let events = RecentEvents()
        var log = LimitedLog(logger: LogCollector().logger, events: events)
        let token = String(repeating: "ab12", count: 16)
        log.log(
            .apnsClosed,
            nowMilliseconds: 0,
            wallMilliseconds: 0,
            ["detail": "token \(token)", "cause": "connectFailed"]
        )
        #expect(!events[.apnsClosed].lastLineMetadata.contains("ab12ab12"))
        #expect(events[.apnsClosed].lastLineMetadata.hasPrefix("cause=connectFailed detail="))
        log.log(
            .apnsClosed,
            nowMilliseconds: 0,
            wallMilliseconds: 0,
            ["detail": "\(String(repeating: "x ", count: 9_000))"]
        )
        #expect(events[.apnsClosed].lastLineMetadata.count == RecentEvents.metadataCharactersMax)
    }

    @Test func `The latest event comes first`() {
        let events = RecentEvents()
        var log = LimitedLog(logger: LogCollector().logger, events: events)
        log.log(.redisReady, nowMilliseconds: 0, wallMilliseconds: 10)
        log.log(.kafkaUnreachable, nowMilliseconds: 0, wallMilliseconds: 30)
        log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 20)
        #expect(events.loggedKindSummaries.map(\.kind) == [.kafkaUnreachable, .redisLost, .redisReady])
    }
}
