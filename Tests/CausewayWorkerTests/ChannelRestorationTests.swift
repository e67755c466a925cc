import CausewayConfiguration
import Kafka
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// How the keeper restores Redis' registry of channels from `causeway.channels`. (R32)
@Suite(.ownThread) struct ChannelRestorationTests {
    private static let appEnvironment = AppEnvironment(app: "com.example.ride", environment: "production")

    /// A keeper with a Redis server and a broker of its own.
    private final class KeeperFixture {
        private let directory: TemporaryDirectory
        private let broker: EmbeddedBroker
        private let server: RedisServer
        private let topic: ChannelTopic
        let keeper: ChannelKeeper?

        init() throws {
            directory = try TemporaryDirectory()
            broker = try EmbeddedBroker()
            server = try RedisServer()
            try broker.createTopic("causeway.channels", partitionCount: 1)
            let certificate = try GeneratedCertificate.write(directory: directory.path("key"), hosts: ["localhost"])
            let text = """
                kafka: {bootstrapServers: "\(broker.bootstrapServers)"}
                redis: {url: "\(server.unixURL)"}
                apps:
                  ride:
                    bundleId: \(ChannelRestorationTests.appEnvironment.app)
                    teamId: TEAM123456
                    keyId: KEY1234567
                    keyFile: \(certificate.keyFile)

                """
            let configuration = try ConfigurationLoader(environment: [:], requiresFiles: false)
                .load(text: text, file: nil)
            topic = ChannelTopic(
                name: "causeway.channels",
                producerProperties: try configuration.kafka.producerProperties,
                consumerProperties: []
            )
            keeper = try ChannelKeeper.make(configuration, report: { _ in })
        }

        deinit { topic.close() }

        func publish(_ entry: ChannelEntry) throws { try topic.publish(entry) }

        /// Empties Redis.
        func loseRegistry() { server.command("FLUSHALL") }

        /// Makes the broker say that it does not know the channels topic.
        func hideTopic() { broker.setMetadataError(topic: topic.name, code: 3) }  // 3: UNKNOWN_TOPIC_OR_PARTITION

        func showTopic() { broker.setMetadataError(topic: topic.name, code: 0) }
    }

    private static func makeEntry(_ audience: String, channel: String = "dHN0LXNyY2gtY2hubA==") -> ChannelEntry {
        ChannelEntry(
            app: appEnvironment.app,
            environment: appEnvironment.environment,
            audience: audience,
            channel: channel,
            storage: .newest,
            createdAtMilliseconds: 1
        )
    }

    private static func restore(by keeper: isolated ChannelKeeper, attemptsMax: Int) throws {
        try keeper.restore(keeper.managedEnvironments, attemptsMax: attemptsMax)
    }

    @Test func `A restoration succeeds if its last allowed attempt completes it`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        let entry = Self.makeEntry("final")
        try fixture.publish(entry)
        try await Self.restore(by: keeper, attemptsMax: 1)
        let channels = try await keeper.readEntries(Self.appEnvironment).map(\.channel)
        #expect(channels == [entry.channel])
    }

    /// A broker may not know an existing topic for a while. If the topic counted as empty, the audiences would get second
    /// channels, and these would replace the ids of the first ones in the topic.
    @Test func `A registry is not restored from a topic that the brokers do not know`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        let entry = Self.makeEntry("final")
        try fixture.publish(entry)
        try await Self.restore(by: keeper, attemptsMax: 1)
        fixture.loseRegistry()
        fixture.hideTopic()
        await #expect(throws: ChannelFailure.self) { try await Self.restore(by: keeper, attemptsMax: 1) }
        let isComplete = try await Self.isRegistryComplete(by: keeper)
        #expect(!isComplete)
        fixture.showTopic()
        await Self.endRestorationPause(of: keeper)
        try await Self.restore(by: keeper, attemptsMax: 1)
        let channels = try await Self.readRegistryAsIs(by: keeper).map(\.channel)
        #expect(channels == [entry.channel])
    }

    /// No channel has been published, so there is nothing to restore.
    @Test func `An app that has used no channels needs no channels topic`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        fixture.hideTopic()
        try await Self.restore(by: keeper, attemptsMax: 1)
        let isComplete = try await Self.isRegistryComplete(by: keeper)
        #expect(isComplete)
    }

    private static func isRegistryComplete(by keeper: isolated ChannelKeeper) throws -> Bool {
        try keeper.registry.isComplete(appEnvironment)
    }

    /// Lets the keeper read the topic again, as if time had passed since the last failure.
    private static func endRestorationPause(of keeper: isolated ChannelKeeper) { keeper.restorationFailure = nil }

    /// Redis loses the registry all the time. Sometimes this happens between the end of a restoration and the next read.
    /// To an operator's comparison, all channels would then be unknown.
    @Test func `A registry that Redis has lost again does not count as complete`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let keeper = try await fixture.makeKeeper()
            let port = fixture.server.port
            let emptying = Task.detached {
                guard let client = BlockingClient(port: port) else { return }
                while !Task.isCancelled { client.command("FLUSHALL") }
            }
            for _ in 1...3 {
                let content = try? await keeper.readRegistry(Self.appEnvironment)
                #expect(content?.isComplete != false)
            }
            emptying.cancel()
            await emptying.value
        }
    }

    private static func readRegistryAsIs(by keeper: isolated ChannelKeeper) throws -> [ChannelEntry] {
        try keeper.readRegistryAsIs(keeper.managedEnvironments[0]).entries
    }

    // MARK: - Changes by another worker

    /// What a keeper does with an entry that another worker has changed since the keeper read it.
    enum LateChange: CaseIterable { case cancelDeletion, planDeletion, delete }

    /// The other worker has replaced the channel, because APNs had lost it.
    @Test(arguments: LateChange.allCases)
    func `A keeper does not overwrite an entry that another worker has changed`(change: LateChange) async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        try await Self.restore(by: keeper, attemptsMax: 1)
        var readEntry = Self.makeEntry("final")
        if change == .cancelDeletion { readEntry.deletionDueMilliseconds = .max }
        let newerEntry = Self.makeEntry("final", channel: "bmV3ZXItY2hhbm5lbA==")
        try await Self.add(newerEntry, by: keeper)
        try? await Self.carryOut(change, of: readEntry, by: keeper)
        let entries = try await Self.readRegistryAsIs(by: keeper)
        #expect(entries == [newerEntry])
    }

    private static func add(_ entry: ChannelEntry, by keeper: isolated ChannelKeeper) throws {
        try #require(try keeper.registry.addIfAbsent(entry))
    }

    private static func carryOut(_ change: LateChange, of entry: ChannelEntry, by keeper: isolated ChannelKeeper)
        async throws
    {
        switch change {
        case .cancelDeletion: _ = try keeper.cancelDeletion(of: entry)
        case .planDeletion: _ = try keeper.planDeletion(of: entry, dueMilliseconds: 1)
        case .delete: _ = try await keeper.delete(entry, at: keeper.managedEnvironments[0])
        }
    }
}
