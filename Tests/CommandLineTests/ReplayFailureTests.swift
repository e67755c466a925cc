import ActivityStore
import Foundation
import Glibc
import Kafka
import LiveActivity
import Testbed
import Testing

import enum CausewayRecords.JSONValue

@testable import causeway

@Suite("causeway replay: missing ranges, Ctrl-C, a missing app", .serialized, .ownThread)
struct ReplayFailureTests {
    private static let deadLetters = "causeway.dead-letters"

    private func lines(_ run: ProgramRun) -> [JSONValue] {
        run.outputLines.dropLast().compactMap { JSONValue(parsing: Array($0.utf8)) }
    }

    @Test
    func
        `Each dead letter that is no command has its line, and a registration is distinguished from an invalid record`()
        throws
    {
        let scene = try ReplayScene()
        let registration = scene.registration("a", at: scene.nowSeconds - 60)
        let updateOfOtherApp = scene.update("b", at: scene.nowSeconds - 10, app: "com.example.other")
        let brokenRecord = ReplayScene.Record(key: "c", value: "{", timestampMilliseconds: scene.nowSeconds * 1_000)
        try scene.produce([registration, updateOfOtherApp, brokenRecord], to: Self.deadLetters)
        let range = ["report", "--topic", Self.deadLetters, "--offsets", "0:0-", "--verbose"]
        let run = try ProgramRun.run(scene.process(range + ["--json"]))
        #expect(try scene.reasonCounts(run) == ["invalid": 2, "registration": 1])
        #expect(lines(run).map { $0["source"]?.text } == ["\(Self.deadLetters)/0/1", "\(Self.deadLetters)/0/2"])
        #expect(lines(run).map { $0["code"]?.text } == ["unknownApp", "truncated"])
        #expect(lines(run).map { $0["activity"]?.text } == ["b", nil])
        let textReport = try ProgramRun.run(scene.process(range))
        #expect(textReport.output.contains("\(Self.deadLetters)/0/1  com.example.other  b  invalid: unknownApp"))
        #expect(textReport.output.contains("\(Self.deadLetters)/0/2  -  -  invalid: truncated"))
    }

    /// A broker's crash can leave a partition without a leader for hours. The partition may have newer commands, so
    /// nothing is sent.
    @Test func `A partition without a leader is reported, and the others are counted`() throws {
        let scene = try ReplayScene(partitionCount: 2)
        try scene.admitAndSettle("failed", at: scene.nowSeconds - 10, .notShown)
        try scene.produce([scene.update("failed", at: scene.nowSeconds - 10)])
        try scene.commit([0: 1])
        try scene.broker.setLeader(ofTopic: ReplayScene.commandsTopic, partition: 1, to: nil)
        let run = try scene.replay("send", "--from", "1h", "--execute", "--json")
        #expect(run.exitCode == 1 && run.errors.contains("partition 1 of causeway.commands has no leader"))
        #expect(run.errors.contains("nothing was sent; run the same command again"), "\(run.errors)")
        #expect(try scene.reasonCounts(run) == ["sendAgain": 1])
        let report = try #require(run.outputLines.last.flatMap { JSONValue(parsing: Array($0.utf8)) })
        #expect(report["isComplete"] == .boolean(false))
        #expect(try scene.recordCount() == 1)
        // This range is only in the other partition.
        let runForOtherPartition = try scene.replay("report", "--offsets", "0:0-", "--json")
        #expect(runForOtherPartition.exitCode == 0 && runForOtherPartition.errors.isEmpty)
        #expect(try scene.reasonCounts(runForOtherPartition) == ["sendAgain": 1])
    }

    /// The lines of the first partition are more than a pipe holds, so the replay waits while it writes them. Meanwhile
    /// the second partition loses its leader, and gets none for longer than the replay waits for a record (30 s).
    @Test func `If a partition loses its leader during the reading, the replay waits for one and reads on`() throws {
        let scene = try ReplayScene(partitionCount: 2)
        let count = 3_000
        let timestampMilliseconds = scene.nowSeconds * 1_000
        try scene.produce(
            (0..<count)
                .map { ReplayScene.Record(key: "b\($0)", value: "{", timestampMilliseconds: timestampMilliseconds) }
        )
        try scene.produce([scene.update("a", at: scene.nowSeconds - 10)], partition: 1)
        try scene.commit([0: Int64(count), 1: 1])
        let (output, errors) = (Pipe(), Pipe())
        let process = scene.process(["report", "--offsets", "0:0-", "--offsets", "1:0-", "--json", "--verbose"])
        (process.standardOutput, process.standardError) = (output, errors)
        try process.start()
        var wholeOutput = try #require(try output.fileHandleForReading.read(upToCount: 1))
        try scene.broker.setLeader(ofTopic: ReplayScene.commandsTopic, partition: 1, to: nil)
        while wholeOutput.count(where: { $0 == UInt8(ascii: "\n") }) < count {
            let data = output.fileHandleForReading.availableData
            try #require(!data.isEmpty, "the replay has ended")
            wholeOutput += data
        }
        var message = ""
        while !message.contains("waiting for one") {
            let data = errors.fileHandleForReading.availableData
            try #require(!data.isEmpty, "the replay has ended: \(message)")
            message += String(decoding: data, as: UTF8.self)
        }
        #expect(message == "causeway replay: partition 1 of causeway.commands has no leader now; waiting for one\n")
        try scene.broker.setLeader(ofTopic: ReplayScene.commandsTopic, partition: 1, to: 1)
        wholeOutput += output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 0)
        let lastLine = String(decoding: wholeOutput, as: UTF8.self).split(separator: "\n").last
        let report = try #require(lastLine.flatMap { JSONValue(parsing: Array($0.utf8)) })
        #expect(report["isComplete"] == .boolean(true))
        #expect(report["counts"]?["invalid"]?.integerValue == Int64(count))
        #expect(report["counts"]?["tokenUnknown"]?.integerValue == 1)
    }

    /// The partition may have the deferred record of a command, which must not count as sent.
    @Test func `If a partition of waiting commands has no leader, no state is rebuilt`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.registration("a", at: scene.nowSeconds - 60)], to: ReplayScene.registrationsTopic)
        try scene.produce([scene.update("a", at: scene.nowSeconds - 10)])
        try scene.commit([0: 1])
        try scene.broker.setLeader(ofTopic: "causeway.deferred", partition: 0, to: nil)
        let run = try scene.replay("rebuild", "--from", "1h", "--execute")
        #expect(run.exitCode == 1 && run.errors.contains("partition 0 of causeway.deferred has no leader"))
        #expect(try scene.inspection(of: "a").token != nil && scene.inspection(of: "a").newestVersion == nil)
    }

    @Test func `For an app that was not configured, the tokens are rebuilt first, and then the commands are sent`()
        throws
    {
        let scene = try ReplayScene()
        let registration = scene.registration("a", at: scene.nowSeconds - 60)
        let update = scene.update("a", at: scene.nowSeconds - 10, hasAlert: true)
        try scene.produce([registration], to: ReplayScene.registrationsTopic)
        try scene.produce([update])
        try scene.produce([registration, update], to: Self.deadLetters)
        try scene.commit([0: 1])
        let send = ["send", "--topic", Self.deadLetters, "--from", "1h", "--execute", "--json"]
        #expect(try scene.reasonCounts(ProgramRun.run(scene.process(send))) == ["tokenUnknown": 1, "registration": 1])

        let rebuild = try scene.replay("rebuild", "--registrations", "--execute")
        #expect(rebuild.exitCode == 0, "\(rebuild.errors)")
        #expect(rebuild.output.contains(/registrations written +1/) && !rebuild.output.contains("states"))
        // A rebuild of registrations alone does not mark the command as sent, unlike a full rebuild.
        #expect(try scene.inspection(of: "a").token != nil && scene.inspection(of: "a").newestVersion == nil)
        #expect(try scene.reasonCounts(ProgramRun.run(scene.process(send))) == ["send": 1, "registration": 1])
        #expect(try scene.records(from: 1).map(\.value) == [update.value])
        #expect(try scene.replay("rebuild", "--registrations", "--from", "1h").exitCode == 64)
    }

    @Test func `A range with missing records is reported as not completely read`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.update("a", at: scene.nowSeconds - 10)])
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

    @Test func `If Ctrl-C stops a report, the printed part is marked as incomplete`() throws {
        let scene = try ReplayScene()
        let count = 3_000
        try scene.produce((0..<count).map { scene.update("a\($0)", at: scene.nowSeconds - 10) })
        try scene.commit([0: Int64(count)])
        let (output, errors) = (Pipe(), Pipe())
        let process = scene.process(["report", "--from", "1h", "--json", "--verbose"])
        (process.standardOutput, process.standardError) = (output, errors)
        try process.start()
        // The output is larger than a pipe holds, so the replay waits in the middle of it until the test reads on.
        let firstByte = try #require(try output.fileHandleForReading.read(upToCount: 1))
        process.interrupt()
        let wholeOutput = firstByte + output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 1)
        let lines = String(decoding: wholeOutput, as: UTF8.self).split(separator: "\n")
        #expect(lines.count > 1 && lines.count < count)
        let report = try #require(lines.last.flatMap { JSONValue(parsing: Array($0.utf8)) })
        #expect(report["isComplete"] == .boolean(false))
        #expect(report["counts"]?["tokenUnknown"]?.integerValue == Int64(lines.count - 1))
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(text.contains("stopped before the end"))
    }

    @Test func `If Kafka does not respond and nothing has begun, Ctrl-C ends the replay at once`() throws {
        let scene = try ReplayScene()
        let (listener, port) = try Self.silentListener()
        defer { close(listener) }
        let servers = ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:\(port)"]
        let process = scene.process(["report", "--from", "1h"], environment: servers)
        process.standardError = FileHandle.nullDevice
        try process.start()
        let connection = accept(listener, nil, nil)
        #expect(connection >= 0)
        defer { close(connection) }
        process.interrupt()
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGINT)
    }

    @Test func `If Redis does not reply, Ctrl-C ends the wait, and the known part is printed`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.update("a", at: scene.nowSeconds - 10)])
        try scene.commit([0: 1])
        let (listener, port) = try Self.silentListener()
        defer { close(listener) }
        let process = scene.process(
            ["report", "--from", "1h"],
            environment: ["CAUSEWAY_REDIS_URL": "redis://127.0.0.1:\(port)"]
        )
        let (output, errors) = (Pipe(), Pipe())
        (process.standardOutput, process.standardError) = (output, errors)
        try process.start()
        let connection = accept(listener, nil, nil)
        #expect(connection >= 0)
        defer { close(connection) }
        process.interrupt()
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 1)
        #expect(text.contains("stopped before the end") && !text.contains("Redis"), "\(text)")
        let textReport = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(textReport.contains("causeway.commands: 1 record\n"))
    }

    @Test func `If nobody reads the output, a second Ctrl-C ends the wait`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.update("a", at: scene.nowSeconds - 10)])
        try scene.commit([0: 1])
        let output = Pipe()
        output.fill()
        let process = scene.process(["report", "--from", "1h"])
        process.standardOutput = output
        try process.start()
        try eventually("a process that catches SIGINT", every: .milliseconds(1)) {
            try Self.catchesInterrupts(process)
        }
        process.interrupt()
        // Signals that come at the same moment count as one, so the test waits until the first one has arrived.
        try eventually("a process that has got SIGINT", every: .milliseconds(1)) {
            try !Self.catchesInterrupts(process)
        }
        process.interrupt()
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGINT)
    }

    /// Whether the process handles SIGINT: bit 1 of the mask `SigCgt` in its status.
    private static func catchesInterrupts(_ process: Process) throws -> Bool {
        let status = try String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
        let mask = try #require(status.firstMatch(of: /SigCgt:\s+([0-9a-f]+)/)).1
        return try #require(UInt64(mask, radix: 16)) & 2 != 0
    }

    /// Opens a loopback port that accepts connections and never replies.
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
