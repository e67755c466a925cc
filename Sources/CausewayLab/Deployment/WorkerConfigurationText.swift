import ArgumentParser
import Delivery
import LiveActivity

/// Writes the configuration file of a worker on loopback, for all runs of the lab.
struct WorkerConfigurationText {
    typealias Settings = [(key: String, value: String)]

    struct App {
        /// The app's name, in lower-case letters and digits.
        var name: String
        var bundleId: String
        var environment = SimulatorEnvironment.sandbox
        /// The file of the app's signing key; nil: the simulator's own key.
        var keyFile: String?
        /// The audiences of the app that get a broadcast channel; nil: none.
        var channels: Channels?
    }

    struct Channels {
        /// The name of an audience, or the beginning of names and a `*`, as in the configuration.
        var audiences: String
        /// How long a channel still exists after its audience has ended.
        var keepSeconds: Int
    }

    struct Host {
        var environment: SimulatorEnvironment
        var port: UInt16
        /// The port of APNs' channel management; nil if no app has channels.
        var managementPort: UInt16?
    }

    /// The workers' consumer group, unless the configuration names another one.
    static let consumerGroup = "causeway"
    /// Properties of the consumer that suit the embedded broker.
    /// - The session is short, because this broker serves only one member of a group: a new worker waits until the
    ///   session of a killed one is over. Six seconds is the least that Kafka's brokers accept by default.
    /// - `fetch.wait.max.ms` is short, because this broker lets a fetch that finds no record wait for the whole time,
    ///   even if a record comes earlier.
    static let consumerProperties = [
        "session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "fetch.wait.max.ms": "10",
    ]

    var httpPort: UInt16
    var bootstrapServers: String
    var supersededResults = SupersededResultMode.each
    var consumerProperties = Self.consumerProperties
    var redis: Settings
    /// Keys of the section `apns`, without the hosts.
    var apns: Settings
    var hosts: [Host]
    /// The team id and the key id of all apps, and the key file of apps that name no file of their own.
    var teamId = SimulatorDirectory.ownTeamAndKeyId
    var keyId = SimulatorDirectory.ownTeamAndKeyId
    var defaultKeyFile = ""
    var apps: [App]
    /// Keys of the policy `default`, which every app uses.
    var policy: Settings = []
    var worker: Settings

    var yaml: String {
        """
        log:
          format: text
        http:
          host: 127.0.0.1
          port: \(httpPort)
        kafka:
          bootstrapServers: "\(bootstrapServers)"
          supersededResults: \(supersededResults.rawValue)
          consumer:
        \(lines(consumerProperties.sorted { $0.key < $1.key }, indentation: 4))
        redis:
        \(lines(redis, indentation: 2))
        apns:
        \(hosts.map(yaml).joined(separator: "\n"))
        \(lines(apns, indentation: 2))
        apps:
        \(apps.map(yaml).joined(separator: "\n"))
        \(policy.isEmpty ? "" : "policies:\n  default:\n" + lines(policy, indentation: 4))
        worker:
        \(lines(worker, indentation: 2))

        """
    }

    private func lines(_ settings: Settings, indentation: Int) -> String {
        settings.map { String(repeating: " ", count: indentation) + "\($0.key): \($0.value)" }.joined(separator: "\n")
    }

    private func yaml(_ host: Host) -> String {
        let management = host.managementPort.map { "\n    managementHost: localhost\n    managementPort: \($0)" } ?? ""
        return """
              \(host.environment.rawValue):
                host: localhost
                port: \(host.port)\(management)
            """
    }

    private func yaml(_ app: App) -> String {
        """
          \(app.name):
            bundleId: \(app.bundleId)
            teamId: \(teamId)
            keyId: \(keyId)
            keyFile: "\(app.keyFile ?? defaultKeyFile)"
            environments: [\(app.environment.rawValue)]\(app.channels.map(yaml) ?? "")
        """
    }

    /// Returns the settings of an app's channels, as YAML. The channels store no message: a channel with a stored
    /// message is kept until the message expires, and a run does not wait so long.
    private func yaml(_ channels: Channels) -> String {
        """

            channels:
              audiences: ["\(channels.audiences)"]
              environments: [sandbox]
              storage: none
              keepSeconds: \(channels.keepSeconds)
        """
    }
}

extension WorkerConfigurationText {
    /// Makes the configuration of a worker in a deployment with one Redis and one simulator.
    init(
        deployment: Deployment,
        simulator: Deployment.SimulatorEndpoints,
        httpPort: UInt16,
        apps: [App],
        laneCount: Int
    ) {
        let hasChannels = apps.contains { $0.channels != nil }
        self.init(
            httpPort: httpPort,
            bootstrapServers: deployment.bootstrapServers,
            redis: [("url", "redis://127.0.0.1:\(deployment.redisPort)/0")],
            apns: [("caFile", "\"\(simulator.caFile)\"")],
            hosts: [
                Host(
                    environment: .sandbox,
                    port: simulator.apnsPort,
                    managementPort: hasChannels ? simulator.managementPort : nil
                )
            ],
            teamId: simulator.teamId,
            keyId: simulator.keyId,
            defaultKeyFile: simulator.keyFile,
            apps: apps,
            worker: [("lanes", "\(laneCount)")]
        )
    }

    static func makeYAML(
        deployment: Deployment,
        apps: [App],
        laneCount: Int,
        policy: Policy = Policy(name: "default"),
        supersededResults: SupersededResultMode = .each
    ) -> String {
        var configuration = WorkerConfigurationText(
            deployment: deployment,
            simulator: deployment.simulator,
            httpPort: deployment.httpPort,
            apps: apps,
            laneCount: laneCount
        )
        configuration.supersededResults = supersededResults
        configuration.policy = settings(of: policy)
        return configuration.yaml
    }

    /// Returns the settings for a policy's spacing and its two budgets; none if the policy has only default numbers.
    private static func settings(of policy: Policy) -> Settings {
        guard policy != Policy(name: policy.name) else { return [] }
        return [
            ("spacingMilliseconds", "\(policy.spacingMilliseconds)"),
            ("budget", bucketText(policy.budget)),
            ("frequentBudget", bucketText(policy.frequentBudget)),
        ]
    }

    private static func bucketText(_ bucket: Policy.Bucket) -> String {
        "{pushes: \(bucket.pushes), refillPerHour: \(bucket.refillPerHour), "
            + "reservedForAlerts: \(bucket.reservedForAlerts)}"
    }
}

extension SupersededResultMode: ExpressibleByArgument {}
