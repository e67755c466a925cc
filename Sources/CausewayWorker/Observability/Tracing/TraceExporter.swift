import Foundation
import FoundationNetworking
import Logging

/// Sends what the lanes' rings hold to a collector: OTLP over HTTP in JSON, `POST <endpoint>/v1/traces`.
///
/// A batch that the collector cannot take now is offered again, `attemptsMax` times in all; meanwhile the rings fill and the lanes drop.
/// Nothing of the worker waits for this or fails by it.
actor TraceExporter {
    /// Between two looks at the rings.
    static let interval = Duration.seconds(1)
    /// Records in one request; each comes to three spans at most.
    static let tracesPerRequest = 512
    /// Requests of one look, so that it ends.
    static let requestsPerLook = 64
    static let attemptsMax = 5
    static let requestSeconds = 5.0
    /// The last look, when the worker has stopped, may take so long.
    static let finishSeconds = 2.0

    private let url: URL
    private let document: SpanDocument
    private let rings: [TraceRing]
    private let logger: Logger
    private let session: URLSession
    /// A batch that has not been taken yet.
    private var waiting: (body: Data, count: Int, attempts: Int)?
    private var isTroubled = false
    private var lost: UInt64 = 0
    private var lostSaid: UInt64 = 0

    /// Nil if `endpoint` is no URL.
    init?(endpoint: String, document: SpanDocument, rings: [TraceRing], logger: Logger) {
        guard let base = URL(string: endpoint) else { return nil }
        url = base.appendingPathComponent("v1").appendingPathComponent("traces")
        self.document = document
        self.rings = rings
        self.logger = logger
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = Self.requestSeconds
        session = URLSession(configuration: configuration)
    }

    /// Looks until its task is cancelled.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.interval)
            await look(timeoutSeconds: Self.requestSeconds)
        }
    }

    /// Sends what is left, once the lanes have ended.
    func finish() async {
        let deadline = ContinuousClock.now + .seconds(Self.finishSeconds)
        while ContinuousClock.now < deadline, await look(timeoutSeconds: Self.finishSeconds) {}
        session.invalidateAndCancel()
    }

    /// - Returns: whether something was sent.
    @discardableResult
    private func look(timeoutSeconds: Double) async -> Bool {
        var hasSent = false
        for _ in 0..<Self.requestsPerLook {
            if waiting == nil { waiting = nextBatch() }
            guard waiting != nil, await offer(timeoutSeconds: timeoutSeconds) else { break }
            hasSent = true
        }
        sayLosses()
        return hasSent
    }

    private func nextBatch() -> (body: Data, count: Int, attempts: Int)? {
        var traces: [FinishedTrace] = []
        for ring in rings {
            while traces.count < Self.tracesPerRequest, let trace = ring.pop() { traces.append(trace) }
        }
        return traces.isEmpty ? nil : (Data(document.json(traces).utf8), traces.count, 0)
    }

    /// - Returns: whether the batch that waits is out of the way, taken or given up.
    private func offer(timeoutSeconds: Double) async -> Bool {
        guard var batch = waiting else { return true }
        batch.attempts += 1
        let refusal: (reason: String, isPassing: Bool)?
        do {
            refusal = try await post(batch.body, timeoutSeconds: timeoutSeconds)
        } catch {
            refusal = ("\(error.localizedDescription)", true)
        }
        guard let refusal else {
            waiting = nil
            if isTroubled { logger.notice("traces are exported again") }
            isTroubled = false
            return true
        }
        if !isTroubled {
            logger.warning(
                "traces cannot be exported: they are offered again for a while, then dropped",
                metadata: ["endpoint": "\(url.absoluteString)", "error": "\(refusal.reason)"]
            )
        }
        isTroubled = true
        let isGivenUp = !refusal.isPassing || batch.attempts >= Self.attemptsMax
        if isGivenUp { lost += UInt64(batch.count) }
        waiting = isGivenUp ? nil : batch
        return !refusal.isPassing
    }

    /// - Returns: nil if the collector took it, else why not, and whether that may pass (OTLP specification, "OTLP/HTTP Response").
    private func post(_ body: Data, timeoutSeconds: Double) async throws -> (reason: String, isPassing: Bool)? {
        var request = URLRequest(url: url, timeoutInterval: timeoutSeconds)
        request.httpMethod = "POST"
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.httpBody = body
        let (_, response) = try await session.data(for: request)
        guard let status = (response as? HTTPURLResponse)?.statusCode else { return ("no HTTP answer", true) }
        if (200..<300).contains(status) { return nil }
        return ("status \(status)", [429, 502, 503, 504].contains(status))
    }

    /// At most once a look, and only if there were any.
    private func sayLosses() {
        let total = rings.reduce(lost) { $0 + $1.dropped }
        guard total > lostSaid, !isTroubled || waiting == nil else { return }
        logger.warning("traces were dropped", metadata: ["records": "\(total - lostSaid)"])
        lostSaid = total
    }
}
