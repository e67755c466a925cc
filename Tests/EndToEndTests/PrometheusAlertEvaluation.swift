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
            text.replacingRequired("lanes: 2", with: "lanes: \(lanes)")
                .replacingRequired("redis:\n", with: "redis:\n  replicas: \(replicas)\n")
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
        _ = try LoopbackHTTPClient(port: deployment.simulator.controlPort)
            .requestSuccessfully("PUT", "/faults", body: Array(json.utf8))
    }

    func clearFaults() throws {
        _ = try LoopbackHTTPClient(port: deployment.simulator.controlPort).requestSuccessfully("DELETE", "/faults")
    }

    /// Stops a process of the deployment and does not start it again.
    func stopForGood(_ processName: String) throws {
        let processIndex = try #require(deployment.processesExceptWorker.firstIndex { $0.name == processName })
        if processName == "simulator" { lastRegistrations = try readRegistrations() }
        deployment.processesExceptWorker.remove(at: processIndex).stop(graceMilliseconds: 1_000)
    }

    /// Kills the worker, and starts one with a changed configuration.
    func restartWorker(replacing text: String, with replacement: String) throws {
        let file = deployment.path("causeway.yaml")
        let configuration = try String(contentsOfFile: file, encoding: .utf8)
        try #require(configuration.contains(text))
        try configuration.replacingRequired(text, with: replacement)
            .write(toFile: file, atomically: true, encoding: .utf8)
        try deployment.killAndRestartWorker()
    }
}

extension RideUpdates {
    /// Sends the given number of updates to the activity. Any outcome is allowed.
    ///
    /// - Parameter payloadMemberCount: the number of fields in the payload. They make the records larger.
    func sendFlood(_ count: Int, payloadMemberCount: Int = 0) throws {
        var command = floodCommand
        if payloadMemberCount > 0 {
            command["payload"] = Dictionary(
                uniqueKeysWithValues: (0..<payloadMemberCount).map { ("member\($0)", "value \($0)") }
            )
        }
        let value = try JSONSerialization.data(withJSONObject: command)
        for number in 0..<count { try run.send(value, key: "flood-\(number)") }
        try run.takeResults(milliseconds: 1)
    }

    /// Sends one update to each of these unknown activities, all in one partition. A lane replaces only updates of the
    /// same activity, so it works on each of these records.
    func floodOnePartition(activities: Range<Int>) throws {
        var command = floodCommand
        for number in activities {
            command["activity"] = "flood-\(number)"
            try run.send(JSONSerialization.data(withJSONObject: command), key: "flood")
        }
        try run.takeResults(milliseconds: 1)
    }

    /// An update without expiration. Its high sequence makes it newer than other updates of the same second.
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
