import Foundation
import Testbed
import Testing

@testable import causeway

/// What alerts tell of is made to happen, and the metrics that their rules read do as the rules need. That the rules fire by such
/// metrics is tested with the chart.
@Suite("The causes of alerts", .timeLimit(.minutes(5)))
struct AlertCauseTests {
    @Test func redisGoesAndComesBack() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let traffic = try Traffic(run)
            try traffic.sendOne()
            try run.awaitMetrics("Redis") { $0.sum("causeway_redis_ready") == 1 }
            try run.stage.takeRedisAway()
            try run.awaitMetrics("Redis gone") { $0.sum("causeway_redis_ready") == 0 }
            #expect(try run.status(of: "/readyz") == 200)
            #expect(try run.status(of: "/livez") == 200)
            #expect(try run.findings().contains("CausewayRedisAway"))
            try traffic.sendWithoutWaiting()
            try run.awaitMetrics("a command that waits for Redis") {
                $0.sum("causeway_records_waiting", ["for": "redis"]) == 1
                    && ($0.sum("causeway_oldest_unsettled_seconds") ?? 0) > 0.5
            }
            try run.stage.giveRedisBack()
            let back = try run.awaitMetrics("Redis again") { $0.sum("causeway_redis_ready") == 1 }
            #expect(try #require(back.sum("causeway_redis_reconnects_total")) >= 1)
            try traffic.awaitAll()
            try run.awaitMetrics("nothing that waits") {
                $0.sum("causeway_records_held") == 0 && $0.sum("causeway_oldest_unsettled_seconds") == 0
            }
            #expect(try !run.findings().contains("CausewayRedisAway"))
        }
    }

    @Test func noBrokerIsThere() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            try run.awaitMetrics("a broker, and partitions") {
                $0.sum("causeway_kafka_ready") == 1 && ($0.sum("causeway_partitions_assigned") ?? 0) > 0
            }
            let position = try #require(run.stage.parts.firstIndex { $0.name == "broker" })
            run.stage.parts.remove(at: position).stop(graceMilliseconds: 1_000)
            let away = try run.awaitMetrics("no broker") { $0.sum("causeway_kafka_ready") == 0 }
            #expect(try #require(away.sum("causeway_kafka_errors_total", ["code": "_ALL_BROKERS_DOWN"])) >= 1)
            #expect(try run.status(of: "/readyz") == 200)
            #expect(try run.status(of: "/livez") == 200)
            #expect(try run.findings().contains("CausewayKafkaAway"))
        }
    }

    /// First a file that is no key, then one that APNs does not know, with which the worker starts.
    @Test func keysThatAreNone() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let traffic = try Traffic(run)
            try traffic.sendOne()
            let file = run.stage.simulator.keyFile
            let known = try String(contentsOfFile: file, encoding: .utf8)
            try run.awaitMetrics("no rejected key") { $0.sum("causeway_key_file_rejected", ["app": "ride"]) == 0 }
            try "no key".write(toFile: file, atomically: true, encoding: .utf8)
            try run.awaitMetrics("a rejected key") { $0.sum("causeway_key_file_rejected", ["app": "ride"]) == 1 }
            #expect(try run.findings().contains("CausewayKeyFileRejected"))
            try known.write(toFile: file, atomically: true, encoding: .utf8)
            try run.awaitMetrics("a key that was accepted", turn: { try traffic.sendOne() }) {
                $0.sum("causeway_key_file_rejected") == 0
            }

            let strangers = try SimulatorDirectory(path: nil)
            defer { strangers.removeIfTemporary() }
            let unknown = try String(contentsOfFile: strangers.ownKey().file, encoding: .utf8)
            try unknown.write(toFile: file, atomically: true, encoding: .utf8)
            try run.stage.crashWorker()
            let open = try run.awaitMetrics("an open breaker", turn: { try traffic.sendWithoutWaiting() }) {
                $0.sum("causeway_breaker_open", ["app": "ride", "environment": "sandbox"]) == 1
            }
            #expect(
                try #require(open.sum("causeway_pushes_total", ["status": "403", "reason": "InvalidProviderToken"])) > 0
            )
            #expect(try run.findings().contains("CausewayBreakerOpen"))
            #expect(try run.status(of: "/readyz") == 200)
        }
    }

    /// The person ends the activity, and whoever writes commands does not know: APNs answers 410. Before that it is overloaded for a while.
    @Test func pushesThatFail() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let traffic = try Traffic(run)
            try traffic.sendOne()
            let labels = ["app": "ride", "environment": "sandbox"]
            let before = try run.awaitMetrics("a push") {
                $0.sum("causeway_pushes_total", ["status": "200"]) == 1
            }
            // There before the first, so that the first is an increase.
            #expect(before.sum("causeway_pushes_total", ["status": "410", "reason": "ExpiredToken"]) == 0)
            #expect(before.sum("causeway_retry_budget_ratio", ["app": "ride"]) == 1)

            let simulator = ControlClient(port: run.stage.simulator.controlPort)
            _ = try simulator.body("PUT", "/faults", body: Array(#"{"serviceUnavailableShare":1}"#.utf8))
            try traffic.sendWithoutWaiting()
            let retried = try run.awaitMetrics("a push that is tried again") {
                ($0.sum("causeway_push_retries_total", ["app": "ride"]) ?? 0) > 0
            }
            #expect(try #require(retried.sum("causeway_retry_budget_ratio", ["app": "ride"])) < 1)
            #expect(try #require(retried.sum("causeway_pushes_total", ["status": "503"])) > 0)
            _ = try simulator.body("DELETE", "/faults")
            try traffic.awaitAll()

            try run.post("/dismiss", ["app": "com.example.ride", "activity": traffic.activity])
            try traffic.sendWithoutWaiting()
            let dead = try run.awaitMetrics("a dead token") {
                $0.sum("causeway_pushes_total", labels.merging(["status": "410"]) { $1 }) == 1
                    && $0.sum("causeway_invalidations_total", ["app": "ride"]) == 1
            }
            #expect(dead.sum("causeway_outcomes_total", ["outcome": "unregistered"]) == 1)
        }
    }

    /// A record that is no command, and an activity that asks for priority 10 more often than its policy allows.
    @Test func recordsAndBudgets() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let small = "{pushes: 2, refillPerHour: 1, reservedForAlerts: 0}"
            let text = try String(contentsOfFile: run.stage.path("causeway.yaml"), encoding: .utf8)
            try text.replacingOccurrences(
                of: "\nworker:\n",
                with: "\npolicies:\n  default:\n    budget: \(small)\n    frequentBudget: \(small)\nworker:\n"
            )
            .write(toFile: run.stage.path("causeway.yaml"), atomically: true, encoding: .utf8)
            try run.stage.crashWorker()
            let traffic = try Traffic(run)
            for _ in 0..<3 { try traffic.sendOne() }
            let labels = ["app": "ride", "policy": "default"]
            let spent = try run.awaitMetrics("demoted pushes") {
                ($0.sum("causeway_budget_demotions_total", labels) ?? 0) > 0
            }
            #expect(try #require(spent.sum("causeway_budget_spent_total", labels)) <= 2)
            // Before the first there is a zero, without which it would be no increase.
            #expect(spent.sum("causeway_dead_letters_total", ["app": "none"]) == 0)
            try run.send(["app": "com.example.unknown", "activity": "a"])
            try run.awaitMetrics("a dead letter") { $0.sum("causeway_dead_letters_total", ["app": "none"]) == 1 }
        }
    }
}
