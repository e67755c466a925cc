import LiveActivity
import Numbers

/// Pushes that go again. What the service could not take waits, until it is accepted, expires or is replaced by a newer state: attempts
/// have no limit, and the waits between them grow to minutes.
extension Delivery {
    /// Faults in a row after which a push that APNs never processed no longer goes again at once.
    private static var retriesAtOnceMax: UInt8 { 2 }

    /// The push came to nothing for a reason that is not its own.
    mutating func retry(
        _ record: UInt32,
        of activity: UInt32,
        _ disposition: PushResult.Disposition,
        isPermitted: Bool,
        now: Moment
    ) {
        activities[activity].countServiceFault()
        if isOvertaken(activity) { return overtakeCurrent(of: activity, settlement: .notShown, now: now) }
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        countRetry()
        let faults = activities[activity].serviceFaults
        guard isPermitted else { return awaitRetryBudget(record, of: activity, now: now) }
        guard disposition == .retryNow, faults <= Self.retriesAtOnceMax else {
            return awaitService(activity, milliseconds: retryPauseMilliseconds(faults: faults), now: now)
        }
        let due = now.monotonicMilliseconds + retryPauseMilliseconds(faults: 0)
        activities[activity].rest(until: due)
        activities.enter(.backingOff, activity, untilMilliseconds: due)
    }

    /// The retry budget is used up: the push asks again after the longer of both pauses, without an attempt.
    mutating func awaitRetryBudget(_ record: UInt32, of activity: UInt32, now: Moment) {
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        let pause = jittered(configuration.retryBudgetPauseMilliseconds)
        let grown = retryPauseMilliseconds(faults: activities[activity].serviceFaults)
        awaitService(activity, milliseconds: max(pause, grown), now: now)
    }

    /// The current command waits until the service may take it. Meanwhile it does not count as one of its app's pushes in flight, and a
    /// newer state waits for its own spacing only. A long wait is made in the deferred topic, and so is that of a command which has been here
    /// for long.
    private mutating func awaitService(_ activity: UInt32, milliseconds: Int64, now: Moment) {
        let current = activities[activity].current
        if isLong(milliseconds) || isOverdue(current, now: now) || isHandedOn(current) {
            return deferCurrent(of: activity, .retry, pauseMilliseconds: milliseconds, now: now)
        }
        activities.enter(.awaitingService, activity, untilMilliseconds: now.monotonicMilliseconds + milliseconds)
        returnCredit(of: activity, now: now)
    }

    private mutating func retryPauseMilliseconds(faults: UInt8) -> Int64 {
        let doubled = configuration.retryBaseMilliseconds << min(Int64(faults), 24)
        return jittered(min(configuration.retryMaxMilliseconds, doubled))
    }

    /// Between a half and the whole, so that what failed together does not come again together.
    private mutating func jittered(_ milliseconds: Int64) -> Int64 {
        let half = (milliseconds + 1) / 2
        return half + Int64(randomness.next(below: UInt64(half))) + 1
    }

    /// A wait is over. A push that was to go again at once goes with its timestamp, without asking Redis, since it did not reach a phone.
    /// One that waited for the service is admitted again: another worker may have admitted a newer state meanwhile. So is a start, for
    /// which Redis repeats its reply: its partition may have moved to another worker, which has reported the start as `unknown`.
    mutating func sendAgain(_ activity: UInt32, now: Moment) {
        let record = activities[activity].current
        let (isStart, pool) = (records[record].isStart, records[record].pool)
        if records[record].isPushExpired(by: policies, now: now) {
            return finishCurrent(record, .expired, settlement: .notShown, now: now)
        }
        if isLeftToNextOwner(record) { return dropCurrent(of: activity, now: now) }
        if activities[activity].phase == .awaitingService, !isStart {
            putBackCurrent(of: activity, now: now)
            return endTurn(activity, now: now)
        }
        // A start that waited for the service was not counted meanwhile, so it takes a credit again.
        guard activities[activity].phase.holdsCredit || takeCredit(activity, now: now) else { return }
        if isStart {
            activities.enter(.admitting, activity)
            return call(.admit, record)
        }
        activities.enter(.ready, activity)
        pools.appendReady(record, to: PushLine(pool), now: now)
    }

    /// A newer state came while the current push waits to go again. It replaces the push and waits for the rest of the spacing.
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
    /// owner would report `unknown`, though nothing was sent. See `isHandedOn`.
    func isLeftToNextOwner(_ record: UInt32) -> Bool { !records[record].isStart && isRevoked(record) }
}
