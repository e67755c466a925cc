import APNsSimulator
import Foundation
import Glibc
import Testbed
import Testing

/// HTTP/2 programs of other projects. They share no code with Causeway, but like the simulator they use nghttp2.
@Suite(.serialized, .ownThread) struct ForeignClientTests {
    @Test func `curl gets its responses`() async throws {
        try await SimulatorFixture.run { fixture in
            var arguments = ["--http2", "-sS", "-i", "--cacert", fixture.caFile, "-d", fixture.update(home: 3)]
            for (name, value) in fixture.headers() where !name.hasPrefix(":") {
                arguments += ["-H", "\(name): \(value)"]
            }
            let url = "https://localhost:\(fixture.simulator.port)/3/device/\(fixture.token)"
            let (text, status) = try await output(of: "curl", arguments + [url])
            #expect(status == 0, "\(text)")
            #expect(text.hasPrefix("HTTP/2 200"))
            #expect(text.contains("apns-id: 11111111-2222-3333-4444-555555555555"))
            let refusedOutput = try await output(of: "curl", arguments + [url + "00"])
            #expect(refusedOutput.text.contains("HTTP/2 400"))
            #expect(refusedOutput.text.hasSuffix("{\"reason\":\"BadDeviceToken\"}"))
        }
    }

    @Test func `nghttp gets its responses`() async throws {
        try await SimulatorFixture.run { fixture in
            let body = fixture.directory.url.appendingPathComponent("body")
            try Data(fixture.update(home: 4).utf8).write(to: body)
            var arguments = ["-v", "--data=\(body.path)"]
            for (name, value) in fixture.headers() where !name.hasPrefix(":") {
                arguments += ["-H", "\(name): \(value)"]
            }
            let url = "https://localhost:\(fixture.simulator.port)/3/device/\(fixture.token)"
            let (text, _) = try await output(of: "nghttp", arguments + [url])
            #expect(text.contains(":status: 200"), "\(text)")
            #expect(text.contains("SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000"))
        }
    }

    @Test func `curl gets its responses without TLS`() async throws {
        try await SimulatorFixture.run(\.transportSecurity, .cleartext) { fixture in
            var arguments = ["--http2-prior-knowledge", "-sS", "-i", "-d", fixture.update(home: 3)]
            for (name, value) in fixture.headers() where !name.hasPrefix(":") {
                arguments += ["-H", "\(name): \(value)"]
            }
            let url = "http://127.0.0.1:\(fixture.simulator.port)/3/device/\(fixture.token)"
            let (text, _) = try await output(of: "curl", arguments + [url])
            #expect(text.hasPrefix("HTTP/2 200"), "\(text)")
        }
    }

    /// Prints the throughput. Only the number of 200 responses is checked.
    @Test func `The simulator responds to h2load's requests`() async throws {
        // h2load opens many streams before it has read the server's SETTINGS, so the simulator must allow them at once.
        try await SimulatorFixture.run(\.limits.streamsBeforeAuthenticationMax, 1_000) { fixture in
            let body = fixture.directory.url.appendingPathComponent("body")
            try Data(fixture.update(home: 4).utf8).write(to: body)
            let count = ProcessInfo.processInfo.environment["SIMULATOR_LOAD_REQUESTS"].flatMap(Int.init) ?? 20_000
            var arguments = ["-n", "\(count)", "-c", "4", "-m", "250", "-d", body.path]
            for (name, value) in fixture.headers(["apns-id": nil as String?]) where !name.hasPrefix(":") {
                arguments += ["-H", "\(name): \(value)"]
            }
            var usageBefore = rusage()
            getrusage(RUSAGE_SELF.rawValue, &usageBefore)
            let url = "https://127.0.0.1:\(fixture.simulator.port)/3/device/\(fixture.token)"
            let (text, _) = try await output(of: "h2load", arguments + [url])
            var usageAfter = rusage()
            getrusage(RUSAGE_SELF.rawValue, &usageAfter)
            let seconds = { (usage: rusage) in
                Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
                    + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
            }
            let line = text.split(separator: "\n").first { $0.hasPrefix("finished") } ?? ""
            let microseconds = (seconds(usageAfter) - seconds(usageBefore)) / Double(count) * 1e6
            print("simulator under h2load: \(line); \(microseconds) µs of CPU a request in this process")
            let statistics = try await fixture.simulator.statistics()
            let reasons = SimulatedResponse.allCases.filter { statistics[$0] > 0 }.map { "\($0): \(statistics[$0])" }
            #expect(statistics[.success] == count, "\(reasons) \(text)")
        }
    }
}
