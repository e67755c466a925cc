import Foundation
import Glibc
import Kafka
import Testbed
import Testing

@testable import causeway

@Suite("causeway replay: ranges that are not there, Ctrl-C", .serialized, .ownThread)
struct ReplayMishapTests {
    @Test("A range that names what is not there is not all read")
    func gaps() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.update("a", at: scene.now - 10)])
        func outcome(_ offsets: String) throws -> (code: Int32, errors: String) {
            let run = try scene.replay("report", "--offsets", offsets)
            return (run.exitCode, run.errors)
        }
        #expect(try outcome("7:0-9") == (1, "causeway replay report: causeway.commands has no partition 7\n"))
        let end = "causeway replay report: partition 0 of causeway.commands ends before offset 1\n"
        #expect(try outcome("0:0-1") == (1, end))
        #expect(try outcome("0:2-") == (1, end))
        #expect(try outcome("0:1-") == (0, ""))
        #expect(try outcome("0:0-0") == (0, ""))
    }

    @Test("Ctrl-C while activities are decided on: what is printed is not taken for the whole")
    func interruption() throws {
        let scene = try ReplayScene()
        let count = 3_000
        try scene.produce((0..<count).map { scene.update("a\($0)", at: scene.now - 10) })
        try scene.commit([0: Int64(count)])
        let (output, errors) = (Pipe(), Pipe())
        let process = scene.process(["report", "--from", "1h", "--json", "--verbose"])
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        // More lines than a pipe takes: it stands in the middle of them until somebody reads on.
        let first = try #require(try output.fileHandleForReading.read(upToCount: 1))
        process.interrupt()
        let rest = first + output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 1)
        let lines = String(decoding: rest, as: UTF8.self).split(separator: "\n")
        #expect(lines.count > 1 && lines.count < count)
        let report = try #require(lines.last.flatMap { JSONValue(parsing: Array($0.utf8)) })
        #expect(report["isComplete"] == .bool(false))
        #expect(report["counts"]?["tokenUnknown"]?.whole == Int64(lines.count - 1))
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(text.contains("stopped before the end"))
    }

    @Test("Kafka does not answer: a second Ctrl-C ends the wait")
    func secondInterruption() throws {
        let scene = try ReplayScene()
        let (listener, port) = try Self.silentListener()
        defer { close(listener) }
        let servers = ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:\(port)"]
        let process = scene.process(["report", "--from", "1h"], environment: servers)
        process.standardError = FileHandle.nullDevice
        try process.run()
        let connection = accept(listener, nil, nil)
        #expect(connection >= 0)
        defer { close(connection) }
        // Two that come at the same moment are one.
        while process.isRunning {
            process.interrupt()
            usleep(50_000)
        }
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGINT)
    }

    /// A port of loopback that takes connections and says nothing.
    private static func silentListener() throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        try #require(isListening)
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }
}
