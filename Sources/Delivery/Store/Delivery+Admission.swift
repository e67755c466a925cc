import LiveActivity

/// What happens to a command by the store's verdict.
extension Delivery {
    mutating func addressed(_ record: UInt32, _ reply: StoreReply<UnsafeRawBufferPointer>, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .addressing && activities[activity].current == record)
        switch reply.verdict {
        case .address:
            setAddress(of: record, from: reply)
            records[record].startDraw = .drawn(reply.draw)
            activities.enter(.admitting, activity)
            call(.admit, record)
        case .wait: waitForStartBudget(record, of: activity, milliseconds: reply.waitMilliseconds, now: now)
        case .noToken: hold(record, of: activity)
        default:
            records[record].setReason("unexpected reply of the admit script")
            finishCurrent(record, .failed, now: now)
        }
    }

    /// The device's budget is empty. The start waits for it, by default for as long as the policy lets a start be stored.
    private mutating func waitForStartBudget(_ record: UInt32, of activity: UInt32, milliseconds: Int64, now: Moment) {
        let policy = policies[records[record].policy]
        countStartBudgetWait(of: record)
        records[record].startDraw = .awaited
        if records[record].expiration < 0 {
            records[record].expiration = records[record].receivedMilliseconds / 1_000 + policy.startSeconds
        }
        let expiresInMilliseconds = (records[record].expiration + 1) * 1_000 - now.wallMilliseconds
        let pause = min(milliseconds, policy.startIntervalMilliseconds, expiresInMilliseconds)
        activities[activity].rest(until: now.monotonicMilliseconds + max(1, pause))
        putBackCurrent(of: activity, now: now)
        endTurn(activity, now: now)
    }

    mutating func admitted(_ record: UInt32, _ reply: StoreReply<UnsafeRawBufferPointer>, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .admitting && activities[activity].current == record)
        records[record].admittedMilliseconds = now.wallMilliseconds
        switch reply.verdict {
        case .send: admittedToSend(record, of: activity, reply, now: now)
        case .wait:
            let most = policies[records[record].policy].pace.throttledSpacingMaxMilliseconds
            activities[activity].rest(until: now.monotonicMilliseconds + max(1, min(reply.waitMilliseconds, most)))
            putBackCurrent(of: activity, now: now)
            endTurn(activity, now: now)
        case .noToken:
            if isOvertaken(activity) { return overtakeCurrent(of: activity, now: now) }
            hold(record, of: activity)
        case .alertHeld where records[record].heldAlert == .unknown:
            carryHeldAlert(of: reply, on: record)
            call(.admit, record)
        case .overtaken:
            if isOvertaken(activity) { return overtakeCurrent(of: activity, now: now) }
            // What it was overtaken by may be held: then nobody reads it again, but its token sets it free.
            if records[record].suppliesToken {
                activities.enter(.registering, activity)
                return call(.register, record)
            }
            awaitCarrier(of: activity, now: now)
        case .held: finishCurrent(record, .held, now: now)
        case .unchanged: finishCurrent(record, .unchanged, now: now)
        case .ended, .tooOld, .superseded, .duplicate, .unknown: notAdmitted(record, reply.verdict, now: now)
        case .alertHeld, .address, .retry, .full, .registered, .stale, .unregistered, .settled:
            records[record].setReason("unexpected reply of the admit script")
            finishCurrent(record, .failed, now: now)
        }
    }

    private mutating func notAdmitted(_ record: UInt32, _ verdict: StoreVerdict, now: Moment) {
        switch verdict {
        case .superseded:
            // A start that backed off was admitted once, and all is known of it: from now on it is a duplicate.
            if records[record].event == .start, records[record].attempts > 0 {
                records[record].settlement = .notShown
            }
            finishCurrent(record, .superseded, now: now)
        case .duplicate: finishCurrent(record, .duplicate, now: now)
        case .unknown:
            // Another record of this start was admitted, and nobody has said what came of it. From now on it is a duplicate.
            records[record].settlement = .unknown
            finishCurrent(record, .unknown, now: now)
        default:
            if verdict == .tooOld { records[record].setReason("activityOver8Hours") }
            finishCurrent(record, .ended, now: now)
        }
    }

    /// The newer state that waits takes the current command's place.
    mutating func overtakeCurrent(of activity: UInt32, now: Moment) {
        records.passToken(from: activities[activity].current, to: activities[activity].waiting.first)
        supersede(activities[activity].current, by: activities[activity].waiting.first, now: now)
        endTurn(activity, now: now)
    }

    /// A start that is not sent after all (not admitted, expired or overtaken while it waited for a stream) gives back what it drew on its
    /// device's budget (design §4): no phone has counted it. One that was tried keeps its draw, whatever came of it.
    mutating func refundUnsentStart(_ record: UInt32) {
        guard case .drawn(let draw) = records[record].startDraw, records[record].attempts == 0 else { return }
        records[record].startDraw = .refunded(draw)
        call(.refundStart, record)
    }

    private mutating func admittedToSend(
        _ record: UInt32,
        of activity: UInt32,
        _ reply: StoreReply<UnsafeRawBufferPointer>,
        now: Moment
    ) {
        if records[record].event == .start {
            records[record].allowance.priority = records[record].priority
        } else {
            setAddress(of: record, from: reply)
            setPriority(of: record, from: reply)
        }
        let slot = records[record]
        activities[activity].rest(until: now.monotonicMilliseconds + policies[slot.policy].pace.spacingMilliseconds)
        let pool = PoolIndex(application: slot.application, environment: slot.environment)
        let isTimestampValid = (Limits.timestampLeast...Limits.timestampMost).contains(reply.timestamp)
        guard pools.hasPool(pool), slot.tokenCount > 0, isTimestampValid else {
            records[record].settlement = .notShown
            let reason: StaticString =
                pools.hasPool(pool) ? "unexpected reply of the admit script" : "no key for this environment"
            records[record].setReason(reason)
            finish(record, .failed)
            return endTurn(activity, now: now)
        }
        records[record].sentTimestamp = reply.timestamp
        setBodyTimestamp(reply.timestamp, of: record)
        // A start that backed off has both: its default expiration holds from its first admission on.
        if slot.event != .start || slot.attempts == 0 { records[record].apnsIdentifier = randomness.nextIdentifier() }
        if slot.event == .start, slot.attempts == 0 { setSentExpiration(of: record, now: now) }
        activities.enter(.ready, activity)
        pools.appendReady(record, to: pool)
    }

    private mutating func setAddress(of record: UInt32, from reply: StoreReply<UnsafeRawBufferPointer>) {
        guard let registration = reply.registration else {
            return records.setToken(of: record, .init(start: nil, count: 0))
        }
        records.setToken(of: record, registration.token)
        records[record].environment = registration.environment
        records[record].registeredAtMilliseconds = registration.registeredAtMilliseconds
    }

    private mutating func setPriority(of record: UInt32, from reply: StoreReply<UnsafeRawBufferPointer>) {
        let isKnown = reply.priority == 5 || reply.priority == 10
        records[record].allowance = Allowance(
            priority: isKnown ? reply.priority : records[record].priority,
            isDemoted: reply.isDemoted,
            budgetLeft: Int32(clamping: reply.budgetLeft)
        )
        if reply.isDemoted { countDemoted() }
    }

    /// A body that has the timestamp already, as most do, stays shared.
    private mutating func setBodyTimestamp(_ timestamp: Int64, of record: UInt32) {
        let layout = records[record].layout
        guard !Body.hasTimestamp(timestamp, in: records[record].body.bytes, layout) else { return }
        Body.setTimestamp(timestamp, in: records.ownBody(of: record), layout)
    }

    private mutating func hold(_ record: UInt32, of activity: UInt32) {
        // An attempt before this may have raised it. What is held must come back as the version that it is.
        setBodyTimestamp(records[record].version.timestamp, of: record)
        completeIdentifier(of: record)
        activities.enter(.holding, activity)
        call(.hold, record)
    }

    mutating func held(_ record: UInt32, _ reply: StoreReply<UnsafeRawBufferPointer>, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .holding && activities[activity].current == record)
        switch reply.verdict {
        case .held: finishCurrent(record, .held, now: now)
        case .superseded: finishCurrent(record, .superseded, now: now)
        case .full:
            records[record].setReason("heldStartsFull")
            finishCurrent(record, .failed, now: now)
        // Another worker has sent it since it was admitted here.
        case .duplicate: finishCurrent(record, .duplicate, now: now)
        case .retry:
            // A token registered between the two calls.
            let isStart = records[record].event == .start
            activities.enter(isStart ? .addressing : .admitting, activity)
            call(isStart ? .address : .admit, record)
        default:
            records[record].setReason("unexpected reply of the admit script")
            finishCurrent(record, .failed, now: now)
        }
    }

    mutating func finishCurrent(_ record: UInt32, _ outcome: Outcome, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].current == record)
        finish(record, outcome)
        endTurn(activity, now: now)
    }
}
