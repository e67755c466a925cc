/// The configuration file of a case's worker.
struct OutageConfiguration {
    var workers: OutageWorkers
    /// Each app with its key file.
    var apps: [(app: OutageApp, keyFile: String)]
    var bootstrapServers: String
    /// The lines of the section `redis`.
    var redis: String
    var servicePorts: [(name: ServiceName, port: UInt16)]
    var caFile: String
    var httpPort: UInt16

    /// Outages in a case last seconds, so all waits are shorter than by default.
    static let group = "causeway"

    private static let apns = ["requestTimeoutMilliseconds": "2000", "connectTimeoutMilliseconds": "1000"]

    var text: String {
        """
        log:
          format: text
        http:
          host: 127.0.0.1
          port: \(httpPort)
        kafka:
          bootstrapServers: "\(bootstrapServers)"
          groupId: \(Self.group)
          supersededResults: each
          consumer:
        \(lines(workers.consumer, indentation: 4))
            # The embedded broker answers an empty fetch only when this time is over, whatever arrives meanwhile.
            fetch.wait.max.ms: 50
        redis:
        \(redis)
        apns:
        \(lines(Self.apns.merging(workers.apns) { $1 }, indentation: 2))
          caFile: "\(caFile)"
        \(servicePorts.map { "  \($0.name.rawValue): {host: localhost, port: \($0.port)}" }.joined(separator: "\n"))
        apps:
        \(apps.map(text).joined(separator: "\n"))
        policies:
          default:
        \(lines(["spacingMilliseconds": "1000"].merging(workers.policy) { $1 }, indentation: 4))
        worker:
          lanes: \(workers.lanes)
          drainMilliseconds: \(workers.drainMilliseconds)
        \(lines(workers.worker, indentation: 2))

        """
    }

    private func lines(_ keys: [String: String], indentation: Int) -> String {
        keys.sorted { $0.key < $1.key }
            .map { String(repeating: " ", count: indentation) + "\($0.key): \($0.value)" }.joined(separator: "\n")
    }

    private func text(_ app: OutageApp, keyFile: String) -> String {
        """
          \(app.name):
            bundleId: \(app.bundleIdentifier)
            teamId: \(SimulatorDirectory.ownIdentifier)
            keyId: \(SimulatorDirectory.ownIdentifier)
            keyFile: "\(keyFile)"
            environments: [\(app.service.rawValue)]
        """
    }
}
