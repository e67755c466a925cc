import LiveActivity

/// Defers commands that cannot be sent soon, so that the offsets of their partition can be committed (R19):
/// 1. The lane writes the command to the deferred topic (`deferCommand`).
/// 2. Kafka acknowledges the write. The command's offset is then settled without a result, and its rider is finished.
/// 3. The command comes back from the deferred topic after `deferredDelayMilliseconds`, or earlier if a blocked pool
///    works again.
/// 4. The command waits for its turn like any other command. It may be deferred again.
///
/// A command is deferred if it is overdue (`isOverdue`), and will probably not be sent within
/// `deferredDelayMilliseconds`, for one of six reasons:
/// - Its pool sends nothing, or too little for the pushes that wait for the pool (`PoolThroughput`).
/// - Its activity must not send within `deferredDelayMilliseconds`.
/// - APNs did not accept its last push. Exception: a push that is retried soon, because APNs did not process it.
/// - A command before it was deferred (`deferOverdueCommands`, `deferOverdueSuccessors`).
/// - It is the end of a lifetime, and a deferred command of its activity has not come back.
/// - It is a lifetime command, and the lane has not read all that previous owners deferred (`DeferredBacklog`).
///
/// Two kinds of commands are deferred even if they are not overdue:
/// - a command whose push must pause for longer than `deferredDelayMilliseconds`
/// - an admitted start whose partition is revoked while its pool is blocked (`mustBeDeferredToNextOwner`)
extension Delivery {
    /// The time between two checks of the commands that wait for pools.
    private static var poolReviewIntervalMilliseconds: Int64 { 500 }
    /// The time after which some commands are overdue earlier than others: `isOverdue` says which.
    private static var earlyDeferAfterMilliseconds: Int64 { 1_000 }

    /// Begins to write a command to the deferred topic, and to refund the draw of a start. The caller has already
    /// removed the command: it is in no waiting list, and is not its activity's current command any more. `Deferral`
    /// says what the deferred record has beside the command.
    ///
    /// If a registration released the command, the deferred record names the registration as its source. The
    /// registration's offset is settled when Kafka has the deferred record.
    mutating func deferCommand(_ record: RecordIndex, _ cause: DeferralCause, now: Moment) {
        records.completeBodyWithRiderAlert(of: record)
        writeDefaultIdentifierIfMissing(of: record)
        // An admission may have raised the timestamp in the body. The deferred record needs the timestamp of the
        // command's own version.
        records.setTimestamp(records[record].version.timestamp, inBodyOf: record)
        records[record].deferral.noteDeferral(cause)
        records[record].deferral.serviceFailureCount = activities[records[record].activity].serviceFailureCount
        noteExpectedDeferredCommand(record, now: now)
        records.enter(record, .deferring)
        queueOutgoingRecord(.deferral, record)
        if records[record].noteDrawRefundedForDeferral() { queueStoreCall(.refundStart, record) }
    }

    /// Notes that the activity expects a deferred command back. Newer states then wait for it if `mustWaitForDeferral`
    /// is true. This wait is limited, because perhaps another worker reads the deferred command: after a rebalance, or
    /// if the deferred topic has fewer partitions than the commands topic. Also called for a restart that leaves the
    /// waiting list until Redis replies (`checkRestartAgain`).
    ///
    /// Does nothing if the lane has more activities than its limit of records, because a wait keeps an activity's slot
    /// in use even without a record.
    mutating func noteExpectedDeferredCommand(_ record: RecordIndex, now: Moment) {
        guard activities.count <= records.limit else { return }
        let delayMilliseconds =
            configuration.reloadable.deferredDelayMilliseconds + DeferralWait.returnLatenessMillisecondsMax
        let (activity, waitEndMilliseconds) = (records[record].activity, now.monotonicMilliseconds + delayMilliseconds)
        if records[record].isStart {
            activities[activity].deferredStartWait.expect(records[record].version, until: waitEndMilliseconds, now: now)
        } else {
            activities[activity].deferralWait
                .expect(
                    isLifetimeEnd: records[record].lifetime.isEnd,
                    until: waitEndMilliseconds,
                    alertVersion: records.alertVersion(of: record),
                    now: now
                )
        }
    }

    /// Defers the current command and begins the activity's next one. Before that, may also defer overdue commands
    /// (`deferOverdueSuccessors`). Afterwards the caller must not use `activity`.
    ///
    /// - Parameter pauseMilliseconds: for how long the push must not be tried again; 0: no pause.
    mutating func deferCurrentCommandAndEndTurn(
        of activity: ActivityIndex,
        _ cause: DeferralCause,
        pauseMilliseconds: Int64 = 0,
        now: Moment
    ) {
        let pauseEndWallMilliseconds =
            pauseMilliseconds > 0 ? now.wallMilliseconds + pauseMilliseconds : 0
        records[activities[activity].currentCommand].deferral.pauseEndWallMilliseconds = pauseEndWallMilliseconds
        let (record, hadCredit) = (activities[activity].currentCommand, activities[activity].phase.hasCredit)
        let isStart = records[record].isStart
        activities.enter(activity, .idle)
        deferCommand(record, cause, now: now)
        let head = activities[activity].waitingList.head
        let isNextLifetimeEnd = if let head { records[head].lifetime.isEnd } else { false }
        // Commands behind a start wait for the start. A blocked pool also delays the next start. And the end of a
        // lifetime waits for every deferred command.
        let mayDelaySuccessors = isStart || cause == .pool || isNextLifetimeEnd
        if mayDelaySuccessors {
            deferOverdueSuccessors(of: activity, hasDeferredStart: isStart, cause, now: now)
        }
        if hadCredit { returnCredit(of: activity, now: now) }
        beginNextCommand(of: activity, now: now)
    }

    /// Defers overdue commands at the front of the waiting list, after the activity's current command was deferred.
    /// Without this, they would stay in the lane while that command comes back and is deferred again, perhaps many
    /// times.
    ///
    /// Begins only if the deferred command was a start (`hasDeferredStart`), or if the first waiting command is a start
    /// or the end of a lifetime. Stops at the first command that is not overdue. Also removes commands that can no
    /// longer be sent (`removeUnsendableCommands`).
    private mutating func deferOverdueSuccessors(
        of activity: ActivityIndex,
        hasDeferredStart: Bool,
        _ cause: DeferralCause,
        now: Moment
    ) {
        var hasDeferredPredecessor = hasDeferredStart
        removeUnsendableCommands(of: activity, now: now)
        while let head = activities[activity].waitingList.head,
            hasDeferredPredecessor || records[head].isStart || records[head].lifetime.isEnd, isOverdue(head, now: now)
        {
            hasDeferredPredecessor = true
            _ = activities[activity].waitingList.popFirst(in: &records)
            deferCommand(head, cause, now: now)
            removeUnsendableCommands(of: activity, now: now)
        }
    }

    /// Whether a command has been in the lane for so long that it must be deferred if it cannot be sent soon. Usually,
    /// a command is overdue after `deferAfterMilliseconds`. It is overdue after `earlyDeferAfterMilliseconds`, if that
    /// is shorter, in each of these cases:
    /// - The command was deferred before.
    /// - More than half of the lane's records, or of its bytes for blocks (`usedBlockBytesMax`), are in use.
    /// - The memory for blocks is full (`isBlockMemoryFull`).
    ///
    /// A command is never overdue while its partition is revoked, or if the time of its receipt is unknown.
    func isOverdue(_ record: RecordIndex, now: Moment) -> Bool {
        let slot = records.address(of: record)
        guard !isPartitionRevoked(record) else { return false }
        let defersEarly =
            slot.pointee.deferral.count > 0 || records.count > records.limit / 2
            || usedBlockBytes > configuration.usedBlockBytesMax / 2 || isBlockMemoryFull
        let overdueAfterMilliseconds = min(
            configuration.reloadable.deferAfterMilliseconds,
            defersEarly ? Self.earlyDeferAfterMilliseconds : .max
        )
        guard
            let partition = partitions.partition(of: slot.pointee.ledgerPlace),
            let receivedAtMonotonicMilliseconds = partition.pointee.receiptTimes.receivedAtMonotonicMilliseconds(
                of: slot.pointee.ledgerPlace.offset
            )
        else { return false }
        return receivedAtMonotonicMilliseconds <= now.monotonicMilliseconds - overdueAfterMilliseconds
    }

    /// Whether an admitted start must be deferred, so that the next owner of its partition gets it together with its
    /// claim (R16). True if the partition is revoked while the start's pool is blocked: this lane may lose the
    /// partition before the pool works again. False while the lane does not know which claim Redis has
    /// (`isClaimInRedisUnknown`).
    func mustBeDeferredToNextOwner(_ record: RecordIndex) -> Bool {
        records[record].isStart && !isClaimInRedisUnknown(record) && isPartitionRevoked(record)
            && pools.isBlocked(PoolKey(records[record].pool))
    }

    /// Whether the current command is a start of which the lane does not know which claim Redis has: the previous one
    /// or the new one. This is so from the time at which the start comes back from the deferred topic, and gets a new
    /// claim, until Redis replies to its admission: Redis may have stored the new claim although its reply was lost. A
    /// deferred record names one claim only, so the start must not be deferred in this time.
    private func isClaimInRedisUnknown(_ current: RecordIndex) -> Bool {
        records[current].start.previousClaim != nil
    }

    /// Puts a command back into its activity's waiting list, because Kafka did not accept its deferred record. Does
    /// this only if the command can be sent now: its partition is not revoked, its pool is not blocked, and its pause
    /// is over. Without this, deferred commands would wait forever if the deferred topic does not exist. The end of a
    /// lifetime is not put back while the lane may still have to read what previous owners deferred.
    ///
    /// A start is never put back: its draw on the device's budget is already refunded, and the start draws again only
    /// when it has come back from the deferred topic.
    ///
    /// - Returns: whether the command was put back. If not, the deferred record must be produced again.
    mutating func enqueueAfterFailedDeferral(_ record: RecordIndex, now: Moment) -> Bool {
        guard !records[record].isStart, !isPartitionRevoked(record),
            records[record].deferral.remainingPauseMilliseconds(now: now) == 0,
            !records[record].lifetime.isEnd || !mayHaveUnreadDeferredCommands(before: record, now: now)
        else { return false }
        let activity = findOrAddActivity(of: record)
        guard !pools.isBlocked(pools.poolKey(of: activities[activity].appIndex, activities[activity].poolKind))
        else {
            if activities[activity].phase == .idle { activities.free(activity) }
            return false
        }
        records[record].ending.acknowledge()
        precondition(
            records[record].ending.isAcknowledged,
            "a deferred command that is no start has nothing else outstanding"
        )
        activities[activity].deferralWait
            .noteReturnedCommand(
                isStart: false,
                isLifetimeEnd: records[record].lifetime.isEnd,
                pauseMilliseconds: 0,
                now: now
            )
        // While the command was being deferred, the slot of its activity may have been freed, and the activity now has
        // another one. `enqueue` stores the new slot in the command only, so store it in the command's rider too.
        let rider = records[record].rider
        if rider != .null { records[rider].activity = activity }
        enqueue(record, of: activity, now: now)
        return true
    }

    // MARK: - Activities that must not send yet

    /// Defers overdue commands of an activity that must not send yet. Does nothing if the activity's delay is not
    /// longer than `deferredDelayMilliseconds`, and no command of the activity pauses after a deferral. Begins at the
    /// front of the waiting list, and stops at the first command that stays. Behind each deferred command, also removes
    /// the commands that can no longer be sent (`removeUnsendableCommands`).
    ///
    /// An overdue command is deferred if any of these is true:
    /// - The activity's delay (`earliestBeginAtMilliseconds`) is longer than `deferredDelayMilliseconds`.
    /// - The command's own pause is longer than `deferredDelayMilliseconds`.
    /// - This call has deferred a start that was before it in the list. Commands behind a start wait for that start.
    /// - The command is the end of a lifetime, and the activity expects a deferred start while another command pauses.
    mutating func deferOverdueCommands(of activity: ActivityIndex, now: Moment) {
        let isDelayLong = exceedsDeferredDelay(
            activities[activity].earliestBeginAtMilliseconds - now.monotonicMilliseconds
        )
        guard isDelayLong || activities[activity].deferralWait.isForPause else { return }
        var isBehindStart = false
        while let record = activities[activity].waitingList.head,
            isDelayLong || isBehindStart || mustDeferHead(record, of: activity, now: now), isOverdue(record, now: now)
        {
            _ = activities[activity].waitingList.popFirst(in: &records)
            if records[record].isStart { isBehindStart = true }
            let awaitsStartBudget = if case .awaitingBudget = records[record].start.draw { true } else { false }
            let causeOfDelay: DeferralCause = awaitsStartBudget ? .startBudget : .pace
            deferCommand(record, isDelayLong ? causeOfDelay : .retry, now: now)
            removeUnsendableCommands(of: activity, now: now)
        }
    }

    /// Whether `deferOverdueCommands` must defer the first waiting command because of its own pause, or because it is
    /// the end of a lifetime and waits for a deferred command.
    private func mustDeferHead(_ head: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        if exceedsDeferredDelay(records[head].deferral.remainingPauseMilliseconds(now: now)) { return true }
        return records[head].lifetime.isEnd && activities[activity].expectsDeferredCommand(now: now)
    }

    // MARK: - Commands that wait for a pool

    /// When `reviewPoolQueues` next has something to do, a monotonic time; nil while nothing waits for a pool.
    var poolReviewDueMilliseconds: Int64? {
        pools.queuedEntryCount > 0 ? earliestPoolReviewAtMilliseconds : nil
    }

    /// Decides whether each pool is blocked, and reviews its queues: finishes pushes that have expired or that a newer
    /// command replaces. In a blocked pool, also drops commands whose partition is revoked, and defers those that will
    /// not be sent soon. Does nothing until `poolReviewIntervalMilliseconds` have passed since the last review.
    ///
    /// While Redis is silent, the commands that wait for a credit are not deferred: perhaps commands that wait for
    /// Redis have all credits, and the pool itself works.
    mutating func reviewPoolQueues(now: Moment) {
        guard pools.queuedEntryCount > 0, earliestPoolReviewAtMilliseconds <= now.monotonicMilliseconds else { return }
        earliestPoolReviewAtMilliseconds = now.monotonicMilliseconds + Self.poolReviewIntervalMilliseconds
        let silentAfterMilliseconds = min(
            OutageWatch.outageAfterMilliseconds,
            configuration.reloadable.deferAfterMilliseconds / 2
        )
        let isStoreSilent = storeOutageWatch.isSilent(forMilliseconds: silentAfterMilliseconds, now: now)
        for poolKey in pools.poolKeys {
            if isStoreSilent {
                pools.restartMeasurement(poolKey, now: now)
            } else {
                pools.evaluateThroughput(
                    poolKey,
                    measuredMillisecondsMin: configuration.reloadable.deferAfterMilliseconds,
                    sendingMillisecondsMax: configuration.reloadable.deferredDelayMilliseconds,
                    now: now
                )
            }
            endPushHoldBackIfReadAheadDone(of: poolKey, now: now)
            var hasDeferred = reviewReadyPushes(poolKey, now: now)
            if pools.isBlocked(poolKey), !isStoreSilent {
                if reviewActivitiesAwaitingCredit(poolKey, now: now) { hasDeferred = true }
                // If commands were just deferred, the pool is too slow and stays blocked, even if nothing waits now.
                if !hasDeferred { pools.unblockIfNothingWaits(poolKey) }
            }
            // Begin waiting activities here too, not only when another activity returns its credit. When the production
            // pool becomes blocked, activities of unknown environment need a credit of the kind `unknownEnvironment`
            // instead (`PoolTable.poolKey`). Perhaps none of these credits is in use, so none is returned.
            beginActivitiesAwaitingCredit(of: poolKey, now: now)
        }
    }

    /// Checks each push of a pool that waits for a stream: finishes, supersedes, drops or defers those that must not
    /// wait longer. Returns whether a push was deferred.
    private mutating func reviewReadyPushes(_ poolKey: PoolKey, now: Moment) -> Bool {
        let isBlocked = pools.isBlocked(poolKey)
        var hasDeferred = false
        for _ in 0..<pools.readyPushCount(of: poolKey) {
            guard let record = pools.popReadyPush(of: poolKey) else { break }
            let activity = activityOfCurrentCommand(record, in: .ready)
            if records[record].isPushExpired(now: now) {
                finishAndEndTurn(record, .expired, settlement: .notShown, now: now)
            } else if isCurrentCommandReplaced(of: activity), isReplacedAtOnce(record, of: activity, now: now) {
                supersedeCurrentCommandAndEndTurn(of: activity, settlement: .notShown, now: now)
            } else if isBlocked, isLeftToNextOwner(record) {
                dropCurrentCommandAndEndTurn(of: activity, now: now)
            } else if isBlocked, records[record].deferral.mayBeDeferredAtNextReview,
                isOverdue(record, now: now) || mustBeDeferredToNextOwner(record)
            {
                deferCurrentCommandAndEndTurn(of: activity, .pool, now: now)
                hasDeferred = true
            } else {
                // Do not defer a push at its first check, but allow it at the next. Otherwise every push of a blocked
                // pool would be deferred at once, and no response could show that the pool works again. A check while
                // pushes are held back does not count, because no push leaves the queue then.
                let isHoldingBack = pools.outageWatch(of: poolKey).pointee.isHoldingBack
                records[record].deferral.mayBeDeferredAtNextReview = !isHoldingBack
                pools.appendReadyPush(record, to: poolKey, now: now)
            }
        }
        return hasDeferred
    }

    /// Checks each activity that waits for a credit: removes commands that can no longer be sent
    /// (`removeUnsendableCommands`), and defers overdue ones. Returns whether a command was deferred.
    private mutating func reviewActivitiesAwaitingCredit(_ poolKey: PoolKey, now: Moment) -> Bool {
        var hasDeferred = false
        for _ in 0..<pools.activitiesAwaitingCreditCount(of: poolKey) {
            guard let activity = pools.popActivityAwaitingCredit(of: poolKey) else { break }
            let current = activities[activity].currentCommand
            if current != .null {
                guard !isClaimInRedisUnknown(current),
                    isOverdue(current, now: now) || mustBeDeferredToNextOwner(current)
                else {
                    pools.appendActivityAwaitingCredit(activity, of: poolKey, now: now)
                    continue
                }
                // Only a start that was in `ActivityPhase.awaitingService` waits for a credit as a current command. So
                // the cause is `retry`. The cause for a command that has not begun is `pool` (below).
                deferCurrentCommandAndEndTurn(of: activity, .retry, now: now)
                hasDeferred = true
                continue
            }
            removeUnsendableCommands(of: activity, now: now)
            // While an activity's environment is unknown, it waits for a credit of the pool that `PoolTable.poolKey`
            // chooses. If this is another pool now, begin the next command: it takes a credit of the new pool, or waits
            // for one.
            if activities[activity].poolKind == .unknownEnvironment,
                pools.poolKey(of: poolKey.appIndex, .unknownEnvironment) != poolKey
            {
                activities.enter(activity, .idle)
                beginNextCommand(of: activity, now: now)
                continue
            }
            while let record = activities[activity].waitingList.head, isOverdue(record, now: now) {
                _ = activities[activity].waitingList.popFirst(in: &records)
                deferCommand(record, .pool, now: now)
                hasDeferred = true
            }
            guard activities[activity].waitingList.isEmpty else {
                pools.appendActivityAwaitingCredit(activity, of: poolKey, now: now)
                continue
            }
            activities.enter(activity, .idle)
            beginNextCommand(of: activity, now: now)
        }
        return hasDeferred
    }
}

extension RecordSlot {
    /// Notes that the draw of a start is refunded, because the start is deferred: it draws again when it has come back.
    /// Unlike `noteUnsentDrawRefunded`, does so even if the push was tried.
    ///
    /// - Returns: true if the caller must queue the call `refundStart`; false if the start has no draw.
    fileprivate mutating func noteDrawRefundedForDeferral() -> Bool {
        guard case .drawn(let identifier) = start.draw else { return false }
        start.draw = .refunded(identifier: identifier)
        return true
    }
}
