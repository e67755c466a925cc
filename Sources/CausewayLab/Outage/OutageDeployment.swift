import CausewayCommandLine
import Foundation
import Kafka

/// The processes of one case of the outage tests (``OutageCase``), on loopback. The steps of the case disturb
/// them: for example, they kill or freeze a process.
final class OutageDeployment {
    /// How long to wait until a killed worker has ended.
    private static let killedWorkerWaitMillisecondsMax: Int64 = 60_000
    /// How much longer than its drain time a worker may take to end, because the machine may have other load.
    private static let drainToleranceMilliseconds: Int64 = 5_000

    let outage: OutageCase
    /// The directory, the broker and the list of processes, which other kinds of runs have too.
    let base: Deployment
    private let programs: ProgramPaths
    let redis: OutageRedis
    private(set) var simulators: [OutageSimulator] = []
    private var workers: [ChildProcess?]
    /// The workers that got SIGTERM, by their numbers, and the time by which each must have ended.
    /// `wasAnyProcessFrozen` says whether a process of the deployment was frozen (SIGSTOP) when the worker got SIGTERM.
    /// Then the worker may end with any exit code.
    private var stoppingWorkers: [Int: (worker: ChildProcess, deadlineMilliseconds: Int64, wasAnyProcessFrozen: Bool)] =
        [:]
    /// The failures of workers that this deployment has noticed, as text.
    private(set) var workerFailures: [String] = []
    /// The command line of a broker that can serve several workers of a consumer group; nil: there is only the embedded
    /// broker, which serves one worker.
    private let rebalancingBrokerCommand: [String]?
    private let httpPorts: [UInt16]
    private var frozenProcesses: [ChildProcess] = []

    init(
        _ outage: OutageCase,
        directory: String,
        programs: ProgramPaths,
        rebalancingBrokerCommand: [String]?
    ) throws(LabError) {
        self.outage = outage
        self.programs = programs
        self.rebalancingBrokerCommand = rebalancingBrokerCommand
        base = try Deployment(directory: directory, programs: programs)
        redis = OutageRedis(outage.redis, on: base)
        let count = rebalancingBrokerCommand == nil ? 1 : outage.workers.count
        workers = Array(repeating: nil, count: count)
        var ports: [UInt16] = []
        for _ in 0..<count { ports.append(try LoopbackPort.findFree()) }
        httpPorts = ports
    }

    /// Returns a reader of the offsets that the workers' group has committed.
    func makeGroupPositionReader() throws(LabError) -> GroupPositionReader {
        do throws(KafkaError) {
            return try GroupPositionReader(
                properties: [
                    ("bootstrap.servers", base.bootstrapServers), ("group.id", WorkerConfigurationText.consumerGroup),
                ],
                topic: CommandProducer.commandsTopicName,
                partitionCount: Int32(outage.partitionCount)
            )
        } catch {
            throw LabError("the committed offsets cannot be read: \(error)")
        }
    }

    func findSimulator(of app: OutageApp) throws(LabError) -> OutageSimulator { try findSimulator(app.environment) }

    private func findSimulator(_ environment: SimulatorEnvironment) throws(LabError) -> OutageSimulator {
        guard let simulator = simulators.first(where: { $0.environment == environment }) else {
            throw LabError("no app of the case uses \(environment.rawValue)")
        }
        return simulator
    }

    // MARK: - Starting the processes

    /// Starts all processes except the workers. Also creates the phones, and writes the key files and the workers'
    /// configurations.
    func start() throws(LabError) {
        if workers.count > 1, let rebalancingBrokerCommand {
            try base.startBroker(command: rebalancingBrokerCommand + [base.path("broker")])
        } else {
            try base.startBroker(commandPartitionCount: outage.partitionCount)
        }
        try redis.start()
        for environment in SimulatorEnvironment.allCases
        where outage.apps.contains(where: { $0.environment == environment }) {
            simulators.append(try startSimulator(environment))
        }
        for app in outage.apps { try findSimulator(of: app).createPhones(of: app) }
        try writeKeyFiles()
        for number in workers.indices {
            try TextFile.write(makeConfigurationText(of: number), to: base.path("worker-\(number).yaml"))
        }
    }

    private func startSimulator(_ environment: SimulatorEnvironment) throws(LabError) -> OutageSimulator {
        let directory = base.path(environment.rawValue)
        guard mkdir(directory, 0o700) == 0 else { throw LabError(directory, errno: errno) }
        let (shapes, log) = ("\(directory)/shapes.json", "\(directory)/pushes.jsonl")
        let declarations = outage.apps.filter { $0.environment == environment }
            .map { OutageSimulator.makeShapes(of: $0, teamId: SimulatorDirectory.ownTeamAndKeyId) }
        try TextFile.write(declarations.joined(separator: "\n"), to: shapes)
        let process = try ChildProcess(
            name: "simulator of \(environment.rawValue)",
            command: [
                programs.lab, "simulator", "--directory", directory, "--environment", environment.rawValue,
                "--shapes", shapes, "--push-log", log, "--latency", "20-40",
            ],
            logFile: base.path("\(environment.rawValue).log"),
            output: .pipe
        )
        base.processesExceptWorker.append(process)
        let endpoints = try base.readEndpoints(Deployment.SimulatorEndpoints.self, from: process)
        return OutageSimulator(environment, process: process, endpoints: endpoints, pushLog: log)
    }

    /// Writes a key file for each app, and the file with the simulators' certificate authorities. A case can begin with
    /// a wrong key, and later replace it.
    private func writeKeyFiles() throws(LabError) {
        for app in outage.apps {
            if outage.workers.beginsWithWrongKey {
                guard let key = try? SimulatorDirectory(path: base.path("foreign")).ensureOwnKey().readPEM() else {
                    throw LabError("a key that APNs does not know could not be made")
                }
                try TextFile.write(key, to: keyFile(of: app))
            } else {
                try writeValidKey(of: app)
            }
        }
        let authorities = try simulators.map { simulator throws(LabError) in
            String(decoding: try TextFile.read(simulator.endpoints.caFile), as: UTF8.self)
        }
        try TextFile.write(authorities.joined(separator: "\n"), to: base.path("authorities.pem"))
    }

    private func writeValidKey(of app: OutageApp) throws(LabError) {
        let key = try TextFile.read(try findSimulator(of: app).endpoints.keyFile)
        try TextFile.write(String(decoding: key, as: UTF8.self), to: keyFile(of: app))
    }

    private func keyFile(of app: OutageApp) -> String { base.path("\(app.name).p8") }

    private func makeConfigurationText(of number: Int) -> String {
        WorkerConfigurationText(
            httpPort: httpPorts[number],
            bootstrapServers: base.bootstrapServers,
            consumerProperties: outage.workers.consumerProperties.merging(["fetch.wait.max.ms": "50"]) { $1 },
            redis: redis.configuration,
            apns: sorted(Self.apnsSettings.merging(outage.workers.apnsSettings) { $1 }) + [
                ("caFile", "\"\(base.path("authorities.pem"))\"")
            ],
            hosts: simulators.map { .init(environment: $0.environment, port: $0.endpoints.apnsPort) },
            apps: outage.apps.map { app in
                .init(
                    name: app.name,
                    bundleId: app.bundleId,
                    environment: app.environment,
                    keyFile: keyFile(of: app)
                )
            },
            policy: sorted(["spacingMilliseconds": "1000"].merging(outage.workers.policySettings) { $1 }),
            worker: [
                ("lanes", "\(outage.workers.laneCount)"), ("drainMilliseconds", "\(outage.workers.drainMilliseconds)"),
            ] + sorted(outage.workers.workerSettings)
        )
        .yaml
    }

    /// Settings of the section `apns`. The times are shorter than the defaults, because an outage of a case lasts only
    /// seconds.
    private static let apnsSettings = ["requestTimeoutMilliseconds": "2000", "connectTimeoutMilliseconds": "1000"]

    private func sorted(_ keys: [String: String]) -> WorkerConfigurationText.Settings {
        keys.sorted { $0.key < $1.key }
    }

    func startWorkers() throws(LabError) {
        for number in workers.indices { try startWorker(number) }
    }

    private func startWorker(_ number: Int) throws(LabError) {
        awaitStop(ofWorker: number)
        workers[number] = try ChildProcess(
            name: "worker \(number)",
            command: [programs.causeway, "worker", "--config", base.path("worker-\(number).yaml")],
            logFile: base.path("worker-\(number).log")
        )
    }

    // MARK: - Faults: freezing, killing, stopping

    func perform(_ action: OutageStep.Action) throws(LabError) {
        switch action {
        case .setFaults(let environment, let shares): try findSimulator(environment).setFaults(shares)
        case .clearFaults(let environment): try findSimulator(environment).clearFaults()
        case .freeze(let target): try freeze(target)
        case .thaw(let target): try thaw(target)
        case .kill(let target): try kill(target)
        case .start(.redis(let index)): try redis.start(index)
        case .start(.worker(let number)): try startWorker(number % workers.count)
        case .start(let target): throw LabError("a case cannot start \(target)")
        case .stop(let target): try stop(target)
        case .wipeRedis: try redis.wipe()
        case .cutReplication: try redis.cutReplication()
        case .installValidKey: for app in outage.apps { try writeValidKey(of: app) }
        case .rotateTokens(let name):
            guard let app = outage.apps.first(where: { $0.name == name }) else { throw LabError("no app \(name)") }
            let simulator = try findSimulator(of: app)
            for index in app.pushStartedActivityCount..<app.activityCount {
                try simulator.rotateToken(of: app.activityIdentifier(index), app: app)
            }
        // Nothing changes in the processes. From now on, `OutageRun` again copies registrations from the simulators to
        // Kafka, first those that have waited since `rotateTokens`.
        case .resumeRegistrations: break
        }
    }

    private func findProcess(_ target: OutageProcess) throws(LabError) -> ChildProcess {
        switch target {
        case .redis(let index): return try redis.requireServer(index)
        case .simulator(let environment): return try findSimulator(environment).process
        case .worker(let number):
            guard let worker = workers[number % workers.count] else { throw LabError("worker \(number) does not run") }
            return worker
        case .broker:
            guard let broker = base.processesExceptWorker.first(where: { $0.name == "broker" }) else {
                throw LabError("there is no broker")
            }
            return broker
        }
    }

    private func freeze(_ target: OutageProcess) throws(LabError) {
        let process = try findProcess(target)
        if case .simulator(let environment) = target {
            // Cut the simulator's connections before it freezes. Otherwise, when it runs again, it would read the
            // pushes in its sockets.
            try findSimulator(environment).cutConnections()
            try findSimulator(environment).isFrozen = true
        }
        process.signal(SIGSTOP)
        frozenProcesses.append(process)
    }

    private func thaw(_ target: OutageProcess) throws(LabError) {
        let process = try findProcess(target)
        process.signal(SIGCONT)
        frozenProcesses.removeAll { $0 === process }
        if case .simulator(let environment) = target { try findSimulator(environment).isFrozen = false }
    }

    private func kill(_ target: OutageProcess) throws(LabError) {
        switch target {
        case .redis(let index): try redis.kill(index)
        case .worker(let number):
            let worker = try findProcess(target)
            worker.signal(SIGKILL)
            _ = worker.wait(timeoutMilliseconds: Self.killedWorkerWaitMillisecondsMax)
            workers[number % workers.count] = nil
        case .broker, .simulator: throw LabError("a case cannot kill \(target)")
        }
    }

    /// Sends SIGTERM to a worker, and does not wait for its end. Throws an error for any other process.
    private func stop(_ target: OutageProcess) throws(LabError) {
        guard case .worker(let number) = target else { throw LabError("a case cannot stop \(target)") }
        beginStop(ofWorker: number % workers.count)
    }

    /// Sends SIGTERM to a worker, and notes the time by which the worker must have ended.
    private func beginStop(ofWorker number: Int) {
        guard let worker = workers[number] else { return }
        worker.signal(SIGTERM)
        let deadlineMilliseconds =
            Clock.monotonicMilliseconds + outage.workers.drainMilliseconds + Self.drainToleranceMilliseconds
        stoppingWorkers[number] = (worker, deadlineMilliseconds, !frozenProcesses.isEmpty)
        workers[number] = nil
    }

    /// Waits for a worker that got SIGTERM. Notes a failure if the worker ends late, or with a wrong exit code.
    private func awaitStop(ofWorker number: Int) {
        guard let (worker, deadlineMilliseconds, wasAnyProcessFrozen) = stoppingWorkers.removeValue(forKey: number)
        else {
            return
        }
        guard
            let exitStatus = worker.wait(
                timeoutMilliseconds: max(1, deadlineMilliseconds - Clock.monotonicMilliseconds)
            )
        else {
            worker.stop(graceMilliseconds: 0)
            let limitMilliseconds = outage.workers.drainMilliseconds + Self.drainToleranceMilliseconds
            workerFailures.append("the \(worker.name) does not exit within \(limitMilliseconds) ms of SIGTERM")
            return
        }
        if case .exited = exitStatus, wasAnyProcessFrozen { return }
        if exitStatus != .exited(0) {
            workerFailures.append("the \(worker.name) \(exitStatus.eventText) after SIGTERM")
        }
    }

    /// Sends SIGTERM to the running workers and waits for their ends.
    func stopWorkers() {
        for number in workers.indices { beginStop(ofWorker: number) }
        for number in workers.indices { awaitStop(ofWorker: number) }
    }

    // MARK: - While the processes run, and their end

    /// Copies new registrations of all simulators to Kafka. Returns how many registrations all calls together have
    /// copied.
    func copyRegistrations(to commandProducer: CommandProducer) throws(LabError) -> Int {
        var sum = 0
        for simulator in simulators { sum += try simulator.copyRegistrations(to: commandProducer) }
        return sum
    }

    var workerProcessIdentifiers: [pid_t] { workers.compactMap { $0?.processIdentifier } }

    /// Throws an error if the broker, a simulator, a server of Redis, a Sentinel or a worker has ended by itself.
    func throwIfAnyProcessHasEnded() throws(LabError) {
        for process in base.processesExceptWorker + redis.processes + workers.compactMap({ $0 }) {
            if let exitStatus = process.poll() { throw process.makeError(exitStatus.eventText) }
        }
    }

    /// Ends all processes that still run, also frozen ones.
    func stop() {
        for process in frozenProcesses { process.signal(SIGCONT) }
        for worker in workers { worker?.stop(graceMilliseconds: 0) }
        for (worker, _, _) in stoppingWorkers.values { worker.stop(graceMilliseconds: 0) }
        redis.stop()
        base.stop()
    }
}
