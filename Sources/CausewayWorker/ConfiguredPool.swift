import Audiences
import CausewayConfiguration
import LiveActivity

/// A pool of connections to APNs that each lane has.
struct ConfiguredPool: Equatable {
    var appIndex: Int
    var environment: APNsEnvironment
    var traffic: PoolTraffic
    var host: String
    var port: Int

    /// The pool's value for the label `environment` in the metrics, for example `production` or
    /// `production-broadcasts`.
    var environmentLabel: String {
        traffic == .broadcasts ? "\(environment.name)-broadcasts" : "\(environment.name)"
    }
}

extension WorkerConfiguration {
    /// The APNs pools of each lane: one for each app and environment. A pool's index here is its number in the metrics.
    ///
    /// If an environment has another host or port for broadcasts, each app also has a pool for broadcasts there, even
    /// if its audiences have no channels: a command of any app may name a channel.
    var pools: [ConfiguredPool] {
        var pools: [ConfiguredPool] = []
        for (appIndex, app) in apps.enumerated() {
            for environment in app.environments {
                let endpoint = apns.endpoint(for: environment)
                var pool = ConfiguredPool(
                    appIndex: appIndex,
                    environment: environment,
                    traffic: .everything,
                    host: endpoint.host,
                    port: endpoint.port
                )
                var broadcastPool = pool
                broadcastPool.host = endpoint.broadcastHost ?? endpoint.host
                broadcastPool.port = endpoint.broadcastPort == 0 ? endpoint.port : endpoint.broadcastPort
                let hasBroadcastPool = broadcastPool != pool
                if hasBroadcastPool { pool.traffic = .devicePushes }
                pools.append(pool)
                guard hasBroadcastPool else { continue }
                broadcastPool.traffic = .broadcasts
                pools.append(broadcastPool)
            }
        }
        return pools
    }
}
