import LiveActivity

/// Queues commands until their activity's turn, and replaces older commands by newer ones. Three words for this:
/// - *Replace*: a command replaces another one if the other need not be sent any more. Usually the newer command
///   replaces the older one.
/// - *Supersede*: finish the replaced command as `superseded`, or make it the rider of the command that replaces it
///   (R14). But if both are records of the same command, the replaced one is finished as `duplicate`.
/// - *Merge*: put a new command into its activity's waiting list. There it may replace waiting commands, or a waiting
///   command replaces it.
///
/// The waiting list of an activity has the order of versions. A command joins it by these rules:
/// - An update replaces older updates.
/// - An end replaces all older commands. It replaces no newer ones, because only Redis knows whether they belong to a
///   new life (R13).
/// - A start replaces only older starts.
/// - Lifetime commands have other rules: the end of a lifetime is always last (`mergeInvolvingLifetimeEnd`), and an end
///   that the producer sent replaces a start after a lifetime (`replaceRestarts`).
///
/// Merging only saves calls: Redis decides about each command at its admission.
extension Delivery {
    /// Whether the slot of a command is still in use after the command was merged or superseded.
    enum SlotStatus {
        case inUse
        /// The slot was freed, because its command gets no result: the replacement counts the command.
        case freed
    }

    /// Adds a command to its activity's waiting list, where it may replace waiting commands, and wakes the activity.
    /// But the new command is finished at once, or becomes a rider, if a waiting command replaces it. A record of the
    /// command that waits for a carrier is finished as `duplicate`.
    ///
    /// - Parameter activity: the result of `findOrAddActivity`; nil: `enqueue` finds or adds the activity.
    mutating func enqueue(_ record: RecordIndex, of activity: ActivityIndex? = nil, now: Moment) {
        let activity = activity ?? findOrAddActivity(of: record)
        records[record].activity = activity
        let commandAwaitingCarrier = activities[activity].commandAwaitingCarrier.record
        if commandAwaitingCarrier != .null, !records[record].lifetime.isEnd,
            records.areSameVersion(commandAwaitingCarrier, record)
        {
            finish(record, asDuplicateOf: commandAwaitingCarrier)
        } else {
            let slotStatus = merge(record, into: activity, now: now)
            if slotStatus == .inUse { supersedeCommandAwaitingCarrier(of: activity, by: record, now: now) }
        }
        wake(activity, now: now)
    }

    /// Finds or adds the activity of a command whose slot is filled.
    mutating func findOrAddActivity(of record: RecordIndex) -> ActivityIndex {
        let slot = records.address(of: record)
        return activities.findOrAdd(slot.pointee.appIndex, slot.pointee.bytes(slot.pointee.texts.subject))
    }

    /// Finds or adds the activity of a command whose slot is not filled yet. Prefetches the slots that merging the
    /// command will read.
    ///
    /// - Returns: nil if the activity's id has escapes and must be unescaped first.
    mutating func findOrAddActivity(of command: Command, of appIndex: UInt16, in value: UnsafeRawBufferPointer)
        -> ActivityIndex?
    {
        guard !command.activity.isEscaped else { return nil }
        let activity = activities.findOrAdd(appIndex, command.activity.range.bytes(in: value))
        let slot = activities.address(of: activity)
        records.prefetch(slot.pointee.waitingList.tailOrNull)
        records.prefetch(slot.pointee.riderToPrefetch)
        return activity
    }

    /// Puts a command into its place in the waiting list. The command may replace waiting commands there, or a waiting
    /// command may replace it. Returns whether the slot of `record` is still in use.
    mutating func merge(_ record: RecordIndex, into activity: ActivityIndex, now: Moment) -> SlotStatus {
        guard let tail = activities[activity].waitingList.tail else {
            activities[activity].waitingList.append(record, in: &records)
            return .inUse
        }
        if records[record].lifetime.isEnd || records[tail].lifetime.isEnd {
            return mergeInvolvingLifetimeEnd(record, with: tail, of: activity, now: now)
        }
        if records.areSameVersion(record, tail), records[record].event == records[tail].event {
            mergeSameVersion(record, with: tail, of: activity)
        } else if records.isNewer(tail, than: record) {
            return mergeOlder(record, of: activity, now: now)
        } else if records.eventsAllowReplacing(tail, by: record) {
            countReplacedCommand(of: tail)
            records.passToken(from: tail, to: record)
            activities[activity].waitingList.replaceLast(by: record, in: &records)
            supersede(tail, by: record, now: now)
            if records[record].event == .end { replaceOlder(than: record, before: record, of: activity, now: now) }
        } else {
            activities[activity].waitingList.append(record, in: &records)
        }
        return .inUse
    }

    /// Merges a second record of a waiting command: one of the two is kept, and the other is finished as a duplicate.
    /// Usually the waiting record is kept. The new record is kept in two cases:
    /// - The command is a start, and the new record was deferred more often: Redis knows only the claim of that record.
    /// - The command is an update or end, and only the new record has an alert, for example one that a deferred record
    ///   carries.
    private mutating func mergeSameVersion(_ record: RecordIndex, with waiting: RecordIndex, of activity: ActivityIndex)
    {
        let replacesWaiting =
            records[record].isStart
            ? records[record].deferral.count > records[waiting].deferral.count
            : records.alertVersion(of: record) != nil && records.alertVersion(of: waiting) == nil
        if replacesWaiting {
            activities[activity].waitingList.insert(record, before: waiting, in: &records)
            activities[activity].waitingList.remove(waiting, in: &records)
        }
        let (kept, duplicate) = replacesWaiting ? (record, waiting) : (waiting, record)
        finish(duplicate, asDuplicateOf: kept)
        // Let only the kept record settle a held start in Redis.
        records[duplicate].ending.followUps.remove(.removeHeldStart)
    }

    /// Merges a command that is older than the last waiting one. Here `next` is the waiting command before which
    /// `record` belongs (`firstWaitingCommand`). Returns whether the slot of `record` is still in use.
    ///
    /// - An update is replaced by `next`. But if `next` is a restart after a lifetime that was not sent yet, the update
    ///   is put before it: the restart must show the update's state (`checkRestartAgain`).
    /// - A start is put before an update, because without the start there is nothing to update. (A held start may come
    ///   late.) If `next` is a start or an end, it replaces the start.
    /// - An end is put before an update or a start, because only Redis knows to which life the end belongs (R13). If
    ///   `next` is an end, it replaces the older end.
    private mutating func mergeOlder(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) -> SlotStatus {
        let isEnd = records[record].event == .end
        if isEnd { replaceRestarts(by: record, of: activity, now: now) }
        guard let next = firstWaitingCommand(notBefore: record, of: activity) else {
            insertReplacingOlder(record, before: nil, of: activity, now: now)
            return .inUse
        }
        if records.areSameVersion(next, record), records[next].event == records[record].event {
            // Two records bring the same command. For example, Redis held a start, and two registrations released it.
            mergeSameVersion(record, with: next, of: activity)
            return .inUse
        }
        // Do not use `isReplaced` here: by its rules no start replaces an update. But if the start in `next` is newer
        // than the update in `record`, the start replaces this update.
        let isReplacedByNext =
            switch records[record].event {
            case .update: !records[next].isUnsentRestart
            case .start: records[next].event != .update
            case .end: records[next].event == .end
            }
        guard !isReplacedByNext else {
            countReplacedCommand(of: record)
            records.passToken(from: record, to: next)
            return supersede(record, by: next, now: now)
        }
        insertReplacingOlder(record, before: next, of: activity, now: now)
        if isEnd { moveOlderAlert(to: record, of: activity, now: now) }
        return .inUse
    }

    /// Replaces the waiting starts that Causeway made after a lifetime (`RecordLifetime.isRestart`) by an end that the
    /// producer sent, even if the end's version is lower. (R35)
    private mutating func replaceRestarts(by end: RecordIndex, of activity: ActivityIndex, now: Moment) {
        var nextCandidate = activities[activity].waitingList.head
        while let candidate = nextCandidate {
            nextCandidate = activities[activity].waitingList.successor(of: candidate, in: records)
            guard records[candidate].lifetime.isRestart else { continue }
            countReplacedCommand(of: candidate)
            activities[activity].waitingList.remove(candidate, in: &records)
            supersede(candidate, by: end, now: now)
        }
    }

    /// Returns the waiting command before which `record` belongs in the list; nil if `record` belongs at the end. The
    /// end of a lifetime is behind all other commands.
    func firstWaitingCommand(notBefore record: RecordIndex, of activity: ActivityIndex) -> RecordIndex? {
        let list = activities.address(of: activity).pointee.waitingList
        var nextCandidate = list.head
        while let candidate = nextCandidate, !records[candidate].lifetime.isEnd, comesBefore(candidate, record) {
            nextCandidate = list.successor(of: candidate, in: records)
        }
        return nextCandidate
    }

    /// Whether `waiting` belongs before `record` in the list: the version of `waiting` is lower, or both have the same
    /// version and only `record` is an end.
    func comesBefore(_ waiting: RecordIndex, _ record: RecordIndex) -> Bool {
        records.isNewer(record, than: waiting)
            || records[record].event == .end && records[waiting].event != .end
                && records.areSameVersion(record, waiting)
    }

    /// Adds a command to the waiting list before `next`, or at the end if `next` is nil. First the command replaces
    /// older ones (`replaceOlder`).
    ///
    /// - Parameter next: the result of `firstWaitingCommand`.
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

    /// Replaces waiting commands by the newer command `record`; if `next` is not nil, only commands before `next`.
    /// - An end replaces all that are older, the oldest first.
    /// - Any other command replaces the newest first, and stops at the first command that it does not replace
    ///   (`isReplaced`). For example, an update stops at a start.
    private mutating func replaceOlder(
        than record: RecordIndex,
        before next: RecordIndex?,
        of activity: ActivityIndex,
        now: Moment
    ) {
        let isEnd = records[record].event == .end
        while let candidate = isEnd
            ? activities[activity].waitingList.head : lastWaitingCommand(before: next, of: activity),
            candidate != next, records.isReplaced(candidate, by: record)
        {
            countReplacedCommand(of: candidate)
            activities[activity].waitingList.remove(candidate, in: &records)
            records.passToken(from: candidate, to: record)
            supersede(candidate, by: record, now: now)
        }
    }

    /// Returns the waiting command before `next`, or the last one if `next` is nil; nil if there is none.
    private func lastWaitingCommand(before next: RecordIndex?, of activity: ActivityIndex) -> RecordIndex? {
        let list = activities.address(of: activity).pointee.waitingList
        if let next { return list.predecessor(of: next, in: records) }
        return list.tail
    }

    /// Puts a former rider back into the waiting list, after `requeueRider` has unlinked it from its carrier. But the
    /// former rider is superseded if the next waiting command replaces it.
    mutating func enqueueFormerRider(_ formerRider: RecordIndex, now: Moment) {
        let activity = records[formerRider].activity
        let next = firstWaitingCommand(notBefore: formerRider, of: activity)
        if let next, records.isReplaced(formerRider, by: next) {
            supersede(formerRider, by: next, now: now)
        } else {
            insertReplacingOlder(formerRider, before: next, of: activity, now: now)
        }
    }

    /// Finishes a record as `duplicate`, because the lane keeps another record with the same version.
    ///
    /// If a registration released this command, the commit's metadata must not name the registration as settled: after
    /// a crash, the next owner must read it again. The kept record alone may not be enough, because Redis may call a
    /// second registration stale and not return the held command.
    private mutating func finish(_ record: RecordIndex, asDuplicateOf kept: RecordIndex) {
        countReplacedCommand(of: record)
        records.passToken(from: record, to: kept)
        if records[record].source.topic == .registrations { records[record].ending.isLeftOutOfMetadata = true }
        finish(record, .duplicate)
    }

    /// Returns the waiting command that replaces the activity's current command; nil if there is none. It need not be
    /// the first in the list, because older ends may wait before it. Commands behind a start that is newer than the
    /// current command do not count, because they belong to a later life.
    func commandReplacingCurrent(of activity: ActivityIndex) -> RecordIndex? {
        let slot = activities.address(of: activity)
        let current = slot.pointee.currentCommand
        guard current != .null else { return nil }
        var nextCandidate = slot.pointee.waitingList.head
        while let candidate = nextCandidate {
            if records.isReplaced(current, by: candidate) { return candidate }
            if records[candidate].isStart, records.isNewer(candidate, than: current) { return nil }
            nextCandidate = slot.pointee.waitingList.successor(of: candidate, in: records)
        }
        return nil
    }

    func isCurrentCommandReplaced(of activity: ActivityIndex) -> Bool { commandReplacingCurrent(of: activity) != nil }

    /// Wakes an activity that got one more command. If the activity may begin a command now, the command begins at the
    /// end of the batch. If the current command waits for a retry, the new command may replace it now. In any other
    /// phase, does nothing.
    private mutating func wake(_ activity: ActivityIndex, now: Moment) {
        switch activities[activity].phase {
        case .idle, .paused:
            // Wake the activity even if it is paused and has a timer: one of its commands may wait for a carrier, and
            // the new command may be that carrier.
            guard !activities[activity].isNextCommandDelayed(now: now) else { return }
            activities.enter(activity, .queuedToBegin)
        case .backingOff, .awaitingService:
            guard isCurrentCommandReplaced(of: activity) else { return }
            replaceCommandAwaitingRetry(of: activity, now: now)
        case .queuedToBegin, .awaitingReadAhead, .awaitingCredit, .takingStartToken, .admitting, .registeringToken,
            .requestingHold, .ready, .inFlight, .retiringToken, .recordingThrottle:
            return
        }
    }
}
