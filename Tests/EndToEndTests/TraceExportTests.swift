import Foundation
import Reactor
import Testbed
import Testing

@testable import CausewayLab

/// The worker exports the spans of sampled commands to a collector in Python, which shares no code with the worker. If
/// the collector fails, the worker still sends pushes and still stops in time.
@Suite("Traces on their way to a collector", .serialized, .timeLimit(.minutes(10)))
struct TraceExportTests {
    private static let traceIdentifier = "4bf92f3577b34da6a3ce929d0e0e4736"
    /// The id of the producer's span. The worker's first span is a child of this span.
    private static let producerSpanIdentifier = "00f067aa0ba902b7"
    private static let sampledTraceparent = "00-\(traceIdentifier)-\(producerSpanIdentifier)-01"
    private static let unsampledTraceparent = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00"

    /// The collector refuses the first two requests with 503 and 429, so the worker repeats them. No trace is lost.
    @Test func `A sampled trace becomes spans, and its result names them`() async throws {
        try await onOwnThread {
            let (run, collector) = try Self.makeRun(refusals: [503, 429], samplesPerMillion: 0)
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            let updates = try RideUpdates(run)
            try updates.awaitToken()
            let sampledCommand = try updates.sendOne(headers: [("traceparent", Self.sampledTraceparent)])
            try updates.sendOne(headers: [("traceparent", Self.unsampledTraceparent)])
            try updates.sendOne()
            try receivedHeaders.await { $0.resultHeaders.count == 3 }
            let spans = try collector.awaitSpans(count: 3)
            // The worker exports nothing about unsampled and untraced commands. It exports all sampled spans before it
            // ends, so no further span can come.
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            #expect(try collector.spans().count == 3)

            if spans.allSatisfy({ $0["foreign"] as? Bool != true }) {
                print("not checked by the protocol's own messages: Python's opentelemetry-proto is not installed")
            }
            let spansByName = Dictionary(grouping: spans) { $0["name"] as? String ?? "" }
            let consumeSpan = try #require(spansByName["consume causeway.commands"]?.first)
            let admitSpan = try #require(spansByName["admit"]?.first)
            let sendSpan = try #require(spansByName["send"]?.first)
            let consumeSpanIdentifier = try #require(consumeSpan["spanId"] as? String)
            #expect(consumeSpan["parentSpanId"] as? String == Self.producerSpanIdentifier)
            for child in [admitSpan, sendSpan] { #expect(child["parentSpanId"] as? String == consumeSpanIdentifier) }
            #expect(spans.allSatisfy { $0["traceId"] as? String == Self.traceIdentifier })
            #expect(Set(spans.compactMap { $0["spanId"] as? String }).count == 3)
            #expect(
                receivedHeaders.resultHeaders[sampledCommand] == [
                    "traceparent": "00-\(Self.traceIdentifier)-\(consumeSpanIdentifier)-01"
                ]
            )
            // OpenTelemetry's kinds of spans: 5 is a consumer, 3 is a client.
            #expect(consumeSpan["kind"] as? Int == 5 && sendSpan["kind"] as? Int == 3)
            #expect(Self.attributes(consumeSpan)["causeway.outcome"] == "accepted")
            #expect(Self.attributes(consumeSpan)["causeway.app"] == "com.example.ride")
            #expect(Self.attributes(sendSpan)["http.response.status_code"] == "200")
            for (outer, inner) in [(consumeSpan, admitSpan), (consumeSpan, sendSpan)] {
                #expect(Self.seconds(of: outer, "start") <= Self.seconds(of: inner, "start"))
                #expect(Self.seconds(of: inner, "end") <= Self.seconds(of: outer, "end"))
            }
            #expect(abs(Self.seconds(of: consumeSpan, "end") - Date().timeIntervalSince1970) < 120)
        }
    }

    /// A command to an audience has a span. The spans of the command's admission and of its range are inside this span.
    /// The command's last result names the span of the range.
    @Test func `The ranges of a command are spans inside it`() async throws {
        try await onOwnThread {
            let (run, collector) = try Self.makeRun(apps: ["match"], refusals: [], samplesPerMillion: 0)
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            let example = try MatchExample(run)
            let goalCommand = try #require(try example.files.records("commands.jsonl").first { $0["audience"] != nil })
            try run.send(goalCommand, headers: [("traceparent", Self.sampledTraceparent)])
            let identifier = try #require(goalCommand["id"] as? String)
            try example.awaitTotalResult(of: identifier)
            try receivedHeaders.await { $0.resultHeaders[identifier] != nil }
            let spans = try collector.awaitSpans(count: 3)
            let spansByName = Dictionary(grouping: spans) { $0["name"] as? String ?? "" }
            let consumeSpan = try #require(spansByName["consume causeway.commands"]?.first)
            let admitSpan = try #require(spansByName["admit"]?.first)
            let rangeSpan = try #require(spansByName["consume causeway.fanout"]?.first)
            #expect(consumeSpan["parentSpanId"] as? String == Self.producerSpanIdentifier)
            for child in [admitSpan, rangeSpan] {
                #expect(child["parentSpanId"] as? String == consumeSpan["spanId"] as? String)
            }
            #expect(
                spans.count == 3 && spans.allSatisfy { $0["traceId"] as? String == Self.traceIdentifier }
            )
            #expect(Self.attributes(consumeSpan)["causeway.outcome"] == "fannedOut")
            #expect(Self.attributes(rangeSpan)["causeway.outcome"] == "delivered")
            #expect(Self.attributes(rangeSpan)["causeway.members"] == "3")
            #expect(Self.attributes(rangeSpan)["causeway.app"] == "com.example.match")
            #expect(Self.seconds(of: consumeSpan, "start") <= Self.seconds(of: rangeSpan, "start"))
            let rangeSpanIdentifier = try #require(rangeSpan["spanId"] as? String)
            #expect(
                receivedHeaders.resultHeaders[identifier] == [
                    "traceparent": "00-\(Self.traceIdentifier)-\(rangeSpanIdentifier)-01"
                ]
            )
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            #expect(try collector.spans().count == 3)
        }
    }

    /// APNs responds with 503 to the broadcast until the range has ended, so the broadcast ends last.
    @Test func `A command whose broadcast ends last names its own span in its result`() async throws {
        try await onOwnThread {
            let (run, collector) = try Self.makeRun(
                refusals: [],
                samplesPerMillion: 0,
                configure: ExampleRun.withChannels("ride-*", of: "com.example.ride")
            )
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            // A command waits at most two seconds for its channel. On a slow machine the first command may be sent
            // without a broadcast, so the test sends commands until one is broadcast.
            var number = 0
            try run.await("a broadcast") {
                number += 1
                let identifier = try Self.sendUpdate(number, run)
                return try Self.awaitTotalResult(of: identifier, run)["broadcasts"] != nil
            }
            try run.setFaults(["serviceUnavailableShare": 1])
            let identifier = try Self.sendUpdate(number + 1, run, headers: [("traceparent", Self.sampledTraceparent)])
            let spans = try collector.awaitSpans(count: 3)
            try run.setFaults([:])
            try receivedHeaders.await { $0.totalResultHeaders[identifier] != nil }
            #expect(try Self.awaitTotalResult(of: identifier, run)["broadcasts"] != nil)
            let consumeSpan = try #require(spans.first { $0["name"] as? String == "consume causeway.commands" })
            #expect(spans.contains { $0["name"] as? String == "consume causeway.fanout" })
            let consumeSpanIdentifier = try #require(consumeSpan["spanId"] as? String)
            let expectedTraceparent = "00-\(Self.traceIdentifier)-\(consumeSpanIdentifier)-01"
            #expect(receivedHeaders.totalResultHeaders[identifier] == ["traceparent": expectedTraceparent])
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            #expect(try collector.spans().count == 3)
        }
    }

    /// Sends an update for an audience that has a channel and no members.
    private static func sendUpdate(
        _ number: Int,
        _ run: ExampleRun,
        headers: [(name: StaticString, value: String)] = []
    ) throws -> String {
        let aps: JSONObject = [
            "event": "update", "timestamp": Int(Date().timeIntervalSince1970), "relevance-score": number,
            "content-state": ["status": "underway", "etaMinutes": number] as JSONObject,
        ]
        let identifier = "state-\(number)"
        try run.send(
            [
                "app": "com.example.ride", "audience": "ride-all", "id": identifier, "sequence": number, "aps": aps,
            ],
            headers: headers
        )
        return identifier
    }

    /// Waits for the total result of a command: the one over all its ranges and broadcasts.
    private static func awaitTotalResult(of command: String, _ run: ExampleRun) throws -> JSONObject {
        func findTotalResult() -> JSONObject? { run.results.byCommand[command]?.first { $0["ranges"] != nil } }
        try run.await("the result of \(command)") {
            try run.takeResults(milliseconds: 20)
            return findTotalResult() != nil
        }
        return try #require(findTotalResult())
    }

    @Test func `With a share of one million in a million, each command begins its own trace`() async throws {
        try await onOwnThread {
            let (run, collector) = try Self.makeRun(refusals: [], samplesPerMillion: 1_000_000)
            defer { run.close() }
            let receivedHeaders = try ReceivedHeaders(run)
            defer { receivedHeaders.close() }
            let updates = try RideUpdates(run)
            try updates.awaitToken()
            let commands = try (0..<3).map { _ in try updates.sendOne() }
            try receivedHeaders.await { $0.resultHeaders.count == 3 }
            let rootSpans = try collector.awaitSpans(count: 9).filter { $0["parentSpanId"] == nil }
            #expect(Set(rootSpans.compactMap { $0["traceId"] as? String }).count == 3)
            #expect(rootSpans.allSatisfy { $0["name"] as? String == "consume causeway.commands" })
            let traceparents = commands.compactMap { receivedHeaders.resultHeaders[$0]?["traceparent"] }
            // The flags 03: the trace is sampled, and its id is random.
            let expectedTraceparents = rootSpans.map { "00-\($0["traceId"] ?? "")-\($0["spanId"] ?? "")-03" }
            #expect(Set(traceparents) == Set(expectedTraceparents) && traceparents.count == 3)
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// No collector listens. The worker logs that, continues, and drains in time.
    @Test func `A missing collector stops nothing`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"]) { text, _ in
                text + "tracing: {endpoint: \"http://127.0.0.1:1/base\", samplesPerMillion: 1000000}\n"
            }
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.send(untilLogHas: "traces cannot be exported")
            try updates.send(untilLogHas: "traces were dropped")
            #expect(updates.outcomes.allSatisfy { $0 == "accepted" })
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    /// The collector uses TLS and requires authorization. At first the worker trusts the wrong certificate
    /// authority: it exports nothing, and logs and counts the failure. Then it trusts the right authority.
    @Test func `Traces go over TLS to a collector with a valid certificate`() async throws {
        try await onOwnThread {
            var collector: TraceCollector?
            let run = try ExampleRun(["ride"]) { text, deployment in
                let hosts = ["localhost"]
                let files = try GeneratedCertificate.write(directory: deployment.path("collector-tls"), hosts: hosts)
                let foreignCertificate = try GeneratedCertificate.write(
                    directory: deployment.path("strangers"),
                    hosts: hosts
                )
                try Self.copy(foreignCertificate.caFile, to: deployment.path("authorities.pem"))
                try TextFile.write("Authorization: \(Self.authorizationHeader)\n", to: deployment.path("headers"))
                let newCollector = try TraceCollector(
                    deployment,
                    refusals: [],
                    options: [
                        "--certificate", files.certificateFile, "--key", files.keyFile, "--authorization",
                        Self.authorizationHeader,
                    ]
                )
                collector = newCollector
                return text + """
                    tracing:
                      endpoint: https://localhost:\(newCollector.port)/base
                      caFile: \(deployment.path("authorities.pem"))
                      headersFile: \(deployment.path("headers"))
                      samplesPerMillion: 1000000

                    """
            }
            defer { run.close() }
            let startedCollector = try #require(collector)
            let updates = try RideUpdates(run)
            try updates.send(untilLogHas: "traces cannot be exported")
            let failedScrape = try run.awaitMetrics("a refused certificate") {
                ($0.sum("causeway_trace_posts_failed_total", ["reason": "certificate"]) ?? 0) > 0
            }
            #expect(failedScrape.sum("causeway_traces_exported_total") == 0)
            #expect(try startedCollector.spans().isEmpty)
            #expect(
                try WorkerPage("/statusz", port: run.deployment.httpPort).text
                    .contains("to the collector failed")
            )

            try Self.copy(run.deployment.path("collector-tls/ca.pem"), to: run.deployment.path("authorities.pem"))
            try run.deployment.killAndRestartWorker()
            try updates.sendOne()
            // The restarted worker also reads again what the killed worker had not committed. These commands may cause
            // no push, and their spans may come first. So the test waits for the spans of a push.
            let expectedSpanNames = ["consume causeway.commands", "send"]
            _ = try startedCollector.awaitSpans("the spans of a push") { all in
                expectedSpanNames.allSatisfy { name in all.contains { $0["name"] as? String == name } }
            }
            let exportedScrape = try run.awaitMetrics("exported traces") {
                ($0.sum("causeway_traces_exported_total") ?? 0) > 0
            }
            #expect(exportedScrape.sum("causeway_trace_posts_failed_total") == 0)
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
            let log = try String(contentsOfFile: run.deployment.path("worker.log"), encoding: .utf8)
            #expect(log.contains("its certificate: ") && !log.contains(Self.authorizationHeader))
        }
    }

    /// The collector never responds. After the first signal to stop, the worker waits for the collector. After the
    /// second signal, it ends.
    @Test func `A second signal does not wait for the collector`() async throws {
        try await onOwnThread {
            let (run, collector) = try Self.makeRun(refusals: [0], samplesPerMillion: 1_000_000)
            defer { run.close() }
            let updates = try RideUpdates(run)
            try updates.sendOne()
            _ = try collector.awaitSpans(count: 1)
            let worker = try #require(run.deployment.worker)
            worker.signal(SIGTERM)
            #expect(worker.wait(timeoutMilliseconds: 1_000) == nil, "the worker waits for the collector's response")
            worker.signal(SIGTERM)
            #expect(worker.wait(timeoutMilliseconds: 60_000) == .exited(0))
            // A worker that waits for the request's end would log that the collector did not respond.
            let log = try String(contentsOfFile: run.deployment.path("worker.log"), encoding: .utf8)
            #expect(log.contains("traces were dropped") && !log.contains("traces cannot be exported"), "\(log)")
        }
    }

    private static func copy(_ source: String, to destination: String) throws {
        try TextFile.write(String(decoding: try TextFile.read(source), as: UTF8.self), to: destination)
    }

    private static let authorizationHeader = "Bearer correct-horse-battery-staple"

    private static func makeRun(
        apps: [String] = ["ride"],
        refusals: [Int],
        samplesPerMillion: Int,
        configure: (_ text: String, _ deployment: Deployment) throws -> String = { text, _ in text }
    ) throws -> (ExampleRun, TraceCollector) {
        var collector: TraceCollector?
        let run = try ExampleRun(apps) { text, deployment in
            let newCollector = try TraceCollector(deployment, refusals: refusals)
            collector = newCollector
            return try configure(text, deployment) + """
                tracing:
                  endpoint: http://127.0.0.1:\(newCollector.port)/base
                  samplesPerMillion: \(samplesPerMillion)

                """
        }
        return (run, try #require(collector))
    }

    private static func attributes(_ span: JSONObject) -> [String: String] {
        var attributes: [String: String] = [:]
        for case let attribute as JSONObject in span["attributes"] as? [Any] ?? [] {
            guard let key = attribute["key"] as? String, let value = attribute["value"] as? JSONObject else { continue }
            attributes[key] = value["stringValue"] as? String ?? value["intValue"] as? String
        }
        return attributes
    }

    private static func seconds(of span: JSONObject, _ startOrEnd: String) -> Double {
        (span["\(startOrEnd)TimeUnixNano"] as? String).flatMap(Double.init).map { $0 / 1e9 } ?? .nan
    }
}

/// `Tests/Acceptance/tools/collector/collector.py` as a process of a deployment.
private final class TraceCollector {
    let port: Int
    private let file: String
    private let deployment: Deployment
    private static let script = Repository.path("Tests/Acceptance/tools/collector/collector.py")

    init(_ deployment: Deployment, refusals: [Int], options: [String] = []) throws {
        self.deployment = deployment
        file = deployment.path("spans.jsonl")
        let child = try ChildProcess(
            name: "collector",
            command: ["/usr/bin/env", "python3", "-B", Self.script, file] + refusals.map { "\($0)" } + options,
            logFile: deployment.path("collector.log"),
            output: .pipe
        )
        deployment.processesExceptWorker.append(child)
        port = try #require(Int(try child.readFirstLine(timeoutMilliseconds: Deployment.processWaitMillisecondsMax)))
    }

    func spans() throws -> [JSONObject] {
        // The last line may still be incomplete.
        guard let text = try? String(contentsOfFile: file, encoding: .utf8), let end = text.lastIndex(of: "\n") else {
            return []
        }
        return try text[..<end].split(separator: "\n")
            .map { line in
                let span = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? JSONObject)
                #expect(span["error"] == nil, "\(line)")
                return span
            }
    }

    func awaitSpans(count: Int) throws -> [JSONObject] { try awaitSpans("\(count) spans") { $0.count >= count } }

    func awaitSpans(_ what: String, until isMet: ([JSONObject]) -> Bool) throws -> [JSONObject] {
        var spans: [JSONObject] = []
        try eventually("\(what), there are \(spans.count)") {
            try deployment.throwIfAnyProcessHasEnded()
            spans = try self.spans()
            return isMet(spans)
        }
        return spans
    }
}
