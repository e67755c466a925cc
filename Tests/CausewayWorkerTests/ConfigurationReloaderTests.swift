import CausewayConfiguration
import Delivery
import Foundation
import LiveActivity
import Logging
import Reactor
import Testbed
import Testing

@testable import CausewayWorker
@testable import Observability

/// When the configuration is read again, which shapes a reload gives to the lanes, and what a rejected reload shows.
@Suite(.ownThread) struct ConfigurationReloaderTests {
    /// A configuration file and its files of shapes, in a directory of their own.
    private struct ConfigurationFiles {
        private let directory: TemporaryDirectory
        private let keyFile: String
        private let loader: ConfigurationLoader

        init(requiresFiles: Bool = false) throws {
            loader = ConfigurationLoader(environment: [:], requiresFiles: requiresFiles)
            directory = try TemporaryDirectory()
            keyFile = try GeneratedCertificate.write(directory: directory.path("key"), hosts: ["localhost"]).keyFile
        }

        /// - Parameter memoryMebibytes: 0: the memory that the machine gives.
        func writeConfiguration(apps: [String], memoryMebibytes: Int = 0) throws {
            var text = """
                kafka: {bootstrapServers: "127.0.0.1:1"}
                redis: {url: "redis://127.0.0.1:1"}
                worker: {lanes: 1, commandsPerLane: 1024, memoryMebibytes: \(memoryMebibytes)}
                apps:

                """
            for app in apps {
                text += """
                      \(app):
                        bundleId: com.example.\(app)
                        teamId: TEAM123456
                        keyId: KEY1234567
                        keyFile: \(keyFile)
                        shapes: {file: \(directory.path("\(app).json"))}

                    """
            }
            try directory.write(text, to: "causeway.yaml")
        }

        /// - Parameter type: the type of the only member of the content state.
        func writeShapes(of app: String, _ type: String) throws {
            try directory.write(
                """
                {"app": "com.example.\(app)", "attributesTypes": [
                  {"name": "RideAttributes", "attributes": {"id": "string"}, "contentState": {"n": "\(type)"}}
                ]}
                """,
                to: "\(app).json"
            )
        }

        func removeShapes(of app: String) throws {
            try FileManager.default.removeItem(atPath: directory.path("\(app).json"))
        }

        func removeConfiguration() throws {
            try FileManager.default.removeItem(atPath: directory.path("causeway.yaml"))
        }

        func removeKey() throws { try FileManager.default.moveItem(atPath: keyFile, toPath: keyFile + ".removed") }

        func restoreKey() throws { try FileManager.default.moveItem(atPath: keyFile + ".removed", toPath: keyFile) }

        func readContracts() throws -> [ContractRule?] { try load().apps.map { try $0.readContractRule() } }

        private func load() throws -> WorkerConfiguration { try loader.load(path: directory.path("causeway.yaml")) }

        /// Makes a worker that has read the files, and does not run.
        func makeWorker() throws -> Worker {
            let source = ConfigurationSource(
                loader: loader,
                path: directory.path("causeway.yaml"),
                logThreshold: LogThreshold(.info)
            )
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            return try Worker(configuration: try load(), source: source, logger: logger, version: "0")
        }
    }

    private static func takeContracts(_ worker: Worker) throws -> [ContractRule?] {
        try #require(worker.setup.mailboxes[0].takeSettings()).apps.map(\.contract)
    }

    /// One change of a deployment removes an app with its shapes, and gives another app new shapes.
    @Test func `An app that is removed with its shapes keeps its contract, and the other apps get their new ones`()
        async throws
    {
        let files = try ConfigurationFiles()
        for app in ["a", "b"] { try files.writeShapes(of: app, "int") }
        try files.writeConfiguration(apps: ["a", "b"])
        let worker = try files.makeWorker()
        let oldContracts = try files.readContracts()
        try files.writeShapes(of: "a", "string")
        try files.removeShapes(of: "b")
        try files.writeConfiguration(apps: ["a"])
        await worker.reload()
        let newContracts = try files.readContracts()
        try #require(newContracts[0] != oldContracts[0])
        #expect(try Self.takeContracts(worker) == [newContracts[0], oldContracts[1]])
    }

    /// The configuration names a key file that is mounted later. The polls do not watch this file.
    @Test func `A reload that lacked a file is tried again without a change of the configuration`() async throws {
        let files = try ConfigurationFiles(requiresFiles: true)
        try files.writeShapes(of: "a", "int")
        try files.writeConfiguration(apps: ["a"])
        let worker = try files.makeWorker()
        let reloader = try #require(worker.configurationReloader)
        let events = worker.metricRegistry.events
        try files.removeKey()
        await worker.reload()
        for _ in 1...2 * ConfigurationReloader.pollsPerRetry { await reloader.poll() }
        #expect(events[.configurationRejected].count == 1, "the same errors are logged once")
        #expect(worker.metricRegistry.condition.current.isConfigurationRejected)
        let rejectedSettings = worker.setup.mailboxes[0].takeSettings()
        #expect(rejectedSettings == nil)
        try files.restoreKey()
        for _ in 1...2 * ConfigurationReloader.pollsPerRetry { await reloader.poll() }
        #expect(events[.configurationReloaded].count == 1)
        #expect(!worker.metricRegistry.condition.current.isConfigurationRejected)
        #expect(try Self.takeContracts(worker) == files.readContracts())
    }

    /// With the chart, only a poll can notice the change, because nobody can send SIGHUP to the worker.
    @Test func `A file of shapes that changes alone is read again`() async throws {
        let files = try ConfigurationFiles()
        for app in ["a", "b"] { try files.writeShapes(of: app, "int") }
        try files.writeConfiguration(apps: ["a", "b"])
        let worker = try files.makeWorker()
        let reloader = try #require(worker.configurationReloader)
        let oldContracts = try files.readContracts()
        await reloader.poll()
        try files.writeShapes(of: "b", "string")
        await reloader.poll()
        let earlySettings = worker.setup.mailboxes[0].takeSettings()
        #expect(earlySettings == nil, "the first poll may have found a half-written file")
        await reloader.poll()
        let newContracts = try files.readContracts()
        try #require(newContracts[1] != oldContracts[1])
        #expect(try Self.takeContracts(worker) == newContracts)
        for _ in 1...2 * ConfigurationReloader.pollsPerRetry { await reloader.poll() }
        let reloads = worker.metricRegistry.events[.configurationReloaded]
        #expect(reloads.count == 1 && reloads.lastLineMetadata == "changed=apps.b.shapes")
        await worker.reload()
        #expect(worker.metricRegistry.events[.configurationReloaded].lastLineMetadata == "changed=nothing")
    }

    /// The memory needs a restart, and the restarted worker would not start.
    @Test func `A reload with too little memory for the lanes is rejected with the message of a start`() async throws {
        let files = try ConfigurationFiles()
        try files.writeShapes(of: "a", "int")
        try files.writeConfiguration(apps: ["a"])
        let worker = try files.makeWorker()
        try files.writeConfiguration(apps: ["a"], memoryMebibytes: 16)
        let startError = try #require(throws: MemoryBudgetError.self) { _ = try files.makeWorker() }
        await worker.reload()
        let events = worker.metricRegistry.events
        #expect(events[.configurationReloaded].count == 0 && events[.configurationNeedsRestart].count == 0)
        #expect(events[.configurationRejected].lastLineMetadata.contains("\(startError)"))
        #expect(worker.metricRegistry.condition.current.isConfigurationRejected)
    }

    /// A program that replaces a file may first remove it. A worker that starts without the file exits.
    @Test(arguments: [true, false])
    func `A file that two polls miss is reported once, until it is back`(isConfiguration: Bool) async throws {
        let files = try ConfigurationFiles()
        func write() throws {
            try files.writeShapes(of: "a", "int")
            try files.writeConfiguration(apps: ["a"])
        }
        try write()
        let worker = try files.makeWorker()
        let reloader = try #require(worker.configurationReloader)
        let events = worker.metricRegistry.events
        func remove() throws { try isConfiguration ? files.removeConfiguration() : files.removeShapes(of: "a") }
        try remove()
        await reloader.poll()
        try write()
        for _ in 1...2 { await reloader.poll() }
        #expect(events[.configurationRejected].count == 0, "only one poll missed the file")
        try remove()
        for _ in 1...2 * ConfigurationReloader.pollsPerRetry { await reloader.poll() }
        #expect(events[.configurationRejected].count == 1)
        #expect(events[.configurationRejected].lastLineMetadata.contains("cannot be opened"))
        #expect(worker.metricRegistry.condition.current.isConfigurationRejected)
        try write()
        for _ in 1...2 { await reloader.poll() }
        #expect(!worker.metricRegistry.condition.current.isConfigurationRejected)
    }

    @Test func `A damaged file of shapes is rejected until it is corrected`() async throws {
        let files = try ConfigurationFiles()
        try files.writeShapes(of: "a", "int")
        try files.writeConfiguration(apps: ["a"])
        let worker = try files.makeWorker()
        let reloader = try #require(worker.configurationReloader)
        try files.writeShapes(of: "a", "no type")
        for _ in 1...2 { await reloader.poll() }
        #expect(worker.metricRegistry.condition.current.isConfigurationRejected)
        let rejectedSettings = worker.setup.mailboxes[0].takeSettings()
        #expect(rejectedSettings == nil)
        try files.writeShapes(of: "a", "string")
        for _ in 1...2 { await reloader.poll() }
        #expect(!worker.metricRegistry.condition.current.isConfigurationRejected)
        #expect(try Self.takeContracts(worker) == files.readContracts())
    }
}
