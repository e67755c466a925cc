import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// States that are too large for APNs lose the fields that their policy names. All programs are real processes.
/// The simulator refuses bodies that are too large, as APNs does.
@Suite("States that are too large", .timeLimit(.minutes(10)))
struct OversizeTests {
    private static let longText = String(repeating: "x", count: 6_000)

    private func makeRun() throws -> ExampleRun {
        try ExampleRun(["ride"]) { text, deployment in
            let port = "    port: \(deployment.simulator.apnsPort)\n"
            let managementSettings =
                "    managementHost: localhost\n    managementPort: \(deployment.simulator.managementPort)\n"
            let app = "    bundleId: com.example.ride\n"
            try #require(text.contains(port) && text.contains(app) && !text.contains("\npolicies:"))
            return text.replacingRequired(port, with: port + managementSettings)
                .replacingRequired(
                    app,
                    with: app + "    channels: {audiences: [\"ride-*\"], environments: [sandbox]}\n"
                ) + "\npolicies:\n  default:\n    oversize: [absent, notes, map.tiles]\n"
        }
    }

    /// Returns a command that is too large for APNs. It fits if `map.tiles` is dropped from its content state.
    private func makeCommand(_ identifier: String, _ address: JSONObject, like update: JSONObject) -> JSONObject {
        var state = (update["aps"] as? JSONObject)?["content-state"] as? JSONObject ?? [:]
        state["map"] = ["zoom": 3, "tiles": Self.longText] as JSONObject
        let aps: JSONObject = [
            "event": "update", "timestamp": Int(Date().timeIntervalSince1970), "content-state": state,
        ]
        let command: JSONObject = ["app": "com.example.ride", "id": identifier, "aps": aps]
        return command.merging(address) { _, address in address }
    }

    @Test func `Activities, audiences and channels get the smaller body, and results name the dropped fields`()
        async throws
    {
        try await onOwnThread {
            let run = try makeRun()
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.awaitToken()
            try run.send(makeCommand("single", ["activity": updates.activity], like: updates.exampleUpdate))
            try run.awaitAccepted(["single"])
            #expect(run.results.lastResult("single")?["dropped"] as? [String] == ["map.tiles"])
            let shownActivity = try run.readActivity(updates.activity, app: "com.example.ride")
            let map = try #require((shownActivity["contentState"] as? JSONObject)?["map"] as? JSONObject)
            #expect(map as NSDictionary == ["zoom": 3])

            try run.send(makeCommand("many", ["audience": "ride-all"], like: updates.exampleUpdate))
            try run.results.await(["many"], outcome: "delivered") { try run.takeResults(milliseconds: 100) }
            let broadcast = try #require(run.results.byCommand["many"]?.first { $0["environment"] != nil })
            #expect(broadcast["dropped"] as? [String] == ["map.tiles"], "\(broadcast)")
            let channel = try #require(broadcast["channel"] as? String)

            try run.send(
                makeCommand("own", ["channel": channel, "environment": "sandbox"], like: updates.exampleUpdate)
            )
            try run.results.await(["own"], outcome: "delivered") { try run.takeResults(milliseconds: 20) }
            #expect(run.results.lastResult("own")?["dropped"] as? [String] == ["map.tiles"])

            // The payload is too large, and no field may be dropped from it.
            try run.send(
                makeCommand(
                    "never",
                    ["activity": updates.activity, "payload": ["more": Self.longText]],
                    like: updates.exampleUpdate
                )
            )
            try run.results.await(["never"], outcome: "invalid") { try run.takeResults(milliseconds: 20) }
            #expect(run.results.lastResult("never")?["reason"] as? String == "bodyTooLarge")
            try run.awaitMetrics("the bodies with dropped fields") {
                $0.sum("causeway_bodies_with_dropped_fields_total", ["app": "ride"]) == 3
            }
        }
    }
}
