import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Sends updates to the activity that the ride example's app started. Each update has another content.
final class RideUpdates {
    let run: ExampleRun
    let exampleUpdate: JSONObject
    let activity: String
    private var sentIdentifiers: [String] = []

    init(_ run: ExampleRun) throws {
        self.run = run
        let files = ExampleFiles("ride")
        let phones = try files.object("phones.json")
        let starts = try files.object("app-starts.json")
        try run.post("/phones", phones)
        try run.post("/activities", starts)
        let started = try #require(starts["activities"] as? [JSONObject])
        activity = try #require(started.first?["activity"] as? String)
        try run.relayRegistrations(until: try #require(phones["devices"] as? [String]).count + started.count)
        let commands = try files.records("commands.jsonl")
        exampleUpdate = try #require(commands.first { ($0["aps"] as? JSONObject)?["event"] as? String == "update" })
    }

    /// Waits until Redis has the activity's token. A command that comes before the token is held. When the registration
    /// releases this command, the command continues in the registration's trace and not in its own.
    func awaitToken() throws { try run.awaitRedisValue(of: activity, app: "com.example.ride") }

    var outcomes: [String] { sentIdentifiers.map { run.results.outcome($0) ?? "none" } }

    /// Sends an update and waits until its result is `accepted`.
    ///
    /// - Returns: the command's id.
    @discardableResult
    func sendOne(headers: [(name: StaticString, value: String)] = []) throws -> String {
        let identifier = try sendWithoutWaiting(headers: headers)
        try run.awaitAccepted([identifier])
        return identifier
    }

    func awaitAll() throws { try run.awaitAccepted(sentIdentifiers) }

    /// - Returns: the command's id.
    @discardableResult
    func sendWithoutWaiting(headers: [(name: StaticString, value: String)] = []) throws -> String {
        let identifier = "update-\(sentIdentifiers.count)"
        var (command, aps) = (exampleUpdate, exampleUpdate["aps"] as? JSONObject ?? [:])
        aps["timestamp"] = Int(Date().timeIntervalSince1970)
        // Each command has another score, because a command that differs only in its timestamp is `unchanged` and is
        // not sent.
        aps["relevance-score"] = sentIdentifiers.count
        command["aps"] = aps
        command["activity"] = activity
        command["id"] = identifier
        command["sequence"] = sentIdentifiers.count + 1
        command["expiration"] = nil
        command["priority"] = 10
        sentIdentifiers.append(identifier)
        try run.send(command, headers: headers)
        return identifier
    }

    /// Sends updates until the worker's log has a text, behind another text if one is given.
    func send(untilLogHas text: String, after earlierText: String = "") throws {
        var log = ""
        // Each `sendOne` waits for its result, so the loop needs no further pause.
        try eventually("\(text) in the worker's log:\n\(log)", every: .zero) {
            log = (try? String(contentsOfFile: run.deployment.path("worker.log"), encoding: .utf8)) ?? ""
            let start = earlierText.isEmpty ? log.startIndex : log.range(of: earlierText)?.upperBound ?? log.endIndex
            if log[start...].contains(text) { return true }
            try sendOne()
            return false
        }
    }
}
