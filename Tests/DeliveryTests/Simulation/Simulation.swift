import ActivityStore
import Delivery
import LiveActivity
import Numbers
import Testbed

/// One or two workers in one thread and virtual time: real cores, and models of Kafka, Redis and the phones.
final class Simulation {
    /// After the last fault, the run must finish its work within this virtual time. Otherwise the run has failed.
    static let faultFreeMillisecondsMax: Int64 = 900_000
    static let pool = PoolTarget(appIndex: 0, environment: .production)

    let seed: UInt64
    var random: SplitMix64
    let parameters: SimulationParameters
    var now: Int64 = 1_790_000_000_000
    let faultsEndMilliseconds: Int64
    var log: SimulatedLog
    static let app = "com.example.match"
    var store: StoreModel
    var workers: [SimulatedWorker?] = []
    var partitionOwners: [SimulatedLog.Partition: Int] = [:]
    var phones: [String: SimulatedPhone] = [:]
    /// The activity that each update token reaches.
    var activitiesByToken: [String: String] = [:]
    /// The device that each push-to-start token reaches.
    var devicesByStartToken: [String: String] = [:]
    var scheduledEvents: [(atMilliseconds: Int64, action: () -> Void)] = []
    /// The command that each activity must show at the end of the run.
    var finalCommands: [String: (version: Version, content: Int, isEnd: Bool)] = [:]
    /// The ids of all commands that are starts.
    var startCommands: Set<String> = []
    /// The id of each activity's last start, for activities that may be started several times.
    var lastStarts: [String: String] = [:]
    var results: [String: [Outcome]] = [:]
    /// The version of each command.
    var versions: [String: Version] = [:]
    /// All verdicts of Redis that have reached a worker in this run. Each must occur in a run of ``SimulationTests``.
    private(set) var verdicts: Set<StoreVerdict> = []
    /// The number of records written to the commands topic for each command.
    var recordCounts: [String: Int] = [:]
    /// The text of each command's first record, without a token.
    var recordTexts: [String: String] = [:]
    /// The offsets whose result, deferral or fan-out is in Kafka, by partition. Only they may be committed.
    var acknowledgedOffsets: [SimulatedLog.Partition: Set<Int64>] = [:]
    var violations: [String] = []
    var wasRedisWiped = false
    var redisOutageEndMilliseconds = Int64.min
    var apnsOutageEndMilliseconds = Int64.min
    var lastTokenNumber = 0
    /// Called with each step, to find out why a seed failed.
    var trace: ((String) -> Void)?
    var lastRegistrationAtMilliseconds: Int64 = 0
    /// When the phone got each update token.
    var tokenReceivedAtMilliseconds: [String: Int64] = [:]
    /// When a tombstone last removed each token. A token that is registered again has no entry.
    var tokenUnregisteredAtMilliseconds: [String: Int64] = [:]
    /// The tokens whose invalidation is in Kafka.
    var invalidatedTokens: Set<String> = []
    /// For each activity, the last token that Redis has retired.
    var retiredTokens: [String: String] = [:]
    /// Activities whose token a tombstone removed, until the app registers again.
    var activitiesWithoutToken: Set<String> = []
    /// Activities with a push that APNs refused for good.
    var activitiesRefusedForGood: Set<String> = []
    /// The sequences of the commands with an alert, by activity.
    var alertSequences: [String: [Int]] = [:]
    /// By activity: how many seconds old each of its commands is when its record is written.
    var agesSeconds: [String: Int64] = [:]
    /// Activities of which Redis knows a version: a verdict was `send`, `noToken` or `wait`.
    var knownActivities: Set<String> = []
    /// Activities whose app allows frequent updates.
    var activitiesWithFrequentUpdates: Set<String> = []
    var pace = PaceHistory()
    /// When each activity's eight hours begin: when Redis first permitted its start, or else first got its token.
    var lifeBeganAtMilliseconds: [String: Int64] = [:]
    var activitiesWithPermittedStart: Set<String> = []
    /// Activities with an update that Redis refused, because the activity was older than eight hours.
    var activitiesWithOldUpdate: Set<String> = []
    var counting = SimulatedCounting()
    let commitParameters: CommitParameters
    /// How often a record's first result was written, by partition and offset.
    var firstResultCounts: [SimulatedLog.Partition: [Int64: Int]] = [:]
    var poolOutage = SimulatedPoolOutage()
    /// Activities with a command that was deferred at least once.
    var deferredActivities: Set<String> = []
    var audiences = SimulatedAudiences()
    var losses = SimulatedLosses()
    private var workerCount = 0

    /// - Parameter supersededResults: if nil, the seed chooses it, with separate random numbers (``CommitParameters``).
    init(
        seed: UInt64,
        kind: SimulationParameters.Kind = .plain,
        supersededResults: SupersededResultMode? = nil,
        commits: CommitParameters? = nil
    ) {
        self.seed = seed
        self.commitParameters = commits ?? CommitParameters(seed: seed, kind: kind)
        random = SplitMix64(simulationSeed: seed)
        var parameters = SimulationParameters(&random, kind: kind)
        var separateRandom = SplitMix64(simulationSeed: ~seed)
        parameters.supersededResults = supersededResults ?? SupersededResultMode.allCases[separateRandom.number(0...2)]
        self.parameters = parameters
        log = SimulatedLog(partitionCount: parameters.partitionCount, topicCount: parameters.deferrals == nil ? 2 : 3)
        store = StoreModel(nowMilliseconds: now)
        store.heldStartsMax = parameters.heldStartsMax
        let commandPeriodMilliseconds =
            parameters.hasLongLives ? Self.longLifeMilliseconds : parameters.commandPeriodMillisecondsMax
        faultsEndMilliseconds = now + commandPeriodMilliseconds + 4_000
        for _ in 0..<parameters.workerCount { workers.append(makeWorker()) }
        for partition in log.allPartitions {
            partitionOwners[partition] = random.number(0...parameters.workerCount - 1)
        }
        for (partition, owner) in partitionOwners.sorted(by: { $0.key < $1.key }) { assign(partition, to: owner) }
        makeScenario()
    }

    func makeWorker() -> SimulatedWorker {
        workerCount += 1
        let clockSkewMilliseconds = chooseClockSkewMilliseconds()
        return SimulatedWorker(
            number: workerCount,
            parameters: parameters,
            seed: random.next(),
            clockSkewMilliseconds: clockSkewMilliseconds,
            nowMilliseconds: now
        )
    }

    // MARK: - Running

    /// - Returns: the violated invariants; empty for a good run.
    func run() -> [String] {
        var nextFaultAtMilliseconds = now
        let endMilliseconds = faultsEndMilliseconds + Self.faultFreeMillisecondsMax
        while now < endMilliseconds {
            step()
            if now >= nextFaultAtMilliseconds, now < faultsEndMilliseconds {
                injectFaults()
                nextFaultAtMilliseconds = now + 100
            }
            if now >= faultsEndMilliseconds, isFinished { break }
            advance(nextFaultAtMilliseconds: nextFaultAtMilliseconds)
        }
        if !isFinished { violations.append("work is left after \(Self.faultFreeMillisecondsMax) ms") }
        check()
        return violations
    }

    private func advance(nextFaultAtMilliseconds: Int64) {
        var due = Int64.max
        if now < faultsEndMilliseconds { due = min(nextFaultAtMilliseconds, faultsEndMilliseconds) }
        // In runs with long lives, hours may pass between two events. So the clock jumps over idle time.
        if parameters.hasLongLives, workers.allSatisfy({ $0?.isIdle ?? true }), !hasUnreadRecords {
            now = max(now + 1, scheduledEvents.map(\.atMilliseconds).min() ?? faultsEndMilliseconds)
            store.nowMilliseconds = now
            return
        }
        for event in scheduledEvents { due = min(due, event.atMilliseconds) }
        for end in [redisOutageEndMilliseconds, apnsOutageEndMilliseconds] where end > now { due = min(due, end) }
        for worker in workers { due = min(due, worker?.nextDueMilliseconds ?? .max) }
        if hasUnreadRecords { due = min(due, now + 1) }
        due = min(due, nextDeferralDueMilliseconds)
        now = max(now + 1, min(due, now + 10_000))
        store.nowMilliseconds = now
    }

    private var isFinished: Bool {
        scheduledEvents.isEmpty && !hasUnreadRecords && nextDeferralDueMilliseconds == .max
            && workers.allSatisfy { $0?.isIdle ?? true }
    }

    private func step() {
        let due = scheduledEvents.filter { $0.atMilliseconds <= now }
        scheduledEvents.removeAll { $0.atMilliseconds <= now }
        for event in due.sorted(by: { $0.atMilliseconds < $1.atMilliseconds }) { event.action() }
        connectPoolsAfterOutage()
        for case let worker? in workers {
            feedRecords(worker)
            reportLag(of: worker)
            deliverReplies(worker)
            deliverResponses(worker)
            deliverReports(worker)
            worker.delivery.endBatch(now: worker.moment(now))
            worker.delivery.advance(now: worker.moment(now))
            readDeferredEarly(worker)
            performActions(of: worker)
            simulateAudiences(worker)
            commitIfDue(worker)
            checkOldestUnsettled(worker)
        }
    }

    private func feedRecords(_ worker: SimulatedWorker) {
        let takenRecordsMax = random.number(1...20)
        for partition in worker.positions.keys.sorted() {
            var takenCount = 0
            while takenCount < takenRecordsMax, worker.delivery.canReceive, let position = worker.positions[partition],
                let records = log.records[partition], log.hasRecord(partition, at: position.nextOffset, now: now),
                worker.delivery.hasRoom(for: position.nextOffset, partition: position.indexInCore)
            {
                let record = records[Int(position.nextOffset)]
                receive(record, at: position, by: worker)
                noteDealtRecord(position.nextOffset, of: partition, to: worker)
                worker.positions[partition]?.nextOffset += 1
                takenCount += 1
            }
        }
    }

    private func reportLag(of worker: SimulatedWorker) {
        for (partition, position) in worker.positions where partition.holdsCommands && position.nextOffset != .max {
            let recordCount = Int64(log.records[partition]?.count ?? 0) - position.nextOffset
            worker.delivery.noteLag(position.indexInCore, recordCount: recordCount, now: worker.moment(now))
        }
    }

    private func receive(
        _ record: SimulatedLog.Record,
        at position: SimulatedWorker.Position,
        by worker: SimulatedWorker
    ) {
        record.key.withUnsafeBytes { key in
            (record.value ?? [])
                .withUnsafeBytes { value in
                    let incomingRecord = IncomingRecord(
                        partitionIndex: position.indexInCore,
                        offset: position.nextOffset,
                        timestampMilliseconds: record.timestampMilliseconds,
                        key: key,
                        value: record.value == nil ? nil : value,
                        trace: counting.trace(of: position.nextOffset)
                    )
                    if let (deferral, _) = record.deferral {
                        worker.delivery.receive(incomingRecord, deferred: deferral, now: worker.moment(now))
                    } else {
                        worker.delivery.receive(incomingRecord, now: worker.moment(now))
                    }
                }
        }
    }

    private func performActions(of worker: SimulatedWorker) {
        let moment = worker.moment(now)
        while now >= redisOutageEndMilliseconds,
            let call = worker.delivery.withNextStoreCall(now: moment, { $0.map { Array($0) } })
        {
            worker.delivery.removeNextStoreCall()
            let earliestMilliseconds = worker.storeCalls.last?.dueMilliseconds ?? now
            let due = max(earliestMilliseconds, now + Int64(random.number(0...parameters.latencyMillisecondsMax)))
            worker.storeCalls.append((due, call))
        }
        if now < apnsOutageEndMilliseconds || isPoolAway {
            // APNs is away, so no stream is free and no push leaves.
        } else if let connections = parameters.connections {
            performPushes(worker, connections)
        } else {
            while worker.pushes.count < parameters.streamsMax,
                let record = worker.delivery.takeNextPush(Self.pool, now: moment)
            {
                let due = now + Int64(random.number(0...parameters.latencyMillisecondsMax))
                worker.pushes.append(.init(dueMilliseconds: due, record: record, fate: chooseFate()))
                noteSentPush(worker.delivery.view(record), by: worker)
            }
        }
        while let outgoingRecord = worker.delivery.nextOutgoingRecord(now: moment) {
            worker.delivery.removeNextOutgoingRecord(outgoingRecord)
            let isFailing = now < faultsEndMilliseconds && random.chance(parameters.produceFailurePerMille)
            let due = now + Int64(random.number(0...parameters.latencyMillisecondsMax))
            worker.outgoingRecords.append((due, outgoingRecord, !isFailing, !isFailing || random.chance(500)))
        }
    }

    // MARK: - Replies

    private func deliverReplies(_ worker: SimulatedWorker) {
        while let first = worker.storeCalls.first, first.dueMilliseconds <= now {
            if now < redisOutageEndMilliseconds { return loseConnection(of: worker) }
            if now < faultsEndMilliseconds, random.chance(parameters.redisLossPerMille) {
                return loseConnection(of: worker)
            }
            worker.storeCalls.removeFirst()
            let reply = perform(first.call, worker)
            noteReply(to: first.call, reply, worker)
            reply.withBorrowedBytes {
                worker.delivery.handleStoreReply(tag: first.call.tag, $0, now: worker.moment(now))
            }
        }
    }

    /// Performs a call in the store's model, even if its reply is then lost.
    @discardableResult func perform(_ call: StoreCall<[UInt8]>, _ worker: SimulatedWorker) -> StoreReply<[UInt8]> {
        let view = worker.delivery.view(call.ticket.record)
        let reply = call.withBorrowedBytes { store.perform($0) }
        checkUnregisteredTokens(call, view, reply)
        checkRetiredTokens(call, view, reply)
        noteVerdict(call, view, reply)
        return reply
    }

    /// All calls in flight fail for the worker. Redis has performed only the first ones; chance decides how many.
    func loseConnection(of worker: SimulatedWorker) {
        let lostCalls = worker.storeCalls
        worker.storeCalls.removeAll()
        let performedCount = random.number(0...lostCalls.count)
        for entry in lostCalls.prefix(performedCount) { perform(entry.call, worker) }
        for entry in lostCalls {
            var failure = StoreFailure.retriableAtOnce
            if random.chance(300) { failure = random.chance(500) ? .serverRefusesMostCalls : .retriableAfterPause }
            worker.delivery.handleStoreFailure(tag: entry.call.tag, failure, now: worker.moment(now))
        }
    }

    private func deliverResponses(_ worker: SimulatedWorker) {
        let due = worker.pushes.filter { $0.dueMilliseconds <= now }
        worker.pushes.removeAll { $0.dueMilliseconds <= now }
        for push in due { respond(to: push, worker) }
    }

    private func respond(to push: SimulatedWorker.Push, _ worker: SimulatedWorker) {
        switch push.fate {
        case .processed:
            let response = deliverPush(worker.delivery.view(push.record))
            respond(to: push, worker, response.disposition, response.status, invalidAt: response.invalidAt)
        case .refused(let status): respond(to: push, worker, status == 429 ? .throttled : .retryLater, status)
        case .lostBeforeProcessing: respond(to: push, worker, .ambiguous, 0)
        case .lostAfterProcessing:
            _ = deliverPush(worker.delivery.view(push.record))
            respond(to: push, worker, .ambiguous, 0)
        case .refusedStream: respond(to: push, worker, .retrySoon, 0)
        case .providerTokenRefused: respond(to: push, worker, random.chance(500) ? .retrySoon : .retryLater, 403)
        case .everyTokenRefused: respond(to: push, worker, .tokenSuspect, 400, isTokenRefusalTrusted: false)
        case .unknownReason: respond(to: push, worker, .rejected, 400)
        }
    }

    func respond(
        to push: SimulatedWorker.Push,
        _ worker: SimulatedWorker,
        _ disposition: PushResult.Disposition,
        _ status: UInt16,
        invalidAt: Int64? = nil,
        isTokenRefusalTrusted: Bool = true
    ) {
        noteResponse(push, disposition, worker)
        let moment = worker.moment(now)
        let view = worker.delivery.view(push.record)
        trace?("\(now % 1_000_000) \(identifier(view)) \(disposition)")
        // Only a rejected push fails for good. After a 410 the command waits for the next token.
        if disposition == .rejected {
            activitiesRefusedForGood.insert(String(decoding: view.activity, as: UTF8.self))
        }
        worker.delivery.handlePushResponse(
            push.record,
            PushResult(
                disposition: disposition,
                status: status,
                reason: UnsafeRawBufferPointer(start: nil, count: 0),
                invalidAtWallMilliseconds: invalidAt,
                sentAtWallMilliseconds: moment.wallMilliseconds,
                responseAtWallMilliseconds: moment.wallMilliseconds,
                connectionNumber: push.connection,
                isTokenRefusalTrusted: isTokenRefusalTrusted
            ),
            now: moment
        )
    }

    private func deliverReports(_ worker: SimulatedWorker) {
        let due = worker.outgoingRecords.filter { $0.dueMilliseconds <= now }
        worker.outgoingRecords.removeAll { $0.dueMilliseconds <= now }
        for entry in due {
            if entry.isAppended {
                noteAppendedRecord(entry.outgoingRecord.kind, worker.delivery.view(entry.outgoingRecord.record))
            }
            let report: OutgoingRecord.KafkaReport = entry.isAcknowledged ? .acknowledged : .failed
            worker.delivery.handleDeliveryReport(entry.outgoingRecord, report, now: worker.moment(now))
        }
    }

    private func noteReply(to call: StoreCall<[UInt8]>, _ reply: StoreReply<[UInt8]>, _ worker: SimulatedWorker) {
        verdicts.insert(reply.verdict)
        guard let trace else { return }
        let view = worker.delivery.view(call.ticket.record)
        trace("\(now % 1_000_000) \(identifier(view)) \(call.operation) \(reply.verdict) \(reply.timestamp)")
    }

    func identifier(_ view: RecordView) -> String { String(decoding: view.commandIdentifier, as: UTF8.self) }

    func noteResult(_ view: RecordView) {
        let identifier = identifier(view)
        trace?("\(now % 1_000_000) \(identifier) result \(view.outcome.name)")
        results[identifier, default: []].append(view.outcome)
        let (partition, offset) = (SimulatedLog.Partition(of: view), view.sourceOffset)
        acknowledgedOffsets[partition, default: []].insert(offset)
        if view.earlierResultCount == 0 { firstResultCounts[partition, default: [:]][offset, default: 0] += 1 }
        counting.countResult(view)
    }
}
