import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("Provider tokens: one for all workers, and a key whose file is replaced", .timeLimit(.minutes(10)))
struct ProviderTokenTests {
    /// Two workers send pushes with one token, which one of them signed. They are in different groups,
    /// because the embedded broker serves only one consumer of a group.
    @Test func `Two workers share one token`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let key = run.deployment.path("shared-token.key")
            try "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n".write(toFile: key, atomically: true, encoding: .utf8)
            let text = try String(contentsOfFile: run.deployment.path("causeway.yaml"), encoding: .utf8)
                .replacingOccurrences(of: "\napns:\n", with: "\napns:\n  sharedTokenKeyFile: \"\(key)\"\n")
            try text.write(toFile: run.deployment.path("causeway.yaml"), atomically: true, encoding: .utf8)
            try text.replacingOccurrences(of: "\nkafka:\n", with: "\nkafka:\n  groupId: other\n")
                .replacingOccurrences(of: "port: \(run.deployment.httpPort)", with: "port: 0")
                .write(toFile: run.deployment.path("other.yaml"), atomically: true, encoding: .utf8)
            run.deployment.processesExceptWorker.append(
                try ChildProcess(
                    name: "other worker",
                    command: [ExampleRun.programs.causeway, "worker", "--config", run.deployment.path("other.yaml")],
                    logFile: run.deployment.path("other.log")
                )
            )
            // The worker that runs was started without `sharedTokenKeyFile`. Restart it with the changed configuration.
            try run.deployment.killAndRestartWorker()
            let updates = try RideUpdates(run)
            for _ in 0..<2 { try updates.sendOne() }
            func lines(_ text: String, in file: String) throws -> Int {
                try String(contentsOfFile: run.deployment.path(file), encoding: .utf8).components(separatedBy: text)
                    .count
                    - 1
            }
            try run.await("the other worker") { try lines("worker started", in: "other.log") > 0 }
            let signedMessage = "signed the fleet's provider token"
            #expect(try lines(signedMessage, in: "worker.log") + lines(signedMessage, in: "other.log") == 1)
            let storedToken = try runProgram(
                "/usr/bin/redis-cli",
                ["-p", String(run.deployment.redisPort), "GET", "{causeway/provider-token/SIMULATION/SIMULATION}"]
            )
            #expect(storedToken.text.utf8.count > 100)
            #expect(!storedToken.text.contains("eyJ"), "not to be read by who can read Redis")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// The key file is replaced by a file without a key, then by a key that APNs does not know, then by a key
    /// that APNs knows. Pushes continue all the time, and none fails.
    @Test func `The file is replaced while pushes go on`() async throws {
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
            try updates.send(untilLogHas: "APNs refuses it: invalidProviderToken")

            try knownKey.write(toFile: file, atomically: true, encoding: .utf8)
            try updates.send(untilLogHas: "the key of the key file is now in use")
            // The worker replaces the connection that uses the old key's token.
            try updates.send(untilLogHas: "cause=providerToken", after: "APNs refuses it: invalidProviderToken")
            for _ in 0..<3 { try updates.sendOne() }

            #expect(updates.outcomes.allSatisfy { $0 == "accepted" }, "\(updates.outcomes)")
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }
}
