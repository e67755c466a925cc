import Foundation
import Testing

@testable import CausewayLab

/// Many phones with one activity each, whose registrations were written to Kafka.
final class RegisteredPhones {
    let activities: [String]
    private let run: ExampleRun
    private let update: JSONObject
    private var sentCount = 0

    /// - Parameter relayedRegistrationCount: the number of registrations that were relayed before.
    init(_ run: ExampleRun, count: Int, relayedRegistrationCount: Int = 0) throws {
        self.run = run
        activities = (0..<count).map { "crowd-\($0)" }
        let files = ExampleFiles("ride")
        let devices = (0..<count).map { "crowd-phone-\($0)" }
        try run.post("/phones", ["app": "com.example.ride", "devices": devices, "frequentUpdates": true])
        var starts = try files.object("app-starts.json")
        let start = try #require((starts["activities"] as? [JSONObject])?.first)
        starts["activities"] = zip(activities, devices)
            .map { activity, device in start.merging(["activity": activity, "device": device]) { $1 } }
        try run.post("/activities", starts)
        // Each phone registers its push-to-start token, and the update token of its activity.
        try run.relayRegistrations(until: relayedRegistrationCount + 2 * count)
        update = try #require(
            try files.records("commands.jsonl").first { ($0["aps"] as? JSONObject)?["event"] as? String == "update" }
        )
    }

    /// Sends an update to each of these activities. Any outcome is allowed.
    func send(to chosenActivities: some Sequence<String>, payload: JSONObject? = nil) throws {
        for activity in chosenActivities {
            sentCount += 1
            var (command, aps) = (update, update["aps"] as? JSONObject ?? [:])
            aps["timestamp"] = Int(Date().timeIntervalSince1970)
            aps["relevance-score"] = sentCount
            command["aps"] = aps
            command["activity"] = activity
            command["id"] = "crowd-\(sentCount)"
            command["sequence"] = sentCount
            command["expiration"] = nil
            command["payload"] = payload
            try run.send(command)
        }
    }
}
