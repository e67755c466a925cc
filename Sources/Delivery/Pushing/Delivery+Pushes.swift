import LiveActivity

/// Chooses the pushes to send and handles APNs' answers.
extension Delivery {
    /// Removes and returns the next push of a pool, to be sent now; nil if none waits. The caller has a free
    /// stream for it. (R20)
    ///
    /// A waiting push is not returned if a newer state replaced it and may be sent at once. A start is never
    /// returned if its end was read.
    ///
    /// - Parameter permitsRetry: whether the pool may retry pushes now. First attempts are returned in any
    ///   case.
    public mutating func nextPush(_ pool: PoolIndex, permitsRetry: Bool = true, now: Moment) -> UInt32? {
        guard mayPush(pool, now: now) else { return nil }
        while let record = pools.popReady(of: PoolKey(pool)) {
            let activity = activity(ofCurrent: record, in: .ready)
            if records[record].isPushExpired(by: policies, now: now) {
                finishCurrent(record, .expired, settlement: .notShown, now: now)
            } else if isOvertaken(activity), isReplacedAtOnce(record, of: activity, now: now) {
                overtakeCurrent(of: activity, settlement: .notShown, now: now)
            } else if records[record].attempts > 0, !permitsRetry {
                awaitRetryBudget(record, of: activity, now: now)
            } else {
                removeOldAlert(of: record, now: now)
                records[record].setSentExpiration(by: policies[records[record].policy], now: now)
                activities.enter(.inFlight, activity)
                offered = OfferedPush(
                    record: record,
                    spacingEndMilliseconds: activities[activity].spacingEndMilliseconds
                )
                // The push may have waited for its stream, so the spacing begins now.
                let spacing = policies[records[record].policy].pace.spacingMilliseconds
                activities[activity].extendSpacing(until: now.monotonicMilliseconds + spacing)
                records[record].noteAttempt()
                countPush()
                return record
            }
        }
        return nil
    }

    /// Whether a newer state replaces a push that waits for a stream: the newer state may be sent at once, or
    /// APNs was unavailable since the push was admitted. A start is always replaced.
    func isReplacedAtOnce(_ record: UInt32, of activity: UInt32, now: Moment) -> Bool {
        if records[record].isStart || !activities[activity].isWithinSpacing(now: now) { return true }
        let watch = pools.watch(PoolKey(records[record].pool))
        return records[record].admittedMilliseconds <= watch.pointee.readWallMilliseconds
    }

    /// Puts the last push of `nextPush` back, because no stream took it. The previous spacing is restored, so
    /// that a newer state can still replace the push.
    public mutating func pushReturned(_ record: UInt32) {
        let activity = activity(ofCurrent: record, in: .inFlight)
        precondition(offered.record == record, "another push was offered since")
        activities.enter(.ready, activity)
        activities[activity].restorePreviousSpacing(until: offered.spacingEndMilliseconds)
        records[record].takeBackAttempt()
        uncountPush()
        offered = OfferedPush()
        pools.prependReady(record, to: PoolKey(records[record].pool))
    }

    /// Whether a push waits for a stream of this pool.
    public func hasPush(_ pool: PoolIndex) -> Bool { pools.firstReady(of: PoolKey(pool)) != nil }

    /// Handles APNs' answer to a push, or the fact that no answer will come. A command fails only for a
    /// reason of this very push. Faults of the service, the key, the connection or the load only delay it.
    public mutating func answered(_ record: UInt32, _ result: PushResult, now: Moment) {
        let activity = activity(ofCurrent: record, in: .inFlight)
        records[record].noteResponse(result)
        if result.disposition.isJudgement {
            // If the pool accepts no other token, a refused token is no progress: its push waits for a
            // correct configuration.
            let isProgress = result.acceptsOtherTokens || result.disposition != .tokenSuspect
            let delay = configuration.deferredDelayMilliseconds
            pools.noteJudgement(
                of: PoolKey(records[record].pool),
                isProgress: isProgress,
                delayMilliseconds: delay,
                now: now
            )
        }
        let isStart = records[record].isStart
        switch result.disposition {
        case .accepted:
            dropAlertsNotNewer(than: record, of: activity)
            activities[activity].forgetServiceFaults()
            finishCurrent(record, .accepted, settlement: .accepted, now: now)
        case .tokenDead:
            tokenRefused(record, of: activity, result, now: now)
        // If the pool accepts no other token, its environment or topic is wrong. Then no token is retired and
        // no command fails.
        case .tokenSuspect where result.acceptsOtherTokens:
            tokenRefused(record, of: activity, result, now: now)
        case .topicSuspect where result.acceptsOtherTokens:
            finishCurrent(record, .failed, settlement: .notShown, now: now)
        case .rejected, .channelGone:
            finishCurrent(record, .failed, settlement: .notShown, now: now)
        case .ambiguous where isStart:
            // If the start was repeated, a second activity could begin. So its outcome is `unknown`.
            finishCurrent(record, .unknown, settlement: .unknown, now: now)
        case .limited where !isStart:
            // Redis learns the limit before the command is admitted again, so that the command waits for the
            // longer spacing.
            activities.enter(.limiting, activity)
            countLimited()
            call(.limit, record)
        case .retryNow, .retryLater, .limited, .ambiguous, .tokenSuspect, .topicSuspect:
            retry(record, of: activity, result.disposition, isPermitted: result.retryPermitted, now: now)
        }
    }

    /// Retries a push after Redis has recorded that its token is limited, or has refused the call.
    mutating func limited(_ record: UInt32, now: Moment) {
        // The retry is permitted here, because the pool checks its retry budget again when the push is sent.
        retry(record, of: activity(ofCurrent: record, in: .limiting), .limited, isPermitted: true, now: now)
    }
}

/// The last push of `nextPush`, with what `pushReturned` must restore if no stream takes it.
struct OfferedPush: BitwiseCopyable {
    /// The push's record; `.max`: none.
    var record: UInt32 = .max
    var spacingEndMilliseconds: Int64 = 0
}
