import CausewayConfiguration
import Foundation
import Logging
import Reactor
import Testbed
import Testing

@testable import Observability

@Suite("The export of traces", .timeLimit(.minutes(5)), .ownThread)
struct TraceExporterTests {
    /// The collector never completes its response. The bytes that arrive must not extend the request's time limit.
    @Test func `A collector that responds byte by byte is left in time`() async throws {
        let collector = try DrippingCollector()
        defer { collector.close() }
        let request = CollectorRequest(
            address: try #require(CollectorAddress("http://127.0.0.1:\(collector.port)")),
            timeoutMilliseconds: 3_000,
            cancellationWakeup: try Wakeup()
        )
        let (duration, failure) = await withCheckedContinuation { continuation in
            Thread {
                let began = ContinuousClock.now
                var failure: CollectorRequest.Failure?
                do throws(CollectorRequest.Failure) { _ = try request.post(Array("{}".utf8)) } catch { failure = error }
                continuation.resume(returning: (ContinuousClock.now - began, failure))
            }
            .start()
        }
        #expect(duration >= .milliseconds(2_990) && duration < .seconds(60))
        #expect(collector.sentByteCount > 1)
        #expect(failure?.cause == .late)
    }

    /// Traces that the collector has not accepted when the worker ends are counted as dropped.
    @Test func `Traces left at the end are counted`() async throws {
        let scene = try CollectorScene(responses: [])
        scene.close()
        let exporter = try scene.exporter()
        // More traces than fit into one batch.
        for _ in 0..<700 { scene.rings[0].push(Fixture.trace) }
        for _ in 0..<3 { scene.rings[1].push(Fixture.trace) }
        await exporter.exportRemainingTraces()
        #expect(Self.droppedTraceCount(in: scene.log) == 703)
        #expect(scene.log.lines.first?.metadata["kind"] == "traces-refused")
        #expect(scene.counters.failureCounts[Int(TracePostFailure.unconnected.rawValue)] == 1)
        // After a second signal to stop, the exporter waits for no response.
        scene.rings[1].push(Fixture.trace)
        await exporter.dropRemainingTraces()
        #expect(Self.droppedTraceCount(in: scene.log) == 704)
        await exporter.dropRemainingTraces()
        #expect(Self.droppedTraceCount(in: scene.log) == 704)
        #expect(
            scene.counters.dropCounts[Int(TraceDropReason.stopped.rawValue)] == 704
                && scene.counters.droppedCount == 704
        )
    }

    /// The collector never responds. After a second signal to stop, the exporter does not wait for it.
    @Test func `An exporter that must end at once waits for no response`() async throws {
        let scene = try CollectorScene(responses: [])
        defer { scene.close() }
        let exporter = try scene.exporter()
        scene.rings[0].push(Fixture.trace)
        let run = Task { await exporter.run() }
        try await scene.collector.await(1)
        run.cancel()
        exporter.cancelRequests()
        await run.value
        // A request that begins after the second signal also ends at once.
        scene.rings[0].push(Fixture.trace)
        await exporter.exportRemainingTraces()
        // If the exporter had waited for the response until the time limit, the failure would count as `late`.
        #expect(scene.counters.failureCounts[Int(TracePostFailure.late.rawValue)] == 0)
        #expect(scene.counters.dropCounts[Int(TraceDropReason.stopped.rawValue)] == 2)
        #expect(scene.counters.failureCounts[Int(TracePostFailure.hurried.rawValue)] >= 1)
        #expect(!scene.log.lines.contains { $0.metadata["kind"] == "traces-refused" }, "nobody refused anything")
    }

    /// Each case: a response, the reason of the failure, and the reason why the trace is dropped. `refused` means that
    /// the exporter does not repeat the request. `stopped` means that it repeats the request until it is stopped.
    @Test(arguments: [
        ("HTTP/1.1 503 Busy\r\n\r\n", TracePostFailure.overloaded, TraceDropReason.stopped),
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", .refused, .refused),
        ("HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", .refused, .refused),
        ("220 mail.example ESMTP\r\n", .malformed, .stopped), ("", .lost, .stopped),
    ])
    func `Failures are counted by reason`(response: String, reason: TracePostFailure, drop: TraceDropReason)
        async throws
    {
        // The exporter repeats a request after a response such as 503, so the collector needs a response for
        // each attempt.
        let scene = try CollectorScene(responses: Array(repeating: response, count: TraceExporter.attemptsMax))
        defer { scene.close() }
        try await scene.run(try scene.exporter()) { $0[reason] >= 1 }
        #expect(scene.counters.failureCounts.enumerated().filter { $1 > 0 }.map(\.offset) == [Int(reason.rawValue)])
        #expect(scene.counters.dropCounts.enumerated().filter { $1 > 0 }.map(\.offset) == [Int(drop.rawValue)])
        #expect(scene.counters.exportedCount == 0)
    }

    @Test func `A missing headers file is reported`() async throws {
        let scene = try CollectorScene(hosts: ["127.0.0.1"], responses: [])
        defer { scene.close() }
        try await scene.run(try scene.exporter(caFile: scene.caFile, headersFile: scene.path("gone"))) {
            $0[.headers] >= 1
        }
        let errors = scene.log.lines.compactMap { $0.metadata["error"].map { "\($0)" } }
        #expect(errors.contains { $0.hasSuffix("gone: No such file or directory") }, "\(errors)")
    }

    /// The metrics show all counts. /statusz has a finding about dropped traces and failed requests.
    @Test func `Dropped traces and failed requests are shown`() async throws {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        let totalsBefore = worker.metricRegistry.totals(nowMilliseconds: 0)
        let counters = worker.metricRegistry.traceCounters
        let ring = TraceRing(counters)
        for _ in 0...TraceRing.capacity { ring.push(Fixture.trace) }
        counters.countExportedTraces(7)
        counters.countDroppedTraces(2, .undelivered)
        counters.countFailure(.certificate)
        worker.publish(at: 60_000)
        let findings = worker.report(before: totalsBefore, at: 60_000).findings
        #expect(
            findings.map(\.observation) == ["Traces of 3 records were dropped, and 1 request to the collector failed."]
        )
        #expect(findings.first?.severity == .attention)
        let totalsAfter = worker.metricRegistry.totals(nowMilliseconds: 60_000)
        worker.publish(at: 120_000)
        #expect(worker.report(before: totalsAfter, at: 120_000).findings.map(\.severity) == [.note])
        let text = Exposition(
            totalsAfter,
            labels: worker.metricRegistry.labels,
            condition: worker.metricRegistry.condition.current,
            processReading: ProcessReading()
        )
        .text
        for line in [
            "causeway_traces_exported_total 7", #"causeway_traces_dropped_total{reason="full"} 1"#,
            #"causeway_traces_dropped_total{reason="undelivered"} 2"#,
            #"causeway_traces_dropped_total{reason="stopped"} 0"#,
            #"causeway_trace_posts_failed_total{reason="certificate"} 1"#,
            #"causeway_trace_posts_failed_total{reason="late"} 0"#,
        ] {
            #expect(text.contains("\n\(line)\n"), "\(line)")
        }
    }

    /// Each lane has a ring for its traces. One lane fills several batches.
    @Test func `A ring with many traces does not delay those of other rings`() async throws {
        let scene = try CollectorScene(responses: [])
        defer { scene.close() }
        let (exporter, rings) = (try scene.exporter(), scene.rings)
        for _ in 0..<TraceExporter.tracesPerRequestMax * 3 { rings[0].push(Fixture.trace) }
        rings[1].push(Fixture.trace)
        #expect(await exporter.popNextBatch()?.traces.count == TraceExporter.tracesPerRequestMax)
        #expect(rings[1].pop() != nil, "the first batch had only traces of the first ring")
        rings[1].push(Fixture.trace)
        _ = await exporter.popNextBatch()
        #expect(rings[1].pop() == nil, "the second batch began with the second ring")
    }

    private static func droppedTraceCount(in collector: LogCollector) -> Int {
        collector.lines.filter { $0.metadata["kind"] == "traces-dropped" }
            .reduce(0) { $0 + (Int("\($1.metadata["records"] ?? "0")") ?? 0) }
    }
}

extension Fixture {
    /// A trace whose bytes are all zero, which means: the trace id 0, a start, accepted.
    static var trace: FinishedTrace {
        withUnsafeTemporaryAllocation(
            byteCount: MemoryLayout<FinishedTrace>.size,
            alignment: MemoryLayout<FinishedTrace>.alignment
        ) { bytes in
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
            return bytes.load(as: FinishedTrace.self)
        }
    }
}

/// Accepts a connection and sends a status line, then one byte at a time of a header line that never ends.
private final class DrippingCollector: @unchecked Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let lock = NSLock()
    private var byteCount = 0

    /// The number of bytes that were sent behind the beginning of the header line.
    var sentByteCount: Int { lock.withLock { byteCount } }

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 1) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        try #require(isBound)
        port = UInt16(bigEndian: address.sin_port)
        Thread { [self] in drip() }.start()
    }

    private func drip() {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { return }
        let head = Array("HTTP/1.1 200 OK\r\nx: ".utf8)
        _ = send(connection, head, head.count, Int32(MSG_NOSIGNAL))
        while send(connection, "H", 1, Int32(MSG_NOSIGNAL)) == 1 {
            lock.withLock { byteCount += 1 }
            usleep(50_000)
        }
        Glibc.close(connection)
    }

    func close() { Glibc.close(descriptor) }
}
