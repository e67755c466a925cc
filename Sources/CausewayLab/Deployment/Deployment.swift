import Documents
import Foundation

/// The processes of one run of the lab: broker, Redis, simulator and worker. They run on loopback, and are separate so
/// that the cost of each can be measured.
final class Deployment {
    /// The number of partitions of most topics. Few partitions give large batches, which lower a client's cost. But the
    /// embedded broker keeps only 5 MiB of each: a reader that is more than about 15 s late misses records.
    static let partitionCount = 4
    static let commandPartitionCount = 16
    /// The delay of the broker's responses, which makes batches larger. Without it, the embedded broker responds to a
    /// fetch as soon as it has one record, because it ignores `fetch.min.bytes`.
    static let brokerRoundTripMilliseconds = 10
    /// How long the lab waits for a process to become ready, or to end.
    static let processWaitMillisecondsMax: Int64 = 60_000

    let directory: String
    private let programs: ProgramPaths
    /// All processes of the deployment except the worker.
    var processesExceptWorker: [ChildProcess] = []
    private(set) var worker: ChildProcess?
    var bootstrapServers = ""
    var redisPort: UInt16 = 0
    /// The port of the worker's metrics and status.
    let httpPort: UInt16
    private(set) var simulator = SimulatorEndpoints()

    /// What the simulator prints when it is ready: its ports, its certificate authority, and the key for its clients.
    struct SimulatorEndpoints: Decodable {
        var apnsPort: UInt16 = 0
        var controlPort: UInt16 = 0
        var managementPort: UInt16 = 0
        var caFile = ""
        /// The team id and key id for provider tokens, and the file of the signing key.
        var teamId = ""
        var keyId = ""
        var keyFile = ""
    }

    private struct BrokerEndpoints: Decodable {
        var bootstrapServers: String
    }

    /// - Parameter directory: an existing directory, to which logs and keys are written.
    init(directory: String, programs: ProgramPaths) throws(LabError) {
        self.directory = directory
        self.programs = programs
        httpPort = try LoopbackPort.findFree()
    }

    var causewayProgram: String { programs.causeway }

    func path(_ name: String) -> String { "\(directory)/\(name)" }

    // MARK: - Starting the processes

    /// - Parameters:
    ///   - commandPartitionCount: the number of partitions of the commands topic and of the deferred topic. A deferred
    ///     command keeps its partition number, so both topics have the same number.
    ///   - resultPartitionCount: the number of partitions of the results topic.
    func startBroker(
        commandPartitionCount: Int = Deployment.commandPartitionCount,
        resultPartitionCount: Int = Deployment.partitionCount
    ) throws(LabError) {
        try startBroker(command: [
            programs.lab, "broker", "--partitions", String(Self.partitionCount),
            "--topic", "\(CommandProducer.commandsTopicName):\(commandPartitionCount)",
            "--topic", "\(CommandProducer.deferredTopicName):\(commandPartitionCount)",
            "--topic", "\(ResultsReader.resultsTopic):\(resultPartitionCount)",
            "--round-trip", String(Self.brokerRoundTripMilliseconds),
        ])
    }

    /// Starts a broker with this command line. The broker must print its address as `causeway-lab broker` does.
    func startBroker(command: [String]) throws(LabError) {
        let broker = try ChildProcess(
            name: "broker",
            command: command,
            logFile: path("broker.log"),
            output: .pipe
        )
        processesExceptWorker.append(broker)
        bootstrapServers = try readEndpoints(BrokerEndpoints.self, from: broker).bootstrapServers
    }

    /// Starts the simulator of APNs and its phones, with a new key.
    ///
    /// - Parameters:
    ///   - shapes: files that declare apps and their types.
    ///   - pushLog: a file to which every push is written; nil: no file.
    func startSimulator(shapes: [String], pushLog: String? = nil) throws(LabError) {
        let child = try ChildProcess(
            name: "simulator",
            command: [programs.lab, "simulator", "--directory", directory] + shapes.flatMap { ["--shapes", $0] }
                + (pushLog.map { ["--push-log", $0] } ?? []),
            logFile: path("simulator.log"),
            output: .pipe
        )
        processesExceptWorker.append(child)
        simulator = try readEndpoints(SimulatorEndpoints.self, from: child)
    }

    /// Starts a process that writes all results, from the first one on, to a file.
    func startResultsWriter(to file: String) throws(LabError) {
        processesExceptWorker.append(
            try ChildProcess(
                name: "results",
                command: [programs.causeway, "results", "--bootstrap-servers", bootstrapServers, "--follow"],
                logFile: path("results.log"),
                output: .file(file)
            )
        )
    }

    func startWorker() throws(LabError) {
        worker = try ChildProcess(
            name: "worker",
            command: [programs.causeway, "worker", "--config", path("causeway.yaml")],
            logFile: path("worker.log")
        )
    }

    /// Waits until a server is ready, and reads the JSON that the server then prints.
    func readEndpoints<Endpoints: Decodable>(_ type: Endpoints.Type, from child: ChildProcess) throws(LabError)
        -> Endpoints
    {
        let line = try child.readFirstLine(timeoutMilliseconds: Self.processWaitMillisecondsMax)
        guard let endpoints = StableJSON.decode(type, line.utf8) else {
            throw child.makeError("printed an unexpected line (\(line))")
        }
        return endpoints
    }

    // MARK: - Figures and checks while the processes run

    var workerMetrics: WorkerMetrics { WorkerMetrics(httpPorts: [httpPort]) }

    func throwIfAnyProcessHasEnded() throws(LabError) {
        for process in processesExceptWorker + (worker.map { [$0] } ?? []) {
            if let exitStatus = process.poll() { throw process.makeError(exitStatus.eventText) }
        }
    }

    func readProcessUsages() -> [DemoFigures.NamedProcessUsage] {
        processesExceptWorker.compactMap { process in
            ProcessUsage(processIdentifier: process.processIdentifier)
                .map { DemoFigures.NamedProcessUsage(name: process.name, usage: $0) }
        }
    }

    /// CPU time of the broker since its start.
    var brokerCPUMilliseconds: Int64 { readProcessUsages().first { $0.name == "broker" }?.usage.cpuMilliseconds ?? 0 }

    /// Kills the worker as in a crash, and starts another one.
    func killAndRestartWorker() throws(LabError) {
        worker?.signal(SIGKILL)
        _ = worker?.wait(timeoutMilliseconds: Self.processWaitMillisecondsMax)
        try startWorker()
    }

    // MARK: - Stopping the processes

    /// Asks the worker to drain, and waits until it has ended, at most `graceMilliseconds`. Its exit code must be 0.
    func stopWorker(graceMilliseconds: Int64) throws(LabError) {
        guard let worker else { return }
        worker.signal(SIGTERM)
        guard let exitStatus = worker.wait(timeoutMilliseconds: graceMilliseconds) else {
            throw worker.makeError("does not drain within \(graceMilliseconds / 1_000) s")
        }
        guard exitStatus == .exited(0) else { throw worker.makeError("\(exitStatus.eventText) where 0 was expected") }
        self.worker = nil
    }

    /// Ends all processes that still run.
    func stop() {
        worker?.stop(graceMilliseconds: 0)
        for process in processesExceptWorker.reversed() { process.stop(graceMilliseconds: 2_000) }
        processesExceptWorker.removeAll()
    }
}
