import Delivery
import Foundation

/// The processes of a fan-out run, on loopback.
final class FanoutDeployment {
    static let app = "com.example.match"
    static let appName = "match"
    /// The number of partitions. The embedded broker keeps only 5 MiB of each: 16 have room for all registrations that
    /// wait for a worker (`FanoutRun.unreadRegistrationsMax`).
    static let partitionCount = 16
    /// The memory for each lane of a worker (`worker.memoryMebibytes`), as little as in a small pod, so that the
    /// figures show the memory of the fan-out. With the default of 1 GiB or more, a worker would keep the memory that
    /// the registrations needed. A worker with one lane gets the memory of two lanes.
    private static let memoryMebibytesPerLane = 64
    private static let drainMillisecondsMax: Int64 = 60_000
    /// How many streams the simulator permits on a connection before the first provider token. The number is high,
    /// because h2load opens 500 streams at once, without waiting for the simulator's SETTINGS.
    private static let streamsBeforeAuthenticationMax = 1_000

    /// The directory, the broker, Redis and the list of processes, which other kinds of runs have too.
    let base: Deployment
    private let programs: ProgramPaths
    private let laneCount: Int
    private let brokerCommand: [String]?
    private let httpPorts: [UInt16]
    private(set) var simulator = Deployment.SimulatorEndpoints()
    private(set) var workers: [ChildProcess] = []

    init(
        directory: String,
        programs: ProgramPaths,
        workerCount: Int,
        laneCount: Int,
        brokerCommand: [String]?
    ) throws(LabError) {
        base = try Deployment(directory: directory, programs: programs)
        self.programs = programs
        self.laneCount = laneCount
        self.brokerCommand = brokerCommand
        var ports: [UInt16] = []
        for _ in 0..<workerCount { ports.append(try LoopbackPort.findFree()) }
        httpPorts = ports
    }

    func start() throws(LabError) {
        if let brokerCommand {
            try base.startBroker(command: brokerCommand + [base.path("broker")])
        } else {
            try base.startBroker(command: [
                programs.lab, "broker", "--partitions", String(Self.partitionCount),
                "--round-trip", String(Deployment.brokerRoundTripMilliseconds),
            ])
        }
        try base.startRedis()
        let process = try ChildProcess(
            name: "simulator",
            command: [
                programs.lab, "simulator", "--directory", base.directory, "--early-streams",
                String(Self.streamsBeforeAuthenticationMax),
            ],
            logFile: base.path("simulator.log"),
            output: .pipe
        )
        base.processesExceptWorker.append(process)
        simulator = try base.readEndpoints(Deployment.SimulatorEndpoints.self, from: process)
        for number in httpPorts.indices {
            let file = base.path("worker-\(number).yaml")
            try TextFile.write(makeConfigurationText(httpPort: httpPorts[number]), to: file)
            workers.append(
                try ChildProcess(
                    name: "worker \(number)",
                    command: [programs.causeway, "worker", "--config", file],
                    logFile: base.path("worker-\(number).log")
                )
            )
        }
    }

    private var memoryMebibytes: Int {
        let count = laneCount == 0 ? ProcessInfo.processInfo.activeProcessorCount : laneCount
        return max(2, count) * Self.memoryMebibytesPerLane
    }

    private func makeConfigurationText(httpPort: UInt16) -> String {
        var configuration = WorkerConfigurationText(
            deployment: base,
            simulator: simulator,
            httpPort: httpPort,
            apps: [.init(name: Self.appName, bundleId: Self.app)],
            laneCount: laneCount
        )
        configuration.supersededResults = .countedWhenBehind
        configuration.worker.append(("memoryMebibytes", "\(memoryMebibytes)"))
        return configuration.yaml
    }

    func throwIfAnyProcessHasEnded() throws(LabError) {
        try base.throwIfAnyProcessHasEnded()
        for worker in workers {
            if let exitStatus = worker.poll() { throw worker.makeError(exitStatus.eventText) }
        }
    }

    var metrics: WorkerMetrics { WorkerMetrics(httpPorts: httpPorts) }

    var redis: ChildProcess? { base.processesExceptWorker.first { $0.name == "redis-server" } }

    /// Runs a script in Redis that returns a whole number.
    func evaluateRedisScript(_ script: String) throws(LabError) -> Int {
        guard let reply = Deployment.requestRedisReply(port: base.redisPort, to: "EVAL \"\(script)\" 0"),
            reply.hasPrefix(":"),
            let number = Int(reply.dropFirst())
        else { throw LabError("Redis does not reply with a number: \(script)") }
        return number
    }

    /// The pattern of the keys of audiences. In the keys of activities, the app is not followed by `@`.
    private static let audienceKeyPattern = "{\(app)@*"

    func countAudienceKeys() throws(LabError) -> Int {
        try evaluateRedisScript("return #redis.call('KEYS', '\(Self.audienceKeyPattern)')")
    }

    /// Returns the memory that Redis needs for all audiences, including the keys and Redis' own overhead.
    func measureAudienceBytes() throws(LabError) -> Int {
        try evaluateRedisScript(
            "local n = 0 for _, k in ipairs(redis.call('KEYS', '\(Self.audienceKeyPattern)')) do "
                + "n = n + redis.call('MEMORY', 'USAGE', k) end return n"
        )
    }

    /// Asks the workers to drain, and waits. Each exit code must be 0.
    func stopWorkers() throws(LabError) {
        for worker in workers { worker.signal(SIGTERM) }
        for worker in workers {
            guard let exitStatus = worker.wait(timeoutMilliseconds: Self.drainMillisecondsMax) else {
                throw worker.makeError("does not drain within \(Self.drainMillisecondsMax / 1_000) s")
            }
            guard exitStatus == .exited(0) else {
                throw worker.makeError("\(exitStatus.eventText) where 0 was expected")
            }
        }
        workers = []
    }

    /// Ends all processes that still run.
    func stop() {
        for worker in workers { worker.stop(graceMilliseconds: 0) }
        base.stop()
    }
}
