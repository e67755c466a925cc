import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayLab

/// Redis loses all data. Activities whose tokens only Redis had get updates again, without an operator.
@Suite("Redis loses all data", .timeLimit(.minutes(10)))
struct RedisLossTests {
    @Test func `After Redis is killed and comes back empty, nothing is lost`() async throws {
        try await Self.withRegisteredPhones { run, registeredPhones in
            try run.awaitMarks()
            try run.deployment.replaceRedis()
            try registeredPhones.send(to: registeredPhones.activities)
            try Self.awaitRecovery(run, pushCountMin: 80)
            try run.awaitLog("redis-emptied")
        }
    }

    /// No connection breaks, so only the missing marks show the loss.
    @Test func `After an operator emptied Redis, nothing is lost`() async throws {
        try await Self.withRegisteredPhones { run, registeredPhones in
            try run.awaitMarks()
            try run.deployment.wipeRedis()
            try Self.awaitRecovery(run, pushCountMin: 40)
            try registeredPhones.send(to: registeredPhones.activities)
            try Self.awaitAcceptedPushes(run, pushesMin: 80)
        }
    }

    /// The worker starts after Redis has lost its data, and notices the loss.
    @Test func `After Redis is emptied while no worker runs, nothing is lost`() async throws {
        try await Self.withRegisteredPhones { run, registeredPhones in
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            try run.deployment.replaceRedis()
            try run.deployment.startWorker()
            try registeredPhones.send(to: registeredPhones.activities)
            try Self.awaitRecovery(run, pushCountMin: 40)
        }
    }

    /// Redis is away from the group's beginning. The first worker commits an invalid record, which needs no Redis, and
    /// stops. So there are no marks although an offset is committed.
    @Test func `A worker that never reached Redis makes no other worker report a loss of all data`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, deployment in
                try deployment.stopRedis()
                return text
            }
            defer { run.close() }
            try run.send(Data("{}".utf8), key: "invalid")
            try run.awaitMetrics("a dead letter") { ($0.sum("causeway_dead_letters_total") ?? 0) == 1 }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            try run.deployment.restartRedis()
            try run.deployment.startWorker()
            try run.awaitMarks()
            let scrape = try run.awaitMetrics("partitions that were read again") {
                ($0.sum("causeway_redis_losses_total") ?? 0) >= 1 && $0.sum("causeway_partitions_rereading") == 0
            }
            #expect(scrape.sum("causeway_redis_losses_total", ["cause": "emptied"]) == 0)
            try run.awaitMetrics("no lag") { $0.hasAllDependencies && $0.sum("causeway_consumer_lag_records") == 0 }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// Redis has kept its data. The worker notices the new process and reads records again, but the phones get no
    /// second push.
    @Test func `After a restart of Redis with its data, no push is repeated`() async throws {
        try await Self.withRegisteredPhones { run, registeredPhones in
            try run.awaitMarks()
            try run.deployment.stopRedis()
            try run.deployment.restartRedis()
            try run.awaitMetrics("a loss that was noticed") {
                ($0.sum("causeway_redis_losses_total", ["cause": "replaced"]) ?? 0) >= 1
                    && $0.sum("causeway_partitions_rereading") == 0
            }
            try registeredPhones.send(to: registeredPhones.activities)
            try Self.awaitAcceptedPushes(run, pushesMin: 80)
            let scrape = try run.scrape()
            #expect(scrape.sum("causeway_pushes_total") == 80)
            #expect(scrape.sum("causeway_redis_losses_total", ["cause": "emptied"]) == 0)
        }
    }

    @Test func `A server of a cluster is refused if a single server is configured`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(
                ["ride"],
                onClusterOf: [LoopbackPort.findFree(), LoopbackPort.findFree()],
                mode: "single"
            )
            defer { run.close() }
            #expect(run.deployment.worker?.wait(timeoutMilliseconds: 60_000) == .exited(78))
            try run.awaitLog("redis.mode: the server belongs to a cluster; set redis.mode to cluster")
        }
    }

    /// Runs the body after 40 activities have had one push each.
    private static func withRegisteredPhones(_ body: @Sendable (ExampleRun, RegisteredPhones) throws -> Void)
        async throws
    {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let registeredPhones = try RegisteredPhones(run, count: 40)
            try registeredPhones.send(to: registeredPhones.activities)
            try awaitAcceptedPushes(run, pushesMin: 40)
            try body(run, registeredPhones)
        }
    }

    private static func awaitAcceptedPushes(_ run: ExampleRun, pushesMin: Int) throws {
        try run.awaitMetrics("\(pushesMin) accepted pushes") {
            ($0.sum("causeway_pushes_total", ["status": "200"]) ?? 0) >= Double(pushesMin)
        }
    }

    /// Waits until Redis has everything again after its loss.
    ///
    /// - Parameter pushCountMin: the minimum number of accepted pushes since the start of the worker.
    private static func awaitRecovery(_ run: ExampleRun, pushCountMin: Int) throws {
        try run.awaitMetrics("a Redis that has everything again") {
            ($0.sum("causeway_redis_losses_total", ["cause": "emptied"]) ?? 0) >= 1
                && $0.sum("causeway_partitions_rereading") == 0
                && ($0.sum("causeway_pushes_total", ["status": "200"]) ?? 0) >= Double(pushCountMin)
        }
    }
}

extension ExampleRun {
    /// Waits until all partitions of commands and registrations have their marks in Redis. From then on, the workers
    /// notice a loss.
    func awaitMarks() throws {
        try self.await("the marks of all partitions") {
            try deployment.countRedisMarks() >= Deployment.commandPartitionCount + Deployment.partitionCount
        }
    }
}
