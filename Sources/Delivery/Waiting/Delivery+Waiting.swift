import LiveActivity

/// Queues commands until their activity's turn, and replaces older commands by newer ones.
///
/// An activity's waiting list has only commands that do not replace each other. An update replaces older updates. An
/// end replaces updates of its life, even newer ones, older ends and its start. A start replaces only older starts.
/// After an end, only a start waits: it begins the activity's next life. (R13) The end of a lifetime has rules of its
/// own (`mergeLifetimeEnd`). Merging only saves calls: Redis decides the order at the admission.
extension Delivery {
    /// Adds a command to its activity's waiting list. The command may replace waiting commands. Or it may be replaced
    /// and finished at once, or become the rider of a waiting command.
    /// - Parameter activity: the result of `findOrAddActivity`; nil: the activity is found by its id.
    mutating func enqueue(_ record: UInt32, of activity: UInt32? = nil, now: Moment) {
        let activity = activity ?? findOrAddActivity(of: record)
        records[record].activity = activity
        let rider = activities[activity].riderAwaitingCarrier.record
        if rider != .max, !records[record].isLifetimeEnd, records.areSameVersion(rider, record) {
            countCoalescing(of: record)
            records.passToken(from: record, to: rider)
            leaveRegistrationOutOfMetadata(record)
            finish(record, .duplicate)
        } else {
            let isWaiting = merge(record, into: activity, now: now)
            if isWaiting { carryAwaitingRider(on: record, of: activity, now: now) }
        }
        wake(activity, now: now)
    }

    mutating func findOrAddActivity(of record: UInt32) -> UInt32 {
        let slot = records.address(of: record)
        return activities.findOrAdd(slot.pointee.appIndex, slot.pointee.bytes(slot.pointee.subject))
    }

    /// Finds the activity of a command that is decoded but not yet written to its slot. Prefetches the slots
    /// that merging the command will read.
    /// - Returns: nil if the activity's id has escapes and must be unescaped first.
    mutating func findOrAddActivity(of command: Command, of appIndex: UInt16, in value: UnsafeRawBufferPointer)
        -> UInt32?
    {
        guard !command.activity.isEscaped else { return nil }
        let activity = activities.findOrAdd(appIndex, command.activity.range.bytes(in: value))
        let slot = activities.address(of: activity)
        records.prefetch(slot.pointee.waitingList.last)
        records.prefetch(slot.pointee.lastRider)
        return activity
    }

    /// Merges a command into the activity's waiting list: appends it, or replaces one of two commands by the
    /// other.
    /// - Returns: false if a waiting command superseded `record` and the slot of `record` is freed.
    mutating func merge(_ record: UInt32, into activity: UInt32, now: Moment) -> Bool {
        let tail = activities[activity].waitingList.last
        guard tail != .max else {
            activities[activity].waitingList.append(record, in: &records)
            return true
        }
        if records[record].isLifetimeEnd || records[tail].isLifetimeEnd {
            return mergeLifetimeEnd(record, with: tail, of: activity, now: now)
        }
        if records.areSameVersion(record, tail) {
            mergeSameVersion(record, with: tail, of: activity)
        } else if records.isNewer(tail, than: record) {
            return mergeOlder(record, behind: tail, of: activity, now: now)
        } else if records[tail].event == .end, !records[record].isStart {
            records.passToken(from: record, to: tail)
            finish(record, .ended)
        } else if records.mayReplace(tail, by: record) {
            countCoalescing(of: record)
            records.passToken(from: tail, to: record)
            activities[activity].waitingList.replaceLast(by: record, in: &records)
            supersede(tail, by: record, now: now)
            if records[record].event == .end { replaceStart(before: record, of: activity, now: now) }
        } else {
            activities[activity].waitingList.append(record, in: &records)
        }
        return true
    }

    /// Merges two records of the same command. If only one of them has an alert, that record stays: a record
    /// from the deferred topic may carry an older command's alert. Otherwise the waiting record stays.
    private mutating func mergeSameVersion(_ record: UInt32, with tail: UInt32, of activity: UInt32) {
        guard records.alertVersion(of: record) != nil, records.alertVersion(of: tail) == nil else {
            return finish(record, asDuplicateOf: tail)
        }
        activities[activity].waitingList.replaceLast(by: record, in: &records)
        finish(tail, asDuplicateOf: record)
    }

    /// Merges a command that is older than the last waiting one. The older command is superseded, with two
    /// exceptions:
    /// - An update never supersedes an end.
    /// - A start is put in front of newer updates if no start is there, because without it there is nothing to update.
    ///   The start comes late, for example because Redis held it (simulation `plain`, seed 367).
    private mutating func mergeOlder(_ record: UInt32, behind tail: UInt32, of activity: UInt32, now: Moment) -> Bool {
        switch (records[record].event, records[tail].event) {
        case (.end, .update):
            countCoalescing(of: record)
            records.passToken(from: tail, to: record)
            activities[activity].waitingList.replaceLast(by: record, in: &records)
            supersede(tail, by: record, as: .ended, now: now)
            replaceStart(before: record, of: activity, now: now)
        case (.start, .update):
            let head = activities[activity].waitingList.first
            if records.areSameVersion(head, record) {
                // Both records are the same start. For example, Redis held it, and two registrations released it.
                finish(record, asDuplicateOf: head)
                return true
            }
            guard !records[head].isStart else { fallthrough }
            activities[activity].waitingList.prepend(record, in: &records)
        default:
            countCoalescing(of: record)
            records.passToken(from: record, to: tail)
            return supersede(record, by: tail, now: now)
        }
        return true
    }

    /// If a start waits in front of this end, replaces the start by the end, because APNs has not accepted the start.
    /// The end has just replaced the update between them.
    private mutating func replaceStart(before end: UInt32, of activity: UInt32, now: Moment) {
        guard let start = activities[activity].waitingList.predecessor(of: end, in: records),
            records.isSuperseded(start, by: end)
        else { return }
        countCoalescing(of: start)
        activities[activity].waitingList.remove(start, in: &records)
        supersede(start, by: end, now: now)
    }

    /// Finishes a record whose command already waits in another record. If the command is a held start, the
    /// other record settles it in Redis.
    private mutating func finish(_ record: UInt32, asDuplicateOf waiting: UInt32) {
        countCoalescing(of: record)
        records.passToken(from: record, to: waiting)
        leaveRegistrationOutOfMetadata(record)
        finish(record, .duplicate)
        records[record].followUps.remove(.settleHeldStart)
    }

    /// If the record is a registration, notes that another record brought the same command, and that the next owner
    /// must read both records again. If the next owner read only an earlier registration, Redis could call it stale
    /// and release nothing (simulation `longLives`, seed 108).
    private mutating func leaveRegistrationOutOfMetadata(_ record: UInt32) {
        if records[record].topic == .registrations { records[record].isLeftOutOfMetadata = true }
    }

    /// Whether a waiting newer state replaces the activity's current command.
    func isCurrentSuperseded(of activity: UInt32) -> Bool {
        let slot = activities.address(of: activity)
        return records.isSuperseded(slot.pointee.currentCommand, by: slot.pointee.waitingList.first)
    }

    /// Puts the current command back in front of the waiting list, unless a waiting command replaces it. The
    /// caller then calls `endCurrent`.
    mutating func putBackCurrent(of activity: UInt32, now: Moment) {
        let current = activities[activity].currentCommand
        if isCurrentSuperseded(of: activity) {
            countCoalescing(of: current)
            supersedeCurrent(of: activity, now: now)
        } else {
            replaceOlder(than: current, of: activity, now: now)
            activities[activity].waitingList.prepend(current, in: &records)
        }
    }

    /// Replaces older states that were read while the current command was under way. The current command goes back to
    /// the front of the waiting list. Behind it, the older states would not be sent, because Redis supersedes them.
    private mutating func replaceOlder(than current: UInt32, of activity: UInt32, now: Moment) {
        while let head = activities[activity].waitingList.head, records.isSuperseded(head, by: current) {
            countCoalescing(of: head)
            _ = activities[activity].waitingList.popFirst(in: &records)
            records.passToken(from: head, to: current)
            supersede(head, by: current, now: now)
        }
    }

    /// Wakes an activity that got one more command. If the activity may begin the command, it does so at the
    /// end of the batch.
    private mutating func wake(_ activity: UInt32, now: Moment) {
        switch activities[activity].phase {
        case .idle, .paused:
            // The activity may be paused for a rider that waits for its carrier. This command may be that
            // carrier, so do not wait for the timer.
            guard !activities[activity].isWithinSpacing(now: now) else { return }
            activities.enter(.queuedToBegin, activity)
        case .backingOff, .awaitingService:
            guard isCurrentSuperseded(of: activity) else { return }
            replaceRetry(of: activity, now: now)
        case .queuedToBegin, .awaitingReadAhead, .awaitingCredit, .lookingUpToken, .admitting, .registering, .holding,
            .ready,
            .inFlight,
            .retiring, .limiting:
            return
        }
    }
}
