import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("Commands that no phone could decode", .serialized, .timeLimit(.minutes(10)))
struct ContractTests {
    /// Returns a command whose date range is an object instead of an array. APNs would accept it, but the phone could
    /// not decode the state.
    private static func undecodableCommand(id: String) throws -> JSONObject {
        var command = try #require(try ExampleFiles("ride").records("traps/eta-as-an-object.jsonl").first)
        command["id"] = id
        return command
    }

    /// Starts a run of the ride example. The worker's configuration has the app's shapes.
    private static func makeRun(mode: String) throws -> ExampleRun {
        try ExampleRun(["ride"]) { text, _ in
            let line = "environments: [sandbox]"
            let shapes = #"shapes: {file: "\#(ExampleFiles("ride").path("shapes.json"))", mode: \#(mode)}"#
            return text.replacingRequired(line, with: "\(line)\n    \(shapes)")
        }
    }

    @Test
    func
        `Commands that no phone could decode are invalid, with the path, the value and the type; nothing reaches the phone`()
        async throws
    {
        try await onOwnThread {
            let run = try Self.makeRun(mode: "refuse")
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            try run.send(try Self.undecodableCommand(id: "trap"))
            try run.results.await(["trap"], outcome: "invalid") { try run.deployment.throwIfAnyProcessHasEnded() }
            #expect(run.results.lastResult("trap")?["reason"] as? String == "undecodable")
            try receivedHeaders.await { $0.deadLetterHeaders.count == 1 }
            let letter = try #require(receivedHeaders.deadLetterHeaders.first)
            #expect(letter["error"] == "undecodable")
            let detail = "aps.content-state.eta: an object must be dateRange, an array of two numbers of seconds "
            #expect(letter["detail"]?.hasPrefix(detail) == true, "\(letter)")
            try run.awaitMetrics("a mismatch in the metrics") {
                $0.sum("causeway_undecodable_total", ["app": "ride"]) == 1
                    && $0.sum("causeway_outcomes_total", ["app": "ride", "outcome": "invalid"]) == 1
            }
        }
    }

    @Test func `In the mode warn, commands that no phone could decode are counted, logged and sent`() async throws {
        try await onOwnThread {
            let run = try Self.makeRun(mode: "warn")
            defer { run.close() }
            try run.send(try Self.undecodableCommand(id: "trap"))
            // The activity has no registration, so its state is held.
            try run.results.await(["trap"], outcome: "held") { try run.deployment.throwIfAnyProcessHasEnded() }
            try run.awaitMetrics("a mismatch in the metrics") {
                $0.sum("causeway_undecodable_total", ["app": "ride"]) == 1
                    && $0.sum("causeway_dead_letters_total", ["app": "ride"]) == 0
            }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            let line = try run.awaitLog("kind=command-undecodable")
            #expect(line.contains("a command does not fit the shapes of its app") && line.contains("app=ride"))
            #expect(line.contains("aps.content-state.eta: an object must be dateRange"), "\(line)")
        }
    }

    @Test func `After a reload of the shapes, commands that no phone could decode are found`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, deployment in
                let shapes = try String(contentsOfFile: ExampleFiles("ride").path("shapes.json"), encoding: .utf8)
                try shapes.replacingRequired("\"dateRange\"", with: "\"any\"")
                    .write(toFile: deployment.path("shapes.json"), atomically: true, encoding: .utf8)
                let line = "environments: [sandbox]"
                return text.replacingRequired(
                    line,
                    with: "\(line)\n    shapes: {file: \"\(deployment.path("shapes.json"))\"}"
                )
            }
            defer { run.close() }
            try run.send(try Self.undecodableCommand(id: "before"))
            try run.results.await(["before"], outcome: "held") { try run.deployment.throwIfAnyProcessHasEnded() }
            let worker = try #require(run.deployment.worker)
            try "{".write(toFile: run.deployment.path("shapes.json"), atomically: true, encoding: .utf8)
            worker.signal(SIGHUP)
            try run.awaitLog("the configuration was not reloaded")
            try run.awaitLog("shapes.json: ")
            let shapes = try String(contentsOfFile: ExampleFiles("ride").path("shapes.json"), encoding: .utf8)
            try shapes.write(toFile: run.deployment.path("shapes.json"), atomically: true, encoding: .utf8)
            worker.signal(SIGHUP)
            try run.awaitLog("configuration reloaded")
            var laterCommand = try Self.undecodableCommand(id: "after")
            var aps = try #require(laterCommand["aps"] as? JSONObject)
            aps["timestamp"] = 1_790_000_003
            laterCommand["aps"] = aps
            try run.send(laterCommand)
            try run.results.await(["after"], outcome: "invalid") { try run.deployment.throwIfAnyProcessHasEnded() }
        }
    }
}
