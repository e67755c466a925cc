import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// A policy limits the lifetime of activities, so the worker ends them with their last state. (R34, R35)
@Suite("Lifetimes", .serialized, .timeLimit(.minutes(10)))
struct LifetimeTests {
    /// Long enough for a test to restart the worker or empty Redis before the activities are due.
    private static let lifetimeSeconds = 12

    private static func withLifetime(_ text: String, _ deployment: Deployment) -> String {
        text + "policies:\n  default:\n    lifetimeSeconds: \(lifetimeSeconds)\n"
    }

    /// Sets a lifetime of 20 s, so that the restarted activity lives long enough for an update.
    private static func withRestart(_ text: String, _ deployment: Deployment) -> String {
        text + "policies:\n  default:\n    lifetimeSeconds: 20\n    afterLifetime: restart\n"
    }

    /// A tenth of the default times, so that the test is short.
    private static let deferralSettings =
        "\nworker:\n  deferAfterMilliseconds: 1000\n  deferredDelayMilliseconds: 3000\n"

    /// The worker that wrote the timetables is killed before the activities are due. Then two other workers read the
    /// timetables at the same time.
    @Test func `Activities end once, with their last state, after the worker was killed`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"], configure: Self.withLifetime)
            defer { run.close() }
            let registeredPhones = try RegisteredPhones(run, count: 8)
            try registeredPhones.send(to: registeredPhones.activities)
            try run.awaitAccepted((1...8).map { "crowd-\($0)" })
            let contentsBefore = try registeredPhones.activities.map { try run.readContentState(of: $0) }
            try run.deployment.killAndRestartWorker()
            let secondWorker = try run.startSecondWorker()
            defer { secondWorker.stop(graceMilliseconds: 0) }

            try run.await("the end of every activity") {
                try run.takeResults(milliseconds: 10)
                return run.results.lifetimeEndOutcomes.count == 8
            }
            let ends = run.results.lifetimeEndOutcomes
            #expect(ends.values.allSatisfy { outcomes in outcomes.filter { $0 == "accepted" }.count == 1 }, "\(ends)")
            for (activity, content) in zip(registeredPhones.activities, contentsBefore) {
                let phone = try run.readActivity(activity, app: "com.example.ride")
                #expect(phone["state"] as? String == "ended", "\(phone)")
                #expect(try run.readContentState(of: activity) == content)
            }
            try run.await("empty timetables") { try run.areTimetablesEmpty() }
        }
    }

    /// The worker is killed while ends are claimed, produced, sent and settled. An end that was settled without a
    /// result gets the result `duplicate`. An end that APNs accepted, but that was not settled, is sent again. Its
    /// token is dead by then, so its result is `unregistered`.
    @Test func `The next worker finishes an end that was under way when the worker was killed`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"], configure: Self.withLifetime)
            defer { run.close() }
            let registeredPhones = try RegisteredPhones(run, count: 20)
            try registeredPhones.send(to: registeredPhones.activities)
            try run.awaitAccepted((1...20).map { "crowd-\($0)" })
            try run.await("the end of any activity") {
                try run.takeResults(milliseconds: 2)
                return !run.results.lifetimeEndOutcomes.isEmpty
            }
            for _ in 0..<2 { try run.deployment.killAndRestartWorker() }
            let expectedOutcomes: Set = ["accepted", "duplicate", "unregistered"]
            try run.await("the end of every activity") {
                try run.takeResults(milliseconds: 10)
                let ends = run.results.lifetimeEndOutcomes
                return ends.count == 20 && ends.values.allSatisfy { !expectedOutcomes.isDisjoint(with: $0) }
            }
            for activity in registeredPhones.activities {
                #expect(try run.readActivity(activity, app: "com.example.ride")["state"] as? String == "ended")
            }
            try run.await("empty timetables") { try run.areTimetablesEmpty() }
        }
    }

    /// The worker is killed as soon as the end has its result, usually before the new start. The phone shows the last
    /// state again, and accepts updates.
    @Test func `An activity is started again after its lifetime, with its last state`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["restaurant"], configure: Self.withRestart)
            defer { run.close() }
            let (order, start) = try run.startOrder()
            let contentsBefore = try run.readContentState(of: order, app: "com.example.restaurant")

            try run.await("the end of the order's activity") {
                try run.takeResults(milliseconds: 2)
                return run.results.lifetimeEndOutcomes[order] != nil
            }
            try run.deployment.killAndRestartWorker()
            // The fourth registration has the token of the restarted activity.
            try run.relayRegistrations(until: 4)
            #expect(try run.readActivity(order, app: "com.example.restaurant")["state"] as? String == "active")
            #expect(try run.readContentState(of: order, app: "com.example.restaurant") == contentsBefore)
            let state: JSONObject = ["courier": "Ben", "deliveryState": "completed", "timestamp": 1]
            try run.send(start.movedToNow(id: "again", activity: order, state: state))
            try run.awaitAccepted(["again"])
            let starts = run.results.byCommand.values.joined().filter { $0["cause"] != nil && $0["device"] != nil }
            #expect(starts.filter { $0["outcome"] as? String == "accepted" }.count == 1, "\(starts)")
        }
    }

    /// The worker defers the end and reads it again many times. Meanwhile the keeper must not produce a second end.
    @Test func `An activity ends once, although APNs responds with 503 for longer than a claim lasts`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["restaurant"]) { text, deployment in
                Self.withRestart(text, deployment).replacingRequired("\nworker:\n", with: Self.deferralSettings)
            }
            defer { run.close() }
            let (order, _) = try run.startOrder()
            let fault = Array(#"{"reasonShares": {"ServiceUnavailable": 1}}"#.utf8)
            _ = try run.phones.client.requestSuccessfully("PUT", "/faults", body: fault)
            // The end is deferred every 4 s, so ten deferrals take 40 s: longer than a claim.
            try run.awaitMetrics("a command that is deferred for 40 seconds", within: .seconds(120)) {
                $0.sum("causeway_deferred_total") ?? 0 >= 10
            }
            _ = try run.phones.client.requestSuccessfully("DELETE", "/faults")
            try run.await("the end of the order's activity") {
                try run.takeResults(milliseconds: 2)
                return run.results.lifetimeEndOutcomes[order] != nil
            }
            // The fourth registration has the token of the restarted activity.
            try run.relayRegistrations(until: 4)
            #expect(try run.readActivity(order, app: "com.example.restaurant")["state"] as? String == "active")
            #expect(run.results.lifetimeEndOutcomes[order]?.first == "accepted", "\(run.results.lifetimeEndOutcomes)")
        }
    }

    /// Redis is empty before the activities are due. The worker reads their registrations and updates again, and so
    /// fills the timetables again.
    @Test func `Activities still end after Redis has lost all data`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"], configure: Self.withLifetime)
            defer { run.close() }
            let registeredPhones = try RegisteredPhones(run, count: 4)
            try registeredPhones.send(to: registeredPhones.activities)
            try run.awaitAccepted((1...4).map { "crowd-\($0)" })
            try run.awaitMarks()
            try run.deployment.replaceRedis()
            try run.await("the end of every activity") {
                try run.takeResults(milliseconds: 10)
                return run.results.lifetimeEndOutcomes.count == 4
                    && run.results.lifetimeEndOutcomes.values.allSatisfy { $0.contains("accepted") }
            }
        }
    }
}

extension ReceivedResults {
    /// The outcomes of the commands with which keepers end activities at the end of their lifetime, by activity.
    fileprivate var lifetimeEndOutcomes: [String: [String]] {
        var ends: [String: [String]] = [:]
        for result in byCommand.values.joined() where result["cause"] as? String == "lifetime" {
            guard let activity = result["activity"] as? String, let outcome = result["outcome"] as? String else {
                continue
            }
            ends[activity, default: []].append(outcome)
        }
        return ends
    }
}

extension ExampleRun {
    /// Starts an order of the restaurant's example on its phone, and sends one update.
    ///
    /// - Returns: the order's activity, and the command that started it.
    fileprivate func startOrder() throws -> (activity: String, start: JSONObject) {
        let files = ExampleFiles("restaurant")
        try post("/phones", try files.object("phones.json"))
        try relayRegistrations(until: 2)
        let commands = try files.records("commands.jsonl")
        let order = "order-89"
        let start = try #require(commands.first { $0["activity"] as? String == order })
        let update = try #require(commands.last { $0["activity"] as? String == "order-88" && !$0.isEnd })
        try send(start.movedToNow(id: "start"))
        try awaitAccepted(["start"])
        try relayRegistrations(until: 3)
        try send(update.movedToNow(id: "update", activity: order))
        try awaitAccepted(["update"])
        return (order, start)
    }

    fileprivate func readContentState(of activity: String, app: String = "com.example.ride") throws -> NSDictionary {
        try #require(try self.readActivity(activity, app: app)["contentState"] as? NSDictionary)
    }

    fileprivate func areTimetablesEmpty() throws -> Bool {
        let script =
            // Lua: the sum of the sizes of the 32 timetables.
            "local n = 0 for i = 0, 31 do n = n + redis.call('ZCARD', '{causeway:lifetimes:' .. i .. '}') end return n"
        let reply = try #require(Deployment.requestRedisReply(port: deployment.redisPort, to: "EVAL \"\(script)\" 0"))
        return reply.dropFirst() == "0"
    }

    /// Starts a second worker of the same group.
    fileprivate func startSecondWorker() throws -> ChildProcess {
        let text = try String(contentsOfFile: deployment.path("causeway.yaml"), encoding: .utf8)
        let port = try LoopbackPort.findFree()
        try TextFile.write(
            text.replacingRequired("  port: \(deployment.httpPort)\n", with: "  port: \(port)\n"),
            to: deployment.path("second.yaml")
        )
        return try ChildProcess(
            name: "second worker",
            command: [try ExampleRun.programs.causeway, "worker", "--config", deployment.path("second.yaml")],
            logFile: deployment.path("second.log")
        )
    }
}

extension JSONObject {
    fileprivate var isEnd: Bool { (self["aps"] as? JSONObject)?["event"] as? String == "end" }

    /// Returns the command with the present time, and for another activity if one is given. If a state is given, the
    /// command becomes an update with this state.
    fileprivate func movedToNow(id: String, activity: String? = nil, state: JSONObject? = nil) -> JSONObject {
        var (command, aps) = (self, self["aps"] as? JSONObject ?? [:])
        let seconds = Int(Date().timeIntervalSince1970)
        aps["timestamp"] = seconds
        if let state { aps = ["timestamp": seconds, "event": "update", "content-state": state] }
        command["aps"] = aps
        command["id"] = id
        if let activity { command["activity"] = activity }
        if state != nil { command["device"] = nil }
        return command
    }
}
