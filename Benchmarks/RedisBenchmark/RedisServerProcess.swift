import Glibc
import Redis

/// A redis-server for the benchmark. It stores nothing on disk and listens on a Unix socket and on an ephemeral
/// loopback port.
///
/// The tests' `RedisServer` is not used here, because its target imports the testing library.
final class RedisServerProcess {
    enum Transport: String {
        case unix, tcp
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private let directory: String
    private let port: Int
    private var process: pid_t = -1
    private(set) var version = ""

    /// - Parameter settings: settings of redis.conf, alternating names and values, each name with two hyphens.
    init(settings: [String] = []) throws {
        var template = Array("/tmp/causeway-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "no temporary directory: errno \(errno)") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        port = try Self.unusedPort()
        let arguments =
            [
                "redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", String(port),
                "--unixsocket", "\(directory)/redis.sock", "--dir", directory, "--logfile", "/dev/null",
            ] + settings
        var pointers = arguments.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let status = posix_spawnp(&process, "redis-server", nil, nil, &pointers, environ)
        guard status == 0 else { throw Failure(description: "redis-server does not start: errno \(status)") }
        for _ in 0..<500 where version.isEmpty {
            usleep(20_000)
            version = runClient("INFO", "server").field("redis_version").map { "Redis \($0)" } ?? ""
        }
        guard !version.isEmpty else { throw Failure(description: "redis-server does not reply") }
    }

    deinit {
        // A process that was never started has no id, and -1 would mean every process.
        if process > 0 {
            kill(process, SIGKILL)
            waitpid(process, nil, 0)
        }
        unlink("\(directory)/redis.sock")
        rmdir(directory)
    }

    func url(_ transport: Transport) -> String {
        transport == .unix ? "unix://\(directory)/redis.sock" : "redis://127.0.0.1:\(port)"
    }

    /// The CPU time of the server's main thread in seconds. The first number in its `schedstat` is in
    /// nanoseconds.
    var processorSeconds: Double {
        let first = Self.text(path: "/proc/\(process)/task/\(process)/schedstat").split(separator: " ").first
        return first.flatMap { Double($0) }.map { $0 / 1e9 } ?? 0
    }

    var usedMemoryBytes: Int { runClient("INFO", "memory").field("used_memory").flatMap { Int($0) } ?? 0 }

    /// The number of EVALSHA commands since the server started.
    var scriptCallCount: Int {
        let text = runClient("INFO", "commandstats").field("cmdstat_evalsha") ?? ""
        return Int(text.drop { $0 != "=" }.dropFirst().prefix { $0 != "," }) ?? 0
    }

    /// Runs redis-cli with these arguments, and returns its output.
    func runClient(_ arguments: String...) -> CommandOutput {
        let quoted = arguments.map { "'\($0)'" }.joined(separator: " ")
        guard let pipe = popen("redis-cli -s \(directory)/redis.sock \(quoted) 2>/dev/null", "r") else {
            return CommandOutput(text: "")
        }
        defer { pclose(pipe) }
        return CommandOutput(text: Self.text(of: pipe))
    }

    struct CommandOutput {
        var text: String

        func field(_ name: String) -> String? {
            text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("\(name):") }
                .map { String($0.dropFirst(name.count + 1)) }
        }
    }

    private static func text(path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        return text(of: file)
    }

    private static func text(of file: UnsafeMutablePointer<FILE>) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = fread(&buffer, 1, buffer.count, file)
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }

    /// Returns a port that no process uses now. Another process may still take it before the server does.
    private static func unusedPort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 && getsockname(descriptor, pointer, &length) == 0
            }
        }
        guard isBound else { throw Failure(description: "no port: errno \(errno)") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
