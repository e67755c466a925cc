import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("The example of a match, one command for everybody who follows it", .timeLimit(.minutes(10)))
struct MatchTests {
    @Test func `Every follower shows each goal`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["match"])
            defer { run.close() }
            let example = try MatchExample(run)
            let commands = try example.files.records("commands.jsonl")
            for (number, command) in commands.enumerated() {
                if number == 2 { try example.rotateToken(of: "final-phone-22") }
                try run.send(command)
                let identifier = try #require(command["id"] as? String)
                if command["audience"] != nil {
                    try example.awaitTotalResult(of: identifier)
                } else {
                    try run.awaitAccepted([identifier])
                }
            }
            try Self.checkRegistrations(example)
            try Self.checkResults(example)
            for follower in example.followers { try Self.checkFollower(follower, commands, example) }
            let audienceCommandCount = Double(commands.count { $0["audience"] != nil })
            try Self.checkMetrics(
                run,
                commandCount: audienceCommandCount,
                memberCount: audienceCommandCount * Double(example.followers.count)
            )
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// Checks that `registrations.jsonl` shows the records that the apps register, except for tokens and times.
    private static func checkRegistrations(_ example: MatchExample) throws {
        let receivedRegistrations = try example.run.readRegistrations()
        for record in try example.files.records("registrations.jsonl") {
            let matchingRegistrations = receivedRegistrations.filter { isSameJSON($0["activity"], record["activity"]) }
            #expect(!matchingRegistrations.isEmpty)
            for key in record.keys where key != "token" && key != "registeredAt" {
                #expect(matchingRegistrations.allSatisfy { isSameJSON($0[key], record[key]) }, "\(key)")
            }
        }
    }

    /// Checks that each result in `results.jsonl` came with all its fields, and that no other result came.
    private static func checkResults(_ example: MatchExample) throws {
        let expected = try example.files.records("results.jsonl")
        for record in expected {
            let command = try #require(record["command"] as? String)
            let matchCount = (example.run.results.byCommand[command] ?? [])
                .count { result in record.allSatisfy { isSameJSON(result[$0.key], $0.value) } }
            #expect(matchCount == 1, "\(record): \(example.run.results.byCommand[command] ?? [])")
        }
        #expect(example.run.results.byCommand.values.reduce(0) { $0 + $1.count } == expected.count)
    }

    private static func checkFollower(_ follower: String, _ commands: [JSONObject], _ example: MatchExample) throws {
        let ownCommands = commands.filter { $0["audience"] != nil || $0["activity"] as? String == follower }
            .compactMap { $0["aps"] as? JSONObject }
        let shownActivity = try example.run.readActivity(follower, app: example.app)
        #expect(isSameJSON(shownActivity["contentState"], ownCommands.last?["content-state"]), "\(follower)")
        #expect(shownActivity["alertCount"] as? Int == ownCommands.count { $0["alert"] != nil })
        #expect(shownActivity["state"] as? String == "ended")
        let effects = shownActivity["effects"] as? [String: Int] ?? [:]
        #expect(effects == ["shown": ownCommands.count - 1, "ended": 1], "\(follower)")
        for count in ["suspiciousDates", "regressions", "equalTimestamps"] {
            #expect(shownActivity[count] as? Int == 0)
        }
    }

    private static func checkMetrics(_ run: ExampleRun, commandCount: Double, memberCount: Double) throws {
        // The lanes publish their numbers at different times, so the test waits for a reading that has all
        // numbers.
        let scrape = try run.awaitMetrics("\(commandCount) commands, and no round") {
            $0.sum("causeway_audience_commands_total") == commandCount
                && $0.sum("causeway_audience_ranges_total", ["app": "match", "outcome": "delivered"]) == commandCount
                && $0.sum("causeway_audience_members_total", ["app": "match", "outcome": "delivered"]) == memberCount
                && $0.sum("causeway_audience_range_seconds_count") == commandCount
                && $0.sum("causeway_audience_command_seconds_count") == commandCount
                && $0.sum("causeway_records_received_total", ["topic": "fanout"]) == commandCount
                && $0.sum("causeway_audience_rounds") == 0
        }
        #expect(scrape.sum("causeway_audience_ranges_total") == commandCount)
        #expect(scrape.sum("causeway_audience_members_total") == memberCount)
        #expect(scrape.highest("causeway_audience_oldest_round_seconds") == 0)
        #expect(scrape.highest("causeway_audience_oldest_range_seconds") == 0)
        #expect(try #require(scrape.sum("causeway_audience_pages_read_total")) > 0)
        #expect(scrape.sum("causeway_audience_pages_damaged_total") == 0)
        for (change, count) in [("joined", 3.0), ("updated", 1), ("left", 0)] {
            #expect(
                scrape.sum("causeway_audience_memberships_total", ["app": "match", "change": change]) == count,
                "\(change)"
            )
        }
        #expect(try #require(scrape.sum("causeway_audience_pages_arranged_total")) > 0)
    }
}
