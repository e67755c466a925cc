import LiveActivity
import Numbers

/// Retries pushes. A push that failed for a reason that only delays it (R18) is tried again until APNs accepts or
/// refuses it, it expires, or a newer state replaces it. The number of attempts has no limit. The waits between them
/// grow to minutes. Exception: after the result `retrySoon`, APNs probably works and only did not process this push.
/// Then the wait stays short, unless the activity has had many failures in a row.
extension Delivery {
    /// After at most this many failures of the activity in a row, the result `retrySoon` leads to a short back-off. The
    /// result means that APNs did not process the push, or asks for another connection or provider token.
    private static var shortBackOffFailuresMax: UInt8 { 2 }

    /// After a `retrySoon`, the wait grows with the activity's failures in a row, up to this many. (By default it is
    /// then 1.6 s at most.) It does not grow further, because APNs probably works if the pool permits the retry: only
    /// this push was not processed, by chance.
    private static var pauseGrowthFailuresMax: UInt8 { 3 }

    /// After more failures in a row than this, a push with the result `retrySoon` waits as after a `retryLater`, and
    /// may be deferred. So it cannot keep its offset unsettled for hours.
    private static var retrySoonFailuresMax: UInt8 { 10 }

    /// Decides what becomes of a push that was only delayed (R18). The first of these rules that applies decides:
    /// - If a waiting command replaces the push, the push is superseded.
    /// - If the push is left to the partition's next owner, it is dropped.
    /// - After `retrySoon` and few failures (`shortBackOffFailuresMax`), the push waits shortly and keeps its credit.
    /// - If the pool permits no retry now, the push waits for this permission (`beginWaitForRetryBudget`).
    /// - Otherwise the push waits until the service probably works again (`beginWaitForService`).
    ///
    /// If one of the last two waits is too long for the lane, the command is deferred instead.
    ///
    /// - Parameter isRetryPermitted: whether the pool may retry a push now (`RetryPermission`). If not, the push waits
    ///   longer (`beginWaitForRetryBudget`), unless its back-off is short.
    mutating func retry(
        _ record: RecordIndex,
        of activity: ActivityIndex,
        _ disposition: PushResult.Disposition,
        isRetryPermitted: Bool,
        now: Moment
    ) {
        activities[activity].countServiceFailure()
        if isCurrentCommandReplaced(of: activity) {
            return supersedeCurrentCommandAndEndTurn(of: activity, settlement: .notShown, now: now)
        }
        if isLeftToNextOwner(record) { return dropCurrentCommandAndEndTurn(of: activity, now: now) }
        let failureCount = activities[activity].serviceFailureCount
        if disposition == .retrySoon, failureCount <= Self.shortBackOffFailuresMax {
            let dueMilliseconds = now.monotonicMilliseconds + chooseRetryPauseMilliseconds(failureCount: 0)
            activities[activity].delayNextCommand(until: dueMilliseconds)
            noteStateRetry(of: record, dueMilliseconds: dueMilliseconds, now: now)
            return activities.enter(activity, .backingOff, untilMilliseconds: dueMilliseconds)
        }
        guard isRetryPermitted else { return beginWaitForRetryBudget(record, of: activity, now: now) }
        let isSoon = disposition == .retrySoon && failureCount <= Self.retrySoonFailuresMax
        beginWaitForService(
            of: activity,
            pauseMilliseconds: chooseRetryPauseMilliseconds(
                failureCount: isSoon ? min(failureCount, Self.pauseGrowthFailuresMax) : failureCount
            ),
            defersIfOverdue: !isSoon,
            now: now
        )
    }

    /// Makes a push wait because the pool may not retry it now: for `retryBudgetPauseMilliseconds`, or for the pause
    /// after its activity's failures if that is longer. Then the push is tried again. The wait does not count as an
    /// attempt. If the push is left to the partition's next owner, it is dropped instead.
    mutating func beginWaitForRetryBudget(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) {
        if isLeftToNextOwner(record) { return dropCurrentCommandAndEndTurn(of: activity, now: now) }
        let budgetPauseMilliseconds = random.jitteredMilliseconds(configuration.retryBudgetPauseMilliseconds)
        let failurePauseMilliseconds = chooseRetryPauseMilliseconds(
            failureCount: activities[activity].serviceFailureCount
        )
        beginWaitForService(
            of: activity,
            pauseMilliseconds: max(budgetPauseMilliseconds, failurePauseMilliseconds),
            now: now
        )
    }

    /// Makes the current command wait before its push is tried again. The command returns its credit, so that other
    /// commands of the pool can begin. A newer state may replace it meanwhile, and need not wait as long.
    ///
    /// The command is deferred instead if any of these is true:
    /// - The wait is longer than `deferredDelayMilliseconds`.
    /// - The command is overdue, and `defersIfOverdue` is true.
    /// - The command is a start that must go to the partition's next owner (`mustBeDeferredToNextOwner`).
    ///
    /// - Parameter defersIfOverdue: false if the wait is short.
    private mutating func beginWaitForService(
        of activity: ActivityIndex,
        pauseMilliseconds: Int64,
        defersIfOverdue: Bool = true,
        now: Moment
    ) {
        let current = activities[activity].currentCommand
        if exceedsDeferredDelay(pauseMilliseconds) || mustBeDeferredToNextOwner(current)
            || defersIfOverdue && isOverdue(current, now: now)
        {
            return deferCurrentCommandAndEndTurn(of: activity, .retry, pauseMilliseconds: pauseMilliseconds, now: now)
        }
        let dueMilliseconds = now.monotonicMilliseconds + pauseMilliseconds
        // An update or end is admitted again, so it also waits for the activity's spacing.
        noteStateRetry(
            of: current,
            dueMilliseconds: max(dueMilliseconds, activities[activity].earliestBeginAtMilliseconds),
            now: now
        )
        activities.enter(activity, .awaitingService, untilMilliseconds: dueMilliseconds)
        returnCredit(of: activity, now: now)
    }

    /// Notes when an update or end is tried again; does nothing for a start. In the seconds before that time, no start
    /// becomes a probe (``isStateRetriedSoon(_:now:)``).
    private func noteStateRetry(of record: RecordIndex, dueMilliseconds: Int64, now: Moment) {
        guard !records[record].isStart else { return }
        pools.noteStateRetry(of: PoolKey(records[record].pool), dueMilliseconds: dueMilliseconds, now: now)
    }

    /// Returns the pause after this many failures in a row, in milliseconds. A random part of up to a half is removed
    /// (`retryBaseMilliseconds`).
    private mutating func chooseRetryPauseMilliseconds(failureCount: UInt8) -> Int64 {
        // The shift is at most 24. Otherwise many failures would shift all bits out, and the pause would be 0.
        let pauseMilliseconds = configuration.retryBaseMilliseconds << min(Int64(failureCount), 24)
        return random.jitteredMilliseconds(min(configuration.reloadable.retryMillisecondsMax, pauseMilliseconds))
    }

    /// Retries the current command after its wait.
    /// - After a short back-off (`backingOff`), a push keeps its timestamp and is sent without asking Redis: APNs did
    ///   not process it, so it did not reach a phone.
    /// - After a longer wait (`awaitingService`), a push is admitted again: another worker may have admitted a newer
    ///   state or an end.
    /// - A start is always admitted again. Its partition may have moved, and the next owner may have reported the start
    ///   as `unknown`. If the next owner has not, Redis gives the same reply as before.
    ///
    /// A start that was never attempted has waited for its Redis server, which may have admitted it. So Redis decides
    /// even if the start has expired; `takeNextPush` then finishes it.
    mutating func retryCurrentCommand(of activity: ActivityIndex, now: Moment) {
        let record = activities[activity].currentCommand
        let (isStart, pool) = (records[record].isStart, records[record].pool)
        if records[record].push.attemptCount > 0, records[record].isPushExpired(now: now) {
            return finishAndEndTurn(record, .expired, settlement: .notShown, now: now)
        }
        if isLeftToNextOwner(record) { return dropCurrentCommandAndEndTurn(of: activity, now: now) }
        if activities[activity].phase == .awaitingService, !isStart {
            putBackCurrentCommand(of: activity, now: now)
            return endTurn(of: activity, now: now)
        }
        // A start that waited in `awaitingService` has no credit, so take one for it.
        guard activities[activity].phase.hasCredit || takeCreditOrWait(for: activity, now: now) else { return }
        if isStart {
            activities.enter(activity, .admitting)
            return queueStoreCall(.admit, record)
        }
        activities.enter(activity, .ready)
        pools.appendReadyPush(record, to: PoolKey(pool), now: now)
    }

    /// Supersedes the current command, which waits for a retry, by a command that has joined the waiting list. The
    /// activity's next command does not wait for the retry, but only for `earliestBeginAtMilliseconds`.
    mutating func replaceCommandAwaitingRetry(of activity: ActivityIndex, now: Moment) {
        // Only a start may wait without an attempt (`beginRedisServerPause`). Do not settle such a start, because Redis
        // may have admitted another record of the same start. The settlement would then end the start of that record.
        let isAttempted = records[activities[activity].currentCommand].push.attemptCount > 0
        supersedeCurrentCommand(of: activity, settlement: isAttempted ? .notShown : nil, now: now)
        let hadCredit = activities[activity].phase.hasCredit
        let earliestBeginAtMilliseconds = activities[activity].earliestBeginAtMilliseconds
        if earliestBeginAtMilliseconds > now.monotonicMilliseconds {
            activities.enter(activity, .paused, untilMilliseconds: earliestBeginAtMilliseconds)
        } else {
            activities.enter(activity, .queuedToBegin)
        }
        if hadCredit { returnCredit(of: activity, now: now) }
    }

    /// Whether a push that needs another attempt is left to its partition's next owner. Never true for a start: Redis
    /// admitted it for this lane's claim, so the next owner would report `unknown` although the start was not sent. If
    /// the start's pool is blocked, the start is deferred with its claim instead (`mustBeDeferredToNextOwner`).
    func isLeftToNextOwner(_ record: RecordIndex) -> Bool {
        !records[record].isStart && isPartitionRevoked(record)
    }
}
