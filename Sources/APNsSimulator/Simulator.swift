import Reactor
import Synchronization

/// A simulated APNs with the phones behind it.
///
/// The service speaks HTTP/2, usually over TLS, and makes APNs' checks, with Apple's statuses, reasons and headers.
/// Accepted pushes reach simulated phones, whose Lock Screens follow ActivityKit's rules. A test can query each phone.
///
///     let simulator = Simulator(configuration)
///     try await simulator.start()
///     try await simulator.withDevices { devices, now in
///         try devices.declareApp("com.example.scores", teamId: nil, types: [match])
///     }
///
/// Other processes can use the same functions over HTTP: see `ControlInterface`.
///
/// Safe to use from any thread. The closures of `withDevices` run on the service's first thread.
public final class Simulator: Sendable {
    public let configuration: SimulatorConfiguration
    private let phase = Mutex(Phase.stopped)

    private enum Phase {
        /// The service does not run. Next: `starting`.
        case stopped
        /// The service starts. Next: `running` when it accepts connections, or `stopped` if the start fails.
        case starting
        /// The service runs. Next: `stopped`.
        case running(RunningService)
    }

    struct RunningService {
        var mailboxes: [ServerLoopMailbox]
        var threads: [LoopThread]
        var notifier: RegistrationNotifier
        var port: UInt16
        var managementPort: UInt16
        var caFile: String?
        var controlInterface: ControlInterface?
        var controlPort: UInt16
        var environment: Environment
    }

    public init(_ configuration: SimulatorConfiguration) {
        self.configuration = configuration
    }

    /// Port of the service that takes pushes; 0 while it is not running.
    public var port: UInt16 { runningService?.port ?? 0 }
    /// Port of the service that manages channels; 0 while it is not running.
    public var managementPort: UInt16 { runningService?.managementPort ?? 0 }
    /// Port of the HTTP control interface; 0 if there is none, or while the service is not running.
    public var controlPort: UInt16 { runningService?.controlPort ?? 0 }
    /// The PEM file of the certificate authority that clients must trust. Nil if the service does not run, or if its
    /// certificate is not from an authority that the simulator made.
    public var caFile: String? { runningService?.caFile }

    private var runningService: RunningService? {
        phase.withLock { phase in
            if case .running(let runningService) = phase { return runningService }
            return nil
        }
    }

    // MARK: - Start and stop

    /// Starts the service, and returns when the service accepts connections. Throws if the service is running or cannot
    /// start.
    public func start() async throws(SimulatorError) {
        let wasStopped = phase.withLock { phase in
            guard case .stopped = phase else { return false }
            phase = .starting
            return true
        }
        guard wasStopped else { throw SimulatorError(.conflict, "the simulator is running") }
        do throws(SimulatorError) {
            let startedService = try await startService()
            phase.withLock { $0 = .running(startedService) }
        } catch {
            phase.withLock { $0 = .stopped }
            throw error
        }
    }

    private func startService() async throws(SimulatorError) -> RunningService {
        if let problem = configuration.faults.validationProblem { throw SimulatorError(.invalidConfiguration, problem) }
        guard (1...64).contains(configuration.threadCount) else {
            throw SimulatorError(.invalidConfiguration, "threads: from 1 to 64")
        }
        guard let address = SocketAddress(numeric: configuration.host, port: configuration.port),
            let managementAddress = SocketAddress(numeric: configuration.host, port: configuration.managementPort)
        else {
            throw SimulatorError(.invalidConfiguration, "host: not a numeric address: \(configuration.host)")
        }
        let (tls, caFile) = try configuration.transportSecurity.makeTLSContext()
        let seed = configuration.seed ?? UInt64.random(in: .min ... .max)
        let notifier = RegistrationNotifier()
        let model = DeviceModel(
            environment: configuration.environment,
            rules: configuration.rules,
            channelRules: configuration.channelRules,
            seed: seed
        )
        let setup = ServiceSetup(
            keys: try makeVerifyingKeys(),
            environment: configuration.environment,
            limits: configuration.limits,
            tls: tls,
            sharedModel: SharedDeviceModel(model: model, isShared: configuration.threadCount > 1),
            notifier: notifier,
            pushLogFile: try configuration.pushLogFile.map { path throws(SimulatorError) in
                try PushLogFile(path: path)
            }
        )
        var startedService = RunningService(
            mailboxes: [],
            threads: [],
            notifier: notifier,
            port: 0,
            managementPort: 0,
            caFile: caFile,
            controlInterface: nil,
            controlPort: 0,
            environment: configuration.environment
        )
        do throws(SimulatorError) {
            try await startThreads(&startedService, setup: setup, addresses: [address, managementAddress], seed: seed)
            if let port = configuration.controlPort {
                let interface = try await ControlInterface.start(port: port, simulator: self)
                startedService.controlInterface = interface
                startedService.controlPort = interface.port
            }
            return startedService
        } catch {
            stopThreads(startedService)
            throw error
        }
    }

    /// Ends all connections and threads. Requests in flight get no response. Does nothing if the service is not
    /// running.
    public func stop() async {
        let runningService = phase.withLock { phase -> RunningService? in
            guard case .running(let runningService) = phase else { return nil }
            phase = .stopped
            return runningService
        }
        guard let runningService else { return }
        runningService.notifier.close()
        await runningService.controlInterface?.stop()
        stopThreads(runningService)
    }

    private func stopThreads(_ runningService: RunningService) {
        for mailbox in runningService.mailboxes { _ = mailbox.post { $0.shutDown() } }
        for thread in runningService.threads { thread.join() }
    }

    private func makeVerifyingKeys() throws(SimulatorError) -> [VerifyingKey] {
        var keys: [VerifyingKey] = []
        for key in configuration.keys {
            do throws(ProviderKeyError) {
                keys.append(
                    try VerifyingKey(
                        pem: key.pem,
                        keyId: key.keyId,
                        teamId: key.teamId,
                        environment: key.environment
                    )
                )
            } catch {
                throw SimulatorError(.invalidConfiguration, error.reason)
            }
        }
        return keys
    }

    // MARK: - Calls about devices

    /// Runs a closure on the devices, on the service's first thread, and returns its result.
    ///
    /// - Parameter body: gets the devices and the time of the simulated world, UNIX milliseconds. Pushes wait
    ///   while the closure runs.
    public func withDevices<Value: Sendable>(
        _ body: @escaping @Sendable (inout DeviceModel, Int64) throws(DeviceModel.Fault) -> Value
    ) async throws(SimulatorError) -> Value {
        let result: Result<Value, DeviceModel.Fault> = try await runOnThread(0) { server in
            let nowMilliseconds = server.simulatedWallMilliseconds
            let result = server.setup.sharedModel.withModel { devices -> Result<Value, DeviceModel.Fault> in
                do throws(DeviceModel.Fault) {
                    return .success(try body(&devices, nowMilliseconds))
                } catch {
                    return .failure(error)
                }
            }
            server.notifyOfRegistrations()
            return result
        }
        switch result {
        case .success(let value): return value
        case .failure(let fault): throw SimulatorError(fault)
        }
    }

    /// Returns registrations from a cursor on, and the next cursor. If there are no registrations after the cursor yet,
    /// waits for one, at most `waitMilliseconds`.
    ///
    /// - Parameters:
    ///   - cursor: 0 at first, then the cursor that the last call returned.
    ///   - limit: the maximum number of records, at least 1.
    ///   - waitMilliseconds: 0 to 60,000. A larger number counts as 60,000.
    public func registrations(
        since cursor: Int,
        limit: Int = 1_000,
        waitMilliseconds: Int = 0
    ) async throws(SimulatorError) -> (records: [RegistrationRecord], next: Int) {
        guard limit > 0 else { throw SimulatorError(.invalidRequest, "limit must be at least 1") }
        let clock = ContinuousClock()
        let deadline = clock.now + .milliseconds(min(max(0, waitMilliseconds), 60_000))
        while true {
            let records = try await withDevices { (devices, _) throws(DeviceModel.Fault) in
                devices.registrations(since: cursor, limit: limit)
            }
            guard let records else { throw SimulatorError(.invalidRequest, "since: not a cursor of this simulation") }
            let remainingTime = clock.now.duration(to: deadline)
            if !records.isEmpty || remainingTime <= .zero { return (records, cursor + records.count) }
            guard let notifier = runningService?.notifier else {
                throw SimulatorError(.notRunning, "the simulator does not run")
            }
            let milliseconds =
                remainingTime.components.seconds * 1_000 + remainingTime.components.attoseconds / 1_000_000_000_000_000
            guard await notifier.awaitRegistrations(since: cursor, timeoutMilliseconds: Int(milliseconds) + 1) else {
                throw SimulatorError(.limitReached, "too many readers wait for registrations")
            }
        }
    }

    /// Removes all apps, phones, activities, channels, registrations and counts, and clears the faults. Does not close
    /// connections and does not set the clock back.
    public func reset() async throws(SimulatorError) {
        let (environment, rules) = (configuration.environment, configuration.rules)
        let channelRules = configuration.channelRules
        let seed = configuration.seed ?? UInt64.random(in: .min ... .max)
        try await withDevices { (devices, _) throws(DeviceModel.Fault) in
            devices = DeviceModel(environment: environment, rules: rules, channelRules: channelRules, seed: seed)
        }
        try await runOnEveryThread { server in
            server.resetStatistics()
            server.setFaults(Faults(), of: .push)
            server.setFaults(Faults(), of: .management)
        }
    }

    // MARK: - Calls about Apple's services

    /// Returns the counts of both services (pushes, and the management of channels), summed over all threads.
    public func statistics() async throws(SimulatorError) -> ServiceStatistics {
        var sum = ServiceStatistics()
        for statistics in try await runOnEveryThread({ $0.currentStatistics() }) { sum.add(statistics) }
        return sum
    }

    /// Returns the current faults of one service.
    public func faults(of service: SimulatedService = .push) async throws(SimulatorError) -> Faults {
        try await runOnThread(0) { $0.faults(of: service) }
    }

    /// Sets the faults of one service for all further requests.
    public func setFaults(_ faults: Faults, of service: SimulatedService = .push) async throws(SimulatorError) {
        if let problem = faults.validationProblem { throw SimulatorError(.invalidRequest, problem) }
        try await runOnEveryThread { $0.setFaults(faults, of: service) }
    }

    /// Sends a GOAWAY on every established connection of the push service and the management service. Leaves out
    /// connections that have already received one.
    public func sendGoAway(_ goAway: GoAway = GoAway()) async throws(SimulatorError) {
        if let problem = goAway.validationProblem { throw SimulatorError(.invalidRequest, problem) }
        try await runOnEveryThread { $0.sendGoAwayToAll(goAway) }
    }

    /// Closes all connections without GOAWAY and without TLS's close_notify. Requests in flight get no
    /// response.
    public func cutConnections() async throws(SimulatorError) {
        try await runOnEveryThread { $0.cutAllConnections() }
    }

    /// Leaves all established connections half open: nothing is sent on them any more, and PINGs are not acknowledged.
    ///
    /// - Parameter stopsReading: whether to read nothing either, so that the client's socket buffer fills up.
    public func makeConnectionsHalfOpen(stopsReading: Bool = false) async throws(SimulatorError) {
        try await runOnEveryThread { $0.makeAllConnectionsHalfOpen(stopsReading: stopsReading) }
    }

    /// Advances the clock of the simulated world: activities grow old and provider tokens expire. Latencies are not
    /// affected.
    ///
    /// - Parameter milliseconds: at least 0. All advances together are limited to ten years.
    public func advanceClock(milliseconds: Int64) async throws(SimulatorError) {
        guard milliseconds >= 0 else { throw SimulatorError(.invalidRequest, "the clock does not go back") }
        try await runOnEveryThread { $0.advanceClock(milliseconds: milliseconds) }
    }

    @discardableResult
    private func runOnEveryThread<Value: Sendable>(
        _ body: @escaping @Sendable (ServerLoop) -> Value
    ) async throws(SimulatorError) -> [Value] {
        var values: [Value] = []
        for index in 0..<configuration.threadCount { values.append(try await runOnThread(index, body)) }
        return values
    }

    private func runOnThread<Value: Sendable>(
        _ index: Int,
        _ body: @escaping @Sendable (ServerLoop) -> Value
    ) async throws(SimulatorError) -> Value {
        guard let mailbox = runningService?.mailboxes[index] else {
            throw SimulatorError(.notRunning, "the simulator does not run")
        }
        let value: Value? = await withCheckedContinuation { continuation in
            let isPosted = mailbox.post { continuation.resume(returning: body($0)) }
            if !isPosted { continuation.resume(returning: nil) }
        }
        guard let value else { throw SimulatorError(.notRunning, "the simulator does not run") }
        return value
    }
}
