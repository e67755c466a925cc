import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Each test causes an alert, and evaluates the chart's rules over the metrics of the worker. Exactly the expected
/// alerts must fire. ``PrometheusAlertLoadTests``, ``PrometheusAlertAudienceTests`` and ``PrometheusAlertChannelTests``
/// cause further alerts.
@Suite("The causes of alerts", .timeLimit(.minutes(10)))
struct PrometheusAlertCauseTests {
    @Test func `An outage of Redis causes an alert until it is back`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            history.add(try run.awaitSteadyState("a worker that reaches Redis") { $0.hasAllDependencies }, minutes: 15)
            history.expect()
            try run.deployment.stopRedis()
            try run.awaitMetrics("a worker without Redis") { $0.sum("causeway_redis_ready") == 0 }
            #expect(try run.status(of: "/readyz") == 200)
            #expect(try run.status(of: "/livez") == 200)
            #expect(try run.findings().contains("CausewayRedisUnavailable"))
            try updates.sendWithoutWaiting()
            let waitingScrape = try run.awaitSteadyState(
                "a command that waits for Redis",
                alerting: [.redisUnavailable]
            ) {
                $0.sum("causeway_records_waiting", ["for": "redis"]) == 1
                    && ($0.sum("causeway_oldest_unsettled_seconds") ?? 0) > 0.5
            }
            history.add(waitingScrape, minutes: 5, firing: "CausewayRedisUnavailable")
            try run.deployment.restartRedis()
            let backScrape = try run.awaitMetrics("a worker that reaches Redis again") {
                $0.sum("causeway_redis_ready") == 1
            }
            #expect(try #require(backScrape.sum("causeway_redis_reconnects_total")) >= 1)
            try updates.awaitAll()
            let healthyScrape = try run.awaitSteadyState("nothing that waits") {
                $0.sum("causeway_records_in_progress") == 0 && $0.sum("causeway_oldest_unsettled_seconds") == 0
            }
            #expect(try !run.findings().contains("CausewayRedisUnavailable"))
            history.addExpectingNoAlert(healthyScrape, minutes: 5)
        }
    }

    /// Redis refuses to write for a while, because it has no memory left. Commands wait, and are sent afterwards.
    @Test func `Errors of Redis cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            history.addExpectingNoAlert(
                try run.awaitSteadyState("a worker without errors") { $0.hasAllDependencies },
                minutes: 15
            )
            try run.deployment.runRedisCommand("CONFIG SET maxmemory 1")
            try updates.sendWithoutWaiting()
            // The worker repeats the refused call, so the number of errors grows from reading to reading.
            var seenErrorCount = 0.0
            for _ in 0..<10 {
                let refusedScrape = try run.awaitSteadyState("another error of Redis") {
                    ($0.sum("causeway_redis_errors_total", ["code": "outOfMemory"]) ?? 0) > seenErrorCount
                }
                seenErrorCount = refusedScrape.sum("causeway_redis_errors_total") ?? 0
                history.add(refusedScrape, minutes: 1)
            }
            history.expect(firing: "CausewayRedisErrors")
            #expect(try run.findings().contains("CausewayRedisErrors"))
            try run.awaitLog("redis-error")
            try run.deployment.runRedisCommand("CONFIG SET maxmemory 0")
            try updates.awaitAll()
        }
    }

    /// `redis.replicas` requires one replica, but there is none. Registrations wait for ten seconds, and then
    /// continue without it.
    @Test func `Missing replicas of Redis cause an alert`() async throws {
        try await evaluatingAlerts(replicas: 1) { run, history in
            let updates = try RideUpdates(run)
            var (seenErrorCount, passCount) = (0.0, 0)
            for _ in 0..<4 {
                // The worker notices missing replicas only by a call that requires replicas. So the test repeats such
                // calls until the count of errors grows.
                let missingScrape = try run.awaitSteadyState(
                    "another question",
                    meanwhile: {
                        passCount += 1
                        if passCount % 50 == 0 { try updates.floodOnePartition(activities: 0..<1) }
                    }
                ) {
                    ($0.sum("causeway_redis_errors_total", ["code": "replicasMissing"]) ?? 0) > seenErrorCount
                }
                seenErrorCount = missingScrape.sum("causeway_redis_errors_total") ?? 0
                history.add(missingScrape, minutes: 1)
            }
            history.expect(firing: "CausewayRedisReplicasMissing")
            #expect(try run.findings().contains("CausewayRedisReplicasMissing"))
            try run.awaitLog("redis-replicas-missing")
            try updates.sendOne()
            let settledScrape = try run.awaitSteadyState("registrations that are settled") {
                $0.hasAllDependencies && $0.sum("causeway_consumer_lag_records") == 0
                    && $0.highest("causeway_oldest_unsettled_seconds") == 0
            }
            history.addExpectingNoAlert(settledScrape, minutes: 10)
        }
    }

    /// An empty Redis server replaces the first one at the same address.
    @Test func `The loss of all data in Redis causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            history.addExpectingNoAlert(
                try run.awaitSteadyState("a healthy worker") { $0.hasAllDependencies },
                minutes: 20
            )
            try run.awaitMarks()
            try run.deployment.replaceRedis()
            try run.await("the finding CausewayRedisDataLost") { try run.findings().contains("CausewayRedisDataLost") }
            let healedScrape = try run.awaitSteadyState("a worker that has read all records again") {
                $0.hasAllDependencies && ($0.sum("causeway_redis_losses_total", ["cause": "emptied"]) ?? 0) >= 1
                    && $0.sum("causeway_partitions_rereading") == 0
            }
            try updates.sendOne()
            history.add(healedScrape, minutes: 5, firing: "CausewayRedisDataLost")
            history.addExpectingNoAlert(healedScrape, minutes: 20)
        }
    }

    /// Commands name activities that have no registration.
    @Test func `Commands without a known token cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            history.addExpectingNoAlert(
                try run.awaitSteadyState("a healthy worker") { $0.hasAllDependencies },
                minutes: 15
            )
            try updates.floodOnePartition(activities: 0..<60)
            let heldScrape = try run.awaitSteadyState("held commands") {
                $0.sum("causeway_outcomes_total", ["outcome": "held"]) == 60
            }
            #expect(try run.findings().contains("CausewayTokensMissing"))
            history.add(heldScrape, minutes: 8, firing: "CausewayTokensMissing")
            history.addExpectingNoAlert(heldScrape, minutes: 12)
        }
    }

    /// APNs does not accept connections. The push waits, and nothing else fails.
    @Test func `An outage of APNs causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            history.addExpectingNoAlert(
                try run.awaitSteadyState("a worker that reaches APNs") { $0.hasAllDependencies },
                minutes: 15
            )
            try run.stopForGood("simulator")
            try run.awaitMetrics("a worker without APNs") {
                $0.sum("causeway_apns_connections", ["state": "ready"]) == 0
            }
            try updates.sendWithoutWaiting()
            let cutOffScrape = try run.awaitSteadyState("a push that waits", alerting: [.apnsUnreachable]) {
                $0.hasAllDependencies && $0.sum("causeway_pushes_waiting") == 1
            }
            #expect(try run.findings().contains("CausewayAPNsUnreachable"))
            history.add(cutOffScrape, minutes: 5, firing: "CausewayAPNsUnreachable")
        }
    }

    @Test func `An outage of the broker causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let healthyScrape = try run.awaitSteadyState("a broker, and partitions") { $0.hasAllDependencies }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            try run.stopForGood("broker")
            let awayScrape = try run.awaitSteadyState("no broker", alerting: [.kafkaUnreachable]) {
                ($0.sum("causeway_kafka_errors_total", ["code": "_ALL_BROKERS_DOWN"]) ?? 0) >= 1
            }
            #expect(try run.status(of: "/readyz") == 200)
            #expect(try run.status(of: "/livez") == 200)
            #expect(try run.findings().contains("CausewayKafkaUnreachable"))
            history.add(awayScrape, minutes: 5, firing: "CausewayKafkaUnreachable")
        }
    }

    /// First, a file without a key replaces the key file, until the right key returns. Then a key that APNs does not
    /// know replaces the right key, and the worker is restarted.
    @Test func `Unusable signing keys cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let updates = try RideUpdates(run)
            try updates.sendOne()
            let file = run.deployment.simulator.keyFile
            let knownKey = try String(contentsOfFile: file, encoding: .utf8)
            let healthyScrape = try run.awaitSteadyState("no rejected key") {
                $0.sum("causeway_key_file_rejected", ["app": "ride"]) == 0
            }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            try "no key".write(toFile: file, atomically: true, encoding: .utf8)
            let rejectedScrape = try run.awaitSteadyState("a rejected key", alerting: [.keyFileRejected]) {
                $0.sum("causeway_key_file_rejected", ["app": "ride"]) == 1
            }
            history.add(rejectedScrape, minutes: 8, firing: "CausewayKeyFileRejected")
            #expect(try run.findings().contains("CausewayKeyFileRejected"))
            try knownKey.write(toFile: file, atomically: true, encoding: .utf8)
            let acceptedScrape = try run.awaitSteadyState(
                "a key that was accepted",
                meanwhile: { try updates.sendOne() }
            ) {
                $0.sum("causeway_key_file_rejected") == 0
            }
            history.addExpectingNoAlert(acceptedScrape, minutes: 15)

            let unknownKeyDirectory = try SimulatorDirectory(path: nil)
            defer { unknownKeyDirectory.removeIfTemporary() }
            let unknownKey = try String(contentsOfFile: unknownKeyDirectory.ensureOwnKey().file, encoding: .utf8)
            try unknownKey.write(toFile: file, atomically: true, encoding: .utf8)
            try run.deployment.killAndRestartWorker()
            let openScrape = try run.awaitSteadyState(
                "an open breaker",
                alerting: [.breakerOpen],
                meanwhile: { try updates.sendWithoutWaiting() }
            ) {
                $0.sum("causeway_breaker_open", ["app": "ride", "environment": "sandbox"]) == 1
            }
            #expect(
                try #require(
                    openScrape.sum("causeway_pushes_total", ["status": "403", "reason": "InvalidProviderToken"])
                ) > 0
            )
            #expect(try run.findings().contains("CausewayBreakerOpen"))
            #expect(try run.status(of: "/readyz") == 503, "APNs refuses the key of every app")
            // The refusals opened the breaker, so the alert about refusals fires too.
            history.add(openScrape, minutes: 8, firing: "CausewayBreakerOpen", "CausewayPushesRefused")
        }
    }

    /// The file gets an error, which is then corrected. The worker gets no signal.
    @Test func `A rejected configuration causes an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let file = run.deployment.path("causeway.yaml")
            let configuration = try String(contentsOfFile: file, encoding: .utf8)
            let healthyScrape = try run.awaitSteadyState("no rejected configuration") { $0.hasAllDependencies }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            try (configuration + "wroker: {}\n").write(toFile: file, atomically: true, encoding: .utf8)
            let rejectedScrape = try run.awaitSteadyState(
                "a rejected configuration",
                alerting: [.configurationRejected]
            ) { $0.hasAllDependencies }
            #expect(try run.findings().contains("CausewayConfigurationRejected"))
            history.add(rejectedScrape, minutes: 8, firing: "CausewayConfigurationRejected")
            try configuration.write(toFile: file, atomically: true, encoding: .utf8)
            let acceptedScrape = try run.awaitSteadyState("an accepted configuration") { $0.hasAllDependencies }
            history.addExpectingNoAlert(acceptedScrape, minutes: 5)
        }
    }

    /// Another program overwrites a timetable of lifetimes, so the worker cannot read it.
    @Test func `Lifetimes that cannot be ended cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            try run.restartWorker(
                replacing: "\nworker:\n",
                with: "\npolicies:\n  default:\n    lifetimeSeconds: 3600\nworker:\n"
            )
            let healthyScrape = try run.awaitSteadyState("readable timetables") { $0.hasAllDependencies }
            history.addExpectingNoAlert(healthyScrape, minutes: 15)
            try run.deployment.runRedisCommand("SET {causeway:lifetimes:0} text")
            let failingScrape = try run.awaitSteadyState("an unreadable timetable", alerting: [.lifetimesFailing]) {
                $0.hasAllDependencies
            }
            #expect(try run.findings().contains("CausewayLifetimesFailing"))
            history.add(failingScrape, minutes: 8, firing: "CausewayLifetimesFailing")
            try run.deployment.runRedisCommand("RENAME {causeway:lifetimes:0} renamed")
            let readableScrape = try run.awaitSteadyState("a timetable that can be read again") {
                $0.hasAllDependencies
            }
            history.addExpectingNoAlert(readableScrape, minutes: 5)
        }
    }

    /// APNs refuses the stream of every push until the retry budget is empty. Then people end their activities, so APNs
    /// responds with 410 to the producer's further updates.
    @Test func `Failing pushes cause an alert`() async throws {
        try await evaluatingAlerts(lanes: 1) { run, history in
            let registeredPhones = try RegisteredPhones(run, count: 60)
            try registeredPhones.send(to: registeredPhones.activities)
            let labels = ["app": "ride", "environment": "sandbox"]
            let initialScrape = try run.awaitSteadyState("an accepted push to each phone") {
                $0.sum("causeway_pushes_total", ["status": "200"]) == 60
            }
            // The rule needs the increase from 0, so the series must exist before the first 410.
            #expect(initialScrape.sum("causeway_pushes_total", ["status": "410", "reason": "ExpiredToken"]) == 0)
            #expect(initialScrape.sum("causeway_retry_budget_ratio", ["app": "ride"]) == 1)
            history.addExpectingNoAlert(initialScrape, minutes: 15)

            try run.setFaults(json: #"{"refusedShare":1}"#)
            try registeredPhones.send(to: registeredPhones.activities)
            let retriedScrape = try run.awaitSteadyState("a budget that is spent") {
                ($0.sum("causeway_retry_budget_ratio", ["app": "ride"]) ?? 1) < 0.1
            }
            #expect(try #require(retriedScrape.sum("causeway_push_retries_total", ["app": "ride"])) > 90)
            history.add(retriedScrape, minutes: 8, firing: "CausewayRetryBudgetSpent")
            // The alert needs an empty budget and recent retries. The same reading for 12 minutes means that nothing
            // was retried in this time.
            history.addExpectingNoAlert(retriedScrape, minutes: 12)
            try run.clearFaults()
            try run.awaitMetrics("nothing that waits") { $0.sum("causeway_records_in_progress") == 0 }

            for (wave, activities) in [registeredPhones.activities.prefix(30), registeredPhones.activities.suffix(30)]
                .enumerated()
            {
                for activity in activities {
                    try run.post("/dismiss", ["app": "com.example.ride", "activity": activity])
                }
                try registeredPhones.send(to: activities)
                let deadScrape = try run.awaitSteadyState("dead tokens") {
                    $0.sum("causeway_pushes_total", labels.merging(["status": "410"]) { $1 }) == Double(30 * (wave + 1))
                        && $0.sum("causeway_invalidations_total", ["app": "ride"]) == Double(30 * (wave + 1))
                        && $0.sum("causeway_outcomes_total", ["outcome": "held"]) == Double(30 * (wave + 1))
                }
                history.add(deadScrape, minutes: 10)
            }
            // Commands with dead tokens are held. Many held commands cause the alert `CausewayTokensMissing`.
            history.expect(firing: "CausewayDeadTokens", "CausewayTokensMissing")
        }
    }

    /// Sends a record that is no command, and more pushes of priority 10 than the policy's budget allows.
    @Test func `Invalid records and exhausted budgets cause an alert`() async throws {
        try await evaluatingAlerts { run, history in
            let smallBudget = "{pushes: 2, refillPerHour: 1, reservedForAlerts: 0}"
            try run.restartWorker(
                replacing: "\nworker:\n",
                with:
                    "\npolicies:\n  default:\n    budget: \(smallBudget)\n    frequentBudget: \(smallBudget)\nworker:\n"
            )
            let updates = try RideUpdates(run)
            history.add(
                try run.awaitSteadyState("no push") { $0.sum("causeway_pushes_total") == 0 },
                minutes: 20
            )
            history.expect()
            for _ in 0..<5 { try updates.sendOne() }
            let labels = ["app": "ride", "policy": "default"]
            let spentScrape = try run.awaitSteadyState("demoted pushes") {
                ($0.sum("causeway_budget_demotions_total", labels) ?? 0) > 2
            }
            #expect(try #require(spentScrape.sum("causeway_budget_draws_total", labels)) <= 2)
            history.add(spentScrape, minutes: 10)
            try updates.sendOne()
            let laterScrape = try run.awaitSteadyState("another demoted push") {
                $0.sum("causeway_budget_demotions_total", labels)
                    == (spentScrape.sum("causeway_budget_demotions_total", labels) ?? 0) + 1
            }
            history.add(laterScrape, minutes: 10, firing: "CausewayBudgetExhausted")
            // The rule needs the increase from 0, so the series must exist before the first dead letter.
            #expect(spentScrape.sum("causeway_dead_letters_total", ["app": "none"]) == 0)
            try run.send(["app": "com.example.unknown", "activity": "a"])
            let deadScrape = try run.awaitSteadyState("a dead letter") {
                $0.sum("causeway_dead_letters_total", ["app": "none"]) == 1
            }
            history.addExpectingNoAlert(laterScrape, minutes: 20)
            history.add(deadScrape, minutes: 5, firing: "CausewayDeadLetters")
        }
    }
}
