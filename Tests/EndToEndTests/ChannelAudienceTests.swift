import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Half of an audience's activities are on a channel, and the other half have tokens. One command reaches both halves:
/// a start, an update or an end.
@Suite("An audience on a channel and on tokens", .timeLimit(.minutes(10)))
struct ChannelAudienceTests {
    private static let app = "com.example.match"
    private static let audience = "cup-final"
    private static let channelDevices = (0..<6).map { "new-\($0)" }
    private static let tokenDevices = (0..<6).map { "old-\($0)" }
    private static let devices = channelDevices + tokenDevices

    private func makeRun() throws -> ExampleRun {
        try ExampleRun(["match"], configure: ExampleRun.withChannels("cup-*", of: Self.app))
    }

    private func makeCommand(_ number: Int, _ event: String, goals: Int) -> JSONObject {
        var aps: JSONObject = [
            "event": event, "timestamp": Int(Date().timeIntervalSince1970),
            "content-state": [
                "phase": "firstHalf", "minute": number, "homeGoals": goals, "awayGoals": 0,
            ] as JSONObject,
        ]
        var command: JSONObject = [
            "app": Self.app, "audience": Self.audience, "id": "final-\(number)", "sequence": number, "priority": 10,
        ]
        if event == "start" {
            aps["attributes-type"] = "MatchAttributes"
            aps["attributes"] = ["home": "Rovers", "away": "United", "competition": "Cup"]
            aps["alert"] = ["title": "Kick-off", "body": "Rovers meet United"]
            command["activity"] = "{device}-MatchAttributes-0"
        }
        if event == "end" { aps["dismissal-date"] = Int(Date().timeIntervalSince1970) + 3_600 }
        command["aps"] = aps
        return command
    }

    /// Sends a command, and waits for its total result, which covers all ranges and broadcasts.
    private func send(_ number: Int, _ event: String, goals: Int = 0, _ run: ExampleRun) throws -> JSONObject {
        try run.send(makeCommand(number, event, goals: goals))
        func findTotalResult() -> JSONObject? {
            run.results.byCommand["final-\(number)"]?.first { $0["ranges"] != nil }
        }
        try run.await("the result of \(event) \(number)") {
            try run.takeResults(milliseconds: 20)
            return findTotalResult() != nil
        }
        return try #require(findTotalResult())
    }

    private func awaitRegistrations(_ count: Int, _ run: ExampleRun) throws {
        try run.relayRegistrations(until: count)
        try run.awaitMetrics("\(count) registrations that are settled") {
            $0.sum("causeway_records_received_total", ["topic": "registrations"]) == Double(count)
                && $0.sum("causeway_records_in_progress") == 0 && $0.highest("causeway_oldest_unsettled_seconds") == 0
        }
    }

    private func readActivities(_ run: ExampleRun) throws -> [String: JSONObject] {
        var activities: [String: JSONObject] = [:]
        for device in Self.devices {
            activities[device] = try? run.readActivity("\(device)-MatchAttributes-0", app: Self.app)
        }
        return activities
    }

    private func isShownOnEveryPhone(_ goals: Int, _ state: String, _ run: ExampleRun) throws -> Bool {
        try readActivities(run).values
            .count {
                ($0["contentState"] as? JSONObject)?["homeGoals"] as? Int == goals && $0["state"] as? String == state
            } == Self.devices.count
    }

    private func awaitShownOnEveryPhone(_ goals: Int, _ state: String, _ run: ExampleRun) throws {
        try run.await("\(goals) goals on every phone") {
            try run.takeResults(milliseconds: 50)
            return try isShownOnEveryPhone(goals, state, run)
        }
    }

    private func registerDevices(_ run: ExampleRun) throws {
        for (devices, supportsChannels) in [(Self.channelDevices, true), (Self.tokenDevices, false)] {
            try run.post(
                "/phones",
                ["app": Self.app, "devices": devices, "channels": supportsChannels, "audiences": [Self.audience]]
            )
        }
        try awaitRegistrations(Self.devices.count, run)
    }

    /// Returns all channels that APNs has or had.
    private func readChannels(_ run: ExampleRun) throws -> [JSONObject] {
        let body = try LoopbackHTTPClient(port: run.deployment.simulator.controlPort)
            .requestSuccessfully("GET", "/channels?app=\(Self.app)")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? JSONObject)
        return try #require(object["channels"] as? [JSONObject])
    }

    /// Redis loses the registry of channels and the audience's channel. The worker must find the first channel again,
    /// because the phones subscribe to no other.
    ///
    /// - Parameter isReplaced: true if an empty Redis server replaces the first one; false if an operator empties
    ///   Redis.
    @Test(arguments: [false, true])
    func `The channel continues after Redis was emptied`(isReplaced: Bool) async throws {
        try await onOwnThread {
            let run = try makeRun()
            defer { run.close() }
            try registerDevices(run)
            _ = try send(1, "start", run)
            try awaitRegistrations(Self.devices.count + Self.tokenDevices.count, run)
            _ = try send(2, "update", goals: 1, run)
            try awaitShownOnEveryPhone(1, "active", run)
            try run.awaitMarks()

            if isReplaced { try run.deployment.replaceRedis() } else { try run.deployment.wipeRedis() }
            // The worker must find the channel again. If an operator empties Redis, a worker on a slow machine may need
            // more than two seconds to notice this. It then sends this command without a broadcast, and the result has
            // the field `channel`.
            let firstResult = try send(3, "update", goals: 2, run)
            if firstResult["channel"] == nil { try awaitShownOnEveryPhone(2, "active", run) }
            var number = 4
            try run.await("3 goals on every phone") {
                number += 1
                _ = try send(number, "update", goals: 3, run)
                try run.takeResults(milliseconds: 500)
                return try isShownOnEveryPhone(3, "active", run)
            }
            _ = try send(number + 1, "end", goals: 4, run)
            try awaitShownOnEveryPhone(4, "ended", run)
            #expect(try readChannels(run).count == 1)
        }
    }

    /// An end is the last command of its audience. If it does not reach the phones, no later command repairs this.
    @Test func `An end reaches the channel after an empty Redis has replaced the first one`() async throws {
        try await onOwnThread {
            let run = try makeRun()
            defer { run.close() }
            try registerDevices(run)
            _ = try send(1, "start", run)
            try awaitRegistrations(Self.devices.count + Self.tokenDevices.count, run)
            _ = try send(2, "update", goals: 1, run)
            try awaitShownOnEveryPhone(1, "active", run)
            try run.awaitMarks()
            try run.deployment.replaceRedis()
            let result = try send(3, "end", goals: 2, run)
            #expect(result["broadcasts"] as? [String: Int] == ["delivered": 1])
            try awaitShownOnEveryPhone(2, "ended", run)
        }
    }

    @Test func `Each single command reaches every phone`() async throws {
        try await onOwnThread {
            let run = try makeRun()
            defer { run.close() }
            try registerDevices(run)

            let startResult = try send(1, "start", run)
            #expect(startResult["members"] as? [String: Int] == ["started": 12])
            #expect(startResult["channel"] == nil, "the first command has waited for the channel")
            // Activities on a channel do not register; only those with tokens do.
            try awaitRegistrations(Self.devices.count + Self.tokenDevices.count, run)
            for (device, activity) in try readActivities(run) {
                #expect((activity["channel"] != nil) == Self.channelDevices.contains(device), "\(device)")
            }

            for goals in 1...3 {
                let result = try send(1 + goals, "update", goals: goals, run)
                #expect(result["broadcasts"] as? [String: Int] == ["delivered": 1])
                #expect((result["members"] as? [String: Int])?["delivered"] == Self.tokenDevices.count)
                try awaitShownOnEveryPhone(goals, "active", run)
            }
            let endResult = try send(9, "end", goals: 4, run)
            #expect(endResult["broadcasts"] as? [String: Int] == ["delivered": 1])
            try awaitShownOnEveryPhone(4, "ended", run)

            for (device, activity) in try readActivities(run) {
                #expect(activity["effects"] as? [String: Int] == ["started": 1, "shown": 3, "ended": 1], "\(device)")
                for count in ["regressions", "equalTimestamps"] { #expect(activity[count] as? Int == 0, "\(device)") }
            }
        }
    }
}
