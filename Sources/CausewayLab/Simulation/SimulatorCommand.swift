import APNsSimulator
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Documents
import Foundation
import Reactor

/// `causeway-lab simulator`: runs a simulated APNs with phones.
struct SimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Run a simulated APNs that makes Apple's checks, with simulated phones.",
        discussion: """
            The simulator serves HTTP/2 over TLS. Its certificate is signed by its own authority, so clients must \
            trust caFile. Provider tokens must be signed with a key of --key, or with the key that the simulator \
            creates without --key.

            The control port serves phones, Lock Screens, faults and latencies over HTTP. POST /apps, /phones and \
            /activities create them, GET /activity and /phone show the Lock Screens, and GET /registrations shows \
            the tokens.

            Faults: PUT /faults with shares of requests, from 0 to 1 (internalServerErrorShare, \
            serviceUnavailableShare, tooManyRequestsShare, reasonShares by Apple's words, unknownReasonShare, \
            notJSONShare, lateShare with lateMilliseconds, refusedShare, resetShare with resetCode, noResponseShare, \
            informationalShare; requestsSubjectToFaultsMax limits them), with faults of connections \
            (goAwayAfterRequests with goAwayUnprocessedRequests, goAwayCode, goAwayReason and goAwayGraceMilliseconds, \
            cutAfterRequests, silentAfterRequests with silentStopsReading), and with limits (latencyMillisecondsMin \
            and …Max, concurrentStreams, connectionWindowBytes). DELETE /faults ends all faults. POST /goaway, /cut \
            and /silence affect all connections at once. GET /stats returns counts.

            Channels: --port accepts broadcasts, --management-port manages channels. GET /channels lists them with \
            their subscribers. POST /channels, /channels/delete and /broadcasts change them as another program would. \
            /management/faults works like /faults. POST /offline and /online disconnect phones and connect them again.

            When ready, it prints one line of JSON:
              {"apnsPort":8443,"controlPort":8080,"managementPort":8444,"caFile":"…","keyFile":"…",…}

            Examples:
              causeway-lab simulator --port 8443 --control-port 8080
              causeway-lab simulator --shapes Config/examples/ride/shapes.json
              causeway-lab simulator --page -b localhost:9092 --config causeway.yaml --worker-pid worker.pid
              causeway-lab simulator --latency 20-80 --key TEAM123456:KEY1234567:AuthKey.p8
              curl -s 'localhost:8080/phone?app=com.example.ride&device=phone-7'
              curl -s -X PUT localhost:8080/faults -d '{"resetShare":0.1}'
              curl -s http://127.0.0.1:8080/goaway -d '{"graceMilliseconds":1000}'

            SIGTERM or SIGINT stops it.
            """
    )

    @Option(help: "A numeric address for APNs. The control port is always on 127.0.0.1.")
    var host = "127.0.0.1"

    @Option(help: "The port of APNs; 0: any free port.")
    var port: UInt16 = 0

    @Option(help: "The port of the service that manages channels; 0: any free port.")
    var managementPort: UInt16 = 0

    @Option(help: "The port for control over HTTP; 0: any free port.")
    var controlPort: UInt16 = 0

    @Option(
        help: ArgumentHelp(
            "Where the certificates, and a key if one is created, are written. Default: a temporary directory.",
            valueName: "directory"
        )
    )
    var directory: String?

    @Option(
        help: ArgumentHelp(
            "A signing key that is accepted, or its public key. Repeatable.",
            valueName: "team:key:file"
        )
    )
    var key: [String] = []

    @Option(
        help: ArgumentHelp("Apps and their attributes types, in the JSON of POST /apps. Repeatable.", valueName: "file")
    )
    var shapes: [String] = []

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "Write the phones' registrations to this Kafka, as the servers of the apps would.",
            valueName: "servers"
        )
    )
    var bootstrapServers: String?

    @Option(help: ArgumentHelp("The topic for these registrations.", valueName: "name"))
    var registrationsTopic = WorkerConfiguration.Kafka.Topics().registrations

    @Option(help: "The environment: production or sandbox.")
    var environment = "sandbox"

    @Option(
        help: ArgumentHelp(
            "How long responses take: a number, or a range for a random time.",
            valueName: "milliseconds"
        )
    )
    var latency = "0"

    @Option(help: "Threads that serve pushes, 1 to 64.")
    var threads = 1

    @Option(
        help: ArgumentHelp(
            "Streams that a connection may open before its first provider token is accepted. Apple allows one.",
            valueName: "number"
        )
    )
    var earlyStreams: UInt32 = 1

    @Option(
        help: ArgumentHelp(
            "Write a line of JSON for each push to this file: the push, its phone, APNs' response and the effect.",
            valueName: "file"
        )
    )
    var pushLog: String?

    @Flag(
        help: """
            Serve a page on which you watch the phones and cause faults of APNs. Its address is in the printed line. \
            With --bootstrap-servers or --config it also counts results.
            """
    )
    var page = false

    @Option(help: "The port of the page; 0: any free port.")
    var pagePort: UInt16 = 0

    @Option(
        help: ArgumentHelp(
            """
            The worker's configuration. With it, the page shows the output of causeway inspect for each phone, and \
            finds the results.
            """,
            valueName: "file"
        )
    )
    var config: String?

    @Option(
        help: ArgumentHelp(
            """
            The worker that the page's button kills: its process id, or a file with the process id, which is read each \
            time.
            """,
            valueName: "pid"
        )
    )
    var workerPid: String?

    @Option(
        help: ArgumentHelp(
            """
            The numeric address on which the page listens. Browsers must request it as 127.0.0.1 or localhost, for \
            example through a container's published port.
            """,
            valueName: "host"
        )
    )
    var pageHost = "127.0.0.1"

    @Option(help: "Seed of tokens and identifiers; the same seed gives the same ones.")
    var seed: UInt64?

    func validate() throws {
        guard APNsSimulator.Environment(rawValue: environment) != nil else {
            throw ValidationError("--environment must be production or sandbox")
        }
        guard parseLatencyMilliseconds() != nil else {
            throw ValidationError(
                "--latency must be milliseconds, 0 to \(Faults.latencyMillisecondsMax), or two such with a - between"
            )
        }
        guard (1...64).contains(threads) else { throw ValidationError("--threads must be 1 to 64") }
        guard (1...1_000).contains(earlyStreams) else {
            throw ValidationError("--early-streams must be 1 to 1000")
        }
        guard page || (config == nil && workerPid == nil) else {
            throw ValidationError("--config and --worker-pid are for --page")
        }
        guard pageAddress != nil else { throw ValidationError("--page-host must be a numeric address") }
        guard key.allSatisfy({ ProviderTokenKeyFile($0) != nil }) else {
            throw ValidationError("--key must be a team id, a key id and a file, separated by colons")
        }
    }

    func run() async throws {
        let signal = TerminationSignal()
        do {
            // Read these files first, to report a faulty one before the simulator's directory is created.
            let apps = try shapes.flatMap { try SimulatedApp.read(path: $0) }
            let workerAccess = try page ? makeWorkerAccess() : SimulatorPage.WorkerAccess()
            let simulatorDirectory = try SimulatorDirectory(path: directory)
            defer { simulatorDirectory.removeIfTemporary() }
            let keys = try key.isEmpty ? [simulatorDirectory.ensureOwnKey()] : key.compactMap(ProviderTokenKeyFile.init)
            let simulator = Simulator(try makeConfiguration(directory: simulatorDirectory.path, keys: keys))
            try await simulator.start()
            do {
                let servedPage = try await servePage(of: simulator, workerAccess, directory: simulatorDirectory.path)
                try await serve(simulator, apps: apps, key: keys[0], page: servedPage, until: signal)
            } catch {
                await simulator.stop()
                throw error
            }
            await simulator.stop()
        } catch {
            StandardStreams.printError("causeway-lab simulator: \((error as? SimulatorError)?.reason ?? "\(error)")")
            throw ExitCode.failure
        }
    }

    /// Declares the apps, prints that the simulator is ready, and waits for a stop signal. With bootstrap servers, also
    /// writes the phones' registrations to Kafka until the signal comes.
    private func serve(
        _ simulator: Simulator,
        apps: [SimulatedApp],
        key: ProviderTokenKeyFile,
        page: SimulatorPage?,
        until signal: TerminationSignal
    ) async throws {
        for app in apps {
            try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
                try devices.declareApp(app.app, teamId: app.teamId, types: app.types)
            }
        }
        // Nothing may throw between the creation of `appServer` and the call of `run`: the server has an open Kafka
        // client, which only `run` closes.
        let endpoints = SimulatorEndpoints(
            apnsPort: simulator.port,
            managementPort: simulator.managementPort,
            controlPort: simulator.controlPort,
            caFile: simulator.caFile ?? "",
            teamId: key.teamId,
            keyId: key.keyId,
            keyFile: key.file,
            page: page?.server.address
        )
        let line = try StableJSON.text(endpoints)
        let appServer = try bootstrapServers.map {
            try SimulatedAppServer(bootstrapServers: $0, topic: registrationsTopic)
        }
        StandardStreams.printOutput(line)
        await withTaskGroup(of: Void.self) { group in
            if let appServer { group.addTask { await appServer.run(from: simulator) } }
            await signal.awaitArrival()
            group.cancelAll()
        }
        try await BlockingWork.run { page?.stop() }
    }

    var pageAddress: SocketAddress? { SocketAddress(numeric: pageHost, port: pagePort) }

    private func makeConfiguration(directory: String, keys: [ProviderTokenKeyFile]) throws -> SimulatorConfiguration {
        var settings = SimulatorConfiguration(
            transportSecurity: .selfSigned(directory: directory),
            keys: try keys.map {
                .init(teamId: $0.teamId, keyId: $0.keyId, pem: try $0.readPEM())
            }
        )
        settings.host = host
        settings.port = port
        settings.managementPort = managementPort
        settings.controlPort = controlPort
        settings.environment = APNsSimulator.Environment(rawValue: environment) ?? .sandbox
        settings.threadCount = threads
        settings.limits.streamsBeforeAuthenticationMax = earlyStreams
        settings.seed = seed
        settings.pushLogFile = pushLog
        settings.faults.latencyMilliseconds = parseLatencyMilliseconds() ?? 0...0
        return settings
    }

    private func parseLatencyMilliseconds() -> ClosedRange<Int>? {
        let numbers = latency.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard (1...2).contains(numbers.count), let low = numbers[0], let high = numbers[numbers.count - 1] else {
            return nil
        }
        guard low >= 0, low <= high, high <= Faults.latencyMillisecondsMax else { return nil }
        return low...high
    }
}

/// The JSON that the simulator prints when it is ready.
private struct SimulatorEndpoints: Encodable {
    var apnsPort: UInt16
    var managementPort: UInt16
    var controlPort: UInt16
    var caFile: String
    var teamId: String
    var keyId: String
    var keyFile: String
    /// The address of the live page; nil if there is none.
    var page: String?
}
