import APNs
import APNsSimulator
import ActivityStore
import CausewayConfiguration
import Foundation
import Kafka
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// A Redis server, a broker and the simulator, shared by several keepers. Each keeper stands for one worker.
final class ChannelKeeperFixture: @unchecked Sendable {  // Only one task uses it.
    static let appEnvironment = AppEnvironment(app: "com.example.ride", environment: "production")
    static let registryKey = "{channels:com.example.ride:production}"

    let simulator: Simulator
    let server: RedisServer
    let topic: ChannelTopic
    private let directory: TemporaryDirectory
    let broker: EmbeddedBroker
    private let configuration: WorkerConfiguration
    private let admitter: AudienceAdmitter

    private init(_ simulator: Simulator, directory: TemporaryDirectory, caFile: String, keyFile: String) throws {
        (self.simulator, self.directory) = (simulator, directory)
        server = try RedisServer()
        admitter = try AudienceAdmitter(server)
        broker = try EmbeddedBroker()
        try broker.createTopic("causeway.channels", partitionCount: 1)
        let (port, managementPort) = (simulator.port, simulator.managementPort)
        let text = """
            kafka: {bootstrapServers: "\(broker.bootstrapServers)"}
            redis: {url: "\(server.unixURL)"}
            apns:
              production: {host: localhost, port: \(port), managementHost: localhost, managementPort: \(managementPort)}
              caFile: \(caFile)
              requestTimeoutMilliseconds: 7000
            apps:
              ride:
                bundleId: \(Self.appEnvironment.app)
                teamId: TEAM123456
                keyId: KEY1234567
                keyFile: \(keyFile)
                environments: [production]

            """
        configuration = try ConfigurationLoader(environment: [:], requiresFiles: false).load(text: text, file: nil)
        topic = ChannelTopic(
            name: "causeway.channels",
            producerProperties: try configuration.kafka.producerProperties,
            consumerProperties: try configuration.kafka.consumerProperties
        )
    }

    deinit { topic.close() }

    static func run(_ body: (ChannelKeeperFixture) async throws -> Void) async throws {
        let directory = try TemporaryDirectory()
        let certificate = try GeneratedCertificate.write(directory: directory.path("tls"), hosts: ["localhost"])
        var configuration = SimulatorConfiguration(
            transportSecurity: .certificate(certificateFile: certificate.certificateFile, keyFile: certificate.keyFile),
            keys: [
                .init(
                    teamId: "TEAM123456",
                    keyId: "KEY1234567",
                    pem: try String(contentsOfFile: certificate.keyFile, encoding: .utf8)
                )
            ]
        )
        configuration.controlPort = nil
        let simulator = Simulator(configuration)
        try await simulator.start()
        do {
            try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
                try devices.declareApp(appEnvironment.app, teamId: "TEAM123456", types: [])
            }
            let fixture = try ChannelKeeperFixture(
                simulator,
                directory: directory,
                caFile: certificate.caFile,
                keyFile: certificate.keyFile
            )
            try await body(fixture)
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    /// Makes a keeper whose registry is complete.
    func makeKeeper() async throws -> ChannelKeeper {
        let keeper = try #require(try ChannelKeeper.make(configuration, report: { _ in }))
        _ = try await keeper.readEntries(Self.appEnvironment)
        return keeper
    }

    /// The channels that APNs has.
    func channelsAtAPNs() async throws -> [String] {
        try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
            try devices.channelIdentifiers(app: Self.appEnvironment.app)
        }
    }

    /// Replaces an audience's entry in the registry by this text. For example, `?` cannot be read as an entry.
    func setEntry(of audience: String, to value: String) {
        server.command("HSET", Self.registryKey, "a:\(audience)", value)
    }

    /// Writes a record that this release cannot read, as the newest one of an audience's key.
    func publishUnreadable(_ value: String, for audience: String) throws {
        let producer = SynchronousProducer(
            topicName: topic.name,
            properties: [("bootstrap.servers", broker.bootstrapServers)]
        )
        let key = "\(Self.appEnvironment.app)/\(Self.appEnvironment.environment)/\(audience)"
        try producer.produce([(Array(key.utf8), Array(value.utf8))])
    }

    /// Lets APNs carry out the next request at once, but respond only after the given time.
    func delayNextResponse(milliseconds: Int) async throws {
        var faults = Faults()
        (faults.lateShare, faults.lateMilliseconds, faults.requestsSubjectToFaultsMax) = (1, milliseconds, 1)
        try await simulator.setFaults(faults, of: .management)
    }

    /// Makes APNs' channel management respond to all requests with 503.
    func makeManagementUnavailable() async throws {
        var faults = Faults()
        faults.serviceUnavailableShare = 1
        try await simulator.setFaults(faults, of: .management)
    }

    func makeManagementAvailable() async throws { try await simulator.setFaults(Faults(), of: .management) }

    /// Deletes a channel, as another program would.
    func deleteAtAPNs(_ channel: String) async throws {
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.deleteChannel(channel, app: Self.appEnvironment.app, nowMilliseconds: now)
        }
    }

    /// Makes the next creation request APNs' list first, as if time had passed since the last list.
    func forgetRecordedList() { server.command("HDEL", Self.registryKey, "l:") }

    func isChannelBeingCreated(_ audience: String) -> Bool {
        server.command("EXISTS", Self.registryKey + "create:\(audience)") == ["1"]
    }

    /// The number of these audiences whose channel is being created, at one moment.
    func creationCount(of audiences: [String]) -> Int {
        let keys = audiences.map { Array((Self.registryKey + "create:\($0)").utf8) }
        let reply = server.command(bytes: [Array("EXISTS".utf8)] + keys).first
        return reply.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
    }

    /// Takes the lease for the creation of an audience's channel, as another process would.
    func beginCreationByOtherProcess(of audience: String) {
        server.command("SET", Self.registryKey + "create:\(audience)", "test")
    }

    /// The number of commands that Redis has processed since `CONFIG RESETSTAT`; nil if Redis does not say it.
    func processedCommandCount() -> Int? {
        let lines = server.command("INFO", "stats").first?.split(whereSeparator: \.isNewline) ?? []
        return lines.first { $0.hasPrefix("total_commands_processed:") }?.split(separator: ":").last.flatMap { Int($0) }
    }

    /// Ends the lease for the periodic work, so that a keeper can do this work again at once.
    func endPeriodicWorkLease() { server.command("DEL", Self.registryKey + "turn:tend") }

    /// Takes the lease for the daily comparison with APNs' list, so that no keeper begins one.
    func preventDailyReconciliation() { server.command("SET", Self.registryKey + "turn:daily", "test") }

    /// Takes the lease for writing all channels to the audiences' hashes again, so that no periodic work does this.
    func preventHashRefresh() { server.command("SET", Self.registryKey + "turn:hashes", "test") }

    /// Admits a command to an audience in Redis, as a lane does.
    func admit(_ command: AudienceAdmitter.Command, to audience: String) throws {
        try admitter.admit(command, app: Self.appEnvironment.app, audience: audience)
    }

    func entry(of audience: String, by keeper: ChannelKeeper) async throws -> ChannelEntry {
        try #require(try await keeper.readEntries(Self.appEnvironment).first { $0.audience == audience })
    }

    /// The channel that admission reads, in the audience's hash; nil if there is none.
    func channelInAudienceHash(of audience: String) throws -> [UInt8]? {
        let keys = try #require(AudienceKeyWriter(app: Self.appEnvironment.app, audience: audience))
        return server.command(bytes: [Array("HGET".utf8), keys.audienceKey, Array("hp".utf8)])
            .first { !$0.isEmpty }
    }

    /// Deletes the audience's hash, as if it had expired.
    func expireAudienceHash(of audience: String) throws {
        let keys = try #require(AudienceKeyWriter(app: Self.appEnvironment.app, audience: audience))
        server.command(bytes: [Array("DEL".utf8), keys.audienceKey])
    }

    func publishedEntry(of audience: String) throws -> ChannelEntry? {
        try topic.readChannels().entries.first { $0.audience == audience }
    }
}

extension ChannelKeeper {
    var managedEnvironment: ManagedEnvironment { managedEnvironments[0] }

    func readEntries(_ appEnvironment: AppEnvironment) throws -> [ChannelEntry] {
        try readRegistry(appEnvironment).entries
    }

    func notePublishedIfUnchanged(_ entry: ChannelEntry) throws {
        var publishedEntry = entry
        publishedEntry.isPublished = true
        try registry.replaceIfUnchanged(entry, with: publishedEntry)
    }

    /// Creates a channel at APNs that the registry does not have.
    func createUnrecordedChannel() async throws -> String {
        try await managedEnvironment.channelManagement.create(storesNewestMessage: true)
    }

    /// Lets the keeper write to the topic again, as if time had passed since Kafka failed to take a record.
    func endTopicPause() { topicWritePause = nil }

    /// Lets the keeper look up channels again, as if time had passed since Redis failed.
    func endLookupPauses() { lookupFailures = [:] }

    func removeChannelFromAudienceHash(of entry: ChannelEntry) throws {
        try registry.removeChannelFromAudienceHash(of: entry)
    }

    /// Changes an entry of the registry, as another worker would.
    @discardableResult
    func change(_ entry: ChannelEntry, _ body: @Sendable (inout ChannelEntry) -> Void) throws -> ChannelEntry {
        var newEntry = entry
        body(&newEntry)
        try #require(try registry.replaceIfUnchanged(entry, with: newEntry))
        return newEntry
    }
}

extension Reconciliation {
    /// Makes a comparison that keeps channels without an entry, while no creation is under way.
    init(_ content: RegistryContent, listedChannels: [String], listedAtWallMilliseconds: Int64) {
        self.init(
            listedChannels: listedChannels,
            listedAtWallMilliseconds: listedAtWallMilliseconds,
            content: content,
            isUnderWay: { _ in false },
            deletesUnknownChannels: false,
            nowWallMilliseconds: WallClock.systemMilliseconds
        )
    }
}
