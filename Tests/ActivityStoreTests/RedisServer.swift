import CHiredis
import CLinux
import Glibc
import LiveActivity
import Reactor
import Testbed

@testable import ActivityStore
@testable import Redis

/// A redis-server for one test. It stores nothing on disk and listens on a Unix socket and on an ephemeral loopback port.
final class RedisServer {
    enum Failure: Error {
        case spawn(Int32)
        /// The server ended before it was ready; with its output.
        case startup(String)
    }

    /// The program to start: redis-server, or the one that the environment names, such as valkey-server.
    private static let program = getenv("CAUSEWAY_REDIS_SERVER").map { String(cString: $0) } ?? "redis-server"

    private let directory: TemporaryDirectory
    let port: UInt16
    let tlsPort: UInt16
    private let arguments: [String]
    private var process: pid_t = -1
    private var output: Int32 = -1

    var socketPath: String { directory.path("redis.sock") }
    var unixURL: String { "unix://\(socketPath)" }

    /// - Parameter tls: certificate, key and authority.
    init(_ arguments: [String] = [], tls: (caFile: String, certificateFile: String, keyFile: String)? = nil) throws {
        directory = try TemporaryDirectory()
        port = try Listener.unusedLoopbackPort()
        tlsPort = try tls == nil ? 0 : Listener.unusedLoopbackPort()
        var all = [Self.program, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--logfile", ""]
        all += ["--port", String(port), "--unixsocket", directory.path("redis.sock"), "--dir", directory.path]
        if let tls {
            all += ["--tls-port", String(tlsPort), "--tls-auth-clients", "no", "--tls-ca-cert-file", tls.caFile]
            all += ["--tls-cert-file", tls.certificateFile, "--tls-key-file", tls.keyFile]
        }
        self.arguments = all + arguments
        try start()
    }

    deinit {
        kill()
    }

    /// Starts the process, and returns when it accepts connections.
    func start() throws {
        var pipe: [Int32] = [-1, -1]
        guard Glibc.pipe(&pipe) == 0 else { throw Failure.spawn(errno) }
        // Other tests' servers must not inherit the reading end or keep the writing end open.
        for end in pipe { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pipe[1], 1)
        posix_spawn_file_actions_adddup2(&actions, pipe[1], 2)
        // An inherited end of another test's pipe would make its reader wait until this child ends.
        CLinux_posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)
        var pointers = arguments.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let status = posix_spawnp(&process, Self.program, &actions, nil, &pointers, environ)
        close(pipe[1])
        output = pipe[0]
        guard status == 0 else { throw Failure.spawn(status) }
        var log = ""
        var buffer = [UInt8](repeating: 0, count: 4096)
        // All listeners are open by then.
        while !log.contains("Ready to accept connections") {
            let count = read(output, &buffer, buffer.count)
            guard count > 0 else { throw Failure.startup(log) }
            log += String(decoding: buffer[..<count], as: UTF8.self)
        }
    }

    /// Kills the process and waits for its end.
    func kill() {
        guard process > 0 else { return }
        Glibc.kill(process, SIGKILL)
        waitpid(process, nil, 0)
        close(output)
        process = -1
        unlink(socketPath)
    }

    /// Stops the process until `thaw`; its connections stay open.
    func freeze() { Glibc.kill(process, SIGSTOP) }

    func thaw() { Glibc.kill(process, SIGCONT) }

    func restart() throws {
        kill()
        try start()
    }

    /// Runs a command on a separate connection with hiredis' blocking client, and returns all strings and numbers of the reply.
    @discardableResult
    func command(_ arguments: String..., user: String? = nil, password: String? = nil) -> [[UInt8]] {
        guard let context = redisConnectUnix(socketPath) else { return [] }
        defer { redisFree(context) }
        if let password { _ = Self.run(context, ["AUTH"] + (user.map { [$0] } ?? []) + [password]) }
        return Self.run(context, arguments)
    }

    /// The same for arguments of any bytes.
    @discardableResult
    func command(bytes words: [[UInt8]]) -> [[UInt8]] {
        guard let context = redisConnectUnix(socketPath) else { return [] }
        defer { redisFree(context) }
        return Self.run(context, words)
    }

    /// A hash's fields that are not empty, or the parts of an activity's value.
    func hash(_ key: String) -> [String: [UInt8]] {
        if command("TYPE", key) == [Array("string".utf8)] { return activityParts(command("GET", key)[0]) }
        let flat = command("HGETALL", key)
        var fields: [String: [UInt8]] = [:]
        for index in stride(from: 0, to: flat.count - 1, by: 2) where !flat[index + 1].isEmpty {
            fields[String(decoding: flat[index], as: UTF8.self)] = flat[index + 1]
        }
        return fields
    }

    private static func run(_ context: UnsafeMutablePointer<redisContext>, _ arguments: [String]) -> [[UInt8]] {
        run(context, arguments.map { Array($0.utf8) })
    }

    private static func run(_ context: UnsafeMutablePointer<redisContext>, _ arguments: [[UInt8]]) -> [[UInt8]] {
        let copies = arguments.map { argument in
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: argument.count + 1)
            for (index, byte) in argument.enumerated() { copy[index] = CChar(bitPattern: byte) }
            return copy
        }
        defer { for copy in copies { copy.deallocate() } }
        var pointers = copies.map { Optional(UnsafePointer($0)) }
        let lengths = arguments.map(\.count)
        guard let raw = redisCommandArgv(context, Int32(arguments.count), &pointers, lengths) else { return [] }
        defer { freeReplyObject(raw) }
        return flatten(raw.assumingMemoryBound(to: redisReply.self))
    }

    private static func flatten(_ reply: UnsafeMutablePointer<redisReply>) -> [[UInt8]] {
        switch reply.pointee.type {
        case REDIS_REPLY_ARRAY:
            return (0..<Int(reply.pointee.elements))
                .flatMap { index in
                    reply.pointee.element[index].map(flatten) ?? []
                }
        case REDIS_REPLY_INTEGER:
            return [Array(String(reply.pointee.integer).utf8)]
        case REDIS_REPLY_NIL:
            return [[]]
        default:
            return [Array(UnsafeRawBufferPointer(start: reply.pointee.str, count: Int(reply.pointee.len)))]
        }
    }
}

/// The parts of an activity's value: its record `r`, the token `t`, its audiences `a`, the last 429 `l`, the start `b` and the held command
/// `h`.
func activityParts(_ value: [UInt8]) -> [String: [UInt8]] {
    let kind = value[StoredRecord.kind]
    var rest = value[...]
    var parts: [String: [UInt8]] = [:]
    func take(_ name: String, _ count: Int) {
        if count > 0 { parts[name] = Array(rest.prefix(count)) }
        rest = rest.dropFirst(count)
    }
    take("r", StoredRecord.token)
    // Parts that do not count may hold anything.
    if value[StoredRecord.state] & StoredRecord.StateBit.isOwnTimestamp != 0 {
        for index in StoredRecord.assigned..<StoredRecord.registeredAt { parts["r"]?[index] = 0 }
    }
    let count = Int(LittleEndian.read(value[StoredRecord.tokenCount..<StoredRecord.kind]))
    take("t", count & ~StoredRecord.countFlags)
    if count & StoredRecord.answeredAlertFollows != 0 { take("e", StoredVersion.bytes) }
    if count & StoredRecord.audiencesFollow != 0 { take("a", 2 + 8 * rest.prefix(2).reduce(0) { $0 + Int($1) }) }
    if kind & StoredRecord.Flag.retired != 0 {
        take("d", StoredRecord.retiredBytes)
        // The replies say which part this is.
        parts["d"] = [1]
    }
    if kind & StoredRecord.Flag.limited != 0 { take("l", 7) }
    if kind & StoredRecord.Flag.started != 0 { take("b", kind & StoredRecord.Flag.claimed != 0 ? 27 : 13) }
    take("h", rest.count)
    return parts
}
