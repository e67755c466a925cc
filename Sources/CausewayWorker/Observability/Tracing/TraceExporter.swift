import Dispatch
import Logging

/// Sends what the lanes' rings hold to a collector: OTLP over HTTP in JSON, `POST <endpoint>/v1/traces`.
///
/// HTTP by sockets of our own: FoundationNetworking's session can end the process when a collector is not there.
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
    static let requestMilliseconds = 5_000
    /// The last look, when the worker has stopped, begins no request after so long.
    static let finishMilliseconds = 2_000

    private let address: CollectorAddress
    private let document: SpanDocument
    private let rings: [TraceRing]
    private let logger: Logger
    /// Requests wait on its thread.
    private let queue = DispatchQueue(label: "causeway.traces")
    /// A batch that has not been taken yet.
    private var waiting: (body: String, count: Int, attempts: Int)?
    private var isTroubled = false
    private var lost: UInt64 = 0
    private var lostSaid: UInt64 = 0

    init(_ address: CollectorAddress, document: SpanDocument, rings: [TraceRing], logger: Logger) {
        self.address = address
        self.document = document
        self.rings = rings
        self.logger = logger
    }

    /// Looks until its task is cancelled.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.interval)
            guard !Task.isCancelled else { return }
            await look(
                timeoutMilliseconds: Self.requestMilliseconds,
                until: .now + Self.interval * Self.requestsPerLook
            )
        }
    }

    /// Sends what is left, once the lanes have ended.
    func finish() async {
        let deadline = ContinuousClock.now + .milliseconds(Self.finishMilliseconds)
        while await look(timeoutMilliseconds: Self.finishMilliseconds, until: deadline) {}
    }

    /// - Returns: whether something was sent.
    @discardableResult
    private func look(timeoutMilliseconds: Int, until deadline: ContinuousClock.Instant) async -> Bool {
        var hasSent = false
        for _ in 0..<Self.requestsPerLook {
            if waiting == nil { waiting = nextBatch() }
            guard waiting != nil, !Task.isCancelled, ContinuousClock.now < deadline,
                await offer(timeoutMilliseconds: timeoutMilliseconds)
            else { break }
            hasSent = true
        }
        sayLosses()
        return hasSent
    }

    private func nextBatch() -> (body: String, count: Int, attempts: Int)? {
        var traces: [FinishedTrace] = []
        for ring in rings {
            while traces.count < Self.tracesPerRequest, let trace = ring.pop() { traces.append(trace) }
        }
        return traces.isEmpty ? nil : (document.json(traces), traces.count, 0)
    }

    /// - Returns: whether the batch that waits is out of the way, taken or given up.
    private func offer(timeoutMilliseconds: Int) async -> Bool {
        guard var batch = waiting else { return true }
        batch.attempts += 1
        let refusal = await post(batch.body, timeoutMilliseconds: timeoutMilliseconds)
        guard let refusal else {
            waiting = nil
            if isTroubled { logger.notice("traces are exported again") }
            isTroubled = false
            return true
        }
        if !isTroubled {
            logger.warning(
                "traces cannot be exported: they are offered again for a while, then dropped",
                metadata: ["endpoint": "\(address.host):\(address.port)\(address.path)", "error": "\(refusal.reason)"]
            )
        }
        isTroubled = true
        let isGivenUp = !refusal.isPassing || batch.attempts >= Self.attemptsMax
        if isGivenUp { lost += UInt64(batch.count) }
        waiting = isGivenUp ? nil : batch
        return !refusal.isPassing
    }

    /// - Returns: nil if the collector took it, else why not, and whether that may pass (OTLP specification, "OTLP/HTTP Response").
    private func post(_ body: String, timeoutMilliseconds: Int) async -> (reason: String, isPassing: Bool)? {
        let request = CollectorRequest(address: address, timeoutMilliseconds: timeoutMilliseconds)
        let answer = await withCheckedContinuation { continuation in
            queue.async {
                continuation.resume(
                    returning: Result { () throws(CollectorRequest.Failure) in try request.post(body) }
                )
            }
        }
        switch answer {
        case .success(200..<300): return nil
        case .success(let status): return ("status \(status)", [429, 502, 503, 504].contains(status))
        case .failure(let failure): return (failure.description, true)
        }
    }

    /// At most once a look, and only if there were any.
    private func sayLosses() {
        let total = rings.reduce(lost) { $0 + $1.dropped }
        guard total > lostSaid, !isTroubled || waiting == nil else { return }
        logger.warning("traces were dropped", metadata: ["records": "\(total - lostSaid)"])
        lostSaid = total
    }
}
