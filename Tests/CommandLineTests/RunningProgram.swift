import Foundation
import Reactor
import Testing

/// A program that goes on running: the broker, the simulator, a worker, a redis-server. Killed when nobody needs it any
/// more.
final class RunningProgram {
    let process: Process
    private let output = Pipe()

    init(_ process: Process) throws {
        self.process = process
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    deinit {
        if process.isRunning {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    /// The JSON object that it prints when it is ready.
    func readiness() throws -> [String: Any] {
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            let byte = try output.fileHandleForReading.read(upToCount: 1)
            line.append(try #require(byte, "it ended before it was ready"))
        }
        return try #require(JSONSerialization.jsonObject(with: line) as? [String: Any])
    }

    /// Asks it to end, and waits: the exit code, or nil if a signal ended it.
    func terminate() -> Int32? {
        process.terminate()
        return exitCode()
    }

    func exitCode() -> Int32? {
        process.waitUntilExit()
        return process.terminationReason == .exit ? process.terminationStatus : nil
    }

    /// A redis-server with nothing on disk.
    static func redis(directory: TemporaryDirectory) throws -> (server: RunningProgram, port: UInt16) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-server")
        let port = try Listener.unusedLoopbackPort()
        process.arguments =
            ["--bind", "127.0.0.1", "--port", "\(port)", "--save", "", "--appendonly", "no"]
            + ["--dir", directory.url.path]
        return (try RunningProgram(process), port)
    }
}

/// `curl` as the pages have it.
func curl(_ arguments: String...) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
    process.arguments = ["--silent", "--show-error"] + arguments
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return text
}
