import LiveActivity

/// Chooses the push that a pool sends next, and decides by APNs' response whether its command is finished, held or
/// tried again.
extension Delivery {
    /// Removes and returns the next push of a pool; nil if none may be sent now, for example because the lane reads
    /// ahead after an outage of APNs. The caller has a free stream and sends the push now. (R20)
    ///
    /// Before that, finishes or supersedes the waiting pushes that must not be sent any more: those that have expired,
    /// and those that another command replaces (`isReplacedAtOnce`).
    ///
    /// - Parameters:
    ///   - permitsRetry: whether the pool may retry pushes now. If false, retries leave the queue and wait
    ///     (`beginWaitForRetryBudget`). First attempts do not need this permission.
    ///   - permitsStarts: false: only updates and ends are returned, because the push is a probe. If a start were the
    ///     probe and got no response, it would end as `unknown` and not be sent again. (R16)
    public mutating func takeNextPush(
        _ pool: PoolTarget,
        permitsRetry: Bool = true,
        permitsStarts: Bool = true,
        now: Moment
    ) -> RecordIndex? {
        guard !holdBackPushesIfNeeded(of: pool, now: now) else { return nil }
        while let record = popReadyPush(of: PoolKey(pool), permitsStarts: permitsStarts) {
            let activity = activityOfCurrentCommand(record, in: .ready)
            if records[record].isPushExpired(now: now) {
                finishAndEndTurn(record, .expired, settlement: .notShown, now: now)
            } else if isCurrentCommandReplaced(of: activity), isReplacedAtOnce(record, of: activity, now: now) {
                supersedeCurrentCommandAndEndTurn(of: activity, settlement: .notShown, now: now)
            } else if records[record].push.attemptCount > 0, !permitsRetry {
                beginWaitForRetryBudget(record, of: activity, now: now)
            } else {
                removeAlertIfOld(of: record, now: now)
                records[record].setSentExpiration(by: policies[records[record].policyIndex], now: now)
                activities.enter(activity, .inFlight)
                lastOfferedPush = OfferedPush(
                    record: record,
                    previousEarliestBeginAtMilliseconds: activities[activity].earliestBeginAtMilliseconds
                )
                // The spacing counts from now, when the push is sent, and not from its admission, because the push may
                // have waited long for a stream.
                let spacingMilliseconds = policies[records[record].policyIndex].pace.spacingMilliseconds
                activities[activity].delayNextCommand(until: now.monotonicMilliseconds + spacingMilliseconds)
                records[record].countAttempt()
                return record
            }
        }
        return nil
    }

    /// Removes and returns the first push that waits for a stream; nil if there is none. If `permitsStarts` is false,
    /// this is the first push that is no start, and the starts before it then wait behind all other pushes.
    private func popReadyPush(of poolKey: PoolKey, permitsStarts: Bool) -> RecordIndex? {
        guard !permitsStarts else { return pools.popReadyPush(of: poolKey) }
        for _ in 0..<pools.readyPushCount(of: poolKey) {
            guard let record = pools.firstReadyPush(of: poolKey), records[record].isStart else {
                return pools.popReadyPush(of: poolKey)
            }
            pools.moveFirstReadyPushToEnd(of: poolKey)
        }
        return nil
    }

    /// Whether the activity's newer command replaces this push at once, while the push waits for a stream. Call this
    /// only if a waiting command replaces the push (`isCurrentCommandReplaced`). True if any of these is true:
    /// - The push is a start.
    /// - The activity's next command may begin, so the newer command may be sent at once.
    /// - The push was admitted before the lane read ahead after an outage of APNs. Its state may then be much older
    ///   than the newer command's state. (R21)
    func isReplacedAtOnce(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        if records[record].isStart || !activities[activity].isNextCommandDelayed(now: now) { return true }
        let watch = pools.outageWatch(of: PoolKey(records[record].pool))
        guard let admittedAtWallMilliseconds = records[record].times.admittedAtWallMilliseconds else {
            preconditionFailure("a push was not admitted")
        }
        return admittedAtWallMilliseconds <= watch.pointee.readAheadEndWallMilliseconds
    }

    /// Puts back the push that `takeNextPush` returned last, because no stream took it. Also undoes the delay of the
    /// activity's next command, so that a newer state can still replace the push.
    public mutating func putBackPush(_ record: RecordIndex) {
        let activity = activityOfCurrentCommand(record, in: .inFlight)
        precondition(lastOfferedPush.record == record, "another push was offered since")
        activities.enter(activity, .ready)
        activities[activity].restoreNextCommandDelay(until: lastOfferedPush.previousEarliestBeginAtMilliseconds)
        records[record].undoCountAttempt()
        lastOfferedPush = OfferedPush()
        pools.prependReadyPush(record, to: PoolKey(records[record].pool))
    }

    /// Whether a push waits for a stream of this pool.
    public func hasReadyPush(_ pool: PoolTarget) -> Bool { pools.firstReadyPush(of: PoolKey(pool)) != nil }

    /// Whether an update or end of this pool waits for its next attempt, and is ready within a few seconds. A pool that
    /// must send a probe waits for this push: if the probe were a start, the start could end as `unknown`. (R16)
    public func isStateRetriedSoon(_ pool: PoolTarget, now: Moment) -> Bool {
        pools.isStateRetriedSoon(PoolKey(pool), now: now)
    }

    /// Notes that a pool has opened a connection to APNs, and so may work again after an outage.
    public func noteOpenedConnection(of pool: PoolTarget) { pools.noteOpenedConnection(of: PoolKey(pool)) }

    /// Handles APNs' response to a push, or the fact that no response will come. A command fails only for a reason of
    /// its own push or token. A fault of the service, the key or the connection, or too much load, only delays the
    /// command. (R18)
    public mutating func handlePushResponse(_ record: RecordIndex, _ result: PushResult, now: Moment) {
        let activity = activityOfCurrentCommand(record, in: .inFlight)
        records[record].noteResponse(result)
        if result.disposition.showsThatAPNsWorks {
            // If the refusal of a token is not trusted, the app's configuration may be wrong instead of the token. The
            // push then waits and is sent again, so this response does not count in the pool's rate of responses.
            let isCountedInRate = result.isTokenRefusalTrusted || result.disposition != .tokenSuspect
            let sendingMillisecondsMax = configuration.reloadable.deferredDelayMilliseconds
            pools.noteResponse(
                of: PoolKey(records[record].pool),
                isCountedInRate: isCountedInRate,
                sendingMillisecondsMax: sendingMillisecondsMax,
                now: now
            )
        }
        let isStart = records[record].isStart
        switch result.disposition {
        case .accepted:
            removeWaitingAlerts(upToAlertOf: record, of: activity)
            activities[activity].resetServiceFailureCount()
            finishAndEndTurn(record, .accepted, settlement: .accepted, now: now)
        case .tokenDead:
            retireTokenOrRetry(record, of: activity, result, now: now)
        // `tokenSuspect` retires the token, and `topicSuspect` fails the command, only if the refusal is trusted.
        // Otherwise the pool's environment or topic may be wrong for all tokens, and the last case of this switch
        // retries the push.
        case .tokenSuspect where result.isTokenRefusalTrusted:
            retireTokenOrRetry(record, of: activity, result, now: now)
        case .topicSuspect where result.isTokenRefusalTrusted:
            finishAndEndTurn(record, .failed, settlement: .notShown, now: now)
        case .rejected, .channelGone:
            finishAndEndTurn(record, .failed, settlement: .notShown, now: now)
        case .ambiguous where isStart:
            // APNs may have accepted the start although its response was lost. A second push could begin a second
            // activity.
            finishAndEndTurn(record, .unknown, settlement: .unknown, now: now)
        case .throttled where !isStart:
            // Redis first records that APNs limits this token. Then the command is admitted again, and waits for the
            // longer spacing.
            activities.enter(activity, .recordingThrottle)
            queueStoreCall(.throttle, record)
        case .retrySoon, .retryLater, .throttled, .ambiguous, .tokenSuspect, .topicSuspect:
            retry(record, of: activity, result.disposition, isRetryPermitted: result.isRetryPermitted, now: now)
        }
    }

    /// Plans the retry of a push that APNs refused with 429. Called when Redis has replied to the call `throttle`. Also
    /// called when Redis has refused this call: the activity's spacing then does not become longer.
    mutating func retryAfterThrottling(_ record: RecordIndex, now: Moment) {
        // `isRetryPermitted` is true, because `takeNextPush` checks the pool's retry budget before it sends the push
        // again.
        let activity = activityOfCurrentCommand(record, in: .recordingThrottle)
        retry(record, of: activity, .throttled, isRetryPermitted: true, now: now)
    }
}

/// The last push that `takeNextPush` returned, and what `putBackPush` must restore if no stream takes it. The core
/// remembers only one push, because the shell puts a push back before it asks for the next one.
struct OfferedPush: BitwiseCopyable {
    /// The push's record; `.null`: none.
    var record = RecordIndex.null
    var previousEarliestBeginAtMilliseconds: Int64 = 0
}
