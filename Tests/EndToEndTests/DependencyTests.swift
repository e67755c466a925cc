import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayLab

/// A worker stays alive and loses nothing if Kafka, Redis and APNs start after it, or if Kafka or Redis stop and start
/// again.
@Suite("What a worker depends on", .serialized, .timeLimit(.minutes(10)))
struct DependencyTests {
    /// The worker starts first, then Kafka, Redis and APNs. Until they run, the worker reports what it waits
    /// for, and stays alive.
    @Test func `A worker may start before Kafka, Redis and APNs`() async throws {
        try await onOwnThread {
            let broker = try EmbeddedBroker()
            let (kafkaRelay, apnsRelay) = (try TCPRelay(), try TCPRelay())
            let run = try ExampleRun(["ride"], broker: broker) { text, deployment in
                try broker.takeDown()
                try deployment.stopRedis()
                return text.replacingRequired(deployment.bootstrapServers, with: "127.0.0.1:\(kafkaRelay.port)")
                    .replacingRequired("port: \(deployment.simulator.apnsPort)", with: "port: \(apnsRelay.port)")
            }
            defer { run.close() }
            let firstScrape = try run.awaitMetrics("a worker that is alone") { $0.sum("causeway_redis_ready") == 0 }
            #expect(
                firstScrape.sum("causeway_kafka_ready") == 0 && firstScrape.sum("causeway_partitions_assigned") == 0
            )
            #expect(firstScrape.sum("causeway_consumer_lag_records") == nil, "the lag is unknown, so it has no series")
            #expect(try run.status(of: "/livez") == 200)
            try run.await("readiness that waits for Kafka") {
                let page = try WorkerPage("/readyz", port: run.deployment.httpPort)
                return page.status == 200 && page.text.contains("waits for Kafka, which is unreachable")
            }
            #expect(Set(try run.findings()).isSuperset(of: ["CausewayKafkaUnreachable", "CausewayRedisUnavailable"]))

            try kafkaRelay.start(to: try run.brokerPort, on: run.deployment)
            try broker.bringUp()
            try run.awaitMetrics("a worker with partitions") { ($0.sum("causeway_partitions_assigned") ?? 0) > 0 }
            #expect(try run.status(of: "/readyz") == 200)
            let updates = try RideUpdates(run)
            try updates.sendWithoutWaiting()
            try run.awaitMetrics("a command that waits for Redis") {
                ($0.sum("causeway_records_waiting", ["for": "redis"]) ?? 0) > 0
                    && ($0.sum("causeway_consumer_lag_records", ["topic": "commands"]) ?? 0) == 1
            }
            try run.await("a finding about Redis alone") {
                let findings = try run.findings()
                return findings.contains("CausewayRedisUnavailable") && !findings.contains("CausewayKafkaUnreachable")
            }

            try run.deployment.restartRedis()
            try run.awaitMetrics("a push that waits for APNs") { $0.sum("causeway_pushes_waiting") == 1 }
            let status = try WorkerPage("/statusz", port: run.deployment.httpPort).text
            #expect(status.contains("No APNs connection is ready for ride in sandbox"))
            try run.await("the end of the finding CausewayRedisUnavailable") {
                try !run.findings().contains("CausewayRedisUnavailable")
            }

            try apnsRelay.start(to: run.deployment.simulator.apnsPort, on: run.deployment)
            try updates.awaitAll()
            try run.awaitMetrics("no lag") { $0.hasAllDependencies && $0.sum("causeway_consumer_lag_records") == 0 }
            try run.await("a status page without findings") { try run.findings().isEmpty }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// The only broker is unreachable for longer than the session timeout. Each command still gets its result.
    ///
    /// In a second outage of the broker, Redis is also stopped, and 50 records wait for Redis. Soon after the broker is
    /// back, the worker must report these 50 records as lag again.
    @Test func `An outage of Kafka loses nothing`() async throws {
        try await onOwnThread {
            let broker = try EmbeddedBroker()
            let run = try ExampleRun(["ride"], broker: broker)
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.sendOne()
            for _ in 0..<20 { try updates.sendWithoutWaiting() }
            try broker.takeDown()
            for _ in 0..<20 { try updates.sendWithoutWaiting() }
            try Self.expectKafkaAway(run)
            // The outage is longer than the session timeout, so that the worker also loses its partitions.
            try run.takeResults(milliseconds: 7_000)
            try Self.expectKafkaAway(run)
            try broker.bringUp()
            try run.await("every result") {
                try run.takeResults(milliseconds: 10)
                return !updates.outcomes.contains("none")
            }
            // A command may have been settled but not committed when its partition was lost. Such a command is read
            // again, and is then a `duplicate`.
            let outcomes = updates.outcomes
            #expect(Set(outcomes).isSubset(of: ["accepted", "superseded", "duplicate"]), "\(outcomes)")
            #expect(outcomes.last != "superseded", "\(outcomes)")
            try run.awaitMetrics("no lag") { $0.hasAllDependencies && $0.sum("causeway_consumer_lag_records") == 0 }

            try run.deployment.stopRedis()
            try updates.floodOnePartition(activities: 0..<50)
            // Another partition may have lag too, because a record is read again if its commit did not reach
            // Kafka in time. So the condition looks at each partition, and not at the sum.
            let isLagging: (Scrape) -> Bool = { scrape in
                scrape.series.contains { $0.key.hasPrefix("causeway_consumer_lag_records{") && $0.value == 50 }
            }
            try run.awaitMetrics(
                "fifty records that wait",
                meanwhile: { try run.takeResults(milliseconds: 10) },
                isLagging
            )
            try broker.takeDown()
            try Self.expectKafkaAway(run)
            try run.takeResults(milliseconds: 7_000)
            try broker.bringUp()
            // The embedded broker assigns the partitions again after the session timeout.
            try run.awaitMetrics("a worker that has partitions again") {
                $0.sum("causeway_kafka_ready") == 1 && ($0.sum("causeway_partitions_assigned") ?? 0) > 0
            }
            let startInstant = ContinuousClock.now
            try run.awaitMetrics("the lag of fifty records again") {
                $0.sum("causeway_kafka_ready") == 1 && isLagging($0)
            }
            #expect(ContinuousClock.now - startInstant < .seconds(25))
            #expect(try !run.findings().contains("CausewayKafkaUnreachable"))
            try run.deployment.restartRedis()
            try run.awaitMetrics("nothing that waits") {
                $0.hasAllDependencies && $0.sum("causeway_records_in_progress") == 0
                    && $0.sum("causeway_consumer_lag_records") == 0
            }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// Checks that the worker reports the outage of Kafka, and stays alive and ready, because a restart would not help.
    private static func expectKafkaAway(_ run: ExampleRun) throws {
        try run.awaitMetrics("a worker without a broker") { $0.sum("causeway_kafka_ready") == 0 }
        #expect(try run.status(of: "/livez") == 200)
        #expect(try run.status(of: "/readyz") == 200)
        #expect(try run.findings().contains("CausewayKafkaUnreachable"))
    }
}

extension ExampleRun {
    /// Waits until the condition holds, and fails if a process of the deployment has ended.
    func await(_ what: @autoclosure () -> String, until isMet: () throws -> Bool) throws {
        try eventually(what()) {
            try deployment.throwIfAnyProcessHasEnded()
            return try isMet()
        }
    }

    /// The port of the only broker.
    var brokerPort: UInt16 {
        get throws {
            guard let port = deployment.bootstrapServers.split(separator: ":").last.flatMap({ UInt16($0) }) else {
                throw Timeout(awaiting: "a port in \(deployment.bootstrapServers)")
            }
            return port
        }
    }
}
