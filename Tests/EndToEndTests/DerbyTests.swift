import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// The block `channels` of the example's configuration. The block names both environments of APNs. The run has only the
/// sandbox, so `production` is removed.
private struct DerbyConfiguration {
    private let channelsBlock: String

    init(_ files: ExampleFiles) throws {
        let lines = try String(contentsOfFile: files.path("causeway.yaml"), encoding: .utf8).split(separator: "\n")
        let start = try #require(lines.firstIndex { $0 == "    channels:" })
        channelsBlock =
            lines[start...].prefix { $0 == "    channels:" || $0.hasPrefix("      ") }.joined(separator: "\n")
            .replacingRequired("[production, sandbox]", with: "[sandbox]") + "\n"
    }

    /// Returns the run's configuration with the block, and with the simulator as the channel management of APNs.
    func apply(_ text: String, _ deployment: Deployment) throws -> String {
        let port = "    port: \(deployment.simulator.apnsPort)\n"
        let app = "    bundleId: com.example.derby\n"
        try #require(text.contains(port) && text.contains(app) && channelsBlock.contains("derby-*"))
        let managementSettings =
            "    managementHost: localhost\n    managementPort: \(deployment.simulator.managementPort)\n"
        return text.replacingRequired(port, with: port + managementSettings)
            .replacingRequired(app, with: app + channelsBlock)
    }
}

@Suite("The example of a derby, half of whose followers are on a channel", .timeLimit(.minutes(10)))
struct DerbyTests {
    private let files = ExampleFiles("derby")
    private let app = "com.example.derby"

    @Test func `Every follower shows each goal`() async throws {
        try await onOwnThread {
            let configuration = try DerbyConfiguration(files)
            let run = try ExampleRun(["derby"], configure: configuration.apply)
            defer { run.close() }
            for file in ["phones.json", "older-phones.json"] { try run.post("/phones", try files.object(file)) }
            try awaitRegistrations(4, run)
            for command in try files.records("commands.jsonl") {
                try run.send(command)
                try awaitResult(of: command, run)
                // The activities of the two older phones have tokens, which the apps register. The other activities are
                // on the channel, and register nothing.
                if command["id"] as? String == "derby-start" { try awaitRegistrations(6, run) }
            }
            try checkRegistrations(run)
            try checkResults(run)
            for device in 31...34 { try checkPhone(device, run) }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    private func awaitRegistrations(_ count: Int, _ run: ExampleRun) throws {
        try run.relayRegistrations(until: count)
        try run.awaitMetrics("\(count) registrations that are settled") {
            $0.sum("causeway_records_received_total", ["topic": "registrations"]) == Double(count)
                && $0.sum("causeway_records_in_progress") == 0 && $0.highest("causeway_oldest_unsettled_seconds") == 0
        }
    }

    /// Waits for the result of the whole command. For a command to the audience, this result comes when all ranges and
    /// broadcasts have ended. It has the field `ranges`.
    private func awaitResult(of command: JSONObject, _ run: ExampleRun) throws {
        let identifier = try #require(command["id"] as? String)
        let isToAudience = command["audience"] != nil
        try run.await("the result of \(identifier)") {
            try run.takeResults(milliseconds: 20)
            return (run.results.byCommand[identifier] ?? []).contains { !isToAudience || $0["ranges"] != nil }
        }
    }

    /// Checks that `registrations.jsonl` shows the records that the apps post. The fields `token`, `registeredAt` and
    /// `shows` are not compared, because their values differ from run to run.
    private func checkRegistrations(_ run: ExampleRun) throws {
        let receivedRegistrations = try run.readRegistrations()
        let records = try files.records("registrations.jsonl")
        #expect(receivedRegistrations.count == records.count)
        for record in records {
            let matchingRegistrations = receivedRegistrations.filter {
                isSameJSON($0["activity"], record["activity"]) && isSameJSON($0["device"], record["device"])
            }
            #expect(matchingRegistrations.count == 1, "\(record)")
            let comparedKeys = Set(record.keys).subtracting(["token", "registeredAt", "shows"])
            #expect(
                matchingRegistrations.allSatisfy { post in comparedKeys.allSatisfy { isSameJSON(post[$0], record[$0]) }
                },
                "\(record), \(matchingRegistrations)"
            )
            #expect(
                matchingRegistrations.allSatisfy { isSameJSON($0["channels"], record["channels"]) },
                "\(matchingRegistrations)"
            )
        }
    }

    /// Checks that each result in `results.jsonl` came once, and that the commands in this file have no other results.
    /// Results about single devices are not counted.
    private func checkResults(_ run: ExampleRun) throws {
        let expected = try files.records("results.jsonl")
        for record in expected {
            let command = try #require(record["command"] as? String)
            let matchCount = (run.results.byCommand[command] ?? [])
                .count { result in record.allSatisfy { isSameJSON(result[$0.key], $0.value) } }
            #expect(matchCount == 1, "\(record): \(run.results.byCommand[command] ?? [])")
        }
        for command in Set(expected.compactMap { $0["command"] as? String }) {
            let commandResults = (run.results.byCommand[command] ?? []).filter { $0["device"] == nil }
            #expect(commandResults.count == expected.count { $0["command"] as? String == command }, "\(commandResults)")
        }
    }

    private func checkPhone(_ device: Int, _ run: ExampleRun) throws {
        let shownActivity = try run.readActivity("phone-\(device)-MatchAttributes-0", app: app)
        let lastAps = try #require(try files.records("commands.jsonl").last?["aps"] as? JSONObject)
        #expect(isSameJSON(shownActivity["contentState"], lastAps["content-state"]), "phone-\(device)")
        #expect(
            shownActivity["state"] as? String == "ended" && shownActivity["alertCount"] as? Int == 4,
            "phone-\(device)"
        )
        let isOnChannel = device < 33
        #expect(
            (shownActivity["channel"] != nil) == isOnChannel && (shownActivity["token"] == nil) == isOnChannel,
            "phone-\(device)"
        )
        // The command to a single activity reaches only phone 33, which has a token, so this phone shows one
        // update more than the other phones.
        let updateCount = device == 33 ? 3 : 2
        #expect(
            shownActivity["effects"] as? [String: Int] == ["started": 1, "shown": updateCount, "ended": 1],
            "phone-\(device)"
        )
        if isOnChannel { #expect(shownActivity["broadcastsReceived"] as? Int == 3, "phone-\(device)") }
        for count in ["suspiciousDates", "regressions", "equalTimestamps"] {
            #expect(shownActivity[count] as? Int == 0)
        }
    }
}
