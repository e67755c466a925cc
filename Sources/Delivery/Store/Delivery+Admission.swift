import LiveActivity
import Numbers

/// What the store's verdict means for a command.
extension Delivery {
    private static var unexpectedReply: StaticString { "unexpected reply of the admit script" }

    mutating func addressed(_ record: UInt32, _ reply: Reply, now: Moment) {
        let activity = activity(ofCurrent: record, in: .lookingUpToken)
        switch reply.verdict {
        case .address:
            records.setAddress(of: record, to: reply.registration)
            records[record].startDraw = .drawn(reply.draw)
            if isOvertaken(activity) { return overtakeCurrent(of: activity, now: now) }
            activities.enter(.admitting, activity)
            call(.admit, record)
        case .wait: waitForStartBudget(record, of: activity, milliseconds: reply.waitMilliseconds, now: now)
        case .noToken:
            if isOvertaken(activity) { return overtakeCurrent(of: activity, now: now) }
            hold(record, of: activity)
        default: finishCurrent(record, .failed, reason: Self.unexpectedReply, now: now)
        }
    }

    private mutating func waitForStartBudget(_ record: UInt32, of activity: UInt32, milliseconds: Int64, now: Moment) {
        countStartBudgetWait(of: record)
        let policy = policies[records[record].policy]
        let pause = records[record].awaitStartBudget(milliseconds: milliseconds, by: policy, now: now)
        activities[activity].rest(until: now.monotonicMilliseconds + pause)
        putBackCurrent(of: activity, now: now)
        endTurn(activity, now: now)
    }

    mutating func admitted(_ record: UInt32, _ reply: Reply, now: Moment) {
        let activity = activity(ofCurrent: record, in: .admitting)
        // A result describes one attempt: the admission must not be later than the answer. So a later admission does not change
        // the time after an answer.
        if records[record].answeredMilliseconds < 0 { records[record].admittedMilliseconds = now.wallMilliseconds }
        switch reply.verdict {
        case .send: admittedToSend(record, of: activity, reply, now: now)
        case .wait:
            let most = policies[records[record].policy].pace.throttledSpacingMaxMilliseconds
            activities[activity].rest(until: now.monotonicMilliseconds + max(1, min(reply.waitMilliseconds, most)))
            putBackCurrent(of: activity, now: now)
            endTurn(activity, now: now)
        case .noToken where records[record].isLifetimeEnd:
            // Held, the end could be sent to a later life, whose token releases it.
            finishCurrent(record, .expired, reason: "activityUnknown", now: now)
        case .noToken:
            if isOvertaken(activity) { return overtakeCurrent(of: activity, now: now) }
            hold(record, of: activity)
        case .alertHeld where records[record].heldAlert == .unknown:
            carryHeldAlert(of: reply, on: record, now: now)
            call(.admit, record)
        case .alertAnswered where records[record].carriedAlert != nil:
            leaveOutAnsweredAlert(of: record)
            call(.admit, record)
        case .overtaken:
            if isOvertaken(activity) { return overtakeCurrent(of: activity, now: now) }
            // The command that overtook this one may be held. No lane reads a held command again, but this command's token
            // releases it.
            if records[record].hasOwnToken {
                activities.enter(.registering, activity)
                return call(.register, record)
            }
            awaitCarrier(of: activity, now: now)
        case .leaves where memberships.has(ChangingMember(record, records[record], .activity)):
            memberships.set(.admit, of: ChangingMember(record, records[record], .activity))
        case .held: finishCurrent(record, .held, now: now)
        case .unchanged: finishCurrent(record, .unchanged, now: now)
        case .ended: finishCurrent(record, .ended, now: now)
        case .tooOld: finishCurrent(record, .ended, reason: "activityOver8Hours", now: now)
        case .expired: finishCurrent(record, .expired, reason: "activityUnknown", now: now)
        case .duplicate:
            records[record].wasNotShown = reply.wasNotShown
            finishCurrent(record, .duplicate, now: now)
        case .superseded:
            // A start that backed off was admitted before, and its end is known now. It is settled, so that its other records are
            // duplicates (seeds 43611 and 118065).
            let isTriedStart = records[record].isStart && records[record].attempts > 0
            finishCurrent(record, .superseded, settlement: isTriedStart ? .notShown : nil, now: now)
        case .unknown:
            // Another record of this start was admitted, and its outcome was never settled. This one is settled, so that the
            // other records are duplicates.
            finishCurrent(record, .unknown, settlement: .unknown, now: now)
        case .alertHeld, .alertAnswered, .leaves, .address, .retry, .full, .registered, .stale, .unregistered, .settled:
            finishCurrent(record, .failed, reason: Self.unexpectedReply, now: now)
        }
    }

    /// The waiting newer state replaces the current command, and the turn ends.
    mutating func overtakeCurrent(of activity: UInt32, settlement: Settlement? = nil, now: Moment) {
        supersedeCurrent(of: activity, settlement: settlement, now: now)
        endTurn(activity, now: now)
    }

    /// The same as `overtakeCurrent`, but the turn does not end.
    mutating func supersedeCurrent(of activity: UInt32, settlement: Settlement? = nil, now: Moment) {
        let slot = activities.address(of: activity)
        let (current, newer) = (slot.pointee.current, slot.pointee.waiting.first)
        if let settlement { records[current].settlement = settlement }
        records.passToken(from: current, to: newer)
        supersede(current, by: newer, now: now)
    }

    mutating func refundUnsentStart(_ record: UInt32) {
        if records[record].refundDraw() { call(.refundStart, record) }
    }

    private mutating func admittedToSend(_ record: UInt32, of activity: UInt32, _ reply: Reply, now: Moment) {
        let slot = records.mutableAddress(of: record)
        let isStart = slot.pointee.isStart
        if isStart {
            slot.pointee.previousClaim = 0
            slot.pointee.allowance.priority = slot.pointee.priority
        } else {
            records.setAddress(of: record, to: reply.registration)
            slot.pointee.allow(reply)
            if reply.isDemoted { countDemoted() }
        }
        let policy = policies[slot.pointee.policy]
        let pool = slot.pointee.pool
        let hasPool = pools.hasPool(pool)
        if hasPool, !moveCredit(of: activity, to: pool, now: now) {
            // It waits for its pool without an admission, as it would have if its pool had been known.
            putBackCurrent(of: activity, now: now)
            return endTurn(activity, now: now)
        }
        activities[activity].rest(until: now.monotonicMilliseconds + policy.pace.spacingMilliseconds)
        let isTimestampValid = (Limits.timestampMin...Limits.timestampMax).contains(reply.timestamp)
        guard hasPool, slot.pointee.tokenCount > 0, isTimestampValid else {
            let reason = hasPool ? Self.unexpectedReply : "no key for this environment"
            return finishCurrent(record, .failed, settlement: .notShown, reason: reason, now: now)
        }
        slot.pointee.sentTimestamp = reply.timestamp
        slot.pointee.deferral.isSeenReady = false
        records.setTimestamp(reply.timestamp, inBodyOf: record)
        // A start that backed off keeps its `apns-id`.
        if !isStart || slot.pointee.attempts == 0 { slot.pointee.apnsIdentifier = randomness.nextUniqueIdentifier() }
        activities.enter(.ready, activity)
        pools.appendReady(record, to: PoolKey(pool), now: now)
    }

    mutating func hold(_ record: UInt32, of activity: UInt32) {
        // An earlier attempt may have raised the timestamp. A held command must come back with its own version. If the reply is
        // lost, the command can come back twice, with the registration and with its own record. Both may then be sent, with the
        // same timestamp, because Redis cannot tell this from a worker that has died (simulation `longLives`, seed 2122).
        records.setTimestamp(records[record].version.timestamp, inBodyOf: record)
        completeIdentifier(of: record)
        activities.enter(.holding, activity)
        call(.hold, record)
    }

    mutating func held(_ record: UInt32, _ reply: Reply, now: Moment) {
        let activity = activity(ofCurrent: record, in: .holding)
        switch reply.verdict {
        case .held: finishCurrent(record, .held, now: now)
        case .superseded: finishCurrent(record, .superseded, now: now)
        case .full: finishCurrent(record, .failed, reason: "heldStartsFull", now: now)
        // Another worker has sent it between the admission and the hold (seed 5163).
        case .duplicate: finishCurrent(record, .duplicate, now: now)
        case .retry:
            // A token registered between the admission and the hold.
            let isStart = records[record].isStart
            activities.enter(isStart ? .lookingUpToken : .admitting, activity)
            call(isStart ? .address : .admit, record)
        default: finishCurrent(record, .failed, reason: Self.unexpectedReply, now: now)
        }
    }

    /// Finishes the current command. A settlement or reason of nil keeps what the record has.
    mutating func finishCurrent(
        _ record: UInt32,
        _ outcome: Outcome,
        settlement: Settlement? = nil,
        reason: StaticString? = nil,
        now: Moment
    ) {
        let activity = records[record].activity
        precondition(activities[activity].current == record)
        if let settlement { records[record].settlement = settlement }
        if let reason { records[record].setReason(reason) }
        finish(record, outcome)
        endTurn(activity, now: now)
    }
}
