import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("A configuration that changes under load", .timeLimit(.minutes(10)))
struct ReloadTests {
    /// One activity gets up to ten updates a second. Meanwhile the configuration file is replaced three times:
    /// 1. The file has another spacing. After SIGHUP the worker applies it.
    /// 2. The file has an error. After SIGHUP the worker applies nothing of the file.
    /// 3. One changed key needs a restart, another does not. The worker notices the file without SIGHUP, and applies
    ///    only the other key.
    @Test func `A change of the spacing loses no command`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, _ in text + Self.policy(spacingMilliseconds: 1_000) }
            defer { run.close() }
            let updates = try ContinuousUpdates(run)
            let worker = try #require(run.deployment.worker)
            let text = try String(contentsOfFile: run.deployment.path("causeway.yaml"), encoding: .utf8)
            func write(_ text: String) throws {
                try text.write(toFile: run.deployment.path("causeway.yaml"), atomically: true, encoding: .utf8)
            }

            try updates.send(untilAccepted: 3)
            let slowerConfiguration = text.replacingRequired(
                Self.policy(spacingMilliseconds: 1_000),
                with: Self.policy(spacingMilliseconds: 3_000)
            )
            try write(slowerConfiguration)
            worker.signal(SIGHUP)
            try updates.send(untilLogHas: "configuration reloaded changed=policies.default.spacingMilliseconds")
            let slowedAtMilliseconds = Date().timeIntervalSince1970 * 1_000
            try updates.send(untilAccepted: updates.acceptedUpdateTimesMilliseconds.count + 3)

            // The file has one error and valid numbers; the whole file is rejected.
            try write(slowerConfiguration.replacingRequired("3000", with: "1000") + "wroker: {}\n")
            worker.signal(SIGHUP)
            try updates.send(untilLogHas: "the configuration was not reloaded")
            #expect(try updates.log().contains("wroker: is not a key; did you mean worker?"))
            try updates.send(untilAccepted: updates.acceptedUpdateTimesMilliseconds.count + 2)

            // The log names the keys that need a restart; the other keys are applied. No signal is sent.
            try write(
                slowerConfiguration.replacingRequired("kafka:\n", with: "kafka:\n  groupId: other\n")
                    .replacingRequired("  level: debug\n", with: "  level: info\n")
            )
            try updates.send(untilLogHas: "configuration reloaded changed=log.level")
            #expect(try updates.log().contains("has changes that need a restart keys=kafka.groupId"))

            try updates.awaitAllResults()
            #expect(Set(updates.outcomes) == ["accepted", "superseded"])
            let pushMilliseconds = updates.acceptedUpdateTimesMilliseconds
            let gaps = zip(pushMilliseconds, pushMilliseconds.dropFirst()).map { (at: $1, milliseconds: $1 - $0) }
            Self.expectSpacing(gaps.map { $0.milliseconds }, atLeast: 1_000)
            #expect(gaps.contains { $0.at < slowedAtMilliseconds && $0.milliseconds < 2_600 }, "\(gaps)")
            // The first push after the reload may have waited with the old spacing, so it is left out.
            let gapsAfterReload = gaps.filter { $0.at > slowedAtMilliseconds }.dropFirst()
            #expect(gapsAfterReload.count >= 4, "\(gaps)")
            Self.expectSpacing(gapsAfterReload.map { $0.milliseconds }, atLeast: 3_000)
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// A command to an activity draws on the budget of the added policy, and a command to an audience uses its pace.
    /// Both cores read the numbers of policies by index. A core that did not know the new index would trap, and the
    /// worker would end.
    @Test func `A policy that a reload adds serves activities and audiences`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, _ in text + Self.policy(spacingMilliseconds: 1_000) }
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.sendOne()
            let text = try String(contentsOfFile: run.deployment.path("causeway.yaml"), encoding: .utf8)
            let changedConfiguration = text.replacingRequired(
                "policies: {",
                with: "policies: {added: {spacingMilliseconds: 1000}, "
            )
            try changedConfiguration.write(
                toFile: run.deployment.path("causeway.yaml"),
                atomically: true,
                encoding: .utf8
            )
            try #require(run.deployment.worker).signal(SIGHUP)
            try run.awaitLog("configuration reloaded changed=policies.added")

            var (command, aps) = (updates.exampleUpdate, updates.exampleUpdate["aps"] as? JSONObject ?? [:])
            aps["timestamp"] = Int(Date().timeIntervalSince1970)
            aps["relevance-score"] = 77
            command["aps"] = aps
            command["policy"] = "added"
            command["priority"] = 10
            command["expiration"] = nil
            command["id"] = "to-activity"
            command["activity"] = updates.activity
            command["sequence"] = 100
            try run.send(command)
            try run.awaitAccepted(["to-activity"])
            command["id"] = "to-audience"
            command["activity"] = nil
            command["audience"] = "riders"
            try run.send(command)
            try run.await("the result of the command to the audience") {
                try run.takeResults(milliseconds: 20)
                return run.results.outcome("to-audience") != nil
            }
            #expect(run.results.outcome("to-audience") == "delivered")
            try run.awaitMetrics("the budget of the added policy") {
                $0.sum("causeway_budget_draws_total", ["policy": "(added)"]) == 1
            }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// Checks the gaps between pushes. Redis permits pushes at exact times, but a worker may send a push late. If a
    /// push is 100 ms late and the next one is on time, the gap between them is 100 ms shorter than the spacing.
    private static func expectSpacing(_ gaps: [Double], atLeast spacing: Double) {
        let latenessMilliseconds = 900.0
        #expect(gaps.allSatisfy { $0 >= spacing - latenessMilliseconds }, "\(gaps)")
        #expect(gaps.reduce(0, +) >= spacing * Double(gaps.count) - latenessMilliseconds, "\(gaps)")
    }

    private static func policy(spacingMilliseconds: Int) -> String {
        "policies: {default: {spacingMilliseconds: \(spacingMilliseconds), throttledSpacingMillisecondsMax: 60000}}\n"
    }
}

/// Sends up to ten updates a second to one activity. Any outcome is allowed.
private final class ContinuousUpdates {
    private let run: ExampleRun
    private let update: JSONObject
    private let activity: String
    private var sentIdentifiers: [String] = []
    private let deadline = Date(timeIntervalSinceNow: 480)

    init(_ run: ExampleRun) throws {
        self.run = run
        let updates = try RideUpdates(run)
        activity = updates.activity
        update = updates.exampleUpdate
    }

    /// The times at which accepted updates were pushed, in UNIX milliseconds.
    var acceptedUpdateTimesMilliseconds: [Double] {
        sentIdentifiers.filter { run.results.outcome($0) == "accepted" }
            .compactMap { ((run.results.lastResult($0)?["times"] as? JSONObject)?["sent"] as? NSNumber)?.doubleValue }
            .sorted()
    }

    var outcomes: [String] { sentIdentifiers.map { run.results.outcome($0) ?? "none" } }

    func log() throws -> String { try String(contentsOfFile: run.deployment.path("worker.log"), encoding: .utf8) }

    func send(untilAccepted count: Int) throws {
        while acceptedUpdateTimesMilliseconds.count < count {
            try sendOne(awaiting: "\(count) accepted updates, there are \(acceptedUpdateTimesMilliseconds.count)")
        }
    }

    func send(untilLogHas text: String) throws {
        while try !log().contains(text) { try sendOne(awaiting: "\(text) in the worker's log:\n\(try log())") }
    }

    func awaitAllResults() throws {
        while outcomes.contains("none") {
            guard Date() < deadline else { throw Timeout(awaiting: "all results: \(outcomes)") }
            try run.takeResults(milliseconds: 20)
        }
    }

    private func sendOne(awaiting awaitedEvent: @autoclosure () throws -> String) throws {
        guard Date() < deadline else { throw Timeout(awaiting: try awaitedEvent()) }
        let identifier = "flow-\(sentIdentifiers.count)"
        var (command, aps) = (update, update["aps"] as? JSONObject ?? [:])
        aps["timestamp"] = Int(Date().timeIntervalSince1970)
        aps["relevance-score"] = sentIdentifiers.count
        command["aps"] = aps
        command["activity"] = activity
        command["id"] = identifier
        command["sequence"] = sentIdentifiers.count + 1
        command["expiration"] = nil
        sentIdentifiers.append(identifier)
        try run.send(command)
        try run.takeResults(milliseconds: 100)
    }
}
