import Foundation
import Reactor
import RedisTestbed
import Testbed

/// A redis-server for one test, as a server, a cluster's node or a Sentinel, on ephemeral loopback ports.
final class ServerProcess {
    let port: UInt16
    let directory: TemporaryDirectory
    /// The credentials for the test's own commands.
    var password: String?
    private let process: RedisProcess

    var location: String { "127.0.0.1:\(port)" }
    var socketPath: String { "\(directory.path)/redis.sock" }

    /// - Parameter directory: the server's directory, if it needs the test's files in it.
    init(_ arguments: [String] = [], port: UInt16? = nil, directory: TemporaryDirectory? = nil) throws {
        self.directory = try directory ?? TemporaryDirectory()
        self.port = try port ?? Listener.unusedLoopbackPort()
        process = try RedisProcess(
            [
                "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--logfile", "", "--dir",
                self.directory.path, "--unixsocket", "\(self.directory.path)/redis.sock", "--port", String(self.port),
                "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
            ] + arguments
        )
    }

    /// A Sentinel; it writes what it learns into its configuration file.
    init(sentinel configuration: [String]) throws {
        directory = try TemporaryDirectory()
        port = try Listener.unusedLoopbackPort()
        let path = "\(directory.path)/sentinel.conf"
        let lines = ["port \(port)", "bind 127.0.0.1", "dir \(directory.path)", "logfile \"\""] + configuration
        try (lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: true, encoding: .utf8)
        process = try RedisProcess([path, "--sentinel"], readyLine: "Sentinel ID is")
    }

    deinit {
        // Before its directory is removed.
        process.kill()
    }

    func start() throws { try process.start() }
    func kill() { process.kill() }
    func suspend() { process.suspend() }
    func resume() { process.resume() }

    /// Runs a command on a separate connection, and returns all strings and numbers of the reply.
    @discardableResult
    func command(_ arguments: String...) -> [String] {
        guard let client = BlockingClient(port: port) else { return [] }
        if let password { client.command("AUTH", password) }
        return client.command(arguments)
    }
}
