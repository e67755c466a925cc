import ActivityStore
import Delivery
import LiveActivity
import Testing

/// One core. The test replaces Kafka, Redis, APNs and the clocks, so nothing happens unless the test makes it
/// happen.
///
/// The harness takes store calls and outgoing records from the core at once. It takes a push only when the test
/// offers a stream. Expectations name commands as ``CommandText`` does: `u1` is the update of second 1.
final class CoreHarness {
    /// The wall clock at the start of each test, in seconds since 1970.
    static let startSeconds: Int64 = 1_790_000_000
    static let startMonotonicMilliseconds: Int64 = 5_000_000
    static let token = "00112233445566778899aabbccddeeff"

    var delivery: Delivery
    private(set) var now = Moment(
        monotonicMilliseconds: startMonotonicMilliseconds,
        wallMilliseconds: startSeconds * 1_000
    )
    let configuration: DeliveryConfiguration
    /// The core's indices of partition 0 of three topics. The deferred topic is assigned when a test first needs it.
    private(set) var commandsPartition: UInt32 = .max
    private(set) var registrationsPartition: UInt32 = .max
    private(set) lazy var deferredPartition = assign(.deferred)
    var nextOffsets: [UInt32: Int64] = [:]

    /// Calls without a reply, oldest first.
    private(set) var calls: [StoreCall<[UInt8]>] = []
    /// Pushes without a response, oldest first.
    private(set) var pushes: [RecordIndex] = []
    /// When each record's last push was sent, by the wall clock in milliseconds.
    private var sentAtWallMilliseconds: [RecordIndex: Int64] = [:]
    /// Outgoing records without a delivery report, oldest first.
    private(set) var outgoingRecords: [OutgoingRecord] = []
    /// All results, dead letters, invalidations and deferred commands so far.
    private(set) var results: [SeenResult] = []
    private(set) var deadLetters: [SeenDeadLetter] = []
    private(set) var invalidations: [SeenInvalidation] = []
    private(set) var deferrals: [SeenDeferral] = []
    /// The superseded commands that have a trace but no result, because the result of a newer command counts them.
    private(set) var endedTraces: [String] = []
    /// All settlements (`isSettlement`) so far, except reports to the timetable of lifetimes. An entry is `u1
    /// accepted`, for example, or `u1 throttled` after a 429.
    private(set) var settlements: [String] = []
    /// An entry for each settled outcome of an activity's command: the version whose alert APNs accepted, or nil if it
    /// accepted none.
    private(set) var settledAlertVersions: [Version?] = []

    init(
        apps: [String] = [CommandText.app],
        hasSandboxPool: Bool = true,
        seed: UInt64 = 7,
        _ change: (inout DeliveryConfiguration) -> Void = { _ in }
    ) {
        var configuration = DeliveryConfiguration(
            apps: apps.map {
                .init(bundleId: Array($0.utf8), hasProductionPool: true, hasSandboxPool: hasSandboxPool)
            },
            seed: seed
        )
        configuration.recordsMax = 1_024
        configuration.ledgerSpanOffsetCount = 4_096
        // Most tests defer no command. A test about deferring sets shorter times.
        configuration.reloadable.deferAfterMilliseconds = 1 << 40
        configuration.reloadable.deferredDelayMilliseconds = 1 << 40
        change(&configuration)
        self.configuration = configuration
        delivery = Delivery(configuration: configuration, now: now)
        commandsPartition = assign(.commands)
        registrationsPartition = assign(.registrations)
    }

    /// Assigns partition 0 of the commands and of the registrations again, from the beginning. Redis has lost its data.
    /// Records below the offset, or named in the metadata, were settled before.
    func reread(below offset: Int64, metadata: [UInt8] = []) {
        for partitionIndex in [commandsPartition, registrationsPartition] {
            delivery.release(partition: partitionIndex, now: now)
        }
        (commandsPartition, registrationsPartition) = (assign(.commands), assign(.registrations))
        for partitionIndex in [commandsPartition, registrationsPartition] {
            metadata.withUnsafeBytes { delivery.noteRereadRecords(partitionIndex, below: offset, metadata: $0) }
        }
    }

    func assign(_ topic: RecordTopic, number: Int32 = 0) -> UInt32 {
        guard let partitionIndex = delivery.assign(topic: topic, number: number) else {
            preconditionFailure("no index is left")
        }
        nextOffsets[partitionIndex] = 0
        return partitionIndex
    }

    // MARK: - Kafka

    /// Gives the core Kafka's report on the oldest outgoing record of a kind.
    func report(_ report: OutgoingRecord.KafkaReport, on kind: OutgoingRecord.Kind) {
        guard let position = outgoingRecords.firstIndex(where: { $0.kind == kind }) else {
            Issue.record("nothing of the kind is in the producer")
            return
        }
        delivery.handleDeliveryReport(outgoingRecords.remove(at: position), report, now: now)
        collectActions()
    }

    func acknowledgeOutgoingRecords() {
        while let outgoingRecord = outgoingRecords.first {
            outgoingRecords.removeFirst()
            delivery.handleDeliveryReport(outgoingRecord, .acknowledged, now: now)
            collectActions()
        }
    }

    func acknowledgeSettlements() {
        while calls.contains(where: \.isSettlement) { acknowledgeSettlement() }
    }

    /// Replies to the oldest settlement. `departures` are the audiences that the activity or device left and that
    /// perhaps do not know this yet.
    func acknowledgeSettlement(departures: [UInt8]? = nil) {
        guard let position = calls.firstIndex(where: \.isSettlement) else {
            Issue.record("no settlement waits")
            return
        }
        var reply = StoreReply<[UInt8]>(.settled)
        reply.departures = departures
        let tag = calls.remove(at: position).tag
        reply.withBorrowedBytes { delivery.handleStoreReply(tag: tag, $0, now: now) }
        collectActions()
    }

    func acknowledgeAll() {
        acknowledgeOutgoingRecords()
        acknowledgeSettlements()
    }

    // MARK: - Redis

    /// Replies to the oldest call that is no settlement; with `toNewest`, to the newest one.
    ///
    /// - Parameters:
    ///   - timestamp: the timestamp for the push; nil: the command's own.
    ///   - draw: the identifier of a start's draw.
    func reply(
        _ verdict: StoreVerdict,
        timestamp: Int64? = nil,
        waitMilliseconds: Int64 = 0,
        draw: Int64 = 0,
        token: String = token,
        environment: APNsEnvironment = .production,
        registeredAtMilliseconds: Int64 = startSeconds * 1_000,
        held: String = "",
        priority: UInt8 = 0,
        isDemoted: Bool = false,
        budgetLeft: Int = -1,
        departures: [UInt8]? = nil,
        isUnshownDuplicate: Bool = false,
        toNewest: Bool = false
    ) {
        let needsReply = { (call: StoreCall<[UInt8]>) in !call.isSettlement }
        let position = toNewest ? calls.lastIndex(where: needsReply) : calls.firstIndex(where: needsReply)
        guard let position else {
            Issue.record("no call waits for a reply")
            return
        }
        let call = calls.remove(at: position)
        var reply = StoreReply<[UInt8]>(verdict)
        reply.timestamp = timestamp ?? delivery.view(call.ticket.record).version.timestamp
        reply.waitMilliseconds = waitMilliseconds
        reply.drawIdentifier = draw
        reply.registration = TokenRegistration(
            token: Array(token.utf8),
            environment: environment,
            registeredAtMilliseconds: registeredAtMilliseconds
        )
        if !held.isEmpty { reply.heldCommand = Array(held.utf8) }
        reply.registeredAtMilliseconds = registeredAtMilliseconds
        reply.priority = priority
        reply.isDemoted = isDemoted
        reply.budgetLeft = budgetLeft
        reply.departures = departures
        reply.isUnshownDuplicate = isUnshownDuplicate
        reply.withBorrowedBytes { delivery.handleStoreReply(tag: call.tag, $0, now: now) }
        collectActions()
    }

    /// Loses the connection to Redis: no call in progress gets a reply. If `isBusy` is set, the calls instead
    /// fail because Redis is busy.
    func loseRedis(isBusy: Bool = false) {
        let lostCalls = calls
        calls.removeAll()
        for call in lostCalls {
            delivery.handleStoreFailure(tag: call.tag, isBusy ? .serverRefusesMostCalls : .retriableAtOnce, now: now)
        }
        collectActions()
    }

    /// Lets the oldest call fail with an error of Redis whose cause is unknown.
    func failOldestCallForUnknownReason() {
        guard let call = calls.first else {
            Issue.record("no call waits for a reply")
            return
        }
        calls.removeFirst()
        delivery.handleStoreFailure(tag: call.tag, .retriableAfterPause, now: now)
        collectActions()
    }

    /// Lets the oldest call fail for an error that is proven to be its own, so the core must not repeat it. (R23)
    func refuseOldestCall(_ reason: String) {
        guard let call = calls.first else {
            Issue.record("no call waits for a reply")
            return
        }
        calls.removeFirst()
        Array(reason.utf8)
            .withUnsafeBytes { delivery.handleStoreFailure(tag: call.tag, .refused, reason: $0, now: now) }
        collectActions()
    }

    // MARK: - APNs

    /// Offers one free stream, which the core's next push takes. Returns nil if the core sends no push.
    @discardableResult
    func push(
        appIndex: UInt16 = 0,
        environment: APNsEnvironment = .production,
        permitsStarts: Bool = true
    ) -> SeenPush? {
        let pool = PoolTarget(appIndex: appIndex, environment: environment)
        let record = delivery.takeNextPush(pool, permitsStarts: permitsStarts, now: now)
        collectActions()
        guard let record else { return nil }
        pushes.append(record)
        sentAtWallMilliseconds[record] = now.wallMilliseconds
        return SeenPush(delivery.view(record), record: record)
    }

    /// Tells the core that its last push found no stream.
    func returnPush() {
        guard let record = pushes.popLast() else {
            Issue.record("no push was offered")
            return
        }
        delivery.putBackPush(record)
    }

    /// Responds to the oldest push.
    func respond(
        _ disposition: PushResult.Disposition,
        status: UInt16 = 0,
        reason: String = "",
        invalidAt: Int64? = nil,
        connection: UInt32? = nil,
        isTokenRefusalTrusted: Bool = true
    ) {
        guard let record = pushes.first else {
            Issue.record("no push waits for a response")
            return
        }
        pushes.removeFirst()
        Array(reason.utf8)
            .withUnsafeBytes { reason in
                delivery.handlePushResponse(
                    record,
                    PushResult(
                        disposition: disposition,
                        status: status,
                        reason: reason,
                        invalidAtWallMilliseconds: invalidAt,
                        sentAtWallMilliseconds: disposition == .retrySoon ? nil : sentAtWallMilliseconds[record],
                        responseAtWallMilliseconds: now.wallMilliseconds,
                        connectionNumber: connection,
                        isTokenRefusalTrusted: isTokenRefusalTrusted
                    ),
                    now: now
                )
            }
        collectActions()
    }

    /// Lets Redis admit the oldest command that waits for Redis, offers a stream, and responds to the oldest push.
    func admitAndRespond(_ disposition: PushResult.Disposition = .accepted) {
        reply(.send)
        push()
        respond(disposition)
    }

    // MARK: - Time and partitions

    func noteLag(_ recordCount: Int64, of partitionIndex: UInt32? = nil, isGuess: Bool = false) {
        delivery.noteLag(partitionIndex ?? commandsPartition, recordCount: recordCount, isGuess: isGuess, now: now)
        collectActions()
    }

    func elapse(_ milliseconds: Int64) {
        elapseWithoutTakingActions(milliseconds)
        collectActions()
    }

    /// Lets the default spacing pass, and the delay of its timer. The first back-off of a retry is shorter.
    func elapseSpacing() { elapse(1_010) }

    /// Lets time pass. Unlike ``elapse(_:)``, takes no store calls and outgoing records from the core.
    func elapseWithoutTakingActions(_ milliseconds: Int64) {
        now.monotonicMilliseconds += milliseconds
        now.wallMilliseconds += milliseconds
        delivery.advance(now: now)
    }

    func beginRevoking(_ partitionIndex: UInt32) {
        delivery.beginRevoking(partitionIndex, now: now)
        collectActions()
    }

    func release(_ partitionIndex: UInt32) {
        delivery.release(partition: partitionIndex, now: now)
        collectActions()
    }

    /// Takes all store calls and outgoing records that the core has ready.
    func collectActions() {
        while let call = delivery.withNextStoreCall(now: now, { $0.map { Array($0) } }) {
            delivery.removeNextStoreCall()
            calls.append(call)
            let view = delivery.view(call.ticket.record)
            switch call.operation {
            case .settle(_, let settlement, _, _, let alert):
                settlements.append("\(view.name) \(settlement)")
                settledAlertVersions.append(alert)
            case .settleStart(_, let settlement, _): settlements.append("\(view.name) \(settlement) (device)")
            case .throttle: settlements.append("\(view.name) throttled")
            case .retire: settlements.append("\(view.name) retires")
            case .confirmDepartures(let milliseconds): settlements.append("\(view.name) left at \(milliseconds)")
            case .recordStart: settlements.append("\(view.name) recorded")
            case .refundStart: settlements.append("\(view.name) refunded")
            default: break
            }
        }
        while let outgoingRecord = delivery.nextOutgoingRecord(now: now) {
            delivery.removeNextOutgoingRecord(outgoingRecord)
            outgoingRecords.append(outgoingRecord)
            let view = delivery.view(outgoingRecord.record)
            switch outgoingRecord.kind {
            case .result: results.append(SeenResult(view))
            case .deadLetter:
                deadLetters.append(SeenDeadLetter(view, source: delivery.sourceText(of: outgoingRecord.record)))
            case .invalidation: invalidations.append(SeenInvalidation(view))
            case .deferral: deferrals.append(SeenDeferral(view))
            case .traceOnly: endedTraces.append(view.name)
            }
        }
    }
}
