import LiveActivity

/// An activity's turn: from waiting to admitted.
extension Delivery {
    /// Ends a batch of `receive`s: begins the activities that it awakened. Only the newest state of each activity is left by now.
    public mutating func endBatch(now: Moment) {
        while let activity = activities.popAwakened() { begin(activity, now: now) }
    }

    /// Lets time pass: begins what waited for the end of a spacing, a back-off or a rider's wait.
    public mutating func advance(now: Moment) {
        advanceReadAhead(now: now)
        if readingDueMilliseconds <= now.monotonicMilliseconds { readingDueMilliseconds = .max }
        if recordsAwaitingStore > 0 { storeWatch.noteWaiting(now: now) }
        releaseSpareBlocks(now: now)
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
        next = min(next, readingDueMilliseconds)
        return next == .max ? nil : next
    }

    /// Decides what comes next for an idle activity: the turn of its next command, or a wait. An activity with neither is removed.
    mutating func begin(_ activity: UInt32, now: Moment) {
        precondition(activities[activity].phase == .idle)
        finishOverdueRider(of: activity, now: now)
        dropStale(activity, now: now)
        guard activities[activity].hasWork(now: now) else { return rest(activity, now: now) }
        if readAhead.phase == .reading { return activities.enter(.parked, activity) }
        guard takeCredit(activity) else { return }
        guard let record = activities[activity].waiting.popFirst(in: &records) else {
            preconditionFailure("the first of a list is gone")
        }
        records.enter(.current, record)
        removeOldAlert(of: record, now: now)
        records.completeBody(of: record)
        if records[record].needsAddress {
            activities.enter(.addressing, activity, with: record)
            call(.address, record)
        } else {
            activities.enter(.admitting, activity, with: record)
            call(.admit, record)
        }
    }

    /// Counts an activity's next push as one of its app's pushes in flight, or lets it wait until one of those is done.
    mutating func takeCredit(_ activity: UInt32) -> Bool {
        let application = activities[activity].application
        guard pools.takeCredit(of: application) else {
            activities.enter(.eligible, activity)
            pools.appendEligible(activity, of: application)
            return false
        }
        return true
    }

    /// Drops commands from the head of the list while their partition is revoked or they are expired.
    private mutating func dropStale(_ activity: UInt32, now: Moment) {
        while let record = activities[activity].waiting.head {
            let isRevoked = isRevoked(record)
            guard isRevoked || records[record].isExpired(now: now) else { return }
            _ = activities[activity].waiting.popFirst(in: &records)
            if isRevoked { drop(record, now: now) } else { expire(record, now: now) }
        }
    }

    private mutating func expire(_ record: UInt32, now: Moment) {
        if case .awaited = records[record].startDraw { records[record].setReason("startBudget") }
        returnRider(of: record, now: now)
        finish(record, .expired)
    }

    /// Rests until the spacing or the wait of a rider is over; removes the activity when there is neither.
    private mutating func rest(_ activity: UInt32, now: Moment) {
        if let until = activities[activity].restEndMilliseconds(now: now) {
            activities.enter(.resting, activity, untilMilliseconds: until)
        } else {
            activities.remove(activity)
        }
    }

    /// The current command is finished or put back: the next ones of its app and of its activity may go.
    mutating func endTurn(_ activity: UInt32, now: Moment) {
        let heldCredit = activities[activity].phase.holdsCredit
        activities.enter(.idle, activity)
        if heldCredit { returnCredit(of: activity, now: now) }
        begin(activity, now: now)
    }

    /// The current command needs another attempt, and its partition was revoked: its next owner makes it.
    mutating func dropCurrent(of activity: UInt32, now: Moment) {
        let (record, heldCredit) = (activities[activity].current, activities[activity].phase.holdsCredit)
        // First, since a rider of the record is compared with the current command when it is put back.
        activities.enter(.idle, activity)
        drop(record, now: now)
        if heldCredit { returnCredit(of: activity, now: now) }
        begin(activity, now: now)
    }

    /// The activity's app has one push fewer in flight.
    mutating func returnCredit(of activity: UInt32, now: Moment) {
        let application = activities[activity].application
        pools.returnCredit(of: application)
        // An activity may need no credit after all (its commands expired), so the next one is tried until one takes the credit.
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

    /// The activity whose current command the record is, in the phase in which the caller expects it.
    @inline(__always)
    func activity(ofCurrent record: UInt32, in phase: ActivityPhase) -> UInt32 {
        let activity = records[record].activity
        let slot = activities.address(of: activity)
        precondition(slot.pointee.phase == phase && slot.pointee.current == record)
        return activity
    }

    func isRevoked(_ record: UInt32) -> Bool {
        let slot = records.address(of: record)
        guard let partition = partitions.current(slot.pointee.partition, epoch: slot.pointee.epoch) else { return true }
        return partition.pointee.phase == .revoking
    }
}
