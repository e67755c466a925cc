import Foundation
import Glibc
import Testbed
import Testing

@testable import CausewayLab

@Suite("No output of a worker holds a secret", .timeLimit(.minutes(10)))
struct SecretTests {
    private static let token = "00ff5a3c0e8f4b21d7c6a9908877665544332211ffeeddccbbaa998877665544"

    /// Texts that contain a secret, by the kind of the secret.
    private static let secretExamples = [
        "a token": "x \(token) y", "a token in capitals": token.uppercased(),
        "a token in Base64": "AP9aPA6PSyHXxqmQiHdmVUQzIhH/7t3Mu6qZiHdmVUQ=",
        "a provider token": "bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0.c2lnbmF0dXJl",
        "a PEM": "-----BEGIN PRIVATE KEY-----", "a key": "key=MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg",
    ]

    /// Every run expects that the search finds nothing. A search that never finds anything would hide a leak.
    @Test(arguments: secretExamples.keys.sorted())
    func `The search finds every kind of secret`(secret: String) throws {
        let text = try #require(Self.secretExamples[secret])
        var search = SecretSearch()
        search.add(token: Self.token)
        search.add("a key", ["MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg"])
        #expect(!search.findings(in: text).isEmpty)
        #expect(SecretPatterns.findings(in: text).isEmpty == ["a token in Base64", "a key"].contains(secret))
        #expect(search.findings(in: "token sha256 87d2777e5f7d, traces 4bf92f3577b34da6a3ce929d0e0e4736") == [])
    }

    /// The search at the end of a run finds a secret in a log and in an exported trace. `.ci/secret-search` finds
    /// secrets in the output of a program.
    @Test func `A planted secret is found`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            try RideUpdates(run).sendOne()
            #expect(try run.secretFindings() == [])
            let registeredToken = try #require(try run.readRegistrations().first?["token"] as? String)
            for name in ["planted.log", "planted.jsonl"] {
                try TextFile.write("\(registeredToken)\n", to: run.deployment.path(name))
                #expect(try run.secretFindings().contains("\(name): a device token"))
                try FileManager.default.removeItem(atPath: run.deployment.path(name))
            }
            let script = Repository.path(".ci/secret-search")
            let outputFile = run.deployment.path("printed")
            // The script does not search the lines in which the test runner repeats a test's arguments.
            for (secret, text) in Self.secretExamples where secret != "a token in Base64" {
                let argument = "\u{25C7} Test case passing 1 argument text \u{2192} \"\(text)\" to it started.\n"
                try TextFile.write("\(argument)\u{2714} Test it passed.\n", to: outputFile)
                #expect(
                    try runProgram(script, [outputFile]).exitCode == 0,
                    "the script skips a test's argument: \(secret)"
                )
                try TextFile.write("\(argument)\u{2714} Test it passed.\nINFO \(text)\n", to: outputFile)
                let searchRun = try runProgram(script, [outputFile])
                #expect(searchRun.exitCode == 1 && searchRun.text.hasPrefix("\(outputFile):3: a "), "\(secret)")
                #expect(!searchRun.text.contains(Self.token), "the script prints the place, not the secret")
            }
        }
    }

    /// A core dump would contain the signing key. A limit of 1 byte prevents every dump, to a file or to a program.
    @Test func `A worker leaves no core dump`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let worker = try #require(run.deployment.worker)
            var ownLimit = rlimit()
            #expect(getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &ownLimit) == 0)
            // The hard limit stays, so that an operator can permit a dump on purpose.
            let hardLimit = ownLimit.rlim_max == .max ? "unlimited" : "\(ownLimit.rlim_max)"
            // The process has its parent's limit until the worker's program begins.
            try run.await("a limit of 1 byte") {
                let text = try String(contentsOfFile: "/proc/\(worker.processIdentifier)/limits", encoding: .utf8)
                let match = try #require(text.firstMatch(of: /Max core file size +(\S+) +(\S+)/))
                return match.1 == "\(min(1, ownLimit.rlim_max))" && match.2 == hardLimit
            }
            try run.await("a ready worker") { (try? run.status(of: "/readyz")) == 200 }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// The log level is debug, so the log also has its detailed lines. A token that APNs does not know comes in one
    /// valid command and in three invalid ones. The worker warns about a password file that others may read.
    @Test func `Tokens and passwords appear in no logs, results or reasons`() async throws {
        try await onOwnThread {
            let password = "correct-horse-battery-staple"
            let run = try ExampleRun(["ride"]) { text, deployment in
                let file = deployment.path("password")
                try TextFile.write(password + "\n", to: file)
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
                return text.replacingRequired(
                    "\nkafka:\n",
                    with: "\nkafka:\n  propertyFiles:\n    sasl.password: \"\(file)\"\n"
                )
            }
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            let updates = try RideUpdates(run)
            try updates.sendOne()

            var command = updates.exampleUpdate
            command["activity"] = "stranger"
            command["id"] = "unknown-token"
            // A command whose token APNs does not know may wait until its pool has accepted another token. The
            // expiration ends this wait.
            command["expiration"] = Int(Date().timeIntervalSince1970) + 10
            command["token"] = Self.token
            command["environment"] = "sandbox"
            command["aps"] = (command["aps"] as? JSONObject ?? [:])
                .merging(["timestamp": Int(Date().timeIntervalSince1970)]) { $1 }
            try run.send(command)
            command["environment"] = Self.token
            command["id"] = "wrong-environment"
            try run.send(command)
            command["environment"] = "sandbox"
            command["token"] = "\(Self.token)x"
            try run.send(command)
            command["token"] = Self.token
            command[Self.token] = 1
            try run.send(command)
            try receivedHeaders.await { $0.deadLetterHeaders.count == 3 && $0.resultHeaders["unknown-token"] != nil }

            var search = SecretSearch()
            search.add(token: Self.token)
            search.add("the password", [password])
            for headers in receivedHeaders.deadLetterHeaders {
                #expect(search.findings(in: "\(headers)") == [], "\(headers)")
            }
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            try run.takeResults(milliseconds: 500)
            let text = try String(contentsOfFile: run.deployment.path("worker.log"), encoding: .utf8)
            #expect(text.contains("kafka.propertyFiles.sasl.password"), "the log warns that others may read the file")
            #expect(text.contains(" DEBUG "), "the log has its detailed lines")
            #expect(search.findings(in: text) == [])
            for objects in run.results.byCommand.values {
                #expect(search.findings(in: "\(objects)") == [], "\(objects)")
            }
        }
    }
}
