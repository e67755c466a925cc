import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("Provider tokens: one for all workers, and a key whose file is replaced", .timeLimit(.minutes(10)))
struct ProviderTokenTests {
    /// Two workers send pushes with one token, which one of them signed. They are in different groups, because the
    /// embedded broker serves only one consumer of a group.
    @Test func `Two workers share one token`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let key = run.deployment.path("shared-token.key")
            try "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n".write(toFile: key, atomically: true, encoding: .utf8)
            let text = try String(contentsOfFile: run.deployment.path("causeway.yaml"), encoding: .utf8)
                .replacingRequired("\napns:\n", with: "\napns:\n  sharedTokenKeyFile: \"\(key)\"\n")
            try text.write(toFile: run.deployment.path("causeway.yaml"), atomically: true, encoding: .utf8)
            try text.replacingRequired("\nkafka:\n", with: "\nkafka:\n  groupId: other\n")
                .replacingRequired("port: \(run.deployment.httpPort)", with: "port: 0")
                .write(toFile: run.deployment.path("other.yaml"), atomically: true, encoding: .utf8)
            run.deployment.processesExceptWorker.append(
                try ChildProcess(
                    name: "other worker",
                    command: [ExampleRun.programs.causeway, "worker", "--config", run.deployment.path("other.yaml")],
                    logFile: run.deployment.path("other.log")
                )
            )
            // The first worker was started without `sharedTokenKeyFile`, so it is restarted with the changed file.
            try run.deployment.killAndRestartWorker()
            let updates = try RideUpdates(run)
            for _ in 0..<2 { try updates.sendOne() }
            func occurrenceCount(of text: String, in file: String) throws -> Int {
                try String(contentsOfFile: run.deployment.path(file), encoding: .utf8).components(separatedBy: text)
                    .count
                    - 1
            }
            try run.await("the start of the other worker") {
                try occurrenceCount(of: "worker started", in: "other.log") > 0
            }
            let signedMessage = "signed a shared provider token"
            #expect(
                try occurrenceCount(of: signedMessage, in: "worker.log")
                    + occurrenceCount(of: signedMessage, in: "other.log") == 1
            )
            let storedToken = try runProgram(
                "/usr/bin/redis-cli",
                ["-p", String(run.deployment.redisPort), "GET", "{causeway/provider-token/SIMULATION/SIMULATION}"]
            )
            #expect(storedToken.text.utf8.count > 100)
            // In plain text, a provider token begins with "eyJ".
            #expect(!storedToken.text.contains("eyJ"), "the token in Redis is encrypted")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// The key file is replaced by a file without a key, then by a key that APNs does not know, then by a key
    /// that APNs knows. Pushes continue all the time.
    @Test func `No push fails while the key file is replaced`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let updates = try RideUpdates(run)
            let file = run.deployment.simulator.keyFile
            let knownKey = try String(contentsOfFile: file, encoding: .utf8)
            try updates.sendOne()

            try "no key".write(toFile: file, atomically: true, encoding: .utf8)
            try updates.send(untilLogHas: "not an unencrypted private key in PEM")

            let unknownKeyDirectory = try SimulatorDirectory(path: nil)
            defer { unknownKeyDirectory.removeIfTemporary() }
            let unknownKey = try String(contentsOfFile: unknownKeyDirectory.ensureOwnKey().file, encoding: .utf8)
            try unknownKey.write(toFile: file, atomically: true, encoding: .utf8)
            try updates.send(untilLogHas: "APNs refuses it: InvalidProviderToken")

            try knownKey.write(toFile: file, atomically: true, encoding: .utf8)
            try updates.send(untilLogHas: "the key of the key file is now in use")
            // The worker replaces the connection that uses the old key's token.
            try updates.send(untilLogHas: "cause=providerToken", after: "APNs refuses it: InvalidProviderToken")
            for _ in 0..<3 { try updates.sendOne() }

            #expect(updates.outcomes.allSatisfy { $0 == "accepted" }, "\(updates.outcomes)")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}
