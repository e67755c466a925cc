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
            let scene = try MatchScene(run)
            let commands = try scene.files.records("commands.jsonl")
            for (number, command) in commands.enumerated() {
                if number == 2 { try scene.rotate("final-phone-22") }
                try run.send(command)
                let identifier = try #require(command["id"] as? String)
                if command["audience"] != nil {
                    try scene.awaitDelivered(identifier)
                } else {
                    try run.awaitAccepted([identifier])
                }
            }
            try Self.checkRegistrations(scene)
            try Self.checkResults(scene)
            for follower in scene.followers { try Self.check(follower, commands, scene) }
            let toAll = Double(commands.count { $0["audience"] != nil })
            try Self.checkMetrics(run, commands: toAll, members: toAll * Double(scene.followers.count))
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// Checks that `registrations.jsonl` shows the records that the apps register, except for tokens and
    /// times.
    private static func checkRegistrations(_ scene: MatchScene) throws {
        let real = try scene.run.registrations()
        for record in try scene.files.records("registrations.jsonl") {
            let same = real.filter { isSameJSON($0["activity"], record["activity"]) }
            #expect(!same.isEmpty)
            for key in record.keys where key != "token" && key != "registeredAt" {
                #expect(same.allSatisfy { isSameJSON($0[key], record[key]) }, "\(key)")
            }
        }
    }

    /// Checks that each result in `results.jsonl` came with all its fields, and that no other result came.
    private static func checkResults(_ scene: MatchScene) throws {
        let expected = try scene.files.records("results.jsonl")
        for record in expected {
            let command = try #require(record["command"] as? String)
            let found = (scene.run.results.results[command] ?? [])
                .count { result in record.allSatisfy { isSameJSON(result[$0.key], $0.value) } }
            #expect(found == 1, "\(record): \(scene.run.results.results[command] ?? [])")
        }
        #expect(scene.run.results.results.values.reduce(0) { $0 + $1.count } == expected.count)
    }

    private static func check(_ follower: String, _ commands: [JSONObject], _ scene: MatchScene) throws {
        let own = commands.filter { $0["audience"] != nil || $0["activity"] as? String == follower }
            .compactMap { $0["aps"] as? JSONObject }
        let shown = try scene.run.activity(follower, app: scene.app)
        #expect(isSameJSON(shown["contentState"], own.last?["content-state"]), "\(follower)")
        #expect(shown["alertCount"] as? Int == own.count { $0["alert"] != nil })
        #expect(shown["state"] as? String == "ended")
        let effects = shown["effects"] as? [String: Int] ?? [:]
        #expect(effects == ["shown": own.count - 1, "ended": 1], "\(follower)")
        for count in ["suspiciousDates", "regressions", "equalTimestamps"] { #expect(shown[count] as? Int == 0) }
    }

    private static func checkMetrics(_ run: ExampleRun, commands: Double, members: Double) throws {
        // The lanes publish their numbers at different times, so the test waits for a reading that has all
        // numbers.
        let scrape = try run.awaitMetrics("\(commands) commands, and no round") {
            $0.sum("causeway_audience_commands_total") == commands
                && $0.sum("causeway_audience_ranges_total", ["app": "match", "outcome": "delivered"]) == commands
                && $0.sum("causeway_audience_members_total", ["app": "match", "outcome": "delivered"]) == members
                && $0.sum("causeway_audience_range_seconds_count") == commands
                && $0.sum("causeway_audience_command_seconds_count") == commands
                && $0.sum("causeway_records_received_total", ["topic": "fanout"]) == commands
                && $0.sum("causeway_audience_rounds") == 0
        }
        #expect(scrape.sum("causeway_audience_ranges_total") == commands)
        #expect(scrape.sum("causeway_audience_members_total") == members)
        #expect(scrape.highest("causeway_audience_oldest_round_seconds") == 0)
        #expect(scrape.highest("causeway_audience_oldest_range_seconds") == 0)
        #expect(try #require(scrape.sum("causeway_audience_pages_read_total")) > 0)
        #expect(scrape.sum("causeway_audience_pages_damaged_total") == 0)
        for (change, count) in [("joined", 3.0), ("moved", 1), ("left", 0)] {
            #expect(
                scrape.sum("causeway_audience_memberships_total", ["app": "match", "change": change]) == count,
                "\(change)"
            )
        }
        #expect(try #require(scrape.sum("causeway_audience_pages_arranged_total")) > 0)
    }
}
