import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("A worker says that it is ready when it can do its work", .timeLimit(.minutes(10)))
struct ReadinessTests {
    /// A worker reads nothing before its group has assigned its first partitions. `Tests/Acceptance/fleet` tests
    /// workers that die without leaving the group, because the embedded broker treats them differently from Kafka.
    @Test func `A worker is not ready before it has partitions`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            var pages: [String] = []
            try run.await("a ready worker") {
                guard let page = try? WorkerPage("/readyz", port: run.deployment.httpPort) else { return false }
                if pages.last != page.text { pages.append(page.text) }
                return page.status == 200
            }
            #expect(pages.contains { $0.contains("[-] group: is joining: no partitions yet") }, "\(pages)")
            #expect(pages.last?.contains("[+] group: reads ") == true, "\(pages)")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// The broker hangs, as if the network dropped its packets, so its connections stay up. The worker loses its
    /// partitions, because its session ends.
    @Test func `A worker whose broker hangs is ready, and says that it waits for Kafka`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            try run.awaitMetrics("a worker with partitions") { $0.hasAllDependencies }
            let broker = try #require(run.deployment.processesExceptWorker.first { $0.name == "broker" })
            broker.signal(SIGSTOP)
            defer { broker.signal(SIGCONT) }
            // librdkafka closes the connections after a minute.
            let frozenInstant = ContinuousClock.now
            try run.awaitMetrics("a broker that does not respond", within: .seconds(30)) {
                $0.sum("causeway_kafka_ready") == 0
            }
            try run.await("readiness that waits for Kafka") {
                let page = try WorkerPage("/readyz", port: run.deployment.httpPort)
                return page.status == 200 && page.text.contains("waits for Kafka, which is unreachable")
            }
            #expect(ContinuousClock.now - frozenInstant < .seconds(40))
            #expect(try run.findings().contains("CausewayKafkaUnreachable"))
            broker.signal(SIGCONT)
            try run.awaitMetrics("a worker with partitions again") { $0.hasAllDependencies }
            try run.await("a ready worker") { (try? run.status(of: "/readyz")) == 200 }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// APNs does not know the key of the only app, so no command could be sent.
    @Test func `A worker is not ready if its only key is refused`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, deployment in
                let unknownKeyDirectory = try SimulatorDirectory(path: nil)
                defer { unknownKeyDirectory.removeIfTemporary() }
                try String(contentsOfFile: unknownKeyDirectory.ensureOwnKey().file, encoding: .utf8)
                    .write(toFile: deployment.simulator.keyFile, atomically: true, encoding: .utf8)
                return text
            }
            defer { run.close() }
            try run.await("a ready worker, before anything was sent") { (try? run.status(of: "/readyz")) == 200 }
            let updates = try RideUpdates(run)
            try updates.sendWithoutWaiting()
            try run.await("a worker that is not ready after a refusal") {
                try run.takeResults(milliseconds: 10)
                let page = try WorkerPage("/readyz", port: run.deployment.httpPort)
                return page.status == 503 && page.text.contains("[-] keys: APNs refuses every app's")
            }
            #expect(try run.status(of: "/livez") == 200, "a restart would not help")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// APNs refuses the key, or the topic of the key's app. An overloaded APNs may respond with 503 before it checks
    /// the provider token. No command fails, so the phone gets the state when APNs accepts pushes again.
    @Test(arguments: ["Forbidden", "TopicDisallowed"])
    func `A 503 after a refusal does not make a worker ready`(reason: String) async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            try run.await("a ready worker, before anything was sent") { (try? run.status(of: "/readyz")) == 200 }
            let updates = try RideUpdates(run)
            try run.setFaults(["reasonShares": [reason: 1]])
            try updates.sendWithoutWaiting()
            try run.await("a worker that is not ready after a refusal") { (try? run.status(of: "/readyz")) == 503 }
            try run.setFaults(["serviceUnavailableShare": 1])
            // A lane notes the responses in order. When the second 503 is counted, the lane has already
            // evaluated the first one.
            try run.await("two responses with 503") {
                (try Scrape(port: run.deployment.httpPort).sum("causeway_pushes_total", ["status": "503"]) ?? 0) >= 2
            }
            #expect(
                try WorkerPage("/readyz", port: run.deployment.httpPort).text
                    .contains("[-] keys: APNs refuses every app's")
            )
            try run.setFaults([:])
            try run.await("a worker that is ready after an accepted push") { (try? run.status(of: "/readyz")) == 200 }
            try updates.awaitAll()
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}
