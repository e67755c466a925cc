import Foundation
import Testing

@testable import CausewayLab

/// Audience commands come faster than rounds end, which causes ``CausewayRoundsSlow``.
@Suite("The causes of alerts about audiences", .timeLimit(.minutes(10)))
struct PrometheusAlertAudienceTests {
    /// APNs answers after two seconds, and a command comes every second. A round therefore takes longer than
    /// the time between two commands.
    @Test func `Commands that come faster than rounds run cause an alert`() async throws {
        try await withAlerts(apps: ["match"]) { run, history in
            let scene = try MatchScene(run)
            let goal = try #require(try scene.files.records("commands.jsonl").first { $0["audience"] != nil })
            var sent = 0
            func send() throws {
                var (command, aps) = (goal, goal["aps"] as? JSONObject ?? [:])
                sent += 1
                aps["timestamp"] = Int(Date().timeIntervalSince1970)
                aps["relevance-score"] = sent
                command["aps"] = aps
                command["id"] = "state-\(sent)"
                command["sequence"] = sent
                try run.send(command)
            }
            try send()
            try scene.awaitDelivered("state-1")
            let well = try run.awaitState("a round that has ended") { $0.sum("causeway_audience_rounds") == 0 }
            history.addQuiet(well, minutes: 15)
            try run.fault(#"{"latencyMillisecondsMin":2000,"latencyMillisecondsMax":2000}"#)
            var due = Date()
            let slow = try run.awaitState(
                "a round that has not ended for a minute",
                alerting: [.roundsSlow],
                meanwhile: {
                    try run.takeResults(milliseconds: 1)
                    guard Date() >= due else { return }
                    due = Date(timeIntervalSinceNow: 1)
                    try send()
                }
            ) { ($0.sum("causeway_audience_members_total", ["outcome": "delivered"]) ?? 0) > 60 }
            #expect(try run.findings().contains("CausewayRoundsSlow"))
            history.add(slow, minutes: 6, firing: "CausewayRoundsSlow")
            try run.endFaults()
            let over = try run.awaitState("no round") { $0.sum("causeway_audience_rounds") == 0 }
            #expect(try !run.findings().contains("CausewayRoundsSlow"))
            history.addQuiet(over, minutes: 10)
        }
    }
}
