import Dispatch
import Logging
import Synchronization

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
    /// From the beginning of one request to its answer.
    static let requestMilliseconds = 5_000
    /// How much later than its own limit a request is given up from outside.
    private static let graceMilliseconds = 200
    /// The last look, when the worker has stopped, begins no request after so long.
    static let finishMilliseconds = 2_000

    private let address: CollectorAddress
    private let document: SpanDocument
    private let rings: [TraceRing]
    private let log: SharedKindLog
    /// Requests wait on its thread.
    private let queue = DispatchQueue(label: "causeway.traces")
    /// A batch that has not been taken yet.
    private var waiting: (body: String, count: Int, attempts: Int)?
    /// The next batch begins at this one, so that a busy lane does not crowd out the others.
    private var firstRing = 0
    private var isTroubled = false
    private var lost: UInt64 = 0
    private var lostSaid: UInt64 = 0

    init(_ address: CollectorAddress, document: SpanDocument, rings: [TraceRing], log: SharedKindLog) {
        self.address = address
        self.document = document
        self.rings = rings
        self.log = log
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

    /// Sends what is left, once the lanes have ended, and says what could not be.
    func finish() async {
        let deadline = ContinuousClock.now + .milliseconds(Self.finishMilliseconds)
        while await look(timeoutMilliseconds: Self.finishMilliseconds, until: deadline) {}
        giveUp()
    }

    /// What nobody takes any more is lost, and counted as such. Also for a worker that ends without waiting for anything.
    func giveUp() {
        lost += UInt64(waiting?.count ?? 0)
        waiting = nil
        for ring in rings {
            while ring.pop() != nil { lost += 1 }
        }
        sayLosses()
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
            if isTroubled { log(.tracesTaken) }
            isTroubled = false
            return true
        }
        if !isTroubled {
            log(
                .tracesRefused,
                ["endpoint": "\(address.host):\(address.port)\(address.path)", "error": "\(refusal.reason)"]
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
            let once = OneAnswer(continuation)
            queue.async {
                // One that was given up while it waited for its turn is offered anew: it must not be sent as well.
                guard once.isAwaited else { return }
                once.give(Result { () throws(CollectorRequest.Failure) in try request.post(body) })
            }
            // A name's look-up has no limit of ours: the thread may be left waiting for it, the worker is not.
            DispatchQueue.global()
                .asyncAfter(deadline: .now() + .milliseconds(timeoutMilliseconds + Self.graceMilliseconds)) {
                    once.give(.failure(.late))
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
        log(.tracesDropped, ["records": "\(total - lostSaid)"])
        lostSaid = total
    }
}

/// The first answer counts.
private final class OneAnswer: Sendable {
    typealias Answer = Result<Int, CollectorRequest.Failure>

    private let continuation: Mutex<CheckedContinuation<Answer, Never>?>

    init(_ continuation: CheckedContinuation<Answer, Never>) { self.continuation = Mutex(continuation) }

    var isAwaited: Bool { continuation.withLock { $0 != nil } }

    func give(_ answer: Answer) {
        let waiting = continuation.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
        waiting?.resume(returning: answer)
    }
}
