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

    /// The pool's value for the label `environment` in the metrics.
    var environmentLabel: String {
        traffic == .broadcasts ? "\(environment.name)-broadcasts" : "\(environment.name)"
    }
}

extension WorkerConfiguration {
    /// The pools of each lane. Their indices are the numbers of the pools in the metrics.
    ///
    /// If the broadcasts of an environment have another host or port, each app has a second pool there: a command of
    /// any app may name a channel, even if the app's audiences have no channels.
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
