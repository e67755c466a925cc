import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Runs the given example apps, by default the ride app. `body` adds readings and expected alerts to `history`. At the
/// end, the chart's rules are evaluated over these readings. Exactly the expected alerts must fire.
func evaluatingAlerts(
    apps: [String] = ["ride"],
    lanes: Int = 2,
    replicas: Int = 0,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @Sendable (_ run: ExampleRun, _ history: inout PrometheusAlertHistory) throws -> Void
) async throws {
    try await onOwnThread {
        let run = try ExampleRun(apps) { text, _ in
            text.replacingOccurrences(of: "lanes: 2", with: "lanes: \(lanes)")
                .replacingOccurrences(of: "redis:\n", with: "redis:\n  replicas: \(replicas)\n")
        }
        defer { run.close() }
        var history = PrometheusAlertHistory()
        try body(run, &history)
        try history.evaluate(sourceLocation: sourceLocation)
    }
}

extension PrometheusAlertHistory {
    /// Adds a reading, and expects that exactly these alerts fire at its end.
    mutating func add(_ scrape: Scrape?, minutes: Int, firing alerts: String...) {
        add(scrape, minutes: minutes)
        expect(alerts)
    }

    /// Adds a reading, and expects that no alert fires at its end.
    mutating func addExpectingNoAlert(_ scrape: Scrape?, minutes: Int) {
        add(scrape, minutes: minutes)
        expect([])
    }
}

extension ExampleRun {
    func setFaults(json: String) throws {
        _ = try ControlClient(port: deployment.simulator.controlPort)
            .successfulResponseBody("PUT", "/faults", body: Array(json.utf8))
    }

    func clearFaults() throws {
        _ = try ControlClient(port: deployment.simulator.controlPort).successfulResponseBody("DELETE", "/faults")
    }

    /// Stops a process of the deployment and does not start it again.
    func stopForGood(_ processName: String) throws {
        let processIndex = try #require(deployment.processesExceptWorker.firstIndex { $0.name == processName })
        deployment.processesExceptWorker.remove(at: processIndex).stop(graceMilliseconds: 1_000)
    }

    /// Kills the worker, and starts one with a changed configuration.
    func restart(replacing text: String, with replacement: String) throws {
        let file = deployment.path("causeway.yaml")
        let configuration = try String(contentsOfFile: file, encoding: .utf8)
        try #require(configuration.contains(text))
        try configuration.replacingOccurrences(of: text, with: replacement)
            .write(toFile: file, atomically: true, encoding: .utf8)
        try deployment.killAndRestartWorker()
    }
}

extension RideUpdates {
    /// Sends the given number of updates to the activity. Any outcome is allowed.
    ///
    /// - Parameter members: the number of fields in the payload, which make the records larger.
    func sendFlood(_ count: Int, membersInPayload members: Int = 0) throws {
        var command = floodCommand
        if members > 0 {
            command["payload"] = Dictionary(uniqueKeysWithValues: (0..<members).map { ("member\($0)", "value \($0)") })
        }
        let value = try JSONSerialization.data(withJSONObject: command)
        for number in 0..<count { try run.send(value, key: "flood-\(number)") }
        try run.takeResults(milliseconds: 1)
    }

    /// Sends one update to each of these unknown activities, all in one partition. A lane merges only updates
    /// to the same activity, so it works on every record.
    func floodOnePartition(activities: Range<Int>) throws {
        var command = floodCommand
        for number in activities {
            command["activity"] = "flood-\(number)"
            try run.send(JSONSerialization.data(withJSONObject: command), key: "flood")
        }
        try run.takeResults(milliseconds: 1)
    }

    private var floodCommand: JSONObject {
        var command = exampleUpdate
        var aps = exampleUpdate["aps"] as? JSONObject ?? [:]
        aps["timestamp"] = Int(Date().timeIntervalSince1970)
        command["aps"] = aps
        command["activity"] = activity
        command["sequence"] = 1_000_000
        command["expiration"] = nil
        return command
    }
}
