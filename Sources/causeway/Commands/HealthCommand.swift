import ArgumentParser
import CausewayWorker
import Foundation

/// `causeway health`: for a container's health check, where there is no curl.
struct HealthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Ask a worker on this machine how it is.",
        discussion: """
            Asks /livez of the worker, or another page, and prints the answer. Where the worker listens stands in its \
            configuration: --config, or CAUSEWAY_HTTP_PORT, or else port 9464.

            Examples:
              causeway health
              causeway health --config /etc/causeway/causeway.yaml
              causeway health --url http://127.0.0.1:9464/readyz

            Exit codes: 0 the answer is 200; 1 it is another, or there is none; 64 the command line is wrong; 78 the \
            configuration is wrong.
            """
    )

    @Option(name: .shortAndLong, help: ArgumentHelp("The worker's YAML file.", valueName: "file"))
    var config: String?

    @Option(help: ArgumentHelp("What to ask, with a numeric address.", valueName: "url"))
    var url: String?

    /// For the whole answer.
    static let timeoutSeconds = 3
    static let portDefault = 9_464

    func validate() throws {
        if url != nil, config != nil { throw ValidationError("--url and --config exclude each other") }
        if let url, PageAddress(url: url) == nil {
            throw ValidationError("--url must be http://ADDRESS:PORT/PAGE with a numeric address")
        }
    }

    func run() throws {
        let address = try address()
        let client = PageClient(address: address, timeoutSeconds: Self.timeoutSeconds)
        do {
            let answer = try client.get()
            print(String(decoding: answer.body, as: UTF8.self), terminator: "")
            guard answer.status == 200 else { throw ExitCode(1) }
        } catch let error as PageClientError {
            StandardStreams.printError("causeway health: \(error)")
            throw ExitCode(1)
        }
    }

    private func address() throws -> PageAddress {
        if let url, let address = PageAddress(url: url) { return address }
        guard let config else {
            let port = ProcessInfo.processInfo.environment["CAUSEWAY_HTTP_PORT"].flatMap { UInt16($0) }
            return PageAddress(host: "127.0.0.1", port: port ?? UInt16(Self.portDefault), path: "/livez")
        }
        let http = try ConfigurationOption.load(path: config, requiresFiles: false).http
        guard let port = UInt16(exactly: http.port), port > 0 else {
            StandardStreams.printError("causeway health: http.port is 0, so nothing can be asked")
            throw ExitCode(1)
        }
        // Who listens everywhere listens on loopback.
        let host = ["0.0.0.0": "127.0.0.1", "::": "::1"][http.host] ?? http.host
        return PageAddress(host: host, port: port, path: "/livez")
    }
}
