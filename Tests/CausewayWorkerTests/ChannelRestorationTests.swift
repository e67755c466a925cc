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

    private static let neighbourEnvironment = AppEnvironment(app: "com.example.tram", environment: "production")

    /// A keeper with a Redis server and a broker of its own. It has two apps, without channels in the configuration.
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
                  tram:
                    bundleId: \(ChannelRestorationTests.neighbourEnvironment.app)
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

        /// Makes the registry say that it was complete on another run of the server, as after a failover.
        func pretendReplacedServer() {
            let appEnvironment = ChannelRestorationTests.appEnvironment
            server.command("HSET", "{channels:\(appEnvironment.app):\(appEnvironment.environment)}", "t:", "1 0a1b")
        }

        /// Whether a worker has taken the lease for the periodic work.
        func isPeriodicWorkLeased() -> Bool {
            let appEnvironment = ChannelRestorationTests.appEnvironment
            let key = "{channels:\(appEnvironment.app):\(appEnvironment.environment)}turn:tend"
            return server.command("EXISTS", key) != ["0"]
        }

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
            createdAtWallMilliseconds: 1
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

    /// A broker may not know an existing topic for a while. If the topic counted as empty, the audiences would get
    /// second channels, and these would replace the ids of the first ones in the topic.
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

    /// Otherwise, without a channels topic that can be read, each command to an audience would wait after a failover.
    @Test func `A look-up does not make an app one that uses channels`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        fixture.hideTopic()
        #expect(try await !Self.restoreInHash("final", by: keeper))
        fixture.pretendReplacedServer()
        #expect(try await !Self.restoreInHash("final", by: keeper))
    }

    /// The periodic work would ask APNs for the list of channels. APNs may refuse this for the app each time.
    @Test func `After a look-up, an app without channels needs no periodic work`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        #expect(try await !Self.restoreInHash("final", by: keeper))
        try await Self.doPeriodicWork(by: keeper)
        #expect(!fixture.isPeriodicWorkLeased())
    }

    /// Otherwise the first look-up of each app would read the whole topic, one after the other.
    @Test func `A look-up in an emptied store restores the registries of all apps`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        try fixture.publish(Self.makeEntry("final"))
        #expect(try await Self.restoreInHash("final", by: keeper))
        let isNeighbourComplete = try await Self.isRegistryComplete(of: Self.neighbourEnvironment, by: keeper)
        #expect(isNeighbourComplete)
    }

    private static func restoreInHash(_ audience: String, by keeper: isolated ChannelKeeper) throws -> Bool {
        try keeper.restoreChannelInHash(of: audience, at: keeper.managedEnvironments[0])
    }

    private static func doPeriodicWork(by keeper: isolated ChannelKeeper) async throws {
        try await keeper.doPeriodicWork(for: keeper.managedEnvironments[0])
    }

    private static func isRegistryComplete(
        of appEnvironment: AppEnvironment = ChannelRestorationTests.appEnvironment,
        by keeper: isolated ChannelKeeper
    ) throws -> Bool {
        try keeper.registry.isComplete(appEnvironment)
    }

    /// Lets the keeper read the topic again, as if time had passed since the last failure.
    private static func endRestorationPause(of keeper: isolated ChannelKeeper) { keeper.restorationFailure = nil }

    /// Redis loses the registry all the time. Sometimes this happens between the end of a restoration and the next
    /// read. To an operator's comparison, all channels would then be unknown.
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

    // MARK: - A server without its newest writes

    /// A failover can lose the newest writes in the same way. The registry is there, but lacks its newest entry.
    @Test func `A channel that a restarted server has lost is restored, and no second one is created`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let keeper = try await fixture.makeKeeper()
            #expect(fixture.server.command("SAVE") == ["OK"])
            let entry = try await keeper.create("final", Self.appEnvironment)
            try fixture.server.restart()
            let restoredEntry = try await keeper.create("final", Self.appEnvironment)
            #expect(restoredEntry.channel == entry.channel)
            #expect(try await fixture.channelsAtAPNs() == [entry.channel])
        }
    }

    /// The server has lost that another channel replaced the audience's first one. Phones know the other channel.
    @Test func `A newer channel on the topic replaces the one that a replaced server still has`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        try await Self.restore(by: keeper, attemptsMax: 1)
        try await Self.add(Self.makeEntry("final"), by: keeper)
        var newerEntry = Self.makeEntry("final", channel: "bmV3ZXItY2hhbm5lbA==")
        newerEntry.createdAtWallMilliseconds = 2
        try fixture.publish(newerEntry)
        fixture.pretendReplacedServer()
        try await Self.restore(by: keeper, attemptsMax: 1)
        let channels = try await Self.readRegistryAsIs(by: keeper).map(\.channel)
        #expect(channels == [newerEntry.channel])
    }

    /// A start may have cancelled the deletion, and the server has lost this.
    @Test func `A replaced server's planned deletion is postponed`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        try await Self.restore(by: keeper, attemptsMax: 1)
        let entry = Self.makePublishedEntryDueForDeletion()
        try await Self.add(entry, by: keeper)
        try fixture.publish(entry)
        fixture.pretendReplacedServer()
        try await Self.restore(by: keeper, attemptsMax: 1)
        let dueMilliseconds = try #require(
            try await Self.readRegistryAsIs(by: keeper).first?.deletionDueWallMilliseconds
        )
        #expect(dueMilliseconds > WallClock.systemMilliseconds)
    }

    /// Each worker restores the registry, a little later than the one before. If each restoration postponed the
    /// deletion, the channel would stay too long.
    @Test func `A second restoration does not postpone a deletion again`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        try await Self.restore(by: keeper, attemptsMax: 1)
        let entry = Self.makePublishedEntryDueForDeletion()
        try await Self.add(entry, by: keeper)
        let channels = PublishedChannels(entries: [entry])
        var dueTimes: [Int64?] = []
        for atWallMilliseconds: Int64 in [1_000, 2_000] {
            fixture.pretendReplacedServer()
            try await Self.restoreRegistry(from: channels, by: keeper, atWallMilliseconds: atWallMilliseconds)
            dueTimes.append(try await Self.readRegistryAsIs(by: keeper).first?.deletionDueWallMilliseconds)
        }
        #expect(dueTimes == [3_601_000, 3_601_000])
    }

    /// The server has returned to a copy from before the deletion. The topic has a tombstone.
    @Test func `A deleted channel that a replaced server still has stays due for deletion`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let keeper = try await fixture.makeKeeper()
            let entry = Self.makePublishedEntryDueForDeletion()
            try await Self.add(entry, by: keeper)
            fixture.server.command("HSET", ChannelKeeperFixture.registryKey, "t:", "1 0a1b")
            try await Self.restore(by: keeper, attemptsMax: 1)
            let entries = try await Self.readRegistryAsIs(by: keeper)
            #expect(entries == [entry])
            #expect(try fixture.channelInAudienceHash(of: "final") == nil)
        }
    }

    /// A broker may not know an existing topic for a while.
    @Test func `Without the topic, no channel counts as deleted`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        try await Self.restore(by: keeper, attemptsMax: 1)
        try await Self.add(Self.makePublishedEntryDueForDeletion(), by: keeper)
        fixture.pretendReplacedServer()
        let channels = PublishedChannels(isTopicMissing: true)
        try await Self.restoreRegistry(from: channels, by: keeper, atWallMilliseconds: 1_000)
        let dueMilliseconds = try await Self.readRegistryAsIs(by: keeper).first?.deletionDueWallMilliseconds
        #expect(dueMilliseconds == 3_601_000)
    }

    private static func makePublishedEntryDueForDeletion() -> ChannelEntry {
        var entry = makeEntry("final")
        (entry.deletionDueWallMilliseconds, entry.isPublished) = (1, true)
        return entry
    }

    private static func restoreRegistry(
        from channels: PublishedChannels,
        by keeper: isolated ChannelKeeper,
        atWallMilliseconds: Int64
    ) throws {
        let token = try #require(try keeper.registry.beginRestoration(appEnvironment))
        try #require(
            try keeper.registry.restore(channels, appEnvironment, token: token, atWallMilliseconds: atWallMilliseconds)
        )
    }

    @Test(
        arguments: [
            (nil, "0a1b", false), ("1", "0a1b", false), ("1 0a1b", "0a1b", true), ("1 0a1c", "0a1b", false),
            ("1 0a1b", nil, true), ("1", nil, true), ("?1 0a1b", "0a1b", false), ("?1", nil, false),
        ] as [(String?, String?, Bool)]
    )
    func `A registry is complete only on the run of the server that its text names`(
        text: String?,
        runIdentifier: String?,
        isComplete: Bool
    ) {
        let completeness = RegistryCompleteness(text.map { Array($0.utf8) }, runIdentifier: runIdentifier)
        #expect(completeness.isComplete == isComplete)
    }

    /// The server may have been replaced between the beginning and the end of the restoration.
    @Test(arguments: ["0a1b", nil] as [String?])
    func `A restoration completes the registry for the run on which it began`(
        runIdentifier: String?
    ) {
        let token = RegistryCompleteness(nil, runIdentifier: runIdentifier).makeToken()
        let text = RegistryCompleteness.makeText(completeSinceWallMilliseconds: 7, token: token)
        #expect(text == Array((runIdentifier.map { "7 \($0)" } ?? "7").utf8))
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
        if change == .cancelDeletion { readEntry.deletionDueWallMilliseconds = .max }
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
        case .planDeletion: _ = try keeper.planDeletion(of: entry, dueWallMilliseconds: 1)
        case .delete: _ = try await keeper.delete(entry, at: keeper.managedEnvironments[0])
        }
    }
}
