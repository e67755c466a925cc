import CausewayConfiguration
import Dispatch
import Logging
import Reactor

/// The collector to which a worker's traces are sent.
package struct TraceCollector: Sendable {
    var address: CollectorAddress
    /// Set if the address has `https`, else nil.
    var tls: TLSContext?
    /// The path of the file with the headers; see ``CollectorHeaders``.
    var headersFile: String?

    package init(address: CollectorAddress, tls: TLSContext?, headersFile: String?) {
        self.address = address
        self.tls = tls
        self.headersFile = headersFile
    }
}

/// Sends the traces in the lanes' rings to a collector: OTLP over HTTP in JSON, `POST <endpoint>/v1/traces`. No failure
/// of the exporter affects the worker. Only the worker's end waits for the exporter, at most a few seconds.
///
/// A batch that the collector cannot take now is sent again, up to `attemptsMax` attempts in all. Meanwhile the rings
/// fill, and a lane whose ring is full drops its traces. Requests use this project's `HTTPClient`, because
/// FoundationNetworking's session can end the process when a collector is unreachable.
package actor TraceExporter {
    /// The time between two polls of the rings.
    static let pollInterval = Duration.seconds(1)
    /// The maximum number of finished traces in one request. Each trace has at most three spans.
    static let tracesPerRequestMax = 512
    /// The maximum number of requests in one poll, so that a poll ends even if lanes fill their rings faster than
    /// requests empty them.
    static let requestsPerPollMax = 64
    static let attemptsMax = 5
    static let requestTimeoutMilliseconds = 5_000
    /// After the lanes have ended, requests for the remaining traces begin only during this time, and each may take as
    /// long. It is short, because the worker's end waits for these requests.
    static let remainingTracesTimeoutMilliseconds = 2_000

    private let collector: TraceCollector
    private let encoder: SpanEncoder
    private let rings: [TraceRing]
    private let counters: TraceCounters
    private let log: SharedLimitedLog
    private let cancellationWakeup: Wakeup
    /// The requests run on this queue, because they block their thread.
    private let requestQueue = DispatchQueue(label: "causeway.traces")
    /// The batch that the collector has not taken yet, and how often it was sent.
    private var waitingBatch: (traces: [FinishedTrace], attemptCount: Int)?
    /// The index of the first ring that the next batch takes traces from. Each batch begins with another ring, so that
    /// a busy lane does not crowd out the others.
    private var firstRingIndex = 0
    /// Whether a failed request was logged, and the collector has taken no batch since then.
    private var isFailing = false
    private var loggedDropCount: UInt64 = 0

    package init(
        _ collector: TraceCollector,
        encoder: SpanEncoder,
        rings: [TraceRing],
        counters: TraceCounters,
        log: SharedLimitedLog
    ) throws(SystemError) {
        self.collector = collector
        self.encoder = encoder
        self.rings = rings
        self.counters = counters
        self.log = log
        cancellationWakeup = try Wakeup()
    }

    /// Ends the request in progress and all later ones at once, because the worker no longer waits for a response.
    package nonisolated func cancelRequests() { cancellationWakeup.signal() }

    /// Exports traces until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.pollInterval)
            guard !Task.isCancelled else { return }
            await exportWaitingBatches(
                timeoutMilliseconds: Self.requestTimeoutMilliseconds,
                until: .now + Self.pollInterval * Self.requestsPerPollMax
            )
        }
    }

    /// Sends the remaining traces after the lanes have ended, and logs those that could not be sent.
    package func exportRemainingTraces() async {
        let deadline = ContinuousClock.now + .milliseconds(Self.remainingTracesTimeoutMilliseconds)
        while await exportWaitingBatches(
            timeoutMilliseconds: Self.remainingTracesTimeoutMilliseconds,
            until: deadline
        ) {}
        dropRemainingTraces()
    }

    /// Drops and counts the remaining traces. After a second stop signal the worker calls this instead of
    /// ``exportRemainingTraces()``.
    package func dropRemainingTraces() {
        var traceCount = waitingBatch?.traces.count ?? 0
        waitingBatch = nil
        for ring in rings {
            while ring.pop() != nil { traceCount += 1 }
        }
        counters.countDroppedTraces(traceCount, .stopped)
        logDrops()
    }

    /// Sends batches until the rings are empty or the collector cannot take a batch now. Ends earlier at the deadline,
    /// when the task is cancelled, or after ``requestsPerPollMax`` requests.
    ///
    /// - Returns: whether another call may send more: the collector took at least one batch, or refused one for good.
    @discardableResult
    private func exportWaitingBatches(timeoutMilliseconds: Int, until deadline: ContinuousClock.Instant) async -> Bool {
        var hasFinishedBatch = false
        for _ in 0..<Self.requestsPerPollMax {
            if waitingBatch == nil { waitingBatch = popNextBatch() }
            guard waitingBatch != nil, !Task.isCancelled, ContinuousClock.now < deadline,
                await sendWaitingBatch(timeoutMilliseconds: timeoutMilliseconds)
            else { break }
            hasFinishedBatch = true
        }
        logDrops()
        return hasFinishedBatch
    }

    func popNextBatch() -> (traces: [FinishedTrace], attemptCount: Int)? {
        var traces: [FinishedTrace] = []
        for offset in rings.indices {
            let ring = rings[(firstRingIndex + offset) % rings.count]
            while traces.count < Self.tracesPerRequestMax, let trace = ring.pop() { traces.append(trace) }
        }
        firstRingIndex = (firstRingIndex + 1) % max(1, rings.count)
        return traces.isEmpty ? nil : (traces, 0)
    }

    /// Sends the waiting batch once.
    ///
    /// - Returns: whether the next batch may be sent now, because the collector took this one or refused it for good.
    private func sendWaitingBatch(timeoutMilliseconds: Int) async -> Bool {
        guard var batch = waitingBatch else { return true }
        batch.attemptCount += 1
        let failure = await post(batch.traces, timeoutMilliseconds: timeoutMilliseconds)
        guard let failure else {
            waitingBatch = nil
            counters.countExportedTraces(batch.traces.count)
            if isFailing { log(.tracesAccepted) }
            isFailing = false
            return true
        }
        counters.countFailure(failure.cause)
        if !isFailing, failure.cause != .hurried {
            log(.tracesRefused, ["endpoint": "\(collector.address.url)", "error": "\(failure)"])
            isFailing = true
        }
        let mayRetry = failure.cause != .refused
        let isGivenUp = !mayRetry || batch.attemptCount >= Self.attemptsMax
        if isGivenUp { counters.countDroppedTraces(batch.traces.count, mayRetry ? .undelivered : .refused) }
        waitingBatch = isGivenUp ? nil : batch
        return !mayRetry
    }

    /// Sends the traces to the collector. Returns why the collector did not take them; nil if it did. The OTLP
    /// specification ("OTLP/HTTP Response") says which statuses allow a retry.
    private func post(_ traces: [FinishedTrace], timeoutMilliseconds: Int) async -> CollectorRequest.Failure? {
        let request = CollectorRequest(
            address: collector.address,
            tls: collector.tls,
            headersFile: collector.headersFile,
            timeoutMilliseconds: timeoutMilliseconds,
            cancellationWakeup: cancellationWakeup
        )
        let statusOrFailure = await withCheckedContinuation { continuation in
            requestQueue.async { [encoder] in
                continuation.resume(
                    returning: Result { () throws(CollectorRequest.Failure) in
                        try request.post(try Self.encode(traces, encoder))
                    }
                )
            }
        }
        switch statusOrFailure {
        case .success(200..<300): return nil
        case .success(let status):
            let isTransient = [429, 502, 503, 504].contains(status)
            return .init(cause: isTransient ? .overloaded : .refused, description: "status \(status)")
        case .failure(let failure): return failure
        }
    }

    private static func encode(
        _ traces: [FinishedTrace],
        _ encoder: SpanEncoder
    ) throws(CollectorRequest.Failure) -> [UInt8] {
        do {
            return try encoder.json(traces)
        } catch {
            throw .init(cause: .refused, description: "traces that cannot be encoded: \(error)")
        }
    }

    /// Logs how many traces were dropped since the last such log line, at most once in a poll. Logs nothing while a
    /// batch waits to be sent again.
    private func logDrops() {
        let total = counters.droppedCount
        guard total > loggedDropCount, !isFailing || waitingBatch == nil else { return }
        log(.tracesDropped, ["records": "\(total - loggedDropCount)"])
        loggedDropCount = total
    }
}
