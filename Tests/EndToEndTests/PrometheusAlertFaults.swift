import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayLab

extension ExampleRun {
    /// Stops the deployment's worker. Then the given program starts another worker at the same port.
    func replaceWorker(by program: [String]) throws {
        try awaitMetrics("a worker that can be stopped") { $0.sum("causeway_kafka_ready") == 1 }
        try deployment.stopWorker(graceMilliseconds: 90_000)
        deployment.processesExceptWorker.append(
            try ChildProcess(
                name: "another worker",
                command: program + [
                    ExampleRun.programs.causeway, "worker", "--config", deployment.path("causeway.yaml"),
                ],
                logFile: deployment.path("worker.log")
            )
        )
    }
}

/// Faults of a worker's clock and of its signing, injected by `Tests/Acceptance/tools/worker-faults/faults.c`.
enum WorkerFaults {
    private static let source = Repository.path("Tests/Acceptance/tools/worker-faults/faults.c")

    /// Builds the library that injects the faults.
    ///
    /// - Parameter faults: the file that lists the faults.
    /// - Returns: the program with arguments that starts a worker with the library.
    static func makeProgram(faults: String, on deployment: Deployment) throws -> [String] {
        let library = deployment.path("faults.so")
        let compilation = try runProgram(
            "/usr/bin/env",
            ["clang", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source]
        )
        try #require(compilation.exitCode == 0, "\(compilation.text)")
        // A sanitizer's run may already preload a library, so both libraries are preloaded.
        let preloaded = ProcessInfo.processInfo.environment["LD_PRELOAD"].map { "\(library):\($0)" } ?? library
        return ["/usr/bin/env", "LD_PRELOAD=\(preloaded)", "WORKER_FAULTS=\(faults)"]
    }
}

extension ExampleRun {
    /// Starts a cluster of Redis servers, and a worker with the given `redis.mode`.
    convenience init(_ names: [String], onClusterOf ports: [UInt16], mode: String) throws {
        try self.init(names) { text, deployment in
            try RedisCluster.start(on: deployment, ports: ports)
            return text.replacingRequired(
                "url: redis://127.0.0.1:\(deployment.redisPort)/0",
                with: "mode: \(mode)\n  url: redis://127.0.0.1:\(ports[0])"
            )
        }
    }
}

/// Two primaries without replicas. Each has half of the hash slots.
enum RedisCluster {
    static func start(on deployment: Deployment, ports: [UInt16]) throws {
        for port in ports {
            deployment.processesExceptWorker.append(
                try ChildProcess(
                    name: "redis \(port)",
                    command: [
                        "/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", "\(port)", "--save", "",
                        "--appendonly",
                        "no", "--dir", deployment.directory, "--cluster-enabled", "yes", "--cluster-config-file",
                        "nodes-\(port).conf", "--cluster-port", "\(try LoopbackPort.findFree())",
                        "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no",
                    ],
                    logFile: deployment.path("redis-\(port).log")
                )
            )
        }
        func ask(_ port: UInt16, _ arguments: String...) throws -> String {
            try runProgram("/usr/bin/redis-cli", ["-p", "\(port)"] + arguments).text
        }
        for port in ports { try eventually("redis-server \(port)") { try ask(port, "PING").contains("PONG") } }
        let slotRanges = [("0", "8191"), ("8192", "16383")]
        for (port, slots) in zip(ports, slotRanges) {
            try #require(try ask(port, "CLUSTER", "ADDSLOTSRANGE", slots.0, slots.1).contains("OK"))
        }
        let busPort =
            try ask(ports[1], "CONFIG", "GET", "cluster-port").split(separator: "\n").last.map(String.init) ?? ""
        var meetCommandCount = 0
        try eventually("a cluster that has all slots") {
            // Redis forgets a CLUSTER MEET that gets no reply in time, so the command is repeated.
            if meetCommandCount % 100 == 0 {
                _ = try ask(ports[0], "CLUSTER", "MEET", "127.0.0.1", "\(ports[1])", busPort)
            }
            meetCommandCount += 1
            return try ports.allSatisfy { port in
                let text = try ask(port, "CLUSTER", "INFO")
                return text.contains("cluster_state:ok") && text.contains("cluster_known_nodes:2")
                    && text.contains("cluster_slots_assigned:16384")
            }
        }
    }
}

/// A consumer that joins the workers' group while no worker runs. So it gets every partition, and can commit offsets.
final class OffsetPastEndCommitter: ConsumerHandler {
    private var assignedPartitions: [TopicPartition] = []

    func partitionsAssigned(_ partitions: [TopicPartition]) { assignedPartitions += partitions }
    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}

    /// Commits an offset far beyond the end of the log, for the first partition of commands.
    static func commit(on run: ExampleRun) throws {
        let member = OffsetPastEndCommitter()
        let wakeup = WakeupPipe()
        let consumer = try Consumer(
            properties: [
                ("bootstrap.servers", run.deployment.bootstrapServers), ("group.id", "causeway"),
                ("partition.assignment.strategy", "range"), ("session.timeout.ms", "6000"),
            ],
            topics: [CommandProducer.commandsTopicName],
            handler: member
        )
        defer { _ = consumer.close(timeoutMilliseconds: 5_000) }
        let firstPartition = TopicPartition(topic: TopicIdentifier(index: 0), partition: 0)
        consumer.setWakeup(descriptor: wakeup.writeDescriptor)
        while !member.assignedPartitions.contains(firstPartition) {
            if case .none = consumer.poll(), !member.assignedPartitions.contains(firstPartition) {
                try #require(wakeup.waitBlocking(milliseconds: 180_000), "no partition was assigned")
            }
        }
        try #require(consumer.storeOffset(topic: firstPartition.topic, partition: 0, nextOffset: 1_000_000) == nil)
        try #require(consumer.commitStoredOffsets() == nil)
    }
}
