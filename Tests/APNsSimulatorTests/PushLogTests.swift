import Foundation
import Glibc
import Reactor
import Testbed
import Testing

@testable import APNsSimulator

/// The lines that the push log has for each push, over TLS and HTTP/2.
@Suite(.ownThread) struct PushLogTests {
    private typealias Line = [String: Any]

    /// Runs the body with a simulator that has a log, and returns the log's lines.
    private func runAndReadLog(_ body: (SimulatorFixture) async throws -> Void) async throws -> [Line] {
        let directory = try TemporaryDirectory()
        let file = directory.path("pushes.jsonl")
        try await SimulatorFixture.run(\.pushLogFile, file) { fixture in
            try await body(fixture)
            // The service handles this call in a later iteration than the last push. The log then has all lines.
            #expect(try await fixture.simulator.statistics().lostPushLogLineCount == 0)
        }
        return try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
            .map { try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? Line) }
    }

    private func digest(_ text: String) -> String {
        Array(text.utf8).withUnsafeBytes { LoggedDigest.hexadecimal($0) }
    }

    @Test func `A line has every member`() async throws {
        let state = #"{"home":3,"away":1}"#
        var (token, nowSeconds) = ("", 0)
        let lines = try await runAndReadLog { fixture in
            token = fixture.token
            // The timestamp must not be before the activity's first state, because a phone ignores older
            // states.
            nowSeconds = time(nil)
            let body =
                #"{"aps":{"timestamp":\#(nowSeconds),"event":"update","content-state":\#(state),"#
                + #""alert":{"title":"3–1 \"!\"","body":"b"}}}"#
            let headers = fixture.headers(["apns-priority": "10", "apns-expiration": "\(nowSeconds + 3_600)"])
            let response = try fixture.connect().perform(headers, body: body)
            #expect(response.status == 200)
        }
        let line = try #require(lines.first)
        #expect(lines.count == 1)
        #expect(line["status"] as? Int == 200 && line["reason"] == nil && line["effect"] as? String == "shown")
        #expect(line["app"] as? String == SimulatorFixture.app && line["activity"] as? String == "m1")
        #expect(line["device"] as? String == "phone" && line["priority"] as? Int == 10)
        #expect(line["apnsId"] as? String == "11111111-2222-3333-4444-555555555555")
        #expect(line["expiration"] as? Int == nowSeconds + 3_600 && line["timestamp"] as? Int == nowSeconds)
        #expect(line["event"] as? String == "update" && line["alert"] as? String == "3–1 \"!\"")
        #expect(line["state"] as? String == digest(state))
        let bytes = stride(from: 0, to: token.count, by: 2)
            .map { place in UInt8(token.dropFirst(place).prefix(2), radix: 16) ?? 0 }
        #expect(line["token"] as? String == bytes.withUnsafeBytes { LoggedDigest.hexadecimal($0) })
        #expect(abs((line["time"] as? Int ?? 0) / 1_000 - nowSeconds) < 3_600)
    }

    /// A full pipe simulates a disk that becomes full and then has room again. Lost lines are counted, and each line in
    /// the file is complete.
    @Test func `Lines are complete even if a write takes only a part`() throws {
        var ends: [Int32] = [-1, -1]
        #expect(pipe(&ends) == 0)
        defer { close(ends[0]) }
        for end in ends { #expect(fcntl(end, F_SETFL, O_NONBLOCK) == 0) }
        let loop = try EventLoop()
        let log = PushLog(file: PushLogFile(descriptor: ends[1]), loop: loop)
        // The loop retains the log until an iteration has ended. This iteration frees it.
        defer { loop.runIteration(waitMilliseconds: 0) }
        let lineBytes = 1_000
        // More lines than fit into a pipe.
        let appendedCount = 200
        for number in 0..<appendedCount {
            log.append(Array(String(repeating: "\(number % 10)", count: lineBytes - 1).utf8))
        }
        log.flush()
        var text = readContents(of: ends[0])
        try #require(!text.isEmpty && text.last != "\n", "the pipe has taken a part of a line")
        let lostCount = appendedCount - text.count / lineBytes - 1
        #expect(lostCount > 0 && log.lostLineCount == lostCount)
        log.append(Array(String(repeating: "x", count: lineBytes - 1).utf8))
        log.flush()
        text += readContents(of: ends[0])
        #expect(log.lostLineCount == lostCount)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == appendedCount - lostCount + 2 && lines.last?.isEmpty == true)
        #expect(lines.dropLast().allSatisfy { $0.count == lineBytes - 1 && Set($0).count == 1 })
        #expect(lines.dropLast().last?.first == "x")
    }

    private func readContents(of descriptor: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    /// The expected digests come from the authors of FNV.
    @Test func `The digest is FNV-1a`() {
        #expect(digest("") == "cbf29ce484222325")
        #expect(digest("a") == "af63dc4c8601ec8c")
        #expect(digest("foobar") == "85944171f73967e8")
    }

    @Test func `Refused pushes are in the log too`() async throws {
        let lines = try await runAndReadLog { fixture in
            let client = try fixture.connect()
            let update = fixture.update(home: 1)
            _ = try client.perform(fixture.headers(["apns-expiration": nil as String?]), body: update)
            _ = try client.perform(fixture.headers(token: String(repeating: "ab", count: 80)), body: update)
            _ = try client.perform(fixture.headers(["apns-priority": "1"]), body: update)
            _ = try client.perform(fixture.headers(), body: "nonsense")
            var faults = Faults()
            faults.tooManyRequestsShare = 1
            try await fixture.simulator.setFaults(faults)
            _ = try client.perform(fixture.headers(), body: update)
            faults.tooManyRequestsShare = 0
            faults.resetShare = 1
            try await fixture.simulator.setFaults(faults)
            _ = try client.perform(fixture.headers(), body: update)
            faults.resetShare = 0
            faults.refusedShare = 1
            try await fixture.simulator.setFaults(faults)
            _ = try client.perform(fixture.headers(), body: update)
        }
        let expected = [
            "200 - shown m1", "400 BadDeviceToken - -", "400 BadPriority - m1", "200 - malformed m1",
            "429 TooManyRequests - m1", "0 reset shown m1", "0 refused - m1",
        ]
        let foundLines = lines.map { line in
            "\(line["status"] ?? "?") "
                + ["reason", "effect", "activity"].map { line[$0] as? String ?? "-" }.joined(separator: " ")
        }
        #expect(foundLines == expected)
        #expect(lines[0]["expiration"] as? Int == -1)
        #expect(lines[3]["event"] is NSNull && lines[3]["timestamp"] is NSNull)
    }

    @Test func `The line of a start names the new activity`() async throws {
        let lines = try await runAndReadLog { fixture in
            let start = """
                {"aps":{"event":"start","timestamp":\(time(nil)),"attributes-type":"MatchAttributes","attributes":{"matchId":"m2"},\
                "content-state":{"home":0,"away":0},"alert":{"title":"t","body":"b"}}}
                """
            let client = try fixture.connect()
            #expect(try client.perform(fixture.headers(token: fixture.startToken), body: start).status == 200)
            let startWithoutAlert = start.replacing(#","alert":{"title":"t","body":"b"}"#, with: "")
            #expect(
                try client.perform(fixture.headers(token: fixture.startToken), body: startWithoutAlert).status == 200
            )
        }
        #expect(lines.map { $0["activity"] as? String } == ["m2", nil])
        #expect(lines.map { $0["alert"] as? String } == ["t", nil])
        #expect(lines.map { $0["effect"] as? String } == ["started", "incompleteAlert"])
    }

    @Test func `A log that others could read becomes readable only for its owner`() throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write("an older log\n", to: "pushes.jsonl").path
        #expect(chmod(path, 0o644) == 0)
        let file = try PushLogFile(path: path)
        var status = stat()
        #expect(fstat(file.descriptor, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o600 && status.st_size == 0)
    }

    @Test func `A file that cannot be written stops the start`() async throws {
        await #expect(throws: SimulatorError.self) {
            try await SimulatorFixture.run(\.pushLogFile, "/nowhere/pushes.jsonl") { _ in }
        }
    }

    @Test func `Without a push log nothing is written`() async throws {
        try await SimulatorFixture.run { fixture in
            #expect(fixture.simulator.configuration.pushLogFile == nil)
            let response = try fixture.connect().perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(response.status == 200)
        }
    }
}
