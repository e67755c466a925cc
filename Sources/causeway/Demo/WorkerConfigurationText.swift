/// The configuration file that a worker on the stage is given.
enum WorkerConfigurationText {
    struct App {
        /// Small letters and digits.
        var name: String
        var bundleIdentifier: String
    }

    static func text(stage: Stage, apps: [App], lanes: Int) -> String {
        """
        log:
          format: text
        kafka:
          bootstrapServers: "\(stage.bootstrapServers)"
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
        worker:
          lanes: \(lanes)

        """
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
