import LiveActivity

/// APNs' side of the core: which push goes next, and what its answer means.
extension Delivery {
    /// The next push of a pool, to be sent now; the caller has a free stream for it. nil if none waits.
    ///
    /// A push that was overtaken while it waited is not handed out if the newer state could go at once.
    ///
    /// - Parameter permitsRetry: whether the pool may retry pushes now. First attempts go in any case.
    public mutating func nextPush(_ pool: PoolIndex, permitsRetry: Bool = true, now: Moment) -> UInt32? {
        while let record = pools.popReady(of: pool) {
            let activity = activity(ofCurrent: record, in: .ready)
            if records[record].isPushExpired(now: now) {
                finishCurrent(record, .expired, settlement: .notShown, now: now)
            } else if !activities[activity].isResting(now: now), isOvertaken(activity) {
                overtakeCurrent(of: activity, settlement: .notShown, now: now)
            } else if records[record].attempts > 0, !permitsRetry {
                postponeRetry(record, of: activity, now: now)
            } else {
                prepareBody(of: record, now: now)
                activities.enter(.inFlight, activity)
                handedOut = HandedOutPush(
                    record: record,
                    restsUntilMilliseconds: activities[activity].restsUntilMilliseconds,
                    sentMilliseconds: records[record].sentMilliseconds
                )
                // The push may have waited for its stream, so the spacing begins now.
                let spacing = policies[records[record].policy].pace.spacingMilliseconds
                activities[activity].rest(until: now.monotonicMilliseconds + spacing)
                records[record].noteAttempt(now: now)
                countPush()
                return record
            }
        }
        return nil
    }

    /// The push that `nextPush` handed out last found no stream: it waits again as before, without a spacing, so that a newer state can
    /// still replace it.
    public mutating func pushReturned(_ record: UInt32) {
        let activity = activity(ofCurrent: record, in: .inFlight)
        precondition(handedOut.record == record, "another push was handed out since")
        activities.enter(.ready, activity)
        activities[activity].restorePreviousRest(until: handedOut.restsUntilMilliseconds)
        records[record].takeBackAttempt(sentMilliseconds: handedOut.sentMilliseconds)
        uncountPush()
        handedOut = HandedOutPush()
        pools.prependReady(record, to: records[record].pool)
    }

    /// Whether a push waits for a stream of this pool.
    public func hasPush(_ pool: PoolIndex) -> Bool { pools.firstReady(of: pool) != nil }

    /// APNs answered a push, or no answer will come.
    public mutating func answered(_ record: UInt32, _ result: PushResult, now: Moment) {
        let activity = activity(ofCurrent: record, in: .inFlight)
        records[record].noteAnswer(result)
        let isStart = records[record].isStart
        switch result.disposition {
        case .accepted:
            dropAlertsNotNewer(than: record, of: activity)
            finishCurrent(record, .accepted, settlement: .accepted, now: now)
        case .tokenDead:
            tokenRefused(record, result, now: now)
        // A burst of refused tokens is usually a wrong environment, which must not retire them all.
        case .tokenSuspect where !result.isBreakerOpen:
            tokenRefused(record, result, now: now)
        case .rejected, .tokenSuspect:
            finishCurrent(record, .failed, settlement: .notShown, now: now)
        case .ambiguous where isStart:
            // Repeating it on a guess could make a second activity (design §2, `unknown`).
            finishCurrent(record, .unknown, settlement: .unknown, now: now)
        case .limited where !isStart:
            // Before the command is admitted again, so that its turn comes by the stretched spacing.
            activities.enter(.limiting, activity)
            countLimited()
            call(.limit, record)
        case .retryNow, .retryLater, .limited, .ambiguous:
            retry(record, of: activity, result.disposition, isPermitted: result.retryPermitted, now: now)
        }
    }

    /// Redis has noted that the token is limited, or refused to.
    mutating func limited(_ record: UInt32, now: Moment) {
        // The pool decides when the push is to go.
        retry(record, of: activity(ofCurrent: record, in: .limiting), .limited, isPermitted: true, now: now)
    }

    /// Makes the decisions that wait until the push goes.
    private mutating func prepareBody(of record: UInt32, now: Moment) {
        if records[record].isStart {
            // A start whose stale date has passed is not displayed (reference, trap 23).
            records.removeStaleDate(of: record, through: now.wallSeconds)
        } else {
            records[record].setSentExpiration(by: policies[records[record].policy], now: now)
        }
    }

    /// A dead token is retired, unless it was registered after the time from which APNs calls it dead.
    private mutating func tokenRefused(_ record: UInt32, _ result: PushResult, now: Moment) {
        guard records[record].noteRefusedToken(result, now: now) else {
            return finishCurrent(record, .failed, settlement: .notShown, now: now)
        }
        produce(.invalidation, record)
        finishCurrent(record, .unregistered, settlement: .notShown, now: now)
    }

    private mutating func retry(
        _ record: UInt32,
        of activity: UInt32,
        _ disposition: PushResult.Disposition,
        isPermitted: Bool,
        now: Moment
    ) {
        if isOvertaken(activity) { return overtakeCurrent(of: activity, settlement: .notShown, now: now) }
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        let attempts = records[record].attempts
        guard attempts < configuration.attemptsMax else {
            return finishCurrent(record, .failed, settlement: .notShown, now: now)
        }
        countRetry()
        guard isPermitted else { return postponeRetry(record, of: activity, now: now) }
        let doublings = disposition == .retryNow ? 0 : min(Int64(attempts), 20)
        let ceiling = min(configuration.retryCapMilliseconds, configuration.retryBaseMilliseconds << doublings)
        let pause = Int64(randomness.next(below: UInt64(ceiling))) + 1
        activities[activity].rest(until: now.monotonicMilliseconds + pause)
        guard disposition == .retryNow || records[record].isStart else {
            // Another worker may have admitted a newer state meanwhile, so Redis is asked again. It returns the same timestamp.
            putBackCurrent(of: activity, now: now)
            return endTurn(activity, now: now)
        }
        activities.enter(.backingOff, activity, untilMilliseconds: now.monotonicMilliseconds + pause)
    }

    /// The retry budget is used up: the push waits for most of the longest back-off and asks again, without an attempt. Meanwhile it does
    /// not count as one of its app's pushes in flight, and a newer state waits for its own spacing only.
    private mutating func postponeRetry(_ record: UInt32, of activity: UInt32, now: Moment) {
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        let half = (configuration.retryCapMilliseconds + 1) / 2
        let pause = half + Int64(randomness.next(below: UInt64(half))) + 1
        activities.enter(.awaitingRetryBudget, activity, untilMilliseconds: now.monotonicMilliseconds + pause)
        returnCredit(of: activity, now: now)
    }

    /// A back-off is over. The same push is sent again with its timestamp, without asking Redis, since it did not reach a phone. A push that
    /// waited for the retry budget is admitted again. So is a start, for which Redis repeats its reply: its partition may have moved to
    /// another worker, which has reported the start as `unknown`.
    mutating func sendAgain(_ activity: UInt32, now: Moment) {
        let record = activities[activity].current
        let (isStart, pool) = (records[record].isStart, records[record].pool)
        if records[record].isPushExpired(now: now) {
            return finishCurrent(record, .expired, settlement: .notShown, now: now)
        }
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        if activities[activity].phase == .awaitingRetryBudget, !isStart {
            putBackCurrent(of: activity, now: now)
            return endTurn(activity, now: now)
        }
        // A start that waited for the retry budget was not counted meanwhile, so it takes a credit again.
        guard activities[activity].phase.holdsCredit || takeCredit(activity) else { return }
        if isStart {
            activities.enter(.admitting, activity)
            return call(.admit, record)
        }
        activities.enter(.ready, activity)
        pools.appendReady(record, to: pool)
    }

    /// A newer state came while the current push backs off. It replaces the push and waits for the rest of the spacing.
    mutating func replaceRetry(of activity: UInt32, now: Moment) {
        supersedeCurrent(of: activity, settlement: .notShown, now: now)
        let heldCredit = activities[activity].phase.holdsCredit
        let restsUntil = activities[activity].restsUntilMilliseconds
        if restsUntil > now.monotonicMilliseconds {
            activities.enter(.resting, activity, untilMilliseconds: restsUntil)
        } else {
            activities.enter(.awakened, activity)
        }
        if heldCredit { returnCredit(of: activity, now: now) }
    }

    /// Whether a push that needs another attempt is left to its partition's next owner. A start never is: it was admitted here, so the next
    /// owner would report `unknown`, though nothing was sent.
    private func isLeftToNextOwner(_ record: UInt32) -> Bool { !records[record].isStart && isRevoked(record) }
}

/// What `pushReturned` restores when a push finds no stream.
struct HandedOutPush: BitwiseCopyable {
    /// `.max`: none.
    var record: UInt32 = .max
    var restsUntilMilliseconds: Int64 = 0
    var sentMilliseconds: Int64 = -1
}
