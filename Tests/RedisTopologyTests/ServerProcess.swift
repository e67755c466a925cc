import CHiredis
import CLinux
import Foundation
import Glibc
import Reactor
import Testbed

/// A redis-server for one test, as a server, a cluster's node or a Sentinel, on ephemeral loopback ports.
final class ServerProcess {
    enum Failure: Error {
        case spawn(Int32)
        /// The server ended before it was ready; with its output.
        case startup(String)
    }

    /// The program to start: redis-server, or the one that the environment names, such as valkey-server.
    static let program = getenv("CAUSEWAY_REDIS_SERVER").map { String(cString: $0) } ?? "redis-server"

    let port: UInt16
    let directory: TemporaryDirectory
    /// The credentials for the test's own commands.
    var password: String?
    private let arguments: [String]
    private let readyLine: String
    private var process: pid_t = -1

    var location: String { "127.0.0.1:\(port)" }
    var socketPath: String { "\(directory.path)/redis.sock" }

    /// - Parameter directory: the server's directory, if it needs the test's files in it.
    init(_ arguments: [String] = [], port: UInt16? = nil, directory: TemporaryDirectory? = nil) throws {
        self.directory = try directory ?? TemporaryDirectory()
        self.port = try port ?? Listener.unusedLoopbackPort()
        readyLine = "eady to accept connections"
        self.arguments =
            [
                Self.program, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--logfile", "", "--dir",
                self.directory.path, "--unixsocket", "\(self.directory.path)/redis.sock", "--port", String(self.port),
                "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
            ] + arguments
        try start()
    }

    /// A Sentinel; it writes what it learns into its configuration file.
    init(sentinel configuration: [String]) throws {
        directory = try TemporaryDirectory()
        port = try Listener.unusedLoopbackPort()
        readyLine = "Sentinel ID is"
        let path = "\(directory.path)/sentinel.conf"
        let lines = ["port \(port)", "bind 127.0.0.1", "dir \(directory.path)", "logfile \"\""] + configuration
        try (lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: true, encoding: .utf8)
        arguments = [Self.program, path, "--sentinel"]
        try start()
    }

    deinit {
        kill()
    }

    /// Starts the process, and returns when it accepts connections.
    func start() throws {
        // Not a pipe: an unread pipe would fill up and block the server.
        let log = "\(directory.path)/server.log"
        let flags = O_WRONLY | O_CREAT | O_TRUNC
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, log, flags, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // An inherited end of another test's pipe would make its reader wait until this child ends.
        CLinux_posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)
        var pointers = arguments.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let status = posix_spawnp(&process, Self.program, &actions, nil, &pointers, environ)
        guard status == 0 else { throw Failure.spawn(status) }
        try eventually("\(readyLine) of \(location)", every: .milliseconds(10)) {
            guard let text = try? String(contentsOfFile: log, encoding: .utf8) else { return false }
            if waitpid(process, nil, WNOHANG) == process {
                process = -1
                throw Failure.startup(text)
            }
            return text.contains(readyLine)
        }
    }

    /// `kill -9`, and waits for the end.
    func kill() {
        guard process > 0 else { return }
        Glibc.kill(process, SIGKILL)
        waitpid(process, nil, 0)
        process = -1
    }

    /// Freezes the server: it accepts connections and does not answer.
    func suspend() { Glibc.kill(process, SIGSTOP) }
    func resume() { Glibc.kill(process, SIGCONT) }

    /// Runs a command on a separate connection, and returns all strings and numbers of the reply.
    @discardableResult
    func command(_ arguments: String...) -> [String] {
        guard let client = BlockingClient(port: port) else { return [] }
        if let password { client.command("AUTH", password) }
        return client.command(arguments)
    }

}

/// hiredis' blocking client, for commands that a test sends to a server directly.
final class BlockingClient {
    private let context: UnsafeMutablePointer<redisContext>

    init?(port: UInt16) {
        guard let context = redisConnect("127.0.0.1", Int32(port)) else { return nil }
        self.context = context
        if context.pointee.err != 0 { return nil }
    }

    deinit {
        redisFree(context)
    }

    @discardableResult
    func command(_ arguments: [String]) -> [String] {
        append(arguments)
        return reply()
    }

    @discardableResult
    func command(_ arguments: String...) -> [String] { command(arguments) }

    /// Pipelines commands: the replies are read later, in order.
    func append(_ arguments: [String]) { append(bytes: arguments.map { Array($0.utf8) }) }

    /// The same for arguments of any bytes.
    func append(bytes words: [[UInt8]]) {
        let copies = words.map { word in
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: word.count + 1)
            for (index, byte) in word.enumerated() { copy[index] = CChar(bitPattern: byte) }
            return copy
        }
        defer { for copy in copies { copy.deallocate() } }
        var pointers = copies.map { Optional(UnsafePointer($0)) }
        redisAppendCommandArgv(context, Int32(words.count), &pointers, words.map(\.count))
    }

    func reply() -> [String] { replyBytes().map { String(decoding: $0, as: UTF8.self) } }

    func replyBytes() -> [[UInt8]] {
        var raw: UnsafeMutableRawPointer?
        guard redisGetReply(context, &raw) == REDIS_OK, let raw else { return [] }
        defer { freeReplyObject(raw) }
        return Self.flatten(raw.assumingMemoryBound(to: redisReply.self))
    }

    private static func flatten(_ reply: UnsafeMutablePointer<redisReply>) -> [[UInt8]] {
        switch reply.pointee.type {
        case REDIS_REPLY_ARRAY:
            (0..<Int(reply.pointee.elements)).flatMap { reply.pointee.element[$0].map(flatten) ?? [] }
        case REDIS_REPLY_INTEGER:
            [Array(String(reply.pointee.integer).utf8)]
        case REDIS_REPLY_NIL:
            [[]]
        default:
            [Array(UnsafeRawBufferPointer(start: reply.pointee.str, count: Int(reply.pointee.len)))]
        }
    }
}
