import LiveActivity

/// Queues commands until their activity's turn, and replaces older commands by newer ones.
///
/// An activity's waiting list has only commands that do not replace each other, in the order of their versions. An
/// update replaces older updates. An end replaces all older commands. A start replaces only older starts. The end of a
/// lifetime, which is always last, and a start after a lifetime have rules of their own (`mergeInvolvingLifetimeEnd`,
/// `replaceRestarts`).
///
/// A waiting end that the producer sent does not finish newer commands: only Redis knows whether a start has begun a
/// new life since that end. (R13) So merging only saves calls. Redis decides the order at the admission.
extension Delivery {
    /// Adds a command to its activity's waiting list. The command may replace waiting commands. Or it may be replaced
    /// and finished at once, or become the rider of a waiting command.
    /// - Parameter activity: the result of `findOrAddActivity`; nil: `enqueue` finds or adds the activity.
    mutating func enqueue(_ record: RecordIndex, of activity: ActivityIndex? = nil, now: Moment) {
        let activity = activity ?? findOrAddActivity(of: record)
        records[record].activity = activity
        let rider = activities[activity].riderAwaitingCarrier.record
        if rider != .null, !records[record].lifetime.isEnd, records.areSameVersion(rider, record) {
            countCoalescedCommand(of: record)
            records.passToken(from: record, to: rider)
            leaveRegistrationOutOfMetadata(record)
            finish(record, .duplicate)
        } else {
            let isWaiting = merge(record, into: activity, now: now)
            if isWaiting { carryAwaitingRider(on: record, of: activity, now: now) }
        }
        wake(activity, now: now)
    }

    mutating func findOrAddActivity(of record: RecordIndex) -> ActivityIndex {
        let slot = records.address(of: record)
        return activities.findOrAdd(slot.pointee.appIndex, slot.pointee.bytes(slot.pointee.texts.subject))
    }

    /// Finds the activity of a command that is decoded but not yet written to its slot. Prefetches the slots
    /// that merging the command will read.
    /// - Returns: nil if the activity's id has escapes and must be unescaped first.
    mutating func findOrAddActivity(of command: Command, of appIndex: UInt16, in value: UnsafeRawBufferPointer)
        -> ActivityIndex?
    {
        guard !command.activity.isEscaped else { return nil }
        let activity = activities.findOrAdd(appIndex, command.activity.range.bytes(in: value))
        let slot = activities.address(of: activity)
        records.prefetch(slot.pointee.waitingList.last)
        records.prefetch(slot.pointee.lastRider)
        return activity
    }

    /// Merges a command into the activity's waiting list: adds the command there, replaces waiting commands by it, or
    /// replaces it by a waiting command.
    /// - Returns: false if a waiting command superseded `record` and the slot of `record` is freed.
    mutating func merge(_ record: RecordIndex, into activity: ActivityIndex, now: Moment) -> Bool {
        let tail = activities[activity].waitingList.last
        guard tail != .null else {
            activities[activity].waitingList.append(record, in: &records)
            return true
        }
        if records[record].lifetime.isEnd || records[tail].lifetime.isEnd {
            return mergeInvolvingLifetimeEnd(record, with: tail, of: activity, now: now)
        }
        if records.areSameVersion(record, tail), records[record].event == records[tail].event {
            mergeSameVersion(record, with: tail, of: activity)
        } else if records.isNewer(tail, than: record) {
            return mergeOlder(record, of: activity, now: now)
        } else if records.mayReplace(tail, by: record) {
            countCoalescedCommand(of: record)
            records.passToken(from: tail, to: record)
            activities[activity].waitingList.replaceLast(by: record, in: &records)
            supersede(tail, by: record, now: now)
            if records[record].event == .end { replaceOlder(than: record, before: record, of: activity, now: now) }
        } else {
            activities[activity].waitingList.append(record, in: &records)
        }
        return true
    }

    /// Merges two records of the same command. If only one of them has an alert, that record stays: a record from the
    /// deferred topic may carry an older command's alert. Of two records of a start, the one that was deferred more
    /// often stays, because only its claim is known to Redis. The lane may have both because the deferred topic can
    /// contain several records of a start. Otherwise the waiting record stays.
    private mutating func mergeSameVersion(_ record: RecordIndex, with waiting: RecordIndex, of activity: ActivityIndex)
    {
        let replacesWaiting =
            records[record].isStart
            ? records[record].deferral.count > records[waiting].deferral.count
            : records.alertVersion(of: record) != nil && records.alertVersion(of: waiting) == nil
        guard replacesWaiting else { return finish(record, asDuplicateOf: waiting) }
        activities[activity].waitingList.insert(record, before: waiting, in: &records)
        activities[activity].waitingList.remove(waiting, in: &records)
        finish(waiting, asDuplicateOf: record)
    }

    /// Merges a command that is older than the last waiting one. `next` is the first waiting command that does not come
    /// before it (`firstWaiting`).
    ///
    /// - An update is superseded by `next`.
    /// - A start is put before an update, because without the start there is nothing to update. A start comes late, for
    ///   example, because Redis held it (simulation `plain`, seed 367). Another start or an end supersedes the start.
    /// - An end is put before an update or a start. Only Redis knows whether the end belongs to the life of `next`, or
    ///   to an earlier one. (R13) Another end supersedes the end.
    ///
    /// - Returns: false if `next` superseded `record` and the slot of `record` is freed.
    private mutating func mergeOlder(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        let isEnd = records[record].event == .end
        if isEnd { replaceRestarts(by: record, of: activity, now: now) }
        guard let next = firstWaiting(notOlderThan: record, of: activity) else {
            insertReplacingOlder(record, before: nil, of: activity, now: now)
            return true
        }
        if records.areSameVersion(next, record), records[next].event == records[record].event {
            // Both records bring the same command: for example, Redis held a start, and two registrations released it.
            mergeSameVersion(record, with: next, of: activity)
            return true
        }
        let isReplaced =
            switch records[record].event {
            case .update: true
            case .start: records[next].event != .update
            case .end: records[next].event == .end
            }
        guard !isReplaced else {
            countCoalescedCommand(of: record)
            records.passToken(from: record, to: next)
            return supersede(record, by: next, now: now)
        }
        insertReplacingOlder(record, before: next, of: activity, now: now)
        if isEnd { moveOlderAlert(to: record, of: activity, now: now) }
        return true
    }

    /// Removes the waiting starts that Causeway made after a lifetime (`RecordLifetime.isRestart`), because the
    /// producer ends the activity. The producer's end wins, whatever the versions are. (R35)
    private mutating func replaceRestarts(by end: RecordIndex, of activity: ActivityIndex, now: Moment) {
        var waiting = activities[activity].waitingList.head
        while let candidate = waiting {
            waiting = activities[activity].waitingList.successor(of: candidate, in: records)
            guard records[candidate].lifetime.isRestart else { continue }
            countCoalescedCommand(of: candidate)
            activities[activity].waitingList.remove(candidate, in: &records)
            supersede(candidate, by: end, now: now)
        }
    }

    /// Returns the first waiting command that does not come before `record` in the list; nil: all come before it, or
    /// none waits. A command comes before `record` if its version is lower. A start or an update of the same version
    /// also comes before `record`, if `record` is an end. The end of a lifetime comes before no command.
    private func firstWaiting(notOlderThan record: RecordIndex, of activity: ActivityIndex) -> RecordIndex? {
        let list = activities.address(of: activity).pointee.waitingList
        var waiting = list.head
        while let candidate = waiting, !records[candidate].lifetime.isEnd, isOlder(candidate, than: record) {
            waiting = list.successor(of: candidate, in: records)
        }
        return waiting
    }

    func isOlder(_ waiting: RecordIndex, than record: RecordIndex) -> Bool {
        records.isNewer(record, than: waiting)
            || records[record].event == .end && records[waiting].event != .end
                && records.areSameVersion(record, waiting)
    }

    /// Adds a command to the waiting list, before `next`, which `firstWaiting` returned; nil: at the end of the list.
    /// First the command replaces older ones (`replaceOlder`).
    mutating func insertReplacingOlder(
        _ record: RecordIndex,
        before next: RecordIndex?,
        of activity: ActivityIndex,
        now: Moment
    ) {
        replaceOlder(than: record, before: next, of: activity, now: now)
        if let next {
            activities[activity].waitingList.insert(record, before: next, in: &records)
        } else {
            activities[activity].waitingList.append(record, in: &records)
        }
    }

    /// Replaces waiting commands before `next` by a newer command. If `next` is nil, this means all waiting commands.
    /// An end begins with the oldest of them, because it replaces all older commands. Any other command begins with the
    /// newest of them, and stops at one that it does not replace (`isSuperseded`): for example, an update stops at a
    /// start.
    private mutating func replaceOlder(
        than record: RecordIndex,
        before next: RecordIndex?,
        of activity: ActivityIndex,
        now: Moment
    ) {
        let isEnd = records[record].event == .end
        while let older = isEnd ? activities[activity].waitingList.head : lastWaiting(before: next, of: activity),
            older != next, records.isSuperseded(older, by: record)
        {
            countCoalescedCommand(of: older)
            activities[activity].waitingList.remove(older, in: &records)
            records.passToken(from: older, to: record)
            supersede(older, by: record, now: now)
        }
    }

    private func lastWaiting(before next: RecordIndex?, of activity: ActivityIndex) -> RecordIndex? {
        let list = activities.address(of: activity).pointee.waitingList
        if let next { return list.predecessor(of: next, in: records) }
        return list.tail
    }

    /// Called when the carrier of `rider` was dropped or has expired. Queues the rider again, so that it waits for its
    /// own turn. But if the next waiting command supersedes the rider, that command replaces it.
    mutating func requeue(rider: RecordIndex, now: Moment) {
        let activity = records[rider].activity
        let next = firstWaiting(notOlderThan: rider, of: activity)
        if let next, records.isSuperseded(rider, by: next) {
            supersede(rider, by: next, now: now)
        } else {
            insertReplacingOlder(rider, before: next, of: activity, now: now)
        }
    }

    /// Finishes a record because another record of the same command waits. If the command is a held start, the
    /// other record settles it in Redis.
    private mutating func finish(_ record: RecordIndex, asDuplicateOf waiting: RecordIndex) {
        countCoalescedCommand(of: record)
        records.passToken(from: record, to: waiting)
        leaveRegistrationOutOfMetadata(record)
        finish(record, .duplicate)
        records[record].ending.followUps.remove(.settleHeldStart)
    }

    /// Called when `record` ends because another record in the lane has the same command. If `record` is a registration
    /// that released this command from Redis, the commit's metadata must not name it. After a crash, the next owner
    /// then reads this registration again. It needs this if the other record is a registration too: Redis could call
    /// that one stale and return no held command for it (simulation `longLives`, seed 108).
    private mutating func leaveRegistrationOutOfMetadata(_ record: RecordIndex) {
        if records[record].source.topic == .registrations { records[record].ending.isLeftOutOfMetadata = true }
    }

    /// Returns the waiting command that replaces the activity's current command; nil if there is none. Older ends may
    /// wait before it. Commands behind a newer start belong to a later life and do not replace the current command.
    func commandReplacingCurrent(of activity: ActivityIndex) -> RecordIndex? {
        let slot = activities.address(of: activity)
        let current = slot.pointee.currentCommand
        guard current != .null else { return nil }
        var waiting = slot.pointee.waitingList.head
        while let candidate = waiting {
            if records.isSuperseded(current, by: candidate) { return candidate }
            if records[candidate].isStart, records.isNewer(candidate, than: current) { return nil }
            waiting = slot.pointee.waitingList.successor(of: candidate, in: records)
        }
        return nil
    }

    func isCurrentCommandSuperseded(of activity: ActivityIndex) -> Bool { commandReplacingCurrent(of: activity) != nil }

    /// Puts the current command back into the waiting list, unless a waiting command replaces it. The caller then calls
    /// `endCurrentCommand`.
    ///
    /// The command waits before newer ones. It replaces older commands that were read while it was under way
    /// (`insertReplacingOlder`). The end of a lifetime waits behind all others.
    mutating func putBackCurrentCommand(of activity: ActivityIndex, now: Moment) {
        let current = activities[activity].currentCommand
        if isCurrentCommandSuperseded(of: activity) {
            countCoalescedCommand(of: current)
            return supersedeCurrentCommand(of: activity, now: now)
        }
        guard !records[current].lifetime.isEnd else { return putBackLifetimeEnd(current, of: activity, now: now) }
        insertReplacingOlder(current, before: firstWaiting(notOlderThan: current, of: activity), of: activity, now: now)
        if records[current].event == .end { moveOlderAlert(to: current, of: activity, now: now) }
    }

    /// Wakes an activity that got one more command. If the activity may begin a command, it does so at the end of the
    /// batch. If its current command waits for a retry, the new command may replace this one now.
    private mutating func wake(_ activity: ActivityIndex, now: Moment) {
        switch activities[activity].phase {
        case .idle, .paused:
            // The activity may be paused for a rider that waits for its carrier. This command may be that
            // carrier, so do not wait for the timer.
            guard !activities[activity].isBeginDelayed(now: now) else { return }
            activities.enter(.queuedToBegin, activity)
        case .backingOff, .awaitingService:
            guard isCurrentCommandSuperseded(of: activity) else { return }
            replaceRetry(of: activity, now: now)
        case .queuedToBegin, .awaitingReadAhead, .awaitingCredit, .takingStartToken, .admitting, .registeringToken,
            .holding,
            .ready,
            .inFlight,
            .retiringToken, .recordingThrottle:
            return
        }
    }
}
