import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Reactor
import Redis

extension ChannelKeeper {
    /// Makes a keeper for all apps of a configuration that may have channels. Returns nil if no app may have
    /// channels. Opens no connection.
    ///
    /// - Parameters:
    ///   - wallClock: the clock of provider tokens, and of all times that are stored or sent.
    ///   - tokenSource: returns the source of provider tokens for an app in an environment.
    static func make(
        _ configuration: WorkerConfiguration,
        redis: RedisConfiguration,
        wallClock: WallClock,
        tokenSource: (WorkerConfiguration.App, APNsEnvironment) throws -> ProviderTokenSource,
        report: @escaping @Sendable (ChannelEvent) -> Void
    ) throws -> ChannelKeeper? {
        let apns = configuration.apns
        let tls = try TLSContext.client(caFile: apns.caFile, applicationProtocols: ["h2"])
        let timeoutMilliseconds = Int64(apns.connectTimeoutMilliseconds + apns.requestTimeoutMilliseconds)
        var managedEnvironments: [ManagedEnvironment] = []
        for app in configuration.apps {
            for environment in app.channels.environments where app.environments.contains(environment) {
                let endpoint = apns.endpoint(for: environment)
                managedEnvironments.append(
                    ManagedEnvironment(
                        appEnvironment: AppEnvironment(app: app.bundleId, environment: "\(environment.name)"),
                        storage: app.channels.storage == .none ? .none : .newest,
                        keepAfterEndMilliseconds: Int64(app.channels.keepSeconds) * 1_000,
                        hasConfiguredChannels: !app.channels.audiences.isEmpty,
                        channelManagement: ChannelManagementClient(
                            bundleId: app.bundleId,
                            endpoint: ManagementEndpoint(
                                host: endpoint.managementHost,
                                port: UInt16(clamping: endpoint.managementPort),
                                tls: tls,
                                timeoutMilliseconds: timeoutMilliseconds
                            ),
                            tokenSource: try tokenSource(app, environment),
                            unixSeconds: { wallClock.wallMilliseconds / 1_000 }
                        )
                    )
                )
            }
        }
        guard !managedEnvironments.isEmpty else { return nil }
        return ChannelKeeper(
            managedEnvironments: managedEnvironments,
            registry: try ChannelRegistry(configuration: redis),
            channelTopic: ChannelTopic(
                name: configuration.kafka.topics.channels,
                producerProperties: try configuration.kafka.producerProperties,
                consumerProperties: try configuration.kafka.consumerProperties
            ),
            timeoutMilliseconds: timeoutMilliseconds,
            wallClock: wallClock,
            report: report
        )
    }

    /// Makes a keeper for a command-line program; nil if no app may have channels. The keeper reads each key's file and
    /// signs its own provider tokens.
    package static func make(
        _ configuration: WorkerConfiguration,
        report: @escaping @Sendable (ChannelEvent) -> Void
    ) throws -> ChannelKeeper? {
        try make(
            configuration,
            redis: RedisConfiguration(configuration.redis),
            wallClock: WallClock(),
            tokenSource: { app, environment in
                let key = app.signingKey(for: environment)
                return try ProviderTokenSource(
                    key: try SigningKey(path: key.file),
                    keyId: try key.readIdentifier(),
                    teamId: key.teamId
                )
            },
            report: report
        )
    }
}
