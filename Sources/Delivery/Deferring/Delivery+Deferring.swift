import LiveActivity
import Numbers

/// Commands that cannot be sent soon leave their partition. The command is written to the deferred topic.
/// When that write is acknowledged, the command's offset is settled without a result. The command is read
/// again after a while, and is an ordinary command then.
///
/// A command is deferred when it has been in the lane for `deferAfterMilliseconds` and is not likely to be
/// sent within `deferredDelayMilliseconds`, the time after which it would be read again. There are three
/// reasons: its pool sends nothing, or less than what waits for the pool (`PoolProgress`); its activity may
/// not send within this time; or APNs has just not taken the push. One second in the lane is enough for a
/// command that was deferred before, and while the lane holds more than half of its records or of their
/// bytes.
///
/// A push that APNs did not take pauses: the more faults its activity had in a row, the longer, up to
/// minutes. The pause and the number of faults are written beside the command. All records of the deferred
/// topic wait for the same delay, so that no record waits behind one with a longer pause. A command whose
/// pause is longer is deferred again.
///
/// What must hold:
/// - The deferred record has all that its next reading needs (`Deferral`): the claim of a start, the token
///   that the command brought, the superseded commands that it counts, and the alert that it carries. The
///   rider of the command is finished when the write is acknowledged.
/// - While a pool is blocked, an activity has one deferred command at a time. A newer state waits in the lane
///   until the older one is read again, then replaces it and carries its alert. Otherwise an outage would
///   leave one copy for each state. A lane with many activities does not wait for this.
/// - A command that a registration released is deferred with the registration as its source. The
///   registration's offset is settled, and Redis admits the equal version again. A held start takes its token
///   along. When this start is finished, its record registers the token again.
/// - A state without an alert does not overtake a deferred alert: the phone would show that state without ringing.
/// - The record goes to the partition number that its source had, which the same lane reads. If the deferred topic has fewer
///   partitions, or a rebalance separates the two, Redis still decides which state is newest. But then a newer state without an
///   alert may overtake the deferred alert.
///
/// Commands that wait for Redis are not deferred, because nothing can be decided about any command then. If
/// such commands hold all credits of a pool, the commands that wait for these credits are not deferred
/// either.
extension Delivery {
    /// The interval between two checks of the commands that wait for pools.
    private static var checkMilliseconds: Int64 { 500 }
    /// The time in the lane after which a command is deferred if it was deferred before, or if the lane is
    /// more than half full.
    private static var patienceMillisecondsMin: Int64 { 1_000 }
    /// The longest pause that can be configured. A longer one is cut, because the clock of the worker that
    /// wrote it may be wrong.
    private static var pauseMillisecondsMax: Int64 { 3_600_000 }

    /// Begins to write a command to the deferred topic. The command must not be in a waiting list.
    private mutating func deferCommand(_ record: UInt32, _ cause: DeferralCause, now: Moment) {
        records.completeBody(of: record)
        completeIdentifier(of: record)
        // Restore the command's own version, which its next reading needs: an admission may have raised the
        // timestamp.
        records.setTimestamp(records[record].version.timestamp, inBodyOf: record)
        records[record].deferral.note(cause)
        records[record].deferral.serviceFaults = activities[records[record].activity].serviceFaults
        expectReturn(of: record, now: now)
        records.enter(.deferring, record)
        produceDeferral(record)
        if records[record].refundDrawForDeferral() { call(.refundStart, record) }
    }

    /// Makes the activity's newer states wait until the deferred command is read again. A lane with many
    /// activities does not wait: then both states are admitted, in order.
    private mutating func expectReturn(of record: UInt32, now: Moment) {
        guard !records[record].isStart, activities.count <= records.limit else { return }
        let delay = configuration.deferredDelayMilliseconds + ExpectedDeferral.slackMilliseconds
        activities[records[record].activity].deferred
            .expect(
                until: now.monotonicMilliseconds + delay,
                alert: records.alertVersion(of: record),
                now: now
            )
    }

    /// Defers the current command and begins the activity's next one.
    /// - Parameter pauseMilliseconds: how long the push must not be tried again; 0: no pause.
    mutating func deferCurrent(
        of activity: UInt32,
        _ cause: DeferralCause,
        pauseMilliseconds: Int64 = 0,
        now: Moment
    ) {
        let pauseEnd = pauseMilliseconds > 0 ? now.wallMilliseconds + pauseMilliseconds : 0
        records[activities[activity].current].deferral.pauseEndMilliseconds = pauseEnd
        let (record, heldCredit) = (activities[activity].current, activities[activity].phase.holdsCredit)
        activities.enter(.idle, activity)
        deferCommand(record, cause, now: now)
        if heldCredit { returnCredit(of: activity, now: now) }
        begin(activity, now: now)
    }

    /// Whether a command has been in the lane for so long that it is deferred unless it can be sent soon.
    func isOverdue(_ record: UInt32, now: Moment) -> Bool {
        let slot = records.address(of: record)
        guard !isRevoked(record) else { return false }
        let isStoppingAtOnce =
            slot.pointee.deferral.count > 0 || records.count > records.limit / 2
            || records.blockBytes > configuration.blockBytesMax / 2
        let patience = min(configuration.deferAfterMilliseconds, isStoppingAtOnce ? Self.patienceMillisecondsMin : .max)
        guard let partition = partitions.current(slot.pointee.partition, epoch: slot.pointee.epoch),
            let received = partition.pointee.receipts.milliseconds(of: slot.pointee.offset)
        else { return false }
        return received <= now.monotonicMilliseconds - patience
    }

    /// Whether an admitted start of a revoked partition is deferred with its claim, so that the next owner
    /// sends it. Its pool sends nothing, so the start may have to wait for longer than this lane has the
    /// partition.
    func isDeferredToNextOwner(_ record: UInt32) -> Bool {
        records[record].isStart && isRevoked(record) && pools.isBlocked(PoolKey(records[record].pool))
    }

    /// Queues a command again that the deferred topic did not accept, if its pool sends again. The topic may
    /// be missing, and then nothing else would send the command. A start is not queued again: its draw is
    /// refunded, because its next reading draws again.
    /// - Returns: false if the deferral must be produced again.
    mutating func takeBackDeferral(_ record: UInt32, now: Moment) -> Bool {
        guard !records[record].isStart, !isRevoked(record),
            records[record].deferral.pauseMilliseconds(now: now) == 0
        else { return false }
        let activity = activityOf(record)
        guard !pools.isBlocked(pools.poolKey(of: activities[activity].application, activities[activity].poolKind))
        else {
            if activities[activity].phase == .idle { activities.remove(activity) }
            return false
        }
        records[record].acknowledge()
        precondition(records[record].isAcknowledged, "a deferred command that is no start has nothing else outstanding")
        activities[activity].deferred = ExpectedDeferral()
        enqueue(record, of: activity, now: now)
        return true
    }

    // MARK: - Activities that may not send yet

    /// Defers the overdue commands of an activity that must wait long, or whose next push has a long pause.
    mutating func deferOverdue(_ activity: UInt32, now: Moment) {
        let isWithinSpacing = isLong(activities[activity].spacingEndMilliseconds - now.monotonicMilliseconds)
        guard isWithinSpacing || activities[activity].deferred.isPause else { return }
        while let record = activities[activity].waiting.head,
            isWithinSpacing || isLong(records[record].deferral.pauseMilliseconds(now: now)),
            isOverdue(record, now: now)
        {
            _ = activities[activity].waiting.popFirst(in: &records)
            let awaitsStartBudget = if case .awaited = records[record].startDraw { true } else { false }
            deferCommand(record, !isWithinSpacing ? .retry : awaitsStartBudget ? .startBudget : .pace, now: now)
        }
    }

    /// Whether a wait is so long that the command waits in the deferred topic.
    @inline(__always)
    func isLong(_ milliseconds: Int64) -> Bool { milliseconds > configuration.deferredDelayMilliseconds }

    /// Whether the activity's wait is so long that its overdue commands are deferred.
    @inline(__always)
    func isWaitLong(_ activity: UInt32, now: Moment) -> Bool {
        let slot = activities.address(of: activity)
        return isLong(slot.pointee.spacingEndMilliseconds - now.monotonicMilliseconds)
            || slot.pointee.deferred.isPause && isPauseLong(activity, now: now)
    }

    private func isPauseLong(_ activity: UInt32, now: Moment) -> Bool {
        guard let head = activities[activity].waiting.head else { return false }
        return isLong(records[head].deferral.pauseMilliseconds(now: now))
    }

    /// Whether an activity's next command waits for a deferred command to be read again, or was read again
    /// itself and pauses.
    func awaitsDeferred(_ activity: UInt32, now: Moment) -> Bool {
        let slot = activities.address(of: activity)
        guard slot.pointee.deferred.isExpected(now: now), let head = slot.pointee.waiting.head else { return false }
        if slot.pointee.deferred.isPause { return records[head].deferral.pauseMilliseconds(now: now) > 0 }
        guard !records[head].isStart else { return false }
        if pools.isBlocked(pools.poolKey(of: slot.pointee.application, slot.pointee.poolKind)) { return true }
        guard let deferred = slot.pointee.deferred.alert else { return false }
        return records.alertVersion(of: head).map { $0 < deferred } ?? true
    }

    // MARK: - Commands that wait for a pool

    /// When `deferBlocked` next has something to do; nil while nothing waits for a pool.
    var deferralDueMilliseconds: Int64? {
        pools.queuedCount > 0 ? nextDeferralCheckMilliseconds : nil
    }

    /// Checks the commands that wait for each pool. Ends commands that have expired or that a newer one
    /// replaces, and defers commands that will not be sent soon.
    mutating func deferBlocked(now: Moment) {
        guard pools.queuedCount > 0, nextDeferralCheckMilliseconds <= now.monotonicMilliseconds else { return }
        nextDeferralCheckMilliseconds = now.monotonicMilliseconds + Self.checkMilliseconds
        let silenceMilliseconds = min(OutageWatch.outageMilliseconds, configuration.deferAfterMilliseconds / 2)
        let isStoreAway = storeWatch.isSilent(forMilliseconds: silenceMilliseconds, now: now)
        for poolKey in pools.poolKeys {
            if isStoreAway {
                pools.beginAgain(poolKey, now: now)
            } else {
                pools.observe(
                    poolKey,
                    patienceMilliseconds: configuration.deferAfterMilliseconds,
                    delayMilliseconds: configuration.deferredDelayMilliseconds,
                    now: now
                )
            }
            reviewReady(poolKey, now: now)
            if pools.isBlocked(poolKey), !isStoreAway { reviewAwaitingCredit(poolKey, now: now) }
            // While production is blocked, activities of unknown environment wait for credits of their own
            // kind. Usually an activity begins when another one returns its credit. Perhaps none holds a credit
            // of this kind, so begin the waiting activities here.
            beginWithFreeCredits(of: poolKey, now: now)
        }
    }

    private mutating func reviewReady(_ poolKey: PoolKey, now: Moment) {
        let isBlocked = pools.isBlocked(poolKey)
        for _ in 0..<pools.readyCount(of: poolKey) {
            guard let record = pools.popReady(of: poolKey) else { return }
            let activity = activity(ofCurrent: record, in: .ready)
            if records[record].isPushExpired(by: policies, now: now) {
                finishCurrent(record, .expired, settlement: .notShown, now: now)
            } else if isOvertaken(activity), isReplacedAtOnce(record, of: activity, now: now) {
                overtakeCurrent(of: activity, settlement: .notShown, now: now)
            } else if isBlocked, isLeftToNextOwner(record) {
                dropCurrent(of: activity, now: now)
            } else if isBlocked, records[record].deferral.isSeenReady,
                isOverdue(record, now: now) || isDeferredToNextOwner(record)
            {
                deferCurrent(of: activity, .pool, now: now)
            } else {
                // Each push is offered to its pool once before it is deferred. Otherwise no push would be
                // sent that shows that the pool works again (simulation `deferrals`, seeds 1 and 81). While
                // the lane reads ahead, no push is offered, so this time does not count.
                records[record].deferral.isSeenReady = !pools.watch(poolKey).pointee.isReading
                pools.appendReady(record, to: poolKey, now: now)
            }
        }
    }

    private mutating func reviewAwaitingCredit(_ poolKey: PoolKey, now: Moment) {
        for _ in 0..<pools.awaitingCreditCount(of: poolKey) {
            guard let activity = pools.popAwaitingCredit(of: poolKey) else { return }
            let current = activities[activity].current
            if current != .max {
                guard isOverdue(current, now: now) || isDeferredToNextOwner(current) else {
                    pools.appendAwaitingCredit(activity, of: poolKey, now: now)
                    continue
                }
                deferCurrent(of: activity, .retry, now: now)
                continue
            }
            dropStale(activity, now: now)
            // The activity's environment is unknown, and the pool that is assumed for it has changed. The
            // activity moves to the other pool.
            if activities[activity].poolKind == .unknownEnvironment,
                pools.poolKey(of: poolKey.application, .unknownEnvironment) != poolKey
            {
                activities.enter(.idle, activity)
                begin(activity, now: now)
                continue
            }
            while let record = activities[activity].waiting.head, isOverdue(record, now: now) {
                _ = activities[activity].waiting.popFirst(in: &records)
                deferCommand(record, .pool, now: now)
            }
            guard activities[activity].waiting.isEmpty else {
                pools.appendAwaitingCredit(activity, of: poolKey, now: now)
                continue
            }
            activities.enter(.idle, activity)
            begin(activity, now: now)
        }
    }

    // MARK: - Deferred commands that are read again

    /// Whether a pool that sent nothing, or too little, has begun to send again since the last call. Then the
    /// deferred commands are read at once, although they are not due. The lane tells the Kafka thread at most
    /// once in `worker.deferredDelayMilliseconds`.
    public mutating func takePoolRecovery() -> Bool { pools.takeRecovery() }

    /// Receives a command from the deferred topic, as `receive(_:now:)` receives other records.
    ///
    /// - Parameter dropped: the names of the fields that the command's first reader dropped, separated by commas.
    public mutating func receive(
        _ record: IncomingRecord,
        deferred deferral: Deferral,
        dropped: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        guard let partition = accept(record, now: now) else { return }
        let index = records.allocate(
            RecordSlot(
                kind: .invalid,
                topic: deferral.topic,
                partition: record.partition,
                epoch: partition.pointee.epoch,
                offset: record.offset,
                sourcePartition: deferral.partition,
                sourceOffset: deferral.offset,
                deferral: DeferralMark(count: max(1, deferral.count)),
                recordMilliseconds: deferral.recordMilliseconds,
                receivedMilliseconds: deferral.receivedMilliseconds
            )
        )
        guard let value = record.value else {
            return reject(record, index, code: "emptyRecord", detail: "a deferred command has no value")
        }
        receiveCommand(value, index: index, record: record, deferral: deferral, dropped: dropped, now: now)
    }

    /// Restores the pause, the counts and the alert's version that a command had when it was deferred.
    mutating func restore(_ deferral: Deferral, to record: UInt32, of activity: UInt32?, now: Moment) {
        let activity = activity ?? activityOf(record)
        let pause = min(deferral.pauseEndMilliseconds - now.wallMilliseconds, Self.pauseMillisecondsMax)
        activities[activity].deferred =
            pause > 0 ? ExpectedDeferral(pauseUntil: now.monotonicMilliseconds + pause) : ExpectedDeferral()
        activities[activity].restore(serviceFaults: deferral.serviceFaults)
        records[record].restore(deferral)
        records[record].deferral.pauseEndMilliseconds = pause > 0 ? now.wallMilliseconds + pause : 0
        if records[record].attempts > 0 { records[record].apnsIdentifier = randomness.nextUniqueIdentifier() }
    }
}

extension RecordSlot {
    /// Refunds the draw of a deferred start, even if its push was tried: its next reading draws again.
    /// - Returns: false if there is nothing to refund.
    fileprivate mutating func refundDrawForDeferral() -> Bool {
        guard case .drawn(let draw) = startDraw else { return false }
        startDraw = .refunded(draw)
        return true
    }

    fileprivate mutating func restore(_ deferral: Deferral) {
        (attempts, resultsBefore) = (deferral.attempts, deferral.resultsBefore)
        superseded = SupersededCount(commands: deferral.superseded)
        isReadAgain = deferral.isReadAgain
        if hasOwnToken { registeredAtMilliseconds = deferral.registeredAtMilliseconds }
        if !layout.alert.isAbsent { olderAlertVersion = deferral.alertVersion }
        if deferral.statePriority > 0 { statePriority = deferral.statePriority }
        if deferral.isAlertExpired { noteExpiredAlert() }
        guard isStart else { return }
        previousClaim = deferral.claim
        // Redis held the start until the token that comes with it registered.
        if deferral.isHeldStart, hasOwnToken { (isHeldStart, hasOwnToken) = (true, false) }
    }
}
