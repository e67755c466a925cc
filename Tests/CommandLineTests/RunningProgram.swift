import Foundation
import Reactor
import Testbed
import Testing

/// A program that runs until it is stopped: a broker, the simulator, a worker, a redis-server. When this value is
/// released, the program is killed.
final class RunningProgram {
    let process: Process
    private let output = Pipe()

    init(_ process: Process) throws {
        self.process = process
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
        try process.start()
    }

    deinit {
        if process.isRunning {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    /// Reads the JSON object that the program prints when it is ready.
    func readReadiness() throws -> [String: Any] {
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            let byte = try output.fileHandleForReading.read(upToCount: 1)
            line.append(try #require(byte, "the program ended before it was ready"))
        }
        return try #require(JSONSerialization.jsonObject(with: line) as? [String: Any])
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code, or nil if a signal ended the program.
    func terminate() -> Int32? {
        process.terminate()
        return awaitExitCode()
    }

    /// Kills the program with SIGKILL, and waits for its end.
    func killAtOnce() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Waits for the end of the program. Returns the exit code, or nil if a signal ended the program.
    func awaitExitCode() -> Int32? {
        process.waitUntilExit()
        return process.terminationReason == .exit ? process.terminationStatus : nil
    }

    /// Starts a redis-server that stores nothing on disk. Does not wait until the server accepts connections.
    static func startRedis(directory: TemporaryDirectory) throws -> (server: RunningProgram, port: UInt16) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-server")
        let port = try Listener.findUnusedLoopbackPort()
        process.arguments =
            ["--bind", "127.0.0.1", "--port", "\(port)", "--save", "", "--appendonly", "no"]
            + ["--dir", directory.url.path]
        return (try RunningProgram(process), port)
    }
}

/// Runs `curl`, as the documentation's pages do, and returns its output.
func curl(_ arguments: String...) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
    process.arguments = ["--silent", "--show-error"] + arguments
    return try process.runForOutput()
}

/// Runs `redis-cli`, to read and change a server.
struct RedisCommandLine {
    let port: UInt16

    func process(_ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-cli")
        process.arguments = ["-p", "\(port)"] + arguments
        return process
    }

    /// Sends a Redis command, and returns the server's reply as text.
    @discardableResult
    func ask(_ arguments: String...) throws -> String { try ask(arguments) }

    @discardableResult
    func ask(_ arguments: [String]) throws -> String {
        try process(arguments).runForOutput().trimmingCharacters(in: .newlines)
    }

    /// Returns the content and the expiry of every key except the marks (R24), which a running worker renews.
    func contents() throws -> [String: String] {
        let keys = try ask("--raw", "KEYS", "*").split(separator: "\n").map(String.init)
            .filter { !$0.hasPrefix("{causeway/mark}") }
        return try Dictionary(
            uniqueKeysWithValues: keys.map { ($0, try ask("DUMP", $0) + (try ask("PEXPIRETIME", $0))) }
        )
    }
}

extension Process {
    fileprivate func runForOutput() throws -> String {
        let output = Pipe()
        standardOutput = output
        try start()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        waitUntilExit()
        return text
    }
}
