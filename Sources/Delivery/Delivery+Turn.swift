import LiveActivity

/// An activity's turn: from waiting to admitted.
extension Delivery {
    /// Ends a batch of `receive`s: what it woke is begun. Within a batch, only the newest state of each activity gets here.
    public mutating func endBatch(now: Moment) {
        while let activity = awakened.popFirst() {
            activities[activity].phase = .resting
            begin(activity, now: now)
        }
    }

    /// Lets time pass: spacings, back-offs and patience that are over.
    public mutating func advance(now: Moment) {
        advanceReadAhead(now: now)
        wheel.fire(nowMilliseconds: now.monotonicMilliseconds, into: &due)
        while let activity = due.popFirst() {
            switch activities[activity].phase {
            case .resting: begin(activity, now: now)
            case .backingOff: sendAgain(activity, now: now)
            case .awakened, .parked, .eligible, .addressing, .admitting, .holding, .ready, .inFlight, .limiting:
                preconditionFailure("a timer fired for an activity that waits for something else")
            }
        }
    }

    /// When `advance` next has something to do: a monotonic time, or nil if nothing waits for the clock.
    public var nextDueMilliseconds: Int64? {
        var next = wheel.nextFireMilliseconds(searchSlots: 16) ?? .max
        if !redisCalls.isEmpty, redisBlockedUntilMilliseconds > .min { next = min(next, redisBlockedUntilMilliseconds) }
        if !productions.isEmpty, productionsBlockedUntilMilliseconds > .min {
            next = min(next, productionsBlockedUntilMilliseconds)
        }
        if readAhead.phase == .reading { next = min(next, readAheadDueMilliseconds) }
        return next == .max ? nil : next
    }

    /// Works on the next waiting command of an activity on which nothing is under way; frees the activity if there is none.
    mutating func begin(_ activity: UInt32, now: Moment) {
        precondition(activities[activity].current == .max && !activities[activity].holdsCredit)
        finishImpatientRider(of: activity, now: now)
        dropStale(activity, now: now)
        guard activities[activity].head != .max,
            activities[activity].restsUntilMilliseconds <= now.monotonicMilliseconds
        else { return rest(activity, now: now) }
        if readAhead.phase == .reading { return park(activity) }
        let application = activities[activity].application
        guard pools.takeCredit(of: application) else {
            activities[activity].phase = .eligible
            return pools.appendEligible(activity, of: application)
        }
        activities[activity].holdsCredit = true
        guard let record = popWaiting(of: activity) else { preconditionFailure("the head of a list is gone") }
        activities[activity].current = record
        completeBody(of: record)
        // A start that has drawn on its device's budget keeps the draw, and the token that came with it.
        if records[record].event == .start, !records[record].hasStartDraw {
            activities[activity].phase = .addressing
            call(.address, record)
        } else {
            activities[activity].phase = .admitting
            call(.admit, record)
        }
    }

    /// Drops what waits first for as long as its partition is gone or its expiration is past.
    private mutating func dropStale(_ activity: UInt32, now: Moment) {
        while activities[activity].head != .max {
            let head = activities[activity].head
            let isRevoked = isRevoked(head)
            guard isRevoked || isExpired(head, now: now) else { return }
            _ = popWaiting(of: activity)
            if isRevoked { abandon(head, now: now) } else { expire(head, now: now) }
        }
    }

    private mutating func expire(_ record: UInt32, now: Moment) {
        if records[record].lacksStartBudget { records[record].setReason("startBudget") }
        returnRider(of: record, now: now)
        finish(record, .expired)
    }

    /// Sets the timer to the end of the spacing, or of the patience of a rider; frees the activity when nothing waits for either.
    private mutating func rest(_ activity: UInt32, now: Moment) {
        let restsUntil = activities[activity].restsUntilMilliseconds
        let isResting = restsUntil > now.monotonicMilliseconds
        activities[activity].phase = .resting
        if activities[activity].riderToBe != .max {
            let riderUntil = activities[activity].riderWaitsUntilMilliseconds
            wheel.set(activity, dueMilliseconds: isResting ? min(restsUntil, riderUntil) : riderUntil)
        } else if isResting {
            wheel.set(activity, dueMilliseconds: restsUntil)
        } else {
            precondition(activities[activity].head == .max)
            let slot = activities[activity]
            table.remove(slot.hash, index: activity)
            arena.free(slot.identifierBlock)
            activities.free(activity)
        }
    }

    /// The current command is done with (finished, or put back): its app's next one may go, and so may the activity's.
    mutating func endTurn(_ activity: UInt32, now: Moment) {
        activities[activity].current = .max
        returnCredit(of: activity, now: now)
        begin(activity, now: now)
    }

    mutating func returnCredit(of activity: UInt32, now: Moment) {
        guard activities[activity].holdsCredit else { return }
        activities[activity].holdsCredit = false
        let application = activities[activity].application
        pools.returnCredit(of: application)
        // What begins may turn out to need no credit (all of it expired), so the next one is tried until one takes it.
        while pools.hasCredit(of: application), let next = pools.popEligible(of: application) {
            precondition(activities[next].phase == .eligible)
            if activities[next].current != .max {
                sendAgain(next, now: now)
            } else {
                activities[next].phase = .resting
                begin(next, now: now)
            }
        }
    }

    func isExpired(_ record: UInt32, now: Moment) -> Bool {
        let expiration = records[record].expiration
        return expiration >= 0 && expiration < now.wallSeconds
    }

    func isRevoked(_ record: UInt32) -> Bool {
        let slot = records.address(of: record)
        guard let partition = partitions.current(slot.pointee.partition, epoch: slot.pointee.epoch) else { return true }
        return partition.pointee.phase == .revoking
    }

    mutating func call(_ kind: RedisCall.Kind, _ record: UInt32, application: UInt16? = nil) {
        records[record].acknowledgementsOutstanding += 1
        if kind.isAwaited { recordsAwaitingRedis += 1 }
        redisCalls.append(
            RedisCall(kind: kind, application: application ?? records[record].application, record: record)
        )
    }
}
