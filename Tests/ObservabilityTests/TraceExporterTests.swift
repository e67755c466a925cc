import Foundation
import Logging
import Testing

@testable import CausewayWorker

@Suite("Traces on their way out", .timeLimit(.minutes(1)))
struct TraceExporterTests {
    /// One that gives a byte now and then is never silent for long, and never done.
    @Test func aCollectorThatDripsIsLeftInTime() async throws {
        let collector = try DrippingCollector()
        defer { collector.close() }
        let address = try #require(CollectorAddress("http://127.0.0.1:\(collector.port)"))
        let request = CollectorRequest(address: address, timeoutMilliseconds: 600)
        let (time, failure) = await withCheckedContinuation { continuation in
            Thread {
                let began = ContinuousClock.now
                var failure: CollectorRequest.Failure?
                do throws(CollectorRequest.Failure) { _ = try request.post("{}") } catch { failure = error }
                continuation.resume(returning: (ContinuousClock.now - began, failure))
            }
            .start()
        }
        #expect(time >= .milliseconds(590) && time < .seconds(20))
        #expect(collector.bytesGiven > 1)
        switch failure {
        case .late, .system(_, EAGAIN): break
        default: Issue.record("\(failure.map(String.init(describing:)) ?? "none")")
        }
    }

    /// What nobody took at the end is said to be lost, to the last of it.
    @Test func whatIsLeftAtTheEndIsCounted() async throws {
        let rings = [TraceRing(), TraceRing()]
        let collector = LogCollector()
        let exporter = try Self.exporter(rings, collector)
        // More than one batch.
        for _ in 0..<700 { rings[0].push(Self.trace) }
        for _ in 0..<3 { rings[1].push(Self.trace) }
        await exporter.finish()
        #expect(Self.dropped(collector) == 703)
        #expect(collector.lines.first?.metadata["kind"] == "traces-refused")
        // A worker that is hurried waits for nobody.
        rings[1].push(Self.trace)
        await exporter.giveUp()
        #expect(Self.dropped(collector) == 704)
        await exporter.giveUp()
        #expect(Self.dropped(collector) == 704)
    }

    /// A lane that fills batch after batch leaves room for the others.
    @Test func everyRingHasItsTurn() async throws {
        let rings = [TraceRing(), TraceRing()]
        let exporter = try Self.exporter(rings, LogCollector())
        for _ in 0..<TraceExporter.tracesPerRequest * 3 { rings[0].push(Self.trace) }
        rings[1].push(Self.trace)
        #expect(await exporter.nextBatch()?.count == TraceExporter.tracesPerRequest)
        #expect(rings[1].pop() != nil, "the first batch was the first ring's")
        rings[1].push(Self.trace)
        _ = await exporter.nextBatch()
        #expect(rings[1].pop() == nil, "the second began with the second ring")
    }

    private static func exporter(_ rings: [TraceRing], _ collector: LogCollector) throws -> TraceExporter {
        TraceExporter(
            try #require(CollectorAddress("http://127.0.0.1:1")),
            document: SpanDocument(WorkerConfiguration()),
            rings: rings,
            log: SharedKindLog(logger: collector.logger, events: EventBoard())
        )
    }

    private static func dropped(_ collector: LogCollector) -> Int {
        collector.lines.filter { $0.metadata["kind"] == "traces-dropped" }
            .reduce(0) { $0 + (Int("\($1.metadata["records"] ?? "0")") ?? 0) }
    }

    /// All of it zero: a context of no trace, an update that was accepted.
    private static var trace: FinishedTrace {
        withUnsafeTemporaryAllocation(
            byteCount: MemoryLayout<FinishedTrace>.size,
            alignment: MemoryLayout<FinishedTrace>.alignment
        ) { bytes in
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
            return bytes.load(as: FinishedTrace.self)
        }
    }
}

/// Takes a connection, and answers it a byte at a time, without ever ending a line.
private final class DrippingCollector: @unchecked Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let given = NSLock()
    private var count = 0

    var bytesGiven: Int { given.withLock { count } }

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
        while send(connection, "H", 1, Int32(MSG_NOSIGNAL)) == 1 {
            given.withLock { count += 1 }
            usleep(50_000)
        }
        Glibc.close(connection)
    }

    func close() { Glibc.close(descriptor) }
}
