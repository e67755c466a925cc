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
    func withKey(_ body: (_ directory: String, _ keyFile: String) throws -> Void) throws {
        let directory = try TemporaryDirectory()
        try withExtendedLifetime(directory) { try body(directory.path, try writeKey("first", in: directory.path)) }
    }

    /// Writes the P-256 key of a new certificate as a signing key, and returns its file.
    func writeKey(_ name: String, in directory: String) throws -> String {
        try GeneratedCertificate.write(directory: "\(directory)/\(name)", hosts: ["localhost"]).keyFile
    }

    func makeConfiguration(keyFile: String, laneCount: Int = 1, appCount: Int = 1) throws -> WorkerConfiguration {
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

    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    func makeSetup(_ configuration: WorkerConfiguration) throws -> WorkerSetup {
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
            #expect(settings[0] != settings[1], "\(key.name): pass it on in makeReloadableSettings")
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
            #expect(pools[0].target == pools[1].target)
            let hosts = ["api.push.apple.com", "api-broadcast.push.apple.com", "api.sandbox.push.apple.com"]
            #expect(pools.prefix(3).map(\.configuration.host) == hosts)
            #expect(setup.metricRegistry.labels.pools.map(\.environment) == names + names)
            let largerMemory = try MemoryBudget(configuration, laneCount: 1)
            #expect(largerMemory.connectionsBytes * 2 == memory.connectionsBytes * 3)
        }
    }
}
