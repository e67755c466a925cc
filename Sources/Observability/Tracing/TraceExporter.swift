import CausewayConfiguration
import Dispatch
import Logging
import Reactor

/// Where a worker's traces go.
package struct TraceCollector: Sendable {
    var address: CollectorAddress
    /// Of an address with `https`; nil for one without.
    var tls: TLSContext?
    /// See ``CollectorHeaders``.
    var headersFile: String?

    package init(address: CollectorAddress, tls: TLSContext?, headersFile: String?) {
        self.address = address
        self.tls = tls
        self.headersFile = headersFile
    }
}

/// Sends what the lanes' rings hold to a collector: OTLP over HTTP in JSON, `POST <endpoint>/v1/traces`.
///
/// HTTP by streams of our own: FoundationNetworking's session can end the process when a collector is not there.
/// A batch that the collector cannot take now is offered again, `attemptsMax` times in all; meanwhile the rings fill and the lanes drop.
/// Nothing of the worker waits for this or fails by it.
package actor TraceExporter {
    /// Between two looks at the rings.
    static let interval = Duration.seconds(1)
    /// Records in one request; each comes to three spans at most.
    static let tracesPerRequest = 512
    /// Requests of one look, so that it ends.
    static let requestsPerLook = 64
    static let attemptsMax = 5
    /// From the beginning of one request to its answer.
    static let requestMilliseconds = 5_000
    /// The last look, when the worker has stopped, begins no request after so long.
    static let finishMilliseconds = 2_000

    private let collector: TraceCollector
    private let document: SpanDocument
    private let rings: [TraceRing]
    private let board: TraceBoard
    private let log: SharedKindLog
    private let interruption: Wakeup
    /// Requests wait on its thread.
    private let queue = DispatchQueue(label: "causeway.traces")
    /// A batch that has not been taken yet.
    private var waiting: (body: String, count: Int, attempts: Int)?
    /// The next batch begins at this one, so that a busy lane does not crowd out the others.
    private var firstRing = 0
    private var isTroubled = false
    private var dropsSaid: UInt64 = 0

    package init(
        _ collector: TraceCollector,
        document: SpanDocument,
        rings: [TraceRing],
        board: TraceBoard,
        log: SharedKindLog
    ) throws(SystemError) {
        self.collector = collector
        self.document = document
        self.rings = rings
        self.board = board
        self.log = log
        interruption = try Wakeup()
    }

    /// Ends the request that is under way, and every later one at once: nobody waits for them any longer.
    package nonisolated func hurry() { interruption.signal() }

    /// Looks until its task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.interval)
            guard !Task.isCancelled else { return }
            await look(
                timeoutMilliseconds: Self.requestMilliseconds,
                until: .now + Self.interval * Self.requestsPerLook
            )
        }
    }

    /// Sends what is left, once the lanes have ended, and says what could not be.
    package func finish() async {
        let deadline = ContinuousClock.now + .milliseconds(Self.finishMilliseconds)
        while await look(timeoutMilliseconds: Self.finishMilliseconds, until: deadline) {}
        giveUp()
    }

    /// What nobody takes any more is lost, and counted as such. Also for a worker that ends without waiting for anything.
    package func giveUp() {
        var records = waiting?.count ?? 0
        waiting = nil
        for ring in rings {
            while ring.pop() != nil { records += 1 }
        }
        board.noteDropped(records, .stopped)
        sayDrops()
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
        sayDrops()
        return hasSent
    }

    func nextBatch() -> (body: String, count: Int, attempts: Int)? {
        var traces: [FinishedTrace] = []
        for number in rings.indices {
            let ring = rings[(firstRing + number) % rings.count]
            while traces.count < Self.tracesPerRequest, let trace = ring.pop() { traces.append(trace) }
        }
        firstRing = (firstRing + 1) % max(1, rings.count)
        return traces.isEmpty ? nil : (document.json(traces), traces.count, 0)
    }

    /// - Returns: whether the batch that waits is out of the way, taken or given up.
    private func offer(timeoutMilliseconds: Int) async -> Bool {
        guard var batch = waiting else { return true }
        batch.attempts += 1
        let refusal = await post(batch.body, timeoutMilliseconds: timeoutMilliseconds)
        guard let refusal else {
            waiting = nil
            board.noteExported(batch.count)
            if isTroubled { log(.tracesTaken) }
            isTroubled = false
            return true
        }
        board.note(refusal.cause)
        if !isTroubled, refusal.cause != .hurried {
            log(.tracesRefused, ["endpoint": "\(collector.address.url)", "error": "\(refusal)"])
            isTroubled = true
        }
        let isPassing = refusal.cause != .refused
        let isGivenUp = !isPassing || batch.attempts >= Self.attemptsMax
        if isGivenUp { board.noteDropped(batch.count, isPassing ? .undelivered : .refused) }
        waiting = isGivenUp ? nil : batch
        return !isPassing
    }

    /// - Returns: nil if the collector took it, else why not. Which statuses may pass is the protocol's (OTLP specification, "OTLP/HTTP
    ///   Response").
    private func post(_ body: String, timeoutMilliseconds: Int) async -> CollectorRequest.Failure? {
        let request = CollectorRequest(
            address: collector.address,
            tls: collector.tls,
            headersFile: collector.headersFile,
            timeoutMilliseconds: timeoutMilliseconds,
            interruption: interruption
        )
        let answer = await withCheckedContinuation { continuation in
            queue.async {
                continuation.resume(
                    returning: Result { () throws(CollectorRequest.Failure) in try request.post(body) }
                )
            }
        }
        switch answer {
        case .success(200..<300): return nil
        case .success(let status):
            let mayPass = [429, 502, 503, 504].contains(status)
            return .init(cause: mayPass ? .overloaded : .refused, description: "status \(status)")
        case .failure(let failure): return failure
        }
    }

    /// At most once a look, and only if there were any.
    private func sayDrops() {
        let total = board.dropped
        guard total > dropsSaid, !isTroubled || waiting == nil else { return }
        log(.tracesDropped, ["records": "\(total - dropsSaid)"])
        dropsSaid = total
    }
}
