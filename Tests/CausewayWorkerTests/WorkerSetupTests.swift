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

/// What a worker sets up before a thread starts: keys with their ids, the settings of its lanes, and the number of
/// connections.
@Suite(.ownThread) struct WorkerSetupTests {
    /// Passes the body a directory with a signing key, and deletes the directory afterwards.
    private func withKey(_ body: (_ directory: String, _ keyFile: String) throws -> Void) throws {
        let directory = try TemporaryDirectory()
        try withExtendedLifetime(directory) { try body(directory.path, try writeKey("first", in: directory.path)) }
    }

    /// Writes the P-256 key of a new certificate as a signing key, and returns its file.
    private func writeKey(_ name: String, in directory: String) throws -> String {
        try GeneratedCertificate.write(directory: "\(directory)/\(name)", hosts: ["localhost"]).keyFile
    }

    private func makeConfiguration(keyFile: String, laneCount: Int = 1, appCount: Int = 1) throws -> WorkerConfiguration
    {
        var text = """
            kafka:
              bootstrapServers: 127.0.0.1:1
            redis:
              url: redis://127.0.0.1:1
            worker:
              lanes: \(laneCount)
              commandsPerLane: 1024
            apps:

            """
        for app in 0..<appCount {
            text += """
                  app\(app):
                    bundleId: com.example.app\(app)
                    teamId: TEAM123456
                    keyId: KEY1234567
                    keyFile: \(keyFile)

                """
        }
        return try ConfigurationLoader(environment: [:], requiresFiles: false).load(text: text, file: nil)
    }

    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func makeSetup(_ configuration: WorkerConfiguration) throws -> WorkerSetup {
        try WorkerSetup(configuration: configuration, logger: logger, version: "0")
    }

    // MARK: - Numbers that a running worker applies

    @Test func `Each reloadable number of the worker changes what the lanes are given`() throws {
        let runningConfiguration = try makeConfiguration(keyFile: "key.p8")
        let keys = ConfigurationSchema.keys.filter { $0.isReloadable && $0.name.hasPrefix("worker.") }
        #expect(keys.count >= 5)
        for key in keys {
            guard case .integer(let range) = key.valueKind, case .integer(let number)? = key.value(runningConfiguration)
            else {
                Issue.record("\(key.name) is not a number")
                continue
            }
            var changedConfiguration = runningConfiguration
            key.assign(&changedConfiguration, .integer(number < range.upperBound ? number + 1 : number - 1))
            let settings = [runningConfiguration, changedConfiguration]
                .map { String(describing: WorkerSetup.makeReloadableSettings($0)) }
            #expect(settings[0] != settings[1], "\(key.name): pass it on in makeReloadableSettings (WorkerSetup.swift)")
        }
    }

    @Test func `Each reloadable key of an app changes what the lanes are given`() throws {
        try withKey { directory, keyFile in
            let shapes = try Repository.text("Config/examples/match/shapes.json")
            let otherShapes = "\(directory)/other-shapes.json"
            try shapes.replacing("MatchAttributes", with: "OtherAttributes")
                .write(toFile: otherShapes, atomically: true, encoding: .utf8)
            // Each reloadable key of an app needs a value here that differs from the one in the running configuration.
            let values: [String: ConfigurationValue] = [
                "policy": .text("other"), "shapes.file": .text(otherShapes), "shapes.mode": .text("warn"),
            ]
            let keys = ConfigurationSchema.appSectionKeys.filter(\.isReloadable)
            #expect(Set(keys.map(\.name)) == Set(values.keys))

            var runningConfiguration = try makeConfiguration(keyFile: keyFile)
            runningConfiguration.policies.append(Policy(name: "other"))
            runningConfiguration.apps[0].bundleId = "com.example.match"
            runningConfiguration.apps[0].shapes.file = Repository.path("Config/examples/match/shapes.json")
            let setup = try makeSetup(runningConfiguration)
            func settings(_ configuration: WorkerConfiguration) throws -> String {
                let contracts = try configuration.apps.map { try $0.readContractRule() }
                setup.offerSettings(of: configuration, contracts: contracts)
                return String(describing: try #require(setup.mailboxes[0].takeSettings()))
            }
            let runningSettings = try settings(runningConfiguration)
            for key in keys {
                var changedConfiguration = runningConfiguration
                key.assign(&changedConfiguration.apps[0], try #require(values[key.name]))
                #expect(try settings(changedConfiguration) != runningSettings, "\(key.name)")
            }
        }
    }

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

    // MARK: - A key's id

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

    // MARK: - The process's connections

    /// Each case: the numbers of lanes and apps, `apns.connectionsPerPool`, the process's limit on connections, and its
    /// limit on connections to one address. A lane has two pools for an app, one for each environment. Both limits are
    /// twice `connectionsPerPool` for each pool, but at least the default (64 and 16) and at most 4,096.
    @Test(
        arguments: [
            (1, 1, 2, 64, 16), (2, 1, 8, 64, 64), (16, 1, 8, 512, 512), (2, 8, 2, 128, 128), (4, 16, 2, 512, 512),
            (16, 64, 1, 4_096, 4_096), (17, 64, 2, 4_096, 4_096),
        ]
    )
    func `The limits on connections follow from the number of pools and their connections`(
        laneCount: Int,
        appCount: Int,
        connectionsPerPool: Int,
        connectionsMax: Int,
        perAddressMax: Int
    ) throws {
        try withKey { _, keyFile in
            var configuration = try makeConfiguration(keyFile: keyFile, laneCount: laneCount, appCount: appCount)
            configuration.apns.connectionsPerPool = connectionsPerPool
            let setup = try makeSetup(configuration)
            let producer = try setup.makeProducer()
            defer { _ = producer.close(timeoutMilliseconds: 1_000) }
            let pools = try setup.makeLaneSetup(producer).pools
            #expect(pools.count == appCount * 2, "one for each environment")
            let connectionBudget = try #require(pools.first).configuration.connectionBudget
            #expect(pools.allSatisfy { $0.configuration.connectionBudget === connectionBudget })
            #expect(connectionBudget.connectionsMax == connectionsMax)
            #expect(connectionBudget.connectionsPerAddressMax == perAddressMax)
        }
    }

    @Test func `Another host or port for broadcasts adds a pool for each app, with a label and memory`() throws {
        try withKey { _, keyFile in
            var configuration = try makeConfiguration(keyFile: keyFile, appCount: 2)
            let memory = try MemoryBudget(configuration, laneCount: 1)
            configuration.apns.production.broadcastHost = "api-broadcast.push.apple.com"
            configuration.apns.sandbox.broadcastPort = configuration.apns.sandbox.port
            let setup = try makeSetup(configuration)
            let producer = try setup.makeProducer()
            defer { _ = producer.close(timeoutMilliseconds: 1_000) }
            let pools = try setup.makeLaneSetup(producer).pools
            let names = ["production", "production-broadcasts", "sandbox"]
            #expect(pools.map(\.name) == names.map { "app0/\($0)" } + names.map { "app1/\($0)" })
            #expect(pools.prefix(3).map(\.traffic) == [.devicePushes, .broadcasts, .everything])
            #expect(pools[0].identifier == pools[1].identifier)
            let hosts = ["api.push.apple.com", "api-broadcast.push.apple.com", "api.sandbox.push.apple.com"]
            #expect(pools.prefix(3).map(\.configuration.host) == hosts)
            #expect(setup.metricRegistry.labels.pools.map(\.environment) == names + names)
            let largerMemory = try MemoryBudget(configuration, laneCount: 1)
            #expect(largerMemory.connectionsBytes * 2 == memory.connectionsBytes * 3)
        }
    }
}
