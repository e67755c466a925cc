import Foundation
import Testing

@testable import CausewayLab

/// Audience commands come faster than rounds end, which causes ``CausewayRoundsSlow``.
@Suite("The causes of alerts about audiences", .timeLimit(.minutes(10)))
struct PrometheusAlertAudienceTests {
    /// APNs responds after two seconds, and a command comes every second. A round therefore takes longer than
    /// the time between two commands.
    @Test func `Commands that come faster than rounds run cause an alert`() async throws {
        try await evaluatingAlerts(apps: ["match"]) { run, history in
            let example = try MatchExample(run)
            let goalCommand = try #require(try example.files.records("commands.jsonl").first { $0["audience"] != nil })
            var sentCount = 0
            func send() throws {
                var (command, aps) = (goalCommand, goalCommand["aps"] as? JSONObject ?? [:])
                sentCount += 1
                aps["timestamp"] = Int(Date().timeIntervalSince1970)
                aps["relevance-score"] = sentCount
                command["aps"] = aps
                command["id"] = "state-\(sentCount)"
                command["sequence"] = sentCount
                try run.send(command)
            }
            try send()
            try example.awaitTotalResult(of: "state-1")
            let healthyScrape = try run.awaitSteadyState("a round that has ended") {
                $0.sum("causeway_audience_rounds") == 0
            }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            try run.setFaults(json: #"{"latencyMillisecondsMin":2000,"latencyMillisecondsMax":2000}"#)
            var dueDate = Date()
            let slowScrape = try run.awaitSteadyState(
                "a round that has not ended for a minute",
                alerting: [.roundsSlow],
                meanwhile: {
                    try run.takeResults(milliseconds: 1)
                    guard Date() >= dueDate else { return }
                    dueDate = Date(timeIntervalSinceNow: 1)
                    try send()
                }
            ) { ($0.sum("causeway_audience_members_total", ["outcome": "delivered"]) ?? 0) > 60 }
            #expect(try run.findings().contains("CausewayRoundsSlow"))
            history.add(slowScrape, minutes: 6, firing: "CausewayRoundsSlow")
            try run.clearFaults()
            let endScrape = try run.awaitSteadyState("no round") { $0.sum("causeway_audience_rounds") == 0 }
            #expect(try !run.findings().contains("CausewayRoundsSlow"))
            history.addExpectingNoAlert(endScrape, minutes: 10)
        }
    }
}
