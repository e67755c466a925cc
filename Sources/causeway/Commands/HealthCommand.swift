import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation
import HTTP
import Reactor

/// `causeway health`: the health check of a container without curl.
struct HealthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Check the health of a worker.",
        discussion: """
            This command requests /livez or another page, and prints the response. Without options, it finds the \
            worker that runs on this machine, and the address on which this worker listens. If it finds no worker, it \
            uses CAUSEWAY_HTTP_HOST and CAUSEWAY_HTTP_PORT, or port 9464. If several workers run, choose one with an \
            option.

            Examples:
              causeway health
              causeway health --process 4711
              causeway health --config /etc/causeway/causeway.yaml
              causeway health --url http://127.0.0.1:9464/readyz
              causeway health --url http://push-causeway.push.svc:9464/readyz

            Exit codes: 0 the response is 200; 1 another response, or none; 64 the command line is wrong; 78 the \
            configuration is wrong.
            """
    )

    @Option(name: .shortAndLong, help: ArgumentHelp("The worker's YAML file.", valueName: "file"))
    var config: String?

    @Option(help: ArgumentHelp("The worker's process id.", valueName: "id"))
    var process: Int32?

    @Option(help: ArgumentHelp("The page to request, on this machine or another.", valueName: "url"))
    var url: String?

    /// The time limit of the whole request. `HEALTHCHECK` in the image has the same limit.
    static let timeoutMilliseconds = 3_000

    func validate() throws {
        if [url != nil, config != nil, process != nil].count(where: { $0 }) > 1 {
            throw ValidationError("use only one of --url, --config and --process")
        }
        if let url, HTTPAddress(url: url) == nil {
            throw ValidationError("--url must be http://HOST:PORT/PAGE")
        }
    }

    func run() throws {
        let address = try findAddress()
        let client = HTTPClient(address: address, timeoutMilliseconds: Self.timeoutMilliseconds)
        do {
            let response = try client.request()
            print(String(decoding: response.body, as: UTF8.self), terminator: "")
            if response.status == 404 {
                let page = url ?? "http://\(address.server)\(address.path)"
                throw Self.reportFailure(
                    "a worker has no page \(page) (404); its pages are /livez, /readyz, /statusz and /metrics"
                )
            }
            guard response.status == 200 else { throw ExitCode(1) }
        } catch let error as HTTPClientError {
            StandardStreams.printError("causeway health: \(error)")
            throw ExitCode(1)
        }
    }

    private func findAddress() throws -> HTTPAddress {
        if let url, let address = HTTPAddress(url: url) { return address }
        if let config { return try address(of: ConfigurationLoading.load(path: config, requiresFiles: false).http) }
        if let process {
            guard let address = WorkerProcess(identifier: process).listeningAddress else {
                throw Self.reportFailure("process \(process) listens on no port, or this user may not inspect it")
            }
            return HTTPAddress(host: address.host, port: address.port, path: "/livez")
        }
        let workers = WorkerProcess.findRunning()
        if workers.count == 1, let address = workers[0].listeningAddress {
            return HTTPAddress(host: address.host, port: address.port, path: "/livez")
        }
        if workers.count > 1 {
            let names = workers.map { "\($0.identifier)" }.joined(separator: ", ")
            throw Self.reportFailure(
                """
                several workers run on this machine, with process ids \(names). Choose one with --process, --config or \
                --url
                """
            )
        }
        // No worker process with an address was found. The worker may run as another user or outside this container, or
        // may not listen yet. So use the address from the environment variables.
        return try address(of: Self.readHTTPVariables())
    }

    private func address(of http: WorkerConfiguration.HTTP) throws -> HTTPAddress {
        guard let port = UInt16(exactly: http.port), port > 0 else {
            throw Self.reportFailure("http.port is 0, so the worker serves no pages")
        }
        return HTTPAddress(host: WorkerProcess.reachableHost(http.host), port: port, path: "/livez")
    }

    /// Returns the address from the environment variables; without them, the default address. This command does not
    /// know the worker's configuration file.
    private static func readHTTPVariables() throws -> WorkerConfiguration.HTTP {
        let environment = ProcessInfo.processInfo.environment
        var http = WorkerConfiguration.HTTP()
        if let host = environment["CAUSEWAY_HTTP_HOST"] { http.host = host }
        if let text = environment["CAUSEWAY_HTTP_PORT"] {
            guard let port = Int(text), (0...65_535).contains(port) else {
                StandardStreams.printError("CAUSEWAY_HTTP_PORT: must be a whole number in 0...65535")
                throw ExitCode.configurationFault
            }
            http.port = port
        }
        guard SocketAddress(numeric: http.host, port: 1) != nil else {
            StandardStreams.printError("CAUSEWAY_HTTP_HOST: must be a numeric address")
            throw ExitCode.configurationFault
        }
        return http
    }

    private static func reportFailure(_ reason: String) -> ExitCode {
        StandardStreams.printError("causeway health: \(reason)")
        return ExitCode(1)
    }
}
