import APNs
import CausewayConfiguration
import Delivery
import LiveActivity
import Observability
import Reactor

/// Makes the pools of connections to APNs, the sources of their provider tokens, and the labels of the metrics.
extension WorkerSetup {
    /// Makes one token source for each key. All apps and environments with the same key share its source.
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

    /// Makes the labels of the metrics, which name the signing keys by their ids.
    static func makeLabels(
        _ configuration: WorkerConfiguration,
        tokenSources: [ConfiguredSigningKey: ProviderTokenSource],
        keys: [ConfiguredSigningKey],
        version: String
    ) -> LabelValues {
        LabelValues(
            configuration,
            signingKeys: keys,
            keyIdentifiers: keys.map { tokenSources[$0]?.keyStatus.keyIdentifier ?? $0.configuredIdentifier },
            version: version
        )
    }

    static func makeTokenSource(_ key: ConfiguredSigningKey) throws -> ProviderTokenSource {
        try ProviderTokenSource(
            key: try SigningKey(path: key.file),
            keyIdentifier: try key.readIdentifier(),
            teamIdentifier: key.teamIdentifier
        )
    }

    /// Makes the budget of the whole process for connections to APNs. It limits the number of all connections, and the
    /// number of connections to one address. Each limit is two connections for each pool of each lane, so that a pool
    /// can open a new connection before it closes the old one. But each limit is at least the default of
    /// ``ConnectionBudget``, and at most 4,096. A pool's only connection is never refused.
    private static func makeConnectionBudget(poolCount: Int) -> ConnectionBudget {
        let defaults = ConnectionBudget()
        return ConnectionBudget(
            connectionsMax: min(4_096, max(defaults.connectionsMax, poolCount * 2)),
            connectionsPerAddressMax: min(4_096, max(defaults.connectionsPerAddressMax, poolCount * 2))
        )
    }

    static func makeTLSContext(of apns: WorkerConfiguration.APNs) throws(TLSError) -> TLSContext {
        try TLSContext.client(caFile: apns.caFile, applicationProtocols: ["h2"])
    }

    /// Makes the configuration of a lane's pools: one for each app and environment. All lanes share the token sources
    /// and the budget of connections.
    static func makePools(
        _ configuration: WorkerConfiguration,
        tokenSources: [ConfiguredSigningKey: ProviderTokenSource],
        keys: [ConfiguredSigningKey],
        laneCount: Int
    ) throws -> [LaneSetup.PoolSetup] {
        let tls = try Self.makeTLSContext(of: configuration.apns)
        let poolCount = laneCount * configuration.apps.reduce(0) { $0 + $1.environments.count }
        let budget = makeConnectionBudget(poolCount: poolCount)
        return try configuration.apps.enumerated()
            .flatMap { appIndex, app in
                try app.environments.map { environment in
                    let key = app.signingKey(for: environment)
                    guard let source = tokenSources[key], let signingKeyIndex = keys.firstIndex(of: key) else {
                        preconditionFailure("every configured key has a token source")
                    }
                    let endpoint = configuration.apns.endpoint(for: environment)
                    var pool = PoolConfiguration(
                        host: endpoint.host,
                        port: UInt16(clamping: endpoint.port),
                        tls: tls,
                        appHeaders: try AppPushHeaders(liveActivitiesOf: app.bundleId)
                    )
                    pool.connectionsMax = configuration.apns.connectionsPerPool
                    pool.connectionBudget = budget
                    pool.inFlightPushesPerConnectionMax = configuration.apns.inFlightPerConnection
                    pool.requestTimeoutMilliseconds = Int64(configuration.apns.requestTimeoutMilliseconds)
                    pool.connectTimeoutMilliseconds = Int64(configuration.apns.connectTimeoutMilliseconds)
                    try pool.validate()
                    return LaneSetup.PoolSetup(
                        identifier: PoolIdentifier(appIndex: UInt16(appIndex), environment: environment),
                        name: "\(app.name)/\(environment.name)",
                        configuration: pool,
                        tokenSource: source,
                        signingKeyIndex: signingKeyIndex
                    )
                }
            }
    }
}

extension WorkerConfiguration.App {
    func signingKey(for environment: APNsEnvironment) -> ConfiguredSigningKey {
        let key = signingKeyReference(for: environment)
        return ConfiguredSigningKey(teamIdentifier: teamId, configuredIdentifier: key.keyId, file: key.keyFile)
    }
}
