import LiveActivity

/// APNs' side of the core: which push goes next, and what its answer means.
extension Delivery {
    /// The next push of a pool, to be sent now; the caller has a free stream for it. nil if none waits.
    ///
    /// A push that was overtaken while it waited is not handed out if the newer state could go at once; a start whose end has come never is.
    ///
    /// - Parameter permitsRetry: whether the pool may retry pushes now. First attempts go in any case.
    public mutating func nextPush(_ pool: PoolIndex, permitsRetry: Bool = true, now: Moment) -> UInt32? {
        guard mayPush(pool, now: now) else { return nil }
        while let record = pools.popReady(of: PushLine(pool)) {
            let activity = activity(ofCurrent: record, in: .ready)
            if records[record].isPushExpired(by: policies, now: now) {
                finishCurrent(record, .expired, settlement: .notShown, now: now)
            } else if isOvertaken(activity), givesWay(record, of: activity, now: now) {
                overtakeCurrent(of: activity, settlement: .notShown, now: now)
            } else if records[record].attempts > 0, !permitsRetry {
                awaitRetryBudget(record, of: activity, now: now)
            } else {
                removeOldAlert(of: record, now: now)
                records[record].setSentExpiration(by: policies[records[record].policy], now: now)
                activities.enter(.inFlight, activity)
                handedOut = HandedOutPush(
                    record: record,
                    restsUntilMilliseconds: activities[activity].restsUntilMilliseconds
                )
                // The push may have waited for its stream, so the spacing begins now.
                let spacing = policies[records[record].policy].pace.spacingMilliseconds
                activities[activity].rest(until: now.monotonicMilliseconds + spacing)
                records[record].noteAttempt()
                countPush()
                return record
            }
        }
        return nil
    }

    /// Whether a push that was overtaken while it waited gives way at once: where the newer state could go at once, and where APNs was away.
    /// A start gives way in any case.
    func givesWay(_ record: UInt32, of activity: UInt32, now: Moment) -> Bool {
        if records[record].isStart || !activities[activity].isResting(now: now) { return true }
        let watch = pools.watch(PushLine(records[record].pool))
        return records[record].admittedMilliseconds <= watch.pointee.readWallMilliseconds
    }

    /// The push that `nextPush` handed out last found no stream: it waits again as before, without a spacing, so that a newer state can
    /// still replace it.
    public mutating func pushReturned(_ record: UInt32) {
        let activity = activity(ofCurrent: record, in: .inFlight)
        precondition(handedOut.record == record, "another push was handed out since")
        activities.enter(.ready, activity)
        activities[activity].restorePreviousRest(until: handedOut.restsUntilMilliseconds)
        records[record].takeBackAttempt()
        uncountPush()
        handedOut = HandedOutPush()
        pools.prependReady(record, to: PushLine(records[record].pool))
    }

    /// Whether a push waits for a stream of this pool.
    public func hasPush(_ pool: PoolIndex) -> Bool { pools.firstReady(of: PushLine(pool)) != nil }

    /// APNs answered a push, or no answer will come. A command fails only for a reason of this very push; whatever concerns the service,
    /// the key, the connection or the load delays it.
    public mutating func answered(_ record: UInt32, _ result: PushResult, now: Moment) {
        let activity = activity(ofCurrent: record, in: .inFlight)
        records[record].noteAnswer(result)
        if result.disposition.isJudgement {
            // A token that may be known elsewhere waits on: it is not what the pool gets done.
            let isProgress = result.acceptsOtherTokens || result.disposition != .tokenSuspect
            let delay = configuration.deferredDelayMilliseconds
            pools.noteJudgement(
                of: PushLine(records[record].pool),
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
        // Where none is accepted the environment or the topic is wrong: no token is retired by that, and no command fails.
        case .tokenSuspect where result.acceptsOtherTokens:
            tokenRefused(record, of: activity, result, now: now)
        case .topicSuspect where result.acceptsOtherTokens:
            finishCurrent(record, .failed, settlement: .notShown, now: now)
        case .rejected, .channelGone:
            finishCurrent(record, .failed, settlement: .notShown, now: now)
        case .ambiguous where isStart:
            // Repeating it on a guess could make a second activity (design §2, `unknown`).
            finishCurrent(record, .unknown, settlement: .unknown, now: now)
        case .limited where !isStart:
            // Before the command is admitted again, so that its turn comes by the stretched spacing.
            activities.enter(.limiting, activity)
            countLimited()
            call(.limit, record)
        case .retryNow, .retryLater, .limited, .ambiguous, .tokenSuspect, .topicSuspect:
            retry(record, of: activity, result.disposition, isPermitted: result.retryPermitted, now: now)
        }
    }

    /// Redis has noted that the token is limited, or refused to.
    mutating func limited(_ record: UInt32, now: Moment) {
        // The pool decides when the push is to go.
        retry(record, of: activity(ofCurrent: record, in: .limiting), .limited, isPermitted: true, now: now)
    }
}

/// What `pushReturned` restores when a push finds no stream.
struct HandedOutPush: BitwiseCopyable {
    /// `.max`: none.
    var record: UInt32 = .max
    var restsUntilMilliseconds: Int64 = 0
}
