import LiveActivity

/// Names one set of credits of an app: those of its production pool, those of its sandbox pool, or those for activities
/// of unknown environment. An admission or a command's token names the environment; until then
/// ``PoolTable/poolKey(of:_:)`` chooses the credits.
struct PoolKey: Equatable, BitwiseCopyable {
    enum Kind: UInt8, CaseIterable {
        case production, sandbox
        /// The environment of the activity is not known yet. Credits of this kind are given only while the app's
        /// production pool is blocked (``PoolTable/poolKey(of:_:)``).
        case unknownEnvironment
    }

    var appIndex: UInt16
    var kind: Kind

    init(appIndex: UInt16, kind: Kind) { (self.appIndex, self.kind) = (appIndex, kind) }

    init(_ pool: PoolTarget) { self.init(appIndex: pool.appIndex, kind: Kind(pool.environment)) }

    var tableIndex: Int { Int(appIndex) * Kind.allCases.count + Int(kind.rawValue) }
}

extension PoolKey.Kind {
    init(_ environment: APNsEnvironment) { self = environment == .production ? .production : .sandbox }
}

/// Knows for each pool how many credits are taken, which activities wait for a credit, which pushes wait for a stream,
/// and whether the pool is blocked. The pools are fixed at start. One core owns the table. (R22)
final class PoolTable {
    /// A blocked pool gives a credit only while fewer than this many are in use. (More may be in use when the block
    /// begins.) The responses to these few pushes show when the pool works again. All other commands wait before their
    /// admission, so they draw on no budget.
    static let creditsWhileBlockedMax = 64
    /// How soon the retry of an update or end must be due to count as soon (``isStateRetriedSoon(_:now:)``). A start
    /// that must not be a probe waits for this retry, usually less than the ten seconds after which the start would be
    /// deferred.
    private static let soonMillisecondsMax: Int64 = 5_000
    /// For how long a retry that is due still counts as soon: Redis must first admit the update or end again.
    private static let admissionMillisecondsMax: Int64 = 1_000

    /// One pool's queues, taken credits and rate of responses.
    private struct PoolRow: ~Copyable {
        var readyPushes: IndexQueue<RecordIndex>
        var activitiesAwaitingCredit: IndexQueue<ActivityIndex>
        /// The number of credits in use. An activity takes a credit before its command is admitted, and returns it when
        /// it enters a phase without one (`ActivityPhase.hasCredit`).
        var takenCreditCount = 0
        var throughput = PoolThroughput()
        /// The monotonic time of the earliest known retry of an update or end; `.min`: none is known. The update or end
        /// may have its outcome already.
        var stateRetryDueMilliseconds = Int64.min
        /// Whether the app has this pool. The kind `unknownEnvironment` is a pool only if the app has both others.
        let isConfigured: Bool
        /// For the kind `unknownEnvironment`: the pool from which an activity usually takes its credit while its
        /// environment is not known (`poolKey(of:_:)`).
        let assumedKind: PoolKey.Kind

        init(configuration: DeliveryConfiguration, activitiesMax: Int, isConfigured: Bool, assumedKind: PoolKey.Kind) {
            readyPushes = IndexQueue(limit: configuration.recordsMax)
            activitiesAwaitingCredit = IndexQueue(limit: activitiesMax)
            (self.isConfigured, self.assumedKind) = (isConfigured, assumedKind)
        }
    }

    /// The keys of all pools. Each app has a key of each `PoolKey.Kind`, even if it has no such pool
    /// (`PoolRow.isConfigured`), so that a key gives the pool's index without a search (`PoolKey.tableIndex`).
    let poolKeys: [PoolKey]
    /// The row of each pool, by `PoolKey.tableIndex`. Not an array, because the elements of an array must be copyable.
    private let rows: UnsafeMutablePointer<PoolRow>
    private let outageWatches: UnsafeMutablePointer<OutageWatch>
    private let creditsPerPoolMax: Int
    /// The number of pushes and activities in the queues of all pools. While the number is 0, `reviewPoolQueues` does
    /// nothing.
    private(set) var queuedEntryCount = 0
    private var recoveryReports = PoolRecoveryReports()

    init(configuration: DeliveryConfiguration, activitiesMax: Int) {
        creditsPerPoolMax = configuration.creditsPerPoolMax
        poolKeys = configuration.apps.indices.flatMap { appIndex in
            PoolKey.Kind.allCases.map { PoolKey(appIndex: UInt16(appIndex), kind: $0) }
        }
        outageWatches = .allocate(capacity: poolKeys.count)
        outageWatches.initialize(repeating: OutageWatch(), count: poolKeys.count)
        rows = .allocate(capacity: poolKeys.count)
        for poolKey in poolKeys {
            let app = configuration.apps[Int(poolKey.appIndex)]
            let isConfigured =
                switch poolKey.kind {
                case .production: app.hasProductionPool
                case .sandbox: app.hasSandboxPool
                case .unknownEnvironment: app.hasProductionPool && app.hasSandboxPool
                }
            (rows + poolKey.tableIndex)
                .initialize(
                    to: PoolRow(
                        configuration: configuration,
                        activitiesMax: activitiesMax,
                        isConfigured: isConfigured,
                        assumedKind: app.hasProductionPool ? .production : .sandbox
                    )
                )
        }
    }

    deinit {
        rows.deinitialize(count: poolKeys.count)
        rows.deallocate()
        outageWatches.deallocate()
    }

    /// Whether the configuration has a pool for this app and environment.
    func hasPool(_ pool: PoolTarget) -> Bool { rows[PoolKey(pool).tableIndex].isConfigured }

    /// Returns the key of the pool from which an activity takes its credit. For an unknown environment, this is usually
    /// the production pool, or the sandbox pool if the app has no other.
    ///
    /// But if the app has both pools and the production pool is blocked, the activity takes a credit of the kind
    /// `unknownEnvironment`. So it does not wait for the blocked pool: its token may be one of the sandbox.
    func poolKey(of appIndex: UInt16, _ kind: PoolKey.Kind) -> PoolKey {
        let poolKey = PoolKey(appIndex: appIndex, kind: kind)
        guard kind == .unknownEnvironment else { return poolKey }
        let assumedKey = PoolKey(appIndex: appIndex, kind: rows[poolKey.tableIndex].assumedKind)
        return isBlocked(assumedKey) && rows[poolKey.tableIndex].isConfigured ? poolKey : assumedKey
    }

    // MARK: - Credits

    /// Takes a credit if the pool has a free one. Returns whether a credit was taken.
    func takeCredit(of poolKey: PoolKey) -> Bool {
        guard hasFreeCredit(of: poolKey) else { return false }
        rows[poolKey.tableIndex].takenCreditCount += 1
        return true
    }

    func returnCredit(of poolKey: PoolKey) {
        rows[poolKey.tableIndex].takenCreditCount -= 1
        precondition(rows[poolKey.tableIndex].takenCreditCount >= 0, "a credit was returned that was not taken")
    }

    /// Takes a credit of the new pool and returns the credit of the old one, so that a push uses only credits of its
    /// own pool (R22). Returns whether the new pool had a credit; if not, nothing changes.
    func moveCredit(from oldPoolKey: PoolKey, to poolKey: PoolKey) -> Bool {
        guard takeCredit(of: poolKey) else { return false }
        returnCredit(of: oldPoolKey)
        return true
    }

    func hasFreeCredit(of poolKey: PoolKey) -> Bool {
        let creditsMax = isBlocked(poolKey) ? min(creditsPerPoolMax, Self.creditsWhileBlockedMax) : creditsPerPoolMax
        return rows[poolKey.tableIndex].takenCreditCount < creditsMax
    }

    /// Removes and returns the next activity that waits for a credit; nil if the pool has no free credit, or if no
    /// activity waits. Does not take the credit: the caller does so if the activity needs one. An activity whose
    /// commands have all expired needs none.
    func popActivityForFreeCredit(of poolKey: PoolKey) -> ActivityIndex? {
        hasFreeCredit(of: poolKey) ? popActivityAwaitingCredit(of: poolKey) : nil
    }

    // MARK: - Pushes and activities that wait

    /// Queues an admitted push for a stream. Begins to measure the pool's rate of responses, and to watch for an
    /// outage, unless the measurement or the watch is already under way.
    func appendReadyPush(_ record: RecordIndex, to poolKey: PoolKey, now: Moment) {
        let index = poolKey.tableIndex
        rows[index].readyPushes.append(record)
        rows[index].throughput.beginMeasurementIfNeeded(now: now)
        outageWatches[index].beginWaitIfNone(now: now)
        queuedEntryCount += 1
    }

    /// Puts back a push that no stream took, in front of all others.
    func prependReadyPush(_ record: RecordIndex, to poolKey: PoolKey) {
        rows[poolKey.tableIndex].readyPushes.prepend(record)
        queuedEntryCount += 1
    }

    func firstReadyPush(of poolKey: PoolKey) -> RecordIndex? { rows[poolKey.tableIndex].readyPushes.first }

    func popReadyPush(of poolKey: PoolKey) -> RecordIndex? {
        guard let record = rows[poolKey.tableIndex].readyPushes.popFirst() else { return nil }
        queuedEntryCount -= 1
        return record
    }

    /// Moves the first push behind all others. Does nothing if no push waits.
    func moveFirstReadyPushToEnd(of poolKey: PoolKey) {
        guard let record = rows[poolKey.tableIndex].readyPushes.popFirst() else { return }
        rows[poolKey.tableIndex].readyPushes.append(record)
    }

    func readyPushCount(of poolKey: PoolKey) -> Int { rows[poolKey.tableIndex].readyPushes.count }

    func appendActivityAwaitingCredit(_ activity: ActivityIndex, of poolKey: PoolKey, now: Moment) {
        rows[poolKey.tableIndex].activitiesAwaitingCredit.append(activity)
        rows[poolKey.tableIndex].throughput.beginMeasurementIfNeeded(now: now)
        queuedEntryCount += 1
    }

    func popActivityAwaitingCredit(of poolKey: PoolKey) -> ActivityIndex? {
        guard let activity = rows[poolKey.tableIndex].activitiesAwaitingCredit.popFirst() else { return nil }
        queuedEntryCount -= 1
        return activity
    }

    func activitiesAwaitingCreditCount(of poolKey: PoolKey) -> Int {
        rows[poolKey.tableIndex].activitiesAwaitingCredit.count
    }

    // MARK: - Retries of states

    /// Notes when the push of an update or end is tried again. Keeps only the earliest such time that is not over.
    func noteStateRetry(of poolKey: PoolKey, dueMilliseconds: Int64, now: Moment) {
        let notedDueMilliseconds = rows[poolKey.tableIndex].stateRetryDueMilliseconds
        guard notedDueMilliseconds <= now.monotonicMilliseconds || dueMilliseconds < notedDueMilliseconds else {
            return
        }
        rows[poolKey.tableIndex].stateRetryDueMilliseconds = dueMilliseconds
    }

    /// Whether an update or end of the pool waits for its next attempt, and is ready within a few seconds
    /// (`soonMillisecondsMax`). May still be true for some seconds after this command has ended.
    func isStateRetriedSoon(_ poolKey: PoolKey, now: Moment) -> Bool {
        let dueMilliseconds = rows[poolKey.tableIndex].stateRetryDueMilliseconds
        return dueMilliseconds > now.monotonicMilliseconds - Self.admissionMillisecondsMax
            && dueMilliseconds <= now.monotonicMilliseconds + Self.soonMillisecondsMax
    }

    // MARK: - Responses and outages

    /// Notes a response that decides about a push or its token, and so shows that APNs works. May end the block of the
    /// pool (``isBlocked(_:)``).
    ///
    /// - Parameter isCountedInRate: whether the response counts in the pool's rate of responses. False if APNs refused
    ///   a token that may still be right: its push waits and is sent again.
    func noteResponse(
        of poolKey: PoolKey,
        isCountedInRate: Bool,
        sendingMillisecondsMax: Int64,
        now: Moment
    ) {
        let index = poolKey.tableIndex
        outageWatches[index].noteResponse(awaitsMore: !rows[index].readyPushes.isEmpty, now: now)
        guard isCountedInRate else { return }
        rows[index].throughput.countResponse()
        guard rows[index].throughput.isBlocked else { return }
        let waitingPushCount = queuedEntryCount(of: poolKey)
        rows[index].throughput
            .unblockIfFastEnough(
                waitingPushCount: waitingPushCount,
                sendingMillisecondsMax: sendingMillisecondsMax,
                now: now
            )
        if !rows[index].throughput.isBlocked { recoveryReports.note(.responses) }
    }

    /// Returns whether the lane must report now that a blocked pool works again, or perhaps does
    /// (`noteOpenedConnection`). If so, the report counts as made. The Kafka thread then reads the deferred commands at
    /// once, before they are due.
    func takeDuePoolRecoveryReport(intervalMilliseconds: Int64, now: Moment) -> Bool {
        recoveryReports.takeDueReport(intervalMilliseconds: intervalMilliseconds, now: now)
    }

    /// When `takeDuePoolRecoveryReport` must be called again, because a report waits; nil: none waits.
    var recoveryReportDueMilliseconds: Int64? { recoveryReports.dueMilliseconds }

    func outageWatch(of poolKey: PoolKey) -> UnsafeMutablePointer<OutageWatch> { outageWatches + poolKey.tableIndex }

    // MARK: - Blocked pools

    /// Whether the pool is too slow to send its waiting pushes soon (`PoolThroughput`).
    func isBlocked(_ poolKey: PoolKey) -> Bool { rows[poolKey.tableIndex].throughput.isBlocked }

    /// Decides whether the pool is blocked, if its rate of responses was measured for long enough.
    func evaluateThroughput(
        _ poolKey: PoolKey,
        measuredMillisecondsMin: Int64,
        sendingMillisecondsMax: Int64,
        now: Moment
    ) {
        // The kind `unknownEnvironment` has no rate to measure, because no push is sent with its credits. With such a
        // credit, an activity only asks Redis for its environment, and then moves to that environment's pool
        // (`moveCredit`).
        guard poolKey.kind != .unknownEnvironment else { return }
        let waitingPushCount = queuedEntryCount(of: poolKey)
        let wasBlocked = isBlocked(poolKey)
        rows[poolKey.tableIndex].throughput
            .evaluateThroughput(
                waitingPushCount: waitingPushCount,
                measuredMillisecondsMin: measuredMillisecondsMin,
                sendingMillisecondsMax: sendingMillisecondsMax,
                now: now
            )
        if wasBlocked, !isBlocked(poolKey) { recoveryReports.note(.responses) }
    }

    /// Unblocks a pool if nothing waits for it any longer, and responses came lately
    /// (`PoolThroughput.unblockIfResponsesCame`). Without this, such a pool would stay blocked until something waits
    /// for it: only then `reviewPoolQueues` checks it again.
    func unblockIfNothingWaits(_ poolKey: PoolKey) {
        guard isBlocked(poolKey), queuedEntryCount(of: poolKey) == 0 else { return }
        rows[poolKey.tableIndex].throughput.unblockIfResponsesCame()
        if !isBlocked(poolKey) { recoveryReports.note(.responses) }
    }

    /// Notes that the pool has opened a connection to APNs. If the pool is blocked and nothing waits for it, all its
    /// commands are deferred, and no response can show that it works again. So the deferred commands are then read at
    /// once. The pool stays blocked until responses to their pushes come.
    func noteOpenedConnection(of poolKey: PoolKey) {
        if isBlocked(poolKey), queuedEntryCount(of: poolKey) == 0 { recoveryReports.note(.connection) }
    }

    /// Begins to measure the pool's rate of responses again, because Redis is silent. The commands with this pool's
    /// credits wait for Redis, so the rate until now says nothing about the pool.
    func restartMeasurement(_ poolKey: PoolKey, now: Moment) {
        rows[poolKey.tableIndex].throughput.restartMeasurement(now: now)
    }

    /// The number of ready pushes of the pool, and of activities that wait for a credit of the pool.
    private func queuedEntryCount(of poolKey: PoolKey) -> Int {
        rows[poolKey.tableIndex].readyPushes.count + rows[poolKey.tableIndex].activitiesAwaitingCredit.count
    }
}
