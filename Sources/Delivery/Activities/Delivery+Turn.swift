import LiveActivity

/// An activity's turn: from waiting to admitted.
extension Delivery {
    /// Ends a batch of `receive`s: begins the activities that it awakened. Of each, only the newest state of the batch is left by now.
    public mutating func endBatch(now: Moment) {
        while let activity = activities.popAwakened() { begin(activity, now: now) }
    }

    /// Lets time pass: begins what waited for the end of a spacing, a back-off or a rider's wait.
    public mutating func advance(now: Moment) {
        advanceReadAhead(now: now)
        activities.fireTimers(now: now)
        while let activity = activities.popDue() {
            if activities[activity].phase == .resting {
                activities.enter(.idle, activity)
                begin(activity, now: now)
            } else {
                precondition(activities[activity].phase.isBackingOff, "a timer fired in a phase that has none")
                sendAgain(activity, now: now)
            }
        }
    }

    /// When `advance` next has something to do: a monotonic time, or nil if nothing waits for the clock.
    public var nextDueMilliseconds: Int64? {
        var next = activities.nextTimerMilliseconds ?? .max
        if let due = storeQueue.dueMilliseconds { next = min(next, due) }
        if let due = productions.dueMilliseconds { next = min(next, due) }
        if let due = readAhead.dueMilliseconds { next = min(next, due) }
        return next == .max ? nil : next
    }

    /// Decides what comes next for an idle activity: the turn of its next waiting command, a wait, or nothing, and it is forgotten.
    mutating func begin(_ activity: UInt32, now: Moment) {
        precondition(activities[activity].phase == .idle)
        finishOverdueRider(of: activity, now: now)
        dropStale(activity, now: now)
        guard !activities[activity].waiting.isEmpty,
            activities[activity].restsUntilMilliseconds <= now.monotonicMilliseconds
        else { return rest(activity, now: now) }
        if readAhead.phase == .reading { return activities.enter(.parked, activity) }
        guard takeCredit(activity) else { return }
        guard let record = activities[activity].waiting.popFirst(in: &records) else {
            preconditionFailure("the first of a list is gone")
        }
        records.enter(.current, record)
        records.completeBody(of: record)
        // A start that has drawn on its device's budget keeps the draw, and the token that came with it.
        if records[record].event == .start, !records[record].hasStartDraw {
            activities.enter(.addressing, activity, with: record)
            call(.address, record)
        } else {
            activities.enter(.admitting, activity, with: record)
            call(.admit, record)
        }
    }

    /// Counts an activity's next push among those of its app that are on their way, or lets it wait until one of them is done.
    mutating func takeCredit(_ activity: UInt32) -> Bool {
        let application = activities[activity].application
        guard pools.takeCredit(of: application) else {
            activities.enter(.eligible, activity)
            pools.appendEligible(activity, of: application)
            return false
        }
        return true
    }

    /// Drops what waits first for as long as its partition is gone or its expiration is past.
    private mutating func dropStale(_ activity: UInt32, now: Moment) {
        while !activities[activity].waiting.isEmpty {
            let record = activities[activity].waiting.first
            let isRevoked = isRevoked(record)
            guard isRevoked || isExpired(record, now: now) else { return }
            _ = activities[activity].waiting.popFirst(in: &records)
            if isRevoked { drop(record, now: now) } else { expire(record, now: now) }
        }
    }

    private mutating func expire(_ record: UInt32, now: Moment) {
        if case .awaited = records[record].startDraw { records[record].setReason("startBudget") }
        returnRider(of: record, now: now)
        finish(record, .expired)
    }

    /// Rests until the spacing or the wait of a rider is over; forgets the activity when there is neither.
    private mutating func rest(_ activity: UInt32, now: Moment) {
        let restsUntil = activities[activity].restsUntilMilliseconds
        let isResting = restsUntil > now.monotonicMilliseconds
        let rider = activities[activity].riderAwaitingCarrier
        if !rider.isNone {
            let until = isResting ? min(restsUntil, rider.untilMilliseconds) : rider.untilMilliseconds
            activities.enter(.resting, activity, untilMilliseconds: until)
        } else if isResting {
            activities.enter(.resting, activity, untilMilliseconds: restsUntil)
        } else {
            activities.remove(activity)
        }
    }

    /// The current command is finished or put back: its app's next one may go, and so may the activity's.
    mutating func endTurn(_ activity: UInt32, now: Moment) {
        let heldCredit = activities[activity].phase.holdsCredit
        activities.enter(.idle, activity)
        if heldCredit { returnCredit(of: activity, now: now) }
        begin(activity, now: now)
    }

    /// The current command needs another attempt, and its partition was revoked: its next owner makes it.
    mutating func dropCurrent(of activity: UInt32, now: Moment) {
        let (record, heldCredit) = (activities[activity].current, activities[activity].phase.holdsCredit)
        // First, since a rider of the record is compared with what is current when it is put back.
        activities.enter(.idle, activity)
        drop(record, now: now)
        if heldCredit { returnCredit(of: activity, now: now) }
        begin(activity, now: now)
    }

    /// One push less of the activity's app is on its way.
    mutating func returnCredit(of activity: UInt32, now: Moment) {
        let application = activities[activity].application
        pools.returnCredit(of: application)
        // What begins may turn out to need no credit (all of it expired), so the next one is tried until one takes it.
        while pools.hasCredit(of: application), let next = pools.popEligible(of: application) {
            precondition(activities[next].phase == .eligible)
            if activities[next].current != .max {
                sendAgain(next, now: now)
            } else {
                activities.enter(.idle, next)
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
}
