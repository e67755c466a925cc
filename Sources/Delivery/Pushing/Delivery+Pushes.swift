import LiveActivity

/// APNs' side of the core: which push goes next, and what its answer comes to.
extension Delivery {
    /// The next push of a pool, to be sent now; the caller has a free stream for it. nil if none waits.
    ///
    /// A push that was overtaken while it waited is not handed out when the newer state could go at once.
    ///
    /// - Parameter permitsRetry: the pool may send a push again now; those that were never sent go in any case.
    public mutating func nextPush(_ pool: PoolIndex, permitsRetry: Bool = true, now: Moment) -> UInt32? {
        while let record = pools.popReady(of: pool) {
            let activity = records[record].activity
            precondition(activities[activity].phase == .ready && activities[activity].current == record)
            let mayGoAgain = activities[activity].restsUntilMilliseconds <= now.monotonicMilliseconds
            if isPushExpired(record, now: now) {
                finishPush(record, .expired, settlement: .notShown, now: now)
            } else if mayGoAgain, isOvertaken(activity) {
                records[record].settlement = .notShown
                overtakeCurrent(of: activity, now: now)
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
                // It may have waited for its stream: the next one keeps its distance from when this one went.
                let spacing = policies[records[record].policy].pace.spacingMilliseconds
                activities[activity].rest(until: now.monotonicMilliseconds + spacing)
                records[record].attempts += 1
                records[record].sentMilliseconds = now.wallMilliseconds
                countPush()
                return record
            }
        }
        return nil
    }

    /// The push that `nextPush` handed out last found no stream after all: it waits again, and nothing has happened. What waits for a
    /// stream rests for no spacing, so that a newer state can still take its place.
    public mutating func pushReturned(_ record: UInt32) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .inFlight && activities[activity].current == record)
        precondition(handedOut.record == record, "another push was handed out since")
        activities.enter(.ready, activity)
        activities[activity].restorePreviousRest(until: handedOut.restsUntilMilliseconds)
        records[record].sentMilliseconds = handedOut.sentMilliseconds
        records[record].attempts -= 1
        uncountPush()
        handedOut = HandedOutPush()
        let slot = records[record]
        pools.prependReady(record, to: PoolIndex(application: slot.application, environment: slot.environment))
    }

    /// Whether a push waits for a stream of this pool.
    public func hasPush(_ pool: PoolIndex) -> Bool { pools.firstReady(of: pool) != nil }

    /// APNs answered a push, or it is known that no answer will come.
    public mutating func answered(_ record: UInt32, _ result: PushResult, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .inFlight && activities[activity].current == record)
        records[record].status = result.status
        records[record].connection = result.connection
        records[record].setReason(result.reason)
        if result.reason.isEmpty, records[record].heldAlert == .doesNotFit {
            records[record].setReason("alertDidNotFit")
        }
        if result.sentMilliseconds >= 0 { records[record].sentMilliseconds = result.sentMilliseconds }
        records[record].answeredMilliseconds = result.answeredMilliseconds
        switch result.disposition {
        case .accepted:
            dropAlertsNotNewer(than: record, of: activity)
            finishPush(record, .accepted, settlement: .accepted, now: now)
        case .tokenDead:
            tokenRefused(record, result, now: now)
        // A burst of refused tokens is usually a wrong environment, which must not retire them all.
        case .tokenSuspect where !result.isBreakerOpen:
            tokenRefused(record, result, now: now)
        case .rejected, .tokenSuspect:
            finishPush(record, .failed, settlement: .notShown, now: now)
        case .ambiguous where records[record].event == .start:
            // Repeating it on a guess could make a second activity (design §2, `unknown`).
            finishPush(record, .unknown, settlement: .unknown, now: now)
        case .limited where records[record].event != .start:
            // Before the command is admitted again, so that its turn comes by the stretched spacing.
            activities.enter(.limiting, activity)
            countLimited()
            call(.limit, record)
        case .retryNow, .retryLater, .limited, .ambiguous:
            retry(record, of: activity, result.disposition, isPermitted: result.retryPermitted, now: now)
        }
    }

    /// Redis knows that the token is limited, or will not take it down.
    mutating func limited(_ record: UInt32, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .limiting && activities[activity].current == record)
        // The pool has its say when the push is to go.
        retry(record, of: activity, .limited, isPermitted: true, now: now)
    }

    /// What is decided about a push in the moment in which it goes.
    private mutating func prepareBody(of record: UInt32, now: Moment) {
        if records[record].event != .start { return setSentExpiration(of: record, now: now) }
        // A start whose stale date has passed is not displayed (reference, trap 23).
        guard (0...now.wallSeconds).contains(records[record].staleDate) else { return }
        records[record].staleDate = -1
        Body.removeStaleDate(from: records.ownBody(of: record), &records[record].layout)
    }

    /// The command's own, or by default the policy's; an update's is its stale date.
    mutating func setSentExpiration(of record: UInt32, now: Moment) {
        let slot = records[record]
        let policy = policies[slot.policy]
        let seconds = now.wallSeconds
        records[record].sentExpiration =
            switch slot.event {
            case _ where slot.expiration >= 0: slot.expiration
            case .start: seconds + policy.startSeconds
            case .update where slot.staleDate > seconds: min(slot.staleDate, seconds + PolicyTable.updateSecondsMost)
            case .update: seconds + policy.updateSeconds
            case .end: seconds + policy.endSeconds
            }
    }

    /// A start's default holds from its admission on, since one that comes late is worse than none; a state's only from its sending on.
    private func isPushExpired(_ record: UInt32, now: Moment) -> Bool {
        guard records[record].event == .start else { return isExpired(record, now: now) }
        return records[record].sentExpiration < now.wallSeconds
    }

    /// A dead token leaves the hash, unless it was registered after the moment from which APNs calls it dead.
    private mutating func tokenRefused(_ record: UInt32, _ result: PushResult, now: Moment) {
        let registeredAt = records[record].registeredAtMilliseconds
        let wasRegisteredSince = result.invalidAtMilliseconds >= 0 && registeredAt >= result.invalidAtMilliseconds
        guard !wasRegisteredSince else { return finishPush(record, .failed, settlement: .notShown, now: now) }
        records[record].invalidAtMilliseconds =
            result.invalidAtMilliseconds >= 0 ? result.invalidAtMilliseconds : now.wallMilliseconds
        records[record].tokenRefusal = result.invalidAtMilliseconds < 0 ? .unconditional : .unlessRegisteredSince
        produce(.invalidation, record)
        finishPush(record, .unregistered, settlement: .notShown, now: now)
    }

    private mutating func retry(
        _ record: UInt32,
        of activity: UInt32,
        _ disposition: PushResult.Disposition,
        isPermitted: Bool,
        now: Moment
    ) {
        if isOvertaken(activity) {
            records[record].settlement = .notShown
            return overtakeCurrent(of: activity, now: now)
        }
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        guard records[record].attempts < configuration.attemptsMax else {
            return finishPush(record, .failed, settlement: .notShown, now: now)
        }
        countRetry()
        guard isPermitted else { return postponeRetry(record, of: activity, now: now) }
        let doublings = min(Int64(records[record].attempts), 20)
        let ceiling = min(
            configuration.retryCapMilliseconds,
            disposition == .retryNow
                ? configuration.retryBaseMilliseconds : configuration.retryBaseMilliseconds << doublings
        )
        let pause = Int64(randomness.next(below: UInt64(ceiling))) + 1
        activities[activity].rest(until: now.monotonicMilliseconds + pause)
        guard disposition == .retryNow || records[record].event == .start else {
            // Another worker may have admitted a newer state meanwhile, so Redis is asked again; it gives the same timestamp.
            putBackCurrent(of: activity, now: now)
            return endTurn(activity, now: now)
        }
        activities.enter(.backingOff, activity, untilMilliseconds: now.monotonicMilliseconds + pause)
    }

    /// The retry budget is used up: the push waits for most of the longest back-off and asks again, without an attempt. It is not counted
    /// among its app's pushes on their way meanwhile, and a newer state waits for its own spacing only.
    private mutating func postponeRetry(_ record: UInt32, of activity: UInt32, now: Moment) {
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        let half = (configuration.retryCapMilliseconds + 1) / 2
        let pause = half + Int64(randomness.next(below: UInt64(half))) + 1
        activities.enter(.awaitingRetryBudget, activity, untilMilliseconds: now.monotonicMilliseconds + pause)
        returnCredit(of: activity, now: now)
    }

    /// A back-off is over: the same push is sent again with its timestamp, without asking Redis, since it did not reach a phone. A push
    /// that waited for the retry budget is admitted again. So is a start, for which Redis repeats its reply: its partition may have gone
    /// to another worker, which has reported the start as `unknown` and gone on with what follows it.
    mutating func sendAgain(_ activity: UInt32, now: Moment) {
        let record = activities[activity].current
        if isPushExpired(record, now: now) { return finishPush(record, .expired, settlement: .notShown, now: now) }
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        if activities[activity].phase == .awaitingRetryBudget, records[record].event != .start {
            putBackCurrent(of: activity, now: now)
            return endTurn(activity, now: now)
        }
        // A start that waited for the retry budget was not counted meanwhile: it takes its place like any other.
        guard activities[activity].phase.holdsCredit || takeCredit(activity) else { return }
        if records[record].event == .start {
            activities.enter(.admitting, activity)
            return call(.admit, record)
        }
        activities.enter(.ready, activity)
        let slot = records[record]
        pools.appendReady(record, to: PoolIndex(application: slot.application, environment: slot.environment))
    }

    /// A newer state came while the current push backs off: it replaces the push, and waits for the rest of the activity's spacing.
    mutating func replaceRetry(of activity: UInt32, now: Moment) {
        let record = activities[activity].current
        records[record].settlement = .notShown
        records.passToken(from: record, to: activities[activity].waiting.first)
        supersede(record, by: activities[activity].waiting.first, now: now)
        let heldCredit = activities[activity].phase.holdsCredit
        let restsUntil = activities[activity].restsUntilMilliseconds
        if restsUntil > now.monotonicMilliseconds {
            activities.enter(.resting, activity, untilMilliseconds: restsUntil)
        } else {
            activities.enter(.awakened, activity)
        }
        if heldCredit { returnCredit(of: activity, now: now) }
    }

    /// Whether a push that needs another attempt is left to its partition's next owner. A start never is: it was admitted here, and to the
    /// next owner it would be `unknown`, though nothing was sent.
    private func isLeftToNextOwner(_ record: UInt32) -> Bool { records[record].event != .start && isRevoked(record) }

    private mutating func finishPush(_ record: UInt32, _ outcome: Outcome, settlement: Settlement, now: Moment) {
        let activity = records[record].activity
        records[record].settlement = settlement
        finish(record, outcome)
        endTurn(activity, now: now)
    }
}

/// What a push that finds no stream after all gives back.
struct HandedOutPush: BitwiseCopyable {
    /// `.max`: none.
    var record: UInt32 = .max
    var restsUntilMilliseconds: Int64 = 0
    var sentMilliseconds: Int64 = -1
}
