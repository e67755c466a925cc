import CausewayCommandLine
import Foundation
import Kafka

/// The parts of one case, each a separate process on loopback. The steps of a case break them.
final class OutageDeployment {
    private static let startMillisecondsMax: Int64 = 60_000
    /// How much longer than its drain time a worker may take to end, because the machine may have other load.
    private static let drainSlackMilliseconds: Int64 = 5_000

    let outage: OutageCase
    let base: Deployment
    private let programs: ProgramFiles
    let redis: OutageRedis
    private(set) var services: [OutageService] = []
    private var workers: [ChildProcess?]
    /// Workers that got SIGTERM, with their deadlines. `isBlocked`: a part was frozen, so the exit code need
    /// not be 0.
    private var stoppingWorkers: [Int: (worker: ChildProcess, deadlineMilliseconds: Int64, isBlocked: Bool)] = [:]
    /// The faults of workers that this deployment has noticed, as text.
    private(set) var faults: [String] = []
    /// A command line that starts a broker whose groups rebalance; nil: there is no such broker. The embedded
    /// broker serves only one member of a consumer group.
    private let rebalancingBroker: [String]?
    private let httpPorts: [UInt16]
    private var frozenProcesses: [ChildProcess] = []

    init(
        _ outage: OutageCase,
        directory: String,
        programs: ProgramFiles,
        rebalancingBroker: [String]?
    ) throws(LabError) {
        self.outage = outage
        self.programs = programs
        self.rebalancingBroker = rebalancingBroker
        base = try Deployment(directory: directory, programs: programs)
        redis = OutageRedis(outage.redis, on: base)
        let count = rebalancingBroker == nil ? 1 : outage.workers.count
        workers = Array(repeating: nil, count: count)
        var ports: [UInt16] = []
        for _ in 0..<count { ports.append(try LoopbackPort.free()) }
        httpPorts = ports
    }

    /// Returns a reader of the offsets that the workers' group has committed.
    func groupPositions() throws(LabError) -> GroupPositions {
        do throws(KafkaError) {
            return try GroupPositions(
                properties: [
                    ("bootstrap.servers", base.bootstrapServers), ("group.id", WorkerConfigurationText.group),
                ],
                topic: CommandProducer.commandsTopicName,
                partitions: Int32(outage.partitions)
            )
        } catch {
            throw LabError("the committed offsets cannot be read: \(error)")
        }
    }

    func service(of app: OutageApp) throws(LabError) -> OutageService { try service(app.service) }

    private func service(_ name: ServiceName) throws(LabError) -> OutageService {
        guard let service = services.first(where: { $0.name == name }) else {
            throw LabError("no app of the case uses \(name.rawValue)")
        }
        return service
    }

    // MARK: - Starting

    /// Starts all parts except the workers.
    func start() throws(LabError) {
        if workers.count > 1, let rebalancingBroker {
            try base.startBroker(command: rebalancingBroker + [base.path("broker")])
        } else {
            try base.startBroker(commandPartitions: outage.partitions)
        }
        try redis.start()
        for name in ServiceName.allCases where outage.apps.contains(where: { $0.service == name }) {
            services.append(try startService(name))
        }
        for app in outage.apps { try service(of: app).createPhones(of: app) }
        try writeKeyFiles()
        for number in workers.indices {
            try TextFile.write(configuration(of: number), to: base.path("worker-\(number).yaml"))
        }
    }

    private func startService(_ name: ServiceName) throws(LabError) -> OutageService {
        let directory = base.path(name.rawValue)
        guard mkdir(directory, 0o700) == 0 else { throw LabError(directory, errno: errno) }
        let (shapes, log) = ("\(directory)/shapes.json", "\(directory)/pushes.jsonl")
        let declarations = outage.apps.filter { $0.service == name }
            .map { OutageService.shapes(of: $0, teamId: SimulatorDirectory.ownIdentifier) }
        try TextFile.write(declarations.joined(separator: "\n"), to: shapes)
        let process = try ChildProcess(
            name: "simulator of \(name.rawValue)",
            command: [
                programs.lab, "simulator", "--directory", directory, "--environment", name.rawValue,
                "--shapes", shapes, "--push-log", log, "--latency", "20-40",
            ],
            logFile: base.path("\(name.rawValue).log"),
            output: .pipe
        )
        base.parts.append(process)
        let place = try base.readEndpoints(Deployment.SimulatorEndpoints.self, from: process)
        return OutageService(name, process: process, place: place, pushLog: log)
    }

    /// Writes a key file for each app, so that a case can begin with a wrong key and later replace it. Also writes the
    /// file with the simulators' certificate authorities.
    private func writeKeyFiles() throws(LabError) {
        for app in outage.apps {
            if outage.workers.beginsWithWrongKey {
                guard let key = try? SimulatorDirectory(path: base.path("foreign")).ownKey().pem() else {
                    throw LabError("a key that APNs does not know could not be made")
                }
                try TextFile.write(key, to: keyFile(of: app))
            } else {
                try writeRightKey(of: app)
            }
        }
        let authorities = try services.map { service throws(LabError) in
            String(decoding: try TextFile.read(service.place.caFile), as: UTF8.self)
        }
        try TextFile.write(authorities.joined(separator: "\n"), to: base.path("authorities.pem"))
    }

    private func writeRightKey(of app: OutageApp) throws(LabError) {
        let key = try TextFile.read(try service(of: app).place.keyFile)
        try TextFile.write(String(decoding: key, as: UTF8.self), to: keyFile(of: app))
    }

    private func keyFile(of app: OutageApp) -> String { base.path("\(app.name).p8") }

    private func configuration(of number: Int) -> String {
        WorkerConfigurationText(
            httpPort: httpPorts[number],
            bootstrapServers: base.bootstrapServers,
            consumerProperties: outage.workers.consumerProperties.merging(["fetch.wait.max.ms": "50"]) { $1 },
            redis: redis.configuration,
            apns: sorted(Self.apns.merging(outage.workers.apns) { $1 }) + [
                ("caFile", "\"\(base.path("authorities.pem"))\"")
            ],
            hosts: services.map { .init(environment: $0.name, port: $0.place.apnsPort) },
            apps: outage.apps.map { app in
                .init(
                    name: app.name,
                    bundleIdentifier: app.bundleIdentifier,
                    environment: app.service,
                    keyFile: keyFile(of: app)
                )
            },
            policy: sorted(["spacingMilliseconds": "1000"].merging(outage.workers.policy) { $1 }),
            worker: [
                ("lanes", "\(outage.workers.lanes)"), ("drainMilliseconds", "\(outage.workers.drainMilliseconds)"),
            ] + sorted(outage.workers.worker)
        )
        .text
    }

    /// Settings of the section `apns`. An outage of a case lasts only seconds, so these times are shorter than by
    /// default.
    private static let apns = ["requestTimeoutMilliseconds": "2000", "connectTimeoutMilliseconds": "1000"]

    private func sorted(_ keys: [String: String]) -> WorkerConfigurationText.Lines { keys.sorted { $0.key < $1.key } }

    func startWorkers() throws(LabError) {
        for number in workers.indices { try startWorker(number) }
    }

    private func startWorker(_ number: Int) throws(LabError) {
        awaitStop(number)
        workers[number] = try ChildProcess(
            name: "worker \(number)",
            command: [programs.causeway, "worker", "--config", base.path("worker-\(number).yaml")],
            logFile: base.path("worker-\(number).log")
        )
    }

    // MARK: - Breaking

    func inject(_ kind: OutageStep.Kind) throws(LabError) {
        switch kind {
        case .faults(let name, let shares): try service(name).setFaults(shares)
        case .repair(let name): try service(name).clearFaults()
        case .freeze(let part): try freeze(part)
        case .thaw(let part): try thaw(part)
        case .kill(let part): try kill(part)
        case .start(.redis(let index)): try redis.start(index)
        case .start(.worker(let number)): try startWorker(number % workers.count)
        case .start(let part): throw LabError("a case cannot start \(part)")
        case .stop(let part): try stop(part)
        case .flushRedis: try redis.flush()
        case .cutReplication: try redis.cutReplication()
        case .rightKey: for app in outage.apps { try writeRightKey(of: app) }
        case .rotateTokens(let name):
            guard let app = outage.apps.first(where: { $0.name == name }) else { throw LabError("no app \(name)") }
            let service = try service(of: app)
            for index in app.pushStartedActivities..<app.activities {
                try service.rotateToken(of: app.activity(index), app: app)
            }
        // Nothing changes in the processes: `OutageRun` copies the registrations that it has not copied since
        // `rotateTokens`.
        case .releaseTokens: break
        }
    }

    private func process(_ part: OutagePart) throws(LabError) -> ChildProcess {
        switch part {
        case .redis(let index): return try redis.server(index)
        case .service(let name): return try service(name).process
        case .worker(let number):
            guard let worker = workers[number % workers.count] else { throw LabError("worker \(number) does not run") }
            return worker
        case .broker:
            guard let broker = base.parts.first(where: { $0.name == "broker" }) else {
                throw LabError("there is no broker")
            }
            return broker
        }
    }

    private func freeze(_ part: OutagePart) throws(LabError) {
        let process = try process(part)
        if case .service(let name) = part {
            // Cut the simulator's connections before it freezes. Otherwise it would read the pushes in its
            // sockets when it runs again.
            try service(name).cut()
            try service(name).isFrozen = true
        }
        process.signal(SIGSTOP)
        frozenProcesses.append(process)
    }

    private func thaw(_ part: OutagePart) throws(LabError) {
        let process = try process(part)
        process.signal(SIGCONT)
        frozenProcesses.removeAll { $0 === process }
        if case .service(let name) = part { try service(name).isFrozen = false }
    }

    private func kill(_ part: OutagePart) throws(LabError) {
        switch part {
        case .redis(let index): try redis.kill(index)
        case .worker(let number):
            let worker = try process(part)
            worker.signal(SIGKILL)
            _ = worker.wait(milliseconds: Self.startMillisecondsMax)
            workers[number % workers.count] = nil
        case .broker, .service: throw LabError("a case cannot kill \(part)")
        }
    }

    /// Sends SIGTERM to a worker, and does not wait for its end. Other parts cannot be stopped.
    private func stop(_ part: OutagePart) throws(LabError) {
        guard case .worker(let number) = part else { throw LabError("a case cannot stop \(part)") }
        beginStop(number % workers.count)
    }

    private func beginStop(_ number: Int) {
        guard let worker = workers[number] else { return }
        worker.signal(SIGTERM)
        let deadline = Clock.milliseconds + outage.workers.drainMilliseconds + Self.drainSlackMilliseconds
        stoppingWorkers[number] = (worker, deadline, !frozenProcesses.isEmpty)
        workers[number] = nil
    }

    /// Waits for a worker that got SIGTERM. Notes a fault if the worker does not end in time, or not as it must.
    private func awaitStop(_ number: Int) {
        guard let (worker, deadline, isBlocked) = stoppingWorkers.removeValue(forKey: number) else { return }
        guard let ending = worker.wait(milliseconds: max(1, deadline - Clock.milliseconds)) else {
            worker.stop(graceMilliseconds: 0)
            let limit = outage.workers.drainMilliseconds + Self.drainSlackMilliseconds
            faults.append("the \(worker.name) does not end within \(limit) ms of SIGTERM")
            return
        }
        if case .exited = ending, isBlocked { return }
        if ending != .exited(0) { faults.append("the \(worker.name) \(ending.text) after SIGTERM") }
    }

    /// Sends SIGTERM to the running workers and waits for their ends.
    func stopWorkers() {
        for number in workers.indices { beginStop(number) }
        for number in workers.indices { awaitStop(number) }
    }

    // MARK: - Running and ending

    /// Copies new registrations to Kafka. Returns how many have been copied since the start.
    func copyRegistrations(to commandProducer: CommandProducer) throws(LabError) -> Int {
        var sum = 0
        for service in services { sum += try service.copyRegistrations(to: commandProducer) }
        return sum
    }

    /// The process ids of the running workers.
    var workerIdentifiers: [pid_t] { workers.compactMap { $0?.identifier } }

    /// - Throws: an error if the broker, a simulator, a Redis or a worker has ended by itself.
    func check() throws(LabError) {
        for part in base.parts + redis.processes + workers.compactMap({ $0 }) {
            if let ending = part.poll() { throw part.failure(ending.text) }
        }
    }

    func end() {
        for process in frozenProcesses { process.signal(SIGCONT) }
        for worker in workers { worker?.stop(graceMilliseconds: 0) }
        for (worker, _, _) in stoppingWorkers.values { worker.stop(graceMilliseconds: 0) }
        redis.stop()
        base.stop()
    }
}
