import APNs
import Audiences
import CausewayConfiguration
import Delivery
import LiveActivity
import Observability
import Reactor

/// Makes the pools of connections to APNs, the sources of their provider tokens, and the labels of the metrics.
extension WorkerSetup {
    /// Makes one source of provider tokens for each signing key. All apps and environments with the same key share its
    /// source.
    static func makeTokenSources(
        _ configuration: WorkerConfiguration
    ) throws -> [ConfiguredSigningKey: ProviderTokenSource] {
        var tokenSources: [ConfiguredSigningKey: ProviderTokenSource] = [:]
        for app in configuration.apps {
            for environment in app.environments {
                let key = app.signingKey(for: environment)
                if tokenSources[key] == nil { tokenSources[key] = try makeTokenSource(key) }
            }
        }
        return tokenSources
    }

    /// Makes the labels of the metrics, in which a signing key is named by its id.
    static func makeLabels(
        _ configuration: WorkerConfiguration,
        tokenSources: [ConfiguredSigningKey: ProviderTokenSource],
        keys: [ConfiguredSigningKey],
        version: String
    ) -> LabelValues {
        LabelValues(
            configuration,
            signingKeys: keys,
            keyIds: keys.map { tokenSources[$0]?.keyStatus.keyId ?? $0.configuredIdentifier },
            version: version
        )
    }

    static func makeTokenSource(_ key: ConfiguredSigningKey) throws -> ProviderTokenSource {
        try ProviderTokenSource(
            key: try SigningKey(path: key.file),
            keyId: try key.readIdentifier(),
            teamId: key.teamId
        )
    }

    /// Makes the limits on this process's connections to APNs, in total and to one address. Each limit has room for all
    /// connections that the pools of all lanes may have at one time: `connectionsPerPool` for each pool, and as many
    /// retired ones. So no app uses up the connections of another. (R22)
    ///
    /// No limit is below the default of ``ConnectionBudget`` or above 4,096. If the pools want more than 4,096, some
    /// may get only one connection each: a pool's only connection is never refused.
    private static func makeConnectionBudget(poolCount: Int, connectionsPerPool: Int) -> ConnectionBudget {
        let defaults = ConnectionBudget()
        let neededCount = 2 * poolCount * connectionsPerPool
        return ConnectionBudget(
            connectionsMax: min(4_096, max(defaults.connectionsMax, neededCount)),
            connectionsPerAddressMax: min(4_096, max(defaults.connectionsPerAddressMax, neededCount)),
            poolCount: poolCount
        )
    }

    static func makeTLSContext(of apns: WorkerConfiguration.APNs) throws(TLSError) -> TLSContext {
        try TLSContext.client(caFile: apns.caFile, applicationProtocols: ["h2"])
    }

    /// Makes the configuration of a lane's pools (`WorkerConfiguration.pools`). All lanes share the token sources and
    /// the budget of connections.
    static func makePools(
        _ configuration: WorkerConfiguration,
        tokenSources: [ConfiguredSigningKey: ProviderTokenSource],
        keys: [ConfiguredSigningKey],
        laneCount: Int
    ) throws -> [LaneSetup.PoolSetup] {
        let tls = try Self.makeTLSContext(of: configuration.apns)
        let configuredPools = configuration.pools
        let budget = makeConnectionBudget(
            poolCount: laneCount * configuredPools.count,
            connectionsPerPool: configuration.apns.connectionsPerPool
        )
        return try configuredPools.map { configuredPool in
            let app = configuration.apps[configuredPool.appIndex]
            let key = app.signingKey(for: configuredPool.environment)
            guard let source = tokenSources[key], let signingKeyIndex = keys.firstIndex(of: key) else {
                preconditionFailure("every configured key has a token source")
            }
            var pool = PoolConfiguration(
                host: configuredPool.host,
                port: UInt16(clamping: configuredPool.port),
                tls: tls,
                appHeaders: try AppPushHeaders(liveActivitiesOf: app.bundleId)
            )
            pool.sendsDevicePushes = configuredPool.traffic.hasDevicePushes
            pool.connectionsMax = configuration.apns.connectionsPerPool
            pool.connectionBudget = budget
            pool.inFlightPushesPerConnectionMax = configuration.apns.inFlightPerConnection
            pool.requestTimeoutMilliseconds = Int64(configuration.apns.requestTimeoutMilliseconds)
            pool.connectTimeoutMilliseconds = Int64(configuration.apns.connectTimeoutMilliseconds)
            try pool.validate()
            return LaneSetup.PoolSetup(
                target: PoolTarget(
                    appIndex: UInt16(configuredPool.appIndex),
                    environment: configuredPool.environment
                ),
                traffic: configuredPool.traffic,
                name: "\(app.name)/\(configuredPool.environmentLabel)",
                configuration: pool,
                tokenSource: source,
                signingKeyIndex: signingKeyIndex
            )
        }
    }
}

extension WorkerConfiguration.App {
    func signingKey(for environment: APNsEnvironment) -> ConfiguredSigningKey {
        let key = signingKeyReference(for: environment)
        return ConfiguredSigningKey(teamId: teamId, configuredIdentifier: key.keyId, file: key.keyFile)
    }
}
