import CausewayConfiguration
import Foundation
import Logging
import Reactor
import Testbed
import Testing

@testable import Observability

@Suite("A collector behind TLS", .timeLimit(.minutes(5)), .ownThread)
struct SecureCollectorTests {
    private static let acceptedResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    /// The name localhost may have two addresses, and the collector listens only at the first. For each request the
    /// exporter reads the file of headers again.
    @Test func `A collector over TLS gets the traces, with headers from a file`() async throws {
        let scene = try CollectorScene(hosts: ["localhost"], responses: [Self.acceptedResponse, Self.acceptedResponse])
        defer { scene.close() }
        let file = scene.path("headers")
        try "# whose it is\nAuthorization: Bearer first-secret\r\nX-Tenant: causeway\n"
            .write(toFile: file, atomically: true, encoding: .utf8)
        let exporter = try scene.exporter(host: "localhost", caFile: scene.caFile, headersFile: file)
        try await scene.run(exporter) { _ in scene.counters.exportedCount == 1 }
        try "Authorization: Bearer second-secret".write(toFile: file, atomically: true, encoding: .utf8)
        try await scene.run(exporter) { _ in scene.counters.exportedCount == 2 }
        let requests = scene.collector.requests
        try #require(requests.count == 2)
        #expect(requests[0].hasPrefix("POST /v1/traces HTTP/1.1\r\nHost: localhost:\(scene.collector.port)\r\n"))
        let headers = "\r\nAuthorization: Bearer first-secret\r\nX-Tenant: causeway\r\nContent-Length: "
        #expect(requests[0].contains(headers))
        #expect(requests[1].contains("\r\nAuthorization: Bearer second-secret\r\n"))
        #expect(scene.counters.exportedCount == 2 && scene.counters.droppedCount == 0)
        #expect(scene.log.lines.isEmpty)
    }

    /// The certificate is from another authority, or for another name. The exporter sends nothing, and logs and counts
    /// the refusal.
    @Test(arguments: [true, false]) func `A wrong certificate is refused`(isOfAnotherAuthority: Bool) async throws {
        let host = isOfAnotherAuthority ? "localhost" : "collector.example"
        let scene = try CollectorScene(hosts: [host], responses: [Self.acceptedResponse])
        defer { scene.close() }
        let otherCertificate = try GeneratedCertificate.write(directory: scene.path("others"), hosts: ["localhost"])
        let file = scene.path("headers")
        try "Authorization: Bearer secret".write(toFile: file, atomically: true, encoding: .utf8)
        let exporter = try scene.exporter(
            host: "localhost",
            caFile: isOfAnotherAuthority ? otherCertificate.caFile : scene.caFile,
            headersFile: file
        )
        try await scene.run(exporter) { $0[.certificate] >= 1 }
        #expect(scene.collector.requests.isEmpty)
        #expect(scene.counters.failureCounts.reduce(0, +) == scene.counters[.certificate])
        #expect(scene.counters.dropCounts[Int(TraceDropReason.stopped.rawValue)] == 1)
        let refusalLine = try #require(scene.log.lines.first { $0.metadata["kind"] == "traces-refused" })
        #expect("\(refusalLine.metadata["error"] ?? "")".hasPrefix("its certificate: "), "\(refusalLine)")
        #expect(
            "\(refusalLine.metadata["endpoint"] ?? "")" == "https://localhost:\(scene.collector.port)/v1/traces",
            "\(refusalLine)"
        )
        #expect(scene.log.lines.allSatisfy { !"\($0)".contains("Bearer") })
    }

    @Test func `Without an authority file, the system's authorities are used`() async throws {
        let scene = try CollectorScene(hosts: ["localhost"], responses: [Self.acceptedResponse])
        defer { scene.close() }
        let exporter = try scene.exporter(host: "localhost", caFile: nil, headersFile: nil)
        try await scene.run(exporter) { $0[.certificate] >= 1 }
        #expect(scene.collector.requests.isEmpty)
    }

    /// A file with a line that is no allowed header is refused as a whole, so none of its headers is sent. An error
    /// about one line names the line's number, but not its text.
    @Test(arguments: [
        ("secret-without-colon", "line 1 is not a header of the form Name: value"),
        ("a: b\n: secret", "line 2 is not a header of the form Name: value"),
        ("a b: secret", "line 1 has an invalid header name"),
        ("a: secret\u{7F}", "line 1 has an invalid header value"),
        ("a: s\u{e9}cret", "line 1 has an invalid header value"),
        ("Content-Length: 1", "line 1 is a header that the worker sets itself"),
        ("host: secret", "line 1 is a header that the worker sets itself"),
        (String(repeating: "a: secret\n", count: 17), "holds more than 16 headers"),
        (String(repeating: "a", count: 8_193), "is longer than 8192 bytes"), ("", "has no text"),
    ])
    func `A wrong headers file is refused`(text: String, fault: String) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(text, to: "headers").path
        #expect(throws: SecretFileError.self) { try CollectorHeaders.readLines(path: file) }
        do { _ = try CollectorHeaders.readLines(path: file) } catch {
            #expect(error.description == "\(file): \(fault)")
        }
    }
}

extension TraceCounters {
    subscript(_ failure: TracePostFailure) -> UInt64 { failureCounts[Int(failure.rawValue)] }
}

/// A collector and an exporter, with their log and counters.
final class CollectorScene {
    let collector: TestCollector
    let counters = TraceCounters()
    let rings: [TraceRing]
    let log = LogCollector()
    /// The file of the certificate authority; nil without TLS.
    private(set) var caFile: String?
    private let directory: TemporaryDirectory

    /// - Parameter hosts: the names in the collector's certificate; empty for a collector without TLS.
    init(hosts: [String] = [], responses: [String]) throws {
        directory = try TemporaryDirectory()
        rings = [TraceRing(counters), TraceRing(counters)]
        guard !hosts.isEmpty else {
            collector = try TestCollector(responses: responses)
            return
        }
        let files = try GeneratedCertificate.write(directory: directory.path("tls"), hosts: hosts)
        caFile = files.caFile
        let tls = try TLSContext.server(
            certificateFile: files.certificateFile,
            keyFile: files.keyFile,
            applicationProtocols: []
        )
        collector = try TestCollector(tls: tls, responses: responses)
    }

    func path(_ name: String) -> String { directory.path(name) }

    func exporter(host: String = "127.0.0.1", caFile: String? = nil, headersFile: String? = nil) throws -> TraceExporter
    {
        let isSecure = self.caFile != nil
        let url = "\(isSecure ? "https" : "http")://\(host):\(collector.port)"
        return try TraceExporter(
            TraceCollector(
                address: try #require(CollectorAddress(url)),
                tls: isSecure ? try TLSContext.client(caFile: caFile, applicationProtocols: []) : nil,
                headersFile: headersFile
            ),
            encoder: SpanEncoder(WorkerConfiguration()),
            rings: rings,
            counters: counters,
            log: SharedLimitedLog(logger: log.logger, events: RecentEvents())
        )
    }

    /// Gives the exporter one trace, and runs it until the counters meet the condition. Drops the remaining traces.
    func run(_ exporter: TraceExporter, until isMet: (TraceCounters) -> Bool) async throws {
        rings[0].push(Fixture.trace)
        let run = Task { await exporter.run() }
        // The counters send no event when they change, so the test polls them.
        try? await eventuallyInTask("the counters") { isMet(counters) }
        run.cancel()
        await run.value
        await exporter.dropRemainingTraces()
        try #require(isMet(counters), "\(counters.failureCounts) \(counters.dropCounts)")
    }

    func close() {
        collector.close()
    }
}
