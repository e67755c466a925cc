import ArgumentParser
import Delivery
import LiveActivity

/// The configuration file of a worker on the stage.
enum WorkerConfigurationText {
    struct App {
        /// Lower-case letters and digits.
        var name: String
        var bundleIdentifier: String
    }

    /// - Parameter policy: must be named `default`, so that every app uses it.
    static func text(
        stage: Stage,
        apps: [App],
        lanes: Int,
        policy: Policy = Policy(name: "default"),
        supersededResults: SupersededResults = .each
    ) -> String {
        """
        log:
          format: text
        http:
          host: 127.0.0.1
          port: \(stage.httpPort)
        kafka:
          bootstrapServers: "\(stage.bootstrapServers)"
          supersededResults: \(supersededResults.rawValue)
          consumer:
            # A worker that was killed is missed after this long, and the embedded broker serves one member of a group alone.
            session.timeout.ms: "6000"
            heartbeat.interval.ms: "1000"
            # The embedded broker answers an empty fetch only when this time is over, whatever arrives meanwhile.
            fetch.wait.max.ms: "10"
        redis:
          url: redis://127.0.0.1:\(stage.redisPort)/0
        apns:
          sandbox:
            host: localhost
            port: \(stage.simulator.apnsPort)
          caFile: "\(stage.simulator.caFile)"
        apps:
        \(apps.map { app(of: $0, simulator: stage.simulator) }.joined(separator: "\n"))
        \(policies(policy))
        worker:
          lanes: \(lanes)

        """
    }

    /// Empty if the policy has only default numbers.
    private static func policies(_ policy: Policy) -> String {
        guard policy != Policy(name: policy.name) else { return "" }
        return """
            policies:
              \(policy.name):
                spacingMilliseconds: \(policy.spacingMilliseconds)
                budget: \(bucket(policy.budget))
                frequentBudget: \(bucket(policy.frequentBudget))
            """
    }

    private static func bucket(_ bucket: Policy.Bucket) -> String {
        "{pushes: \(bucket.pushes), refillPerHour: \(bucket.refillPerHour), "
            + "reservedForAlerts: \(bucket.reservedForAlerts)}"
    }

    private static func app(of app: App, simulator: Stage.SimulatorPlace) -> String {
        """
          \(app.name):
            bundleId: \(app.bundleIdentifier)
            teamId: \(simulator.teamId)
            keyId: \(simulator.keyId)
            keyFile: "\(simulator.keyFile)"
            environments: [sandbox]
        """
    }
}

extension SupersededResults: ExpressibleByArgument {}
