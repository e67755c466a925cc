import CausewayConfiguration
import Kafka
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// How the keeper restores Redis' register of channels from `causeway.channels`. (R32)
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
            try broker.createTopic("causeway.channels", partitions: 1)
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
    }

    private static func restore(by keeper: isolated ChannelKeeper, attemptsMax: Int) throws {
        try keeper.restore(keeper.managedEnvironments, attemptsMax: attemptsMax)
    }

    @Test func `A restoration that its last attempt completes has succeeded`() async throws {
        let fixture = try KeeperFixture()
        defer { withExtendedLifetime(fixture) {} }
        let keeper = try #require(fixture.keeper)
        let entry = ChannelEntry(
            app: Self.appEnvironment.app,
            environment: Self.appEnvironment.environment,
            audience: "final",
            channel: "dHN0LXNyY2gtY2hubA==",
            storage: .newest,
            createdAtMilliseconds: 1
        )
        try fixture.publish(entry)
        try await Self.restore(by: keeper, attemptsMax: 1)
        let channels = try await keeper.readEntries(Self.appEnvironment).map(\.channel)
        #expect(channels == [entry.channel])
    }
}
