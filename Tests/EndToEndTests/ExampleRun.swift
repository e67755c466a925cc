import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayLab

/// A run of one or more example apps with real processes: a broker, Redis, the simulator and a worker. Used from one
/// thread.
final class ExampleRun {
    let deployment: Deployment
    let results: ReceivedResults
    let phones: SimulatedPhones
    private let commandProducer: CommandProducer
    private var registrationRelay: RegistrationRelay
    private let directory: WorkDirectory
    /// The registrations of the phones when a test stopped the simulator for good; nil while it runs. The search for
    /// secrets needs their tokens.
    var lastRegistrations: [JSONObject]?

    /// The programs that were built with these tests.
    static var programs: ProgramPaths { get throws(LabError) { try ProgramPaths() } }

    /// - Parameters:
    ///   - apps: for each app: a short name, which the worker's configuration uses; the bundle id; and the path of the
    ///     file with its shapes.
    ///   - broker: a broker that the test itself can stop; nil starts a broker as a process.
    ///   - configure: gets the text of the usual configuration, and returns the text that the worker is started with.
    init(
        _ apps: [(name: String, bundleId: String, shapes: String)],
        broker: EmbeddedBroker? = nil,
        configure: (_ text: String, _ deployment: Deployment) throws -> String = { text, _ in text }
    ) throws {
        directory = try WorkDirectory()
        deployment = try Deployment(directory: directory.path, programs: Self.programs)
        do {
            if let broker { try Self.useBroker(broker, on: deployment) } else { try deployment.startBroker() }
            try deployment.startRedis()
            try deployment.startSimulator(shapes: apps.map(\.shapes))
            let configuration = WorkerConfigurationText.makeYAML(
                deployment: deployment,
                apps: apps.map { .init(name: $0.name, bundleId: $0.bundleId) },
                laneCount: 2
            )
            // The level is debug, because the log is searched for secrets at the end. The response timeout of
            // Redis is long, because Redis may be slow on a busy machine.
            let debugConfiguration =
                configuration.replacingRequired(
                    "  format: text\n",
                    with: "  format: text\n  level: debug\n"
                )
                .replacingRequired("\nredis:\n", with: "\nredis:\n  responseTimeoutMilliseconds: 60000\n")
            try TextFile.write(configure(debugConfiguration, deployment), to: deployment.path("causeway.yaml"))
            try deployment.startWorker()
            phones = SimulatedPhones(client: LoopbackHTTPClient(port: deployment.simulator.controlPort))
            commandProducer = try CommandProducer(bootstrapServers: deployment.bootstrapServers)
        } catch {
            deployment.stop()
            throw error
        }
        registrationRelay = RegistrationRelay(phones: phones)
        results = try ReceivedResults(bootstrapServers: deployment.bootstrapServers)
    }

    convenience init(
        _ names: [String],
        broker: EmbeddedBroker? = nil,
        configure: (_ text: String, _ deployment: Deployment) throws -> String = { text, _ in text }
    ) throws {
        try self.init(
            names.map { ($0, "com.example.\($0)", ExampleFiles($0).path("shapes.json")) },
            broker: broker,
            configure: configure
        )
    }

    private static func useBroker(_ broker: EmbeddedBroker, on deployment: Deployment) throws {
        try broker.createTopic(CommandProducer.commandsTopicName, partitionCount: Deployment.commandPartitionCount)
        for topic in [
            CommandProducer.registrationsTopicName, ResultsReader.resultsTopic, "causeway.invalidations",
            "causeway.dead-letters", "causeway.deferred", "causeway.fanout",
        ] {
            try broker.createTopic(topic, partitionCount: Deployment.partitionCount)
        }
        try broker.setRoundTripTime(milliseconds: Deployment.brokerRoundTripMilliseconds)
        deployment.bootstrapServers = broker.bootstrapServers
    }

    /// Returns a function for `configure`. It lets the worker create channels for the audiences of one app whose ids
    /// match a pattern such as `cup-*`.
    static func withChannels(
        _ audiencePattern: String,
        of app: String
    ) -> (_ text: String, _ deployment: Deployment) throws -> String {
        { text, deployment in
            let port = "    port: \(deployment.simulator.apnsPort)\n"
            let managementSettings =
                "    managementHost: localhost\n    managementPort: \(deployment.simulator.managementPort)\n"
            let appLine = "    bundleId: \(app)\n"
            let channels = "    channels: {audiences: [\"\(audiencePattern)\"], environments: [sandbox]}\n"
            try #require(text.contains(port) && text.contains(appLine))
            return text.replacingRequired(port, with: port + managementSettings)
                .replacingRequired(appLine, with: appLine + channels)
        }
    }

    /// A function for `configure`. It lets a push wait a minute for its response, and a drain take up to 50 s. So a
    /// test can delay a response, even on a slow machine.
    static func withLongResponseTimeout(_ text: String, _ deployment: Deployment) -> String {
        text.replacingRequired("\napns:\n", with: "\napns:\n  requestTimeoutMilliseconds: 60000\n")
            .replacingRequired("\nworker:\n", with: "\nworker:\n  drainMilliseconds: 50000\n")
    }

    /// Expects that the run's outputs contain no secret (``secretFindings()``), and then stops everything.
    func close() {
        do { #expect(try secretFindings() == []) } catch { Issue.record("the search for secrets failed: \(error)") }
        results.close()
        commandProducer.close()
        deployment.stop()
        directory.remove(keeping: false)
    }

    // MARK: - The phones

    @discardableResult
    func post(_ target: String, _ body: JSONObject) throws -> JSONObject {
        let json = try JSONSerialization.data(withJSONObject: body)
        return try Self.object(phones.client.requestSuccessfully("POST", target, body: Array(json)))
    }

    /// Replaces the faults of the simulated APNs.
    func setFaults(_ faults: JSONObject) throws {
        let json = try JSONSerialization.data(withJSONObject: faults)
        _ = try phones.client.requestSuccessfully("PUT", "/faults", body: Array(json))
    }

    func readActivity(_ identifier: String, app: String) throws -> JSONObject {
        try Self.object(phones.client.requestSuccessfully("GET", "/activity?app=\(app)&activity=\(identifier)"))
    }

    func readRegistrations() throws -> [JSONObject] {
        try phones.readRegistrations(since: 0, limit: 1_000, waitMilliseconds: 0).records
            .map { try Self.object($0.value) }
    }

    private static func object(_ json: [UInt8]) throws -> JSONObject {
        guard let object = try JSONSerialization.jsonObject(with: Data(json)) as? JSONObject else {
            throw Timeout(awaiting: "JSON")
        }
        return object
    }

    // MARK: - Kafka

    /// Relays the apps' registrations to the worker, until this many have been relayed in total.
    func relayRegistrations(until count: Int) throws {
        let limitMilliseconds = Int64(eventWaitMax / .milliseconds(1))
        try registrationRelay.copyRegistrations(upTo: count, to: commandProducer, withinMilliseconds: limitMilliseconds)
        {
            () throws(LabError) in
            try deployment.throwIfAnyProcessHasEnded()
            commandProducer.takeDeliveryReports()
        }
    }

    func send(_ command: JSONObject, headers: [(name: StaticString, value: String)] = []) throws {
        let value = try JSONSerialization.data(withJSONObject: command)
        try send(value, key: (command["activity"] ?? command["audience"]) as? String ?? "", headers: headers)
    }

    func send(_ value: Data, key: String, headers: [(name: StaticString, value: String)] = []) throws {
        let outcome = Data(key.utf8)
            .withUnsafeBytes { key in
                value.withUnsafeBytes { value in
                    var list = ProducedHeaders(capacity: headers.count)
                    for header in headers {
                        Data(header.value.utf8).withUnsafeBytes { list.append(header.name, $0) }
                    }
                    return commandProducer.producer.produce(
                        topic: commandProducer.commandsTopic,
                        key: key,
                        value: value,
                        headers: list,
                        tag: 0
                    )
                }
            }
        guard case .queued = outcome else { throw Timeout(awaiting: "room in the producer's queue") }
    }

    /// Reads results for the given time. Throws if a process of the deployment has ended.
    func takeResults(milliseconds: Int) throws {
        try results.take(milliseconds: milliseconds) {
            commandProducer.takeDeliveryReports()
            try deployment.throwIfAnyProcessHasEnded()
        }
    }

    func awaitAccepted(_ commands: [String]) throws {
        try results.await(commands, outcome: "accepted") {
            commandProducer.takeDeliveryReports()
            try deployment.throwIfAnyProcessHasEnded()
        }
    }

    // MARK: - The worker's log

    /// Waits until a line of the worker's log has a text, and returns this line. The worker may have ended: if the log
    /// lacks the text then, this fails at once and names the text.
    @discardableResult
    func awaitLog(_ text: String) throws -> String {
        try pollUntilPresent("\(text) in the worker's log", every: .milliseconds(1)) {
            // Look for ended processes before reading the log: the worker may end right after its last line.
            let processCheck = Result { try deployment.throwIfAnyProcessHasEnded() }
            let log = try String(contentsOfFile: deployment.path("worker.log"), encoding: .utf8)
            if let line = log.split(separator: "\n").first(where: { $0.contains(text) }) { return String(line) }
            if case .failure(let error) = processCheck {
                throw Timeout(awaiting: "\(text) in the worker's log, but a process has ended: \(error)")
            }
            return nil
        }
    }

    // MARK: - Redis

    /// Performs an action, and waits until Redis has another value for the activity.
    func awaitRedisChange(of activity: String, app: String, _ body: () throws -> Void) throws {
        let valueBefore = try redisValue(of: activity, app: app)
        try body()
        try self.await("a change of \(activity) in Redis") {
            commandProducer.takeDeliveryReports()
            return try redisValue(of: activity, app: app) != valueBefore
        }
    }

    func awaitRedisValue(of activity: String, app: String) throws {
        try self.await("\(activity) in Redis") {
            commandProducer.takeDeliveryReports()
            // redis-cli prints an empty line for a missing key, so only a longer output is a value.
            return try redisValue(of: activity, app: app).count > 1
        }
    }

    private func redisValue(of activity: String, app: String) throws -> Data {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-cli")
        process.arguments = ["-p", String(deployment.redisPort), "GET", "{\(app)=\(activity)}"]
        let output = Pipe()
        process.standardOutput = output
        try process.start()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return data
    }
}
