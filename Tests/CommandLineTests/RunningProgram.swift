import Foundation
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

    /// A redis-server with nothing on disk, on a port that was free a moment ago.
    static func redis(directory: TemporaryDirectory) throws -> (server: RunningProgram, port: UInt16) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-server")
        let port = try freePort()
        process.arguments =
            ["--bind", "127.0.0.1", "--port", "\(port)", "--save", "", "--appendonly", "no"]
            + ["--dir", directory.url.path]
        return (try RunningProgram(process), port)
    }

    private static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        try #require(isBound)
        return UInt16(bigEndian: address.sin_port)
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
