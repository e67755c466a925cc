import Audiences
import Delivery
import Foundation
import Kafka
import LiveActivity
import Logging
import Reactor
import Testbed
import Testing

@testable import APNs
@testable import CausewayConfiguration
@testable import CausewayWorker
@testable import Observability

/// The file with a key's id, and files of keys that are replaced while a worker runs.
extension WorkerSetupTests {
    /// Watches the key file of the only app.
    private func beginWatching(_ keyFile: String) throws -> (MetricRegistry, ProviderTokenSource, KeyFileWatcher) {
        let key = ConfiguredSigningKey(teamId: "TEAM123456", configuredIdentifier: "KEY1234567", file: keyFile)
        let configuration = try makeConfiguration(keyFile: keyFile)
        let metricRegistry = try makeSetup(configuration).metricRegistry
        let log = SharedLimitedLog(logger: logger, events: metricRegistry.events)
        let source = try WorkerSetup.makeTokenSource(key)
        return (
            metricRegistry, source,
            KeyFileWatcher([key: source], apps: configuration.apps, metricRegistry: metricRegistry, log: log)
        )
    }

    @Test func `A file beside the key has the key's id`() throws {
        try withKey { _, keyFile in
            let key = ConfiguredSigningKey(
                teamId: "TEAM123456",
                configuredIdentifier: "KEY1234567",
                file: keyFile
            )
            #expect(try key.readIdentifier() == "KEY1234567")
            try "OTHERKEY00\n".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            #expect(try key.readIdentifier() == "OTHERKEY00")
            try "".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            #expect(throws: SecretFileError.self) { try key.readIdentifier() }
        }
    }

    @Test func `The worker starts with the key id of the file`() throws {
        try withKey { _, keyFile in
            try "OTHERKEY00".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            let setup = try makeSetup(makeConfiguration(keyFile: keyFile))
            #expect(setup.metricRegistry.labels.signingKeys.map(\.keyId) == ["OTHERKEY00"])
        }
    }

    @Test func `An invalid key id prevents the start`() throws {
        try withKey { _, keyFile in
            try "too long an id".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            let error = #expect(throws: APNs.InvalidSettingError.self) {
                try makeSetup(makeConfiguration(keyFile: keyFile))
            }
            #expect(error?.setting == "keyId")
        }
    }

    /// The key file and the `.id` file beside it are replaced at once, as when Kubernetes updates a Secret.
    @Test func `A replaced key is offered with the id in the file beside it`() throws {
        try withKey { directory, keyFile in
            let source = try ProviderTokenSource(
                key: SigningKey(path: keyFile),
                keyId: "KEY1234567",
                teamId: "TEAM123456"
            )
            let key = ConfiguredSigningKey(
                teamId: "TEAM123456",
                configuredIdentifier: "KEY1234567",
                file: keyFile
            )
            let configuration = try makeConfiguration(keyFile: keyFile)
            let metricRegistry = try makeSetup(configuration).metricRegistry
            let log = SharedLimitedLog(logger: logger, events: metricRegistry.events)
            var watch = KeyFileWatcher(
                [key: source],
                apps: configuration.apps,
                metricRegistry: metricRegistry,
                log: log
            )
            watch.poll()
            #expect(source.keyStatus.candidateKeyId == nil)
            let newKey = try String(contentsOfFile: self.writeKey("second", in: directory), encoding: .utf8)
            try "OTHERKEY00".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            try newKey.write(toFile: keyFile, atomically: true, encoding: .utf8)
            watch.poll()
            #expect(source.keyStatus.candidateKeyId == "OTHERKEY00")
            #expect(source.keyStatus.keyId == "KEY1234567")
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey.isEmpty)
            // A new key with an invalid id is refused, and the key in use stays.
            try "none".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            try (newKey + "\n").write(toFile: keyFile, atomically: true, encoding: .utf8)
            watch.poll()
            #expect(source.keyStatus.keyId == "KEY1234567")
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey == [0])
        }
    }

    /// The `.id` file beside the key file is changed twice: first to an invalid id, then to a valid one.
    ///
    /// - Parameter isKeyReplaced: whether the key file is replaced together with the first change.
    @Test(arguments: [false, true])
    func `An id file that changes alone is noticed`(isKeyReplaced: Bool) throws {
        try withKey { directory, keyFile in
            let (metricRegistry, source, begunWatch) = try beginWatching(keyFile)
            var watch = begunWatch
            if isKeyReplaced {
                let newKey = try String(contentsOfFile: self.writeKey("second", in: directory), encoding: .utf8)
                try newKey.write(toFile: keyFile, atomically: true, encoding: .utf8)
            }
            try "none".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            for _ in 1...2 { watch.poll() }
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey == [0])
            #expect(metricRegistry.events[.keyRejected].count == 1, "each fault is reported once")
            try "OTHERKEY00".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            for _ in 1...2 { watch.poll() }
            #expect(source.keyStatus.candidateKeyId == "OTHERKEY00")
            #expect(metricRegistry.events[.keyOffered].count == 1)
            let token = try #require(source.beginKeyTrial(unixSeconds: 1_790_000_000))
            source.endKeyTrial(of: token, .accepted)
            watch.poll()
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey.isEmpty)
        }
    }

    /// The files are replaced one after the other, the `.id` file first.
    @Test func `A key that follows its id file shortly after is offered once`() throws {
        try withKey { directory, keyFile in
            let (metricRegistry, source, begunWatch) = try beginWatching(keyFile)
            var watch = begunWatch
            try "OTHERKEY00".write(toFile: keyFile + ".id", atomically: true, encoding: .utf8)
            watch.poll()
            #expect(source.keyStatus.candidateKeyId == nil)
            let newKey = try String(contentsOfFile: self.writeKey("second", in: directory), encoding: .utf8)
            try newKey.write(toFile: keyFile, atomically: true, encoding: .utf8)
            for _ in 1...3 { watch.poll() }
            #expect(source.keyStatus.candidateKeyId == "OTHERKEY00")
            #expect(metricRegistry.events[.keyOffered].count == 1)
        }
    }

    @Test func `A trial that succeeds does not end the alert about a missing key file`() throws {
        try withKey { directory, keyFile in
            let (metricRegistry, source, begunWatch) = try beginWatching(keyFile)
            var watch = begunWatch
            let newKey = try String(contentsOfFile: self.writeKey("second", in: directory), encoding: .utf8)
            try newKey.write(toFile: keyFile, atomically: true, encoding: .utf8)
            watch.poll()
            let token = try #require(source.beginKeyTrial(unixSeconds: 1_790_000_000))
            try FileManager.default.moveItem(atPath: keyFile, toPath: keyFile + ".kept")
            watch.poll()
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey == [0])
            source.endKeyTrial(of: token, .accepted)
            watch.poll()
            #expect(source.keyStatus.candidateKeyId == nil)
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey == [0], "the file is still missing")
            try FileManager.default.moveItem(atPath: keyFile + ".kept", toPath: keyFile)
            watch.poll()
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey.isEmpty)
        }
    }

    /// The key file is moved away, and later moved back unchanged.
    ///
    /// - Parameter wasReplaced: whether a file without a key is at its path meanwhile.
    @Test(arguments: [false, true]) func `The return of the key in use ends the alert`(wasReplaced: Bool) throws {
        try withKey { directory, keyFile in
            let (metricRegistry, source, begunWatch) = try beginWatching(keyFile)
            var watch = begunWatch
            try FileManager.default.moveItem(atPath: keyFile, toPath: keyFile + ".kept")
            if wasReplaced { try "no key".write(toFile: keyFile, atomically: true, encoding: .utf8) }
            watch.poll()
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey == [0])
            if wasReplaced { try FileManager.default.removeItem(atPath: keyFile) }
            try FileManager.default.moveItem(atPath: keyFile + ".kept", toPath: keyFile)
            watch.poll()
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey.isEmpty)
            #expect(source.keyStatus.candidateKeyId == nil)
        }
    }

    @Test func `The return of one of an app's two keys does not end the alert about the other`() throws {
        try withKey { directory, keyFile in
            var configuration = try makeConfiguration(keyFile: keyFile)
            let sandboxKeyFile = try self.writeKey("sandbox", in: directory)
            (configuration.apps[0].sandboxKeyId, configuration.apps[0].sandboxKeyFile) = ("SANDBOX123", sandboxKeyFile)
            let metricRegistry = try makeSetup(configuration).metricRegistry
            let log = SharedLimitedLog(logger: logger, events: metricRegistry.events)
            let keys = APNsEnvironment.allCases.map { configuration.apps[0].signingKey(for: $0) }
            let sources = try Dictionary(
                uniqueKeysWithValues: keys.map { try ($0, WorkerSetup.makeTokenSource($0)) }
            )
            var watch = KeyFileWatcher(sources, apps: configuration.apps, metricRegistry: metricRegistry, log: log)
            try "no key".write(toFile: sandboxKeyFile, atomically: true, encoding: .utf8)
            try FileManager.default.moveItem(atPath: keyFile, toPath: keyFile + ".kept")
            watch.poll()
            try FileManager.default.moveItem(atPath: keyFile + ".kept", toPath: keyFile)
            watch.poll()
            #expect(metricRegistry.condition.current.appIndicesWithRejectedKey == [0])
        }
    }

    /// The worker reads the keys before it watches their files, so a file may be replaced in between.
    @Test func `A key that was replaced before the watch began is offered`() throws {
        try withKey { directory, keyFile in
            let key = ConfiguredSigningKey(
                teamId: "TEAM123456",
                configuredIdentifier: "KEY1234567",
                file: keyFile
            )
            let configuration = try makeConfiguration(keyFile: keyFile)
            let metricRegistry = try makeSetup(configuration).metricRegistry
            let log = SharedLimitedLog(logger: logger, events: metricRegistry.events)
            let source = try WorkerSetup.makeTokenSource(key)
            let newKey = try String(contentsOfFile: self.writeKey("second", in: directory), encoding: .utf8)
            try newKey.write(toFile: keyFile, atomically: true, encoding: .utf8)
            var watch = KeyFileWatcher(
                [key: source],
                apps: configuration.apps,
                metricRegistry: metricRegistry,
                log: log
            )
            watch.poll()
            #expect(source.keyStatus.candidateKeyId == "KEY1234567")
        }
    }
}
