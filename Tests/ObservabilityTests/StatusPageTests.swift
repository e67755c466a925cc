import Foundation
import Logging
import Numbers
import Testing

@testable import HTTP
@testable import Observability

struct StatusPageTests {
    /// The report of a busy worker whose second lane has no Redis.
    static func busyReport() -> StatusReport {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        let totalsBefore = worker.metricRegistry.totals(nowMilliseconds: 0)
        var log = LimitedLog(logger: LogCollector().logger, events: worker.metricRegistry.events)
        log.log(
            .apnsClosed,
            nowMilliseconds: 0,
            wallMilliseconds: 1_789_999_990_000,
            ["detail": "<script>alert('1')</script>"]
        )
        worker.firstLane.add(.outcomes, 0, 0, by: 120_000)
        worker.firstLane.add(.recordsReceived, 0, by: 600_000)
        worker.firstLane.add(
            .pushes,
            0,
            worker.metricRegistry.labels.responses.index(status: 200, reason: 0),
            by: 120_000
        )
        worker.secondLane.set(.redisReady, to: 0)
        worker.firstLane.add(.redisErrors, 0, by: 2)
        worker.firstLane.add(.redisErrors, 1, by: 1_300)
        worker.kafka.add(.kafkaErrors, 0)
        for _ in 0..<200 { worker.firstLane.observe(.freshness, 0, microseconds: 162_000) }
        worker.publish(
            at: 60_000,
            lanePartitions: [
                PartitionReading(
                    topicIndex: 0,
                    partition: 3,
                    oldestUnsettledAgeMilliseconds: 1_500,
                    committableOffset: 9
                )
            ]
        )
        return worker.report(before: totalsBefore, at: 60_000)
    }

    @Test func `The page says what flows and what is broken`() {
        let html = StatusPage.html(Self.busyReport())
        #expect(html.contains("<h1 class=\"broken\">Something is broken.</h1>"))
        #expect(html.contains("In the last minute 10,000 records and 2,000 pushes per second; 99 % of the pushes "))
        #expect(html.contains("99 % of the pushes accepted within "))
        #expect(html.contains("Redis is unreachable for 1 of 2 lanes."))
        #expect(html.contains("<code>CausewayRedisUnavailable</code>"))
        #expect(html.contains("<td>outOfMemory 1,300, moved 2</td>"))
        #expect(html.contains("A broker is reachable. Errors since the start: _TRANSPORT 1."))
    }

    /// A person on call must not need to search a table for the reason.
    @Test func `The reason is beside the finding`() throws {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        var log = LimitedLog(logger: LogCollector().logger, events: worker.metricRegistry.events)
        let start: Int64 = 1_789_999_990_000
        log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: start, ["reason": "Connection <refused>"])
        log.log(.kafkaError, nowMilliseconds: 0, wallMilliseconds: start, ["error": "of no concern"])
        worker.secondLane.set(.redisReady, to: 0)
        worker.publish(at: 60_000)
        let report = worker.report(before: nil, at: 60_000)
        #expect(report.findings.map(\.logLines) == [["redis-lost, 10 s ago: reason=Connection <refused>"]])
        let findingHTML = try #require(StatusPage.html(report).components(separatedBy: "</article>").first)
        #expect(findingHTML.contains("<code>redis-lost, 10 s ago: reason=Connection &lt;refused&gt;</code>"))
        #expect(StatusJSON.json(report).contains(#""seen":["redis-lost, 10 s ago: reason=Connection <refused>"]"#))
    }

    @Test func `The records that wait include deferred commands`() {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        let rowBefore = worker.report(before: nil, at: 0).table("waiting")?.rows.last?.map(\.text)
        #expect(rowBefore == ["deferred", "their return from the deferred topic", "0"])
        worker.kafka.set(.deferredWaiting, to: 1_200)
        worker.kafka.set(.deferredOldest, to: 3_720_000)
        worker.publish(at: 60_000)
        let row = worker.report(before: nil, at: 60_000).table("waiting")?.rows.last?.map(\.text)
        #expect(row == ["deferred", "their return from the deferred topic; the first came 1 h 2 min ago", "1,200"])
    }

    @Test func `Audiences have their section`() {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        let totalsBefore = worker.metricRegistry.totals(nowMilliseconds: 0)
        #expect(worker.report(before: nil, at: 0).table("audiences")?.rows.isEmpty == true)
        worker.firstLane.add(.audienceCommands, 1, by: 2)
        worker.firstLane.add(.audienceRanges, 1, 0, by: 30)
        worker.secondLane.add(.audienceRanges, 1, 1, by: 2)
        worker.firstLane.set(.audienceMembers, 1, 0, to: 120_000)
        worker.secondLane.set(.audienceMembers, 1, 3, to: 6)
        worker.secondLane.set(.audienceRounds, 1, to: 4)
        worker.secondLane.set(.audienceOldestRound, 1, to: 2_500)
        worker.secondLane.set(.audienceOldestRange, 1, to: 80_000)
        worker.secondLane.set(.audienceMembersParked, 1, to: 3)
        for _ in 0..<32 { worker.firstLane.observe(.audienceRangeDuration, 1, microseconds: 900_000) }
        worker.publish(at: 60_000)
        let report = worker.report(before: totalsBefore, at: 60_000)
        let rounds = report.table("audiences")?.rows.map { $0.map(\.text) }
        #expect(
            rounds == [
                ["ride", "2", "32", "2", "4", "2.5 s", "1 min 20 s", "3", "750 ms", "953 ms", "1 s", "32"]
            ]
        )
        let members = report.table("audienceMembers")?.rows.map { $0.map(\.text) }
        #expect(
            members == [
                ["ride", "delivered", "2,000", "120,000"], ["ride", "unregistered", "0.1", "6"],
            ]
        )
    }

    @Test func `Channels have their section`() throws {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        #expect(worker.report(before: nil, at: 0).table("channels")?.rows.isEmpty == true)
        let status = worker.metricRegistry.channelStatus
        status.change(1) { $0.hasConfiguredChannels = true }
        status.change(2) { counts in
            (counts.audienceChannelCount, counts.listedChannelCount) = (12, 8_100)
            var reading = ChannelStatus.RegistryReading(readAtWallMilliseconds: 1_789_999_970_000)
            reading.reconciledAtWallMilliseconds = 1_789_996_400_000
            (reading.plannedDeletionCount, reading.nextDeletionAtWallMilliseconds) = (3, 1_790_000_005_000)
            (reading.unfinishedCreationCount, reading.unpublishedChannelCount) = (1, 2)
            counts.lastRegistryReading = reading
            counts.lastFailure = .init(
                failedAtWallMilliseconds: 1_789_999_999_000,
                reason: "FeatureNotEnabled: enable <Broadcast>"
            )
        }
        worker.publish(at: 60_000)
        let report = worker.report(before: nil, at: 60_000)
        let rows = try #require(report.table("channels")?.rows.map { $0.map(\.text) })
        // The channels of this pool have not been read yet.
        let unknownCells = [String](repeating: "–", count: 9)
        #expect(rows[0] == ["match", "sandbox", "0", "0 %"] + unknownCells)
        #expect(
            rows[1] == [
                "ride", "production", "12", "81 %", "8,100", "1", "2", "3", "5 s", "30 s", "1 h 0 min",
                "FeatureNotEnabled: enable <Broadcast>", "1 s",
            ]
        )
        #expect(rows.count == 2 && StatusPage.html(report).contains("enable &lt;Broadcast&gt;"))
        let document = StatusJSON.json(report)
        #expect(document.contains(#""deletionsPlanned":3,"nextDeletionSeconds":5,"#), "\(document)")
        #expect(report.findings.map(\.alertName) == ["CausewayChannelsNearLimit"])
    }

    /// The times come from Redis, so they may be any number. Sums must not overflow.
    @Test func `Any time of a channel is shown without overflow`() throws {
        for moment in [Int64.min, .max] {
            var worker = HealthyWorker()
            worker.publish(at: 0)
            worker.metricRegistry.channelStatus.change(0) { counts in
                counts.hasConfiguredChannels = true
                var reading = ChannelStatus.RegistryReading(readAtWallMilliseconds: moment)
                (reading.reconciledAtWallMilliseconds, reading.nextDeletionAtWallMilliseconds) = (moment, moment)
                counts.lastRegistryReading = reading
            }
            let row = try #require(worker.report(before: nil, at: 60_000).table("channels")?.rows.first)
            #expect(row.count == 13)
        }
    }

    @Test func `The page has no scripts, and loads nothing from elsewhere`() {
        let html = StatusPage.html(Self.busyReport())
        #expect(
            !html.contains("<script") && !html.contains("http://") && !html.contains("https://")
                && !html.contains("url(")
        )
        #expect(html.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"))
    }

    @Test func `Every row has all columns`() {
        for table in Self.busyReport().tables {
            for row in table.rows { #expect(row.count == table.columns.count, "\(table.key)") }
            #expect(Set(table.columns.map(\.key)).count == table.columns.count, "\(table.key)")
        }
    }

    @Test func `Programs get the same facts as JSON`() throws {
        let data = Data(StatusJSON.json(Self.busyReport()).utf8)
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        #expect(object["severity"] as? String == "broken")
        let findings = try #require(object["findings"] as? [[String: Any]])
        #expect(findings.first?["alert"] as? String == "CausewayRedisUnavailable")
        let flow = try #require(object["flow"] as? [[String: Any]])
        #expect(flow.first?["perSecond"] as? Double == 10_000)
        #expect(flow.first?["total"] as? Int == 600_000)
        let freshness = try #require(object["freshness"] as? [[String: Any]])
        #expect(try #require(freshness.first?["p99Seconds"] as? Double) <= 0.2)
        #expect(freshness[1]["p99Seconds"] is NSNull)
        let partitions = try #require(object["partitions"] as? [[String: Any]])
        #expect(partitions.first?["oldestUnsettledSeconds"] as? Double == 1.5)
        let events = try #require(object["events"] as? [[String: Any]])
        #expect(events.first?["detail"] as? String == "detail=<script>alert('1')</script>")
        #expect((object["live"] as? [String: Any])?["passed"] as? Bool == true)
    }

    @Test func `A worker that has just started shows no rates`() {
        var worker = HealthyWorker()
        worker.publish(at: 10)
        let report = worker.report(before: nil, at: 10)
        #expect(report.summary == "The worker has just started; rates are shown in a few seconds.")
        #expect(report.findings.isEmpty)
        #expect(StatusPage.html(report).contains("No problems."))
    }

    @Test func `Each client gets the form that it asks for`() throws {
        func form(query: String = "", accept: String = "") throws -> StatusFormat {
            let text = "GET /statusz?\(query) HTTP/1.1\r\nHost: a\r\nAccept: \(accept)\r\n\r\n"
            return StatusFormat(try #require(try HTTPRequestHead.parse(Array(text.utf8))).head)
        }
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        #expect(try form() == .text && form(accept: "*/*") == .text && form(accept: "text/plain") == .text)
        #expect(try form(accept: ",;") == .text && form(query: "format=page") == .text)
        #expect(try form(accept: browser) == .html && form(accept: "text/html,application/json") == .html)
        #expect(try form(accept: "application/json;q=0.9") == .json)
        #expect(try form(query: "format=json", accept: browser) == .json && form(query: "a&format=html") == .html)
        #expect(try form(query: "format=text", accept: browser) == .text)
    }

    @Test func `The status in text form has all facts of the page`() {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        let report = Self.busyReport()
        let text = StatusText.text(report)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines[0].hasPrefix("BROKEN. In the last minute 10,000 records and 2,000 pushes per second; "))
        #expect(lines.contains("BROKEN: Redis is unreachable for 1 of 2 lanes."))
        #expect(lines.contains("  Runbook: CausewayRedisUnavailable"))
        #expect(lines.contains { $0.hasPrefix("live: lane-0: last completed an iteration ") }, "\(text)")
        for finding in report.findings {
            for part in [finding.observation, finding.meaning, finding.action] {
                #expect(text.contains(part), "\(part)")
            }
        }
        for table in report.tables {
            #expect(text.contains(table.title), "\(table.key)")
            for cell in table.rows.joined() { #expect(text.contains(cell.text), "\(table.key): \(cell.text)") }
        }
        #expect(
            lines.contains { $0.hasPrefix("  records received") && $0.hasSuffix("600,000") },
            "\(text)"
        )
        #expect(lines.allSatisfy { $0.last != " " })
    }

    /// Texts of errors come from other programs, so they may contain control characters.
    @Test func `The status in text form has no control characters`() {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        var log = LimitedLog(logger: LogCollector().logger, events: worker.metricRegistry.events)
        log.log(.redisLost, nowMilliseconds: 0, wallMilliseconds: 0, ["reason": "\u{1B}[2J\nNo problems.\u{9B}"])
        worker.secondLane.set(.redisReady, to: 0)
        worker.publish(at: 60_000)
        let text = StatusText.text(worker.report(before: nil, at: 60_000))
        #expect(text.contains("reason= [2J No problems. "))
        #expect(!text.unicodeScalars.contains { $0 != "\n" && $0.properties.generalCategory == .control })
    }
}

extension StatusReport {
    fileprivate func table(_ key: String) -> StatusTable? { tables.first { $0.key == key } }
}
