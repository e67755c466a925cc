import Foundation
import Reactor
import Testbed

/// A redis-server for one test: a single server, a cluster's node or a Sentinel. It stores no keys on disk, and listens
/// on a free loopback port. Every server except a Sentinel also listens on a Unix socket.
public final class RedisServer {
    public struct CertificateFiles {
        var authority: String
        var certificate: String
        var key: String

        public init(authority: String, certificate: String, key: String) {
            (self.authority, self.certificate, self.key) = (authority, certificate, key)
        }
    }

    public let port: UInt16
    /// The port for TLS; 0 without certificates.
    public let tlsPort: UInt16
    /// The password with which ``command(_:)`` logs in; nil if the server requires none.
    public var password: String?
    private let directory: TemporaryDirectory
    private let process: RedisProcess

    public var location: String { "127.0.0.1:\(port)" }
    public var socketPath: String { directory.path("redis.sock") }
    public var unixURL: String { "unix://\(socketPath)" }

    /// - Parameter directory: the server's working directory, for a test that has put files into it; nil makes a new
    ///   one.
    public init(
        _ arguments: [String] = [],
        certificateFiles: CertificateFiles? = nil,
        directory: TemporaryDirectory? = nil
    ) throws {
        self.directory = try directory ?? TemporaryDirectory()
        port = try Listener.findUnusedLoopbackPort()
        tlsPort = try certificateFiles == nil ? 0 : Listener.findUnusedLoopbackPort()
        var allArguments = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--logfile", ""]
        allArguments += ["--dir", self.directory.path, "--unixsocket", self.directory.path("redis.sock")]
        // A replica begins to copy its primary at once, and gets a PING from the primary every second.
        allArguments += ["--port", String(port), "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
        if let files = certificateFiles {
            allArguments += [
                "--tls-port", String(tlsPort), "--tls-auth-clients", "no", "--tls-ca-cert-file", files.authority,
            ]
            allArguments += ["--tls-cert-file", files.certificate, "--tls-key-file", files.key]
        }
        process = try RedisProcess(allArguments + arguments)
    }

    /// Starts a Sentinel. It stores what it learns in its configuration file.
    public init(sentinel configuration: [String]) throws {
        directory = try TemporaryDirectory()
        port = try Listener.findUnusedLoopbackPort()
        tlsPort = 0
        let path = directory.path("sentinel.conf")
        let lines = ["port \(port)", "bind 127.0.0.1", "dir \(directory.path)", "logfile \"\""] + configuration
        try (lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: true, encoding: .utf8)
        process = try RedisProcess([path, "--sentinel"], readyLine: "Sentinel ID is")
    }

    deinit {
        // The server must end first: `directory` is deleted as soon as this object is released.
        process.kill()
    }

    public func start() throws { try process.start() }
    public func kill() { process.kill() }
    public func suspend() { process.suspend() }
    public func resume() { process.resume() }

    public func restart() throws {
        process.kill()
        try process.start()
    }

    /// Runs a command on a new connection, and returns all strings, numbers and error texts of the reply; empty if the
    /// server cannot be reached.
    @discardableResult
    public func command(_ arguments: String...) -> [String] {
        command(bytes: arguments.map { Array($0.utf8) }).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Runs a command with arguments of any bytes on a new connection, and returns the parts of the reply as bytes.
    @discardableResult
    public func command(bytes words: [[UInt8]]) -> [[UInt8]] {
        guard let client = BlockingClient(port: port) else { return [] }
        if let password { client.command("AUTH", password) }
        client.appendCommand(bytes: words)
        return client.readReplyBytes()
    }
}
