import ArgumentParser
import Delivery
import LiveActivity

/// The configuration file of a worker on the deployment.
enum WorkerConfigurationText {
    struct App {
        /// Lower-case letters and digits.
        var name: String
        var bundleIdentifier: String
        /// Which audiences of the app get a broadcast channel; nil: none.
        var channels: Channels?
    }

    struct Channels {
        /// The name of an audience, or the beginning of names and a `*`, as in the configuration.
        var audiences: String
        /// How long after the end of its audience a channel is deleted.
        var keepSeconds: Int
    }

    /// - Parameter policy: must be named `default`, so that every app uses it.
    static func text(
        deployment: Deployment,
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
          port: \(deployment.httpPort)
        kafka:
          bootstrapServers: "\(deployment.bootstrapServers)"
          supersededResults: \(supersededResults.rawValue)
          consumer:
            # A worker that was killed is missed after this long, and the embedded broker serves one member of a group alone.
            session.timeout.ms: "6000"
            heartbeat.interval.ms: "1000"
            # The embedded broker answers an empty fetch only when this time is over, whatever arrives meanwhile.
            fetch.wait.max.ms: "10"
        redis:
          url: redis://127.0.0.1:\(deployment.redisPort)/0
        apns:
          sandbox:
            host: localhost
            port: \(deployment.simulator.apnsPort)\(management(of: apps, deployment.simulator))
          caFile: "\(deployment.simulator.caFile)"
        apps:
        \(apps.map { app(of: $0, simulator: deployment.simulator) }.joined(separator: "\n"))
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

    private static func management(of apps: [App], _ simulator: Deployment.SimulatorPlace) -> String {
        guard apps.contains(where: { $0.channels != nil }) else { return "" }
        return "\n    managementHost: localhost\n    managementPort: \(simulator.managementPort)"
    }

    private static func app(of app: App, simulator: Deployment.SimulatorPlace) -> String {
        """
          \(app.name):
            bundleId: \(app.bundleIdentifier)
            teamId: \(simulator.teamId)
            keyId: \(simulator.keyId)
            keyFile: "\(simulator.keyFile)"
            environments: [sandbox]\(app.channels.map(channels) ?? "")
        """
    }

    /// Nothing is stored, or a channel would be kept until the last message, which may wait for phones that are off line, has expired.
    private static func channels(_ channels: Channels) -> String {
        """

            channels:
              audiences: ["\(channels.audiences)"]
              environments: [sandbox]
              storage: none
              keepSeconds: \(channels.keepSeconds)
        """
    }
}

extension SupersededResults: ExpressibleByArgument {}
