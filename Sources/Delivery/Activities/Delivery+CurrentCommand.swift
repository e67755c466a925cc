import LiveActivity

/// Ends the work on an activity's current command, because the command:
///
///     gets an outcome                                 finishAndEndTurn
///     is replaced by a waiting command                supersedeCurrentCommandAndEndTurn
///     must wait for its turn again                    putBackCurrentCommand, then endTurn
///     waits for a carrier of its alert                awaitCarrierOrFinish (`Delivery+Riders.swift`)
///     goes to the deferred topic                      deferCurrentCommandAndEndTurn (`Delivery+Deferring.swift`)
///     is left to the next owner of its partition      dropCurrentCommandAndEndTurn
///
/// In each case the activity then begins its next command, or is freed if it has no command and no wait. So the caller
/// must not use `activity` afterwards: a use of a freed slot traps.
extension Delivery {
    /// Returns the activity of a current command. Traps if the activity is not in the phase that the caller expects.
    @inline(__always)
    func activityOfCurrentCommand(_ record: RecordIndex, in phase: ActivityPhase) -> ActivityIndex {
        let activity = records[record].activity
        let slot = activities.address(of: activity)
        precondition(slot.pointee.phase == phase && slot.pointee.currentCommand == record)
        return activity
    }

    /// Finishes the current command and begins the activity's next one. Afterwards the caller must not use the
    /// activity, which may be freed.
    ///
    /// - Parameters:
    ///   - settlement: how Redis must settle the command's version; nil: the record keeps its settlement, if it has
    ///     one. A settlement is needed if Redis allowed the push (verdict `send`), or if a start was attempted: without
    ///     it, the version would stay "being sent" in Redis. (Exception: `handleRefusedCall`.)
    ///   - reason: the reason in the result; nil: the record keeps its reason, if it has one.
    mutating func finishAndEndTurn(
        _ record: RecordIndex,
        _ outcome: Outcome,
        settlement: Settlement?,
        reason: StaticString? = nil,
        now: Moment
    ) {
        let activity = records[record].activity
        precondition(activities[activity].currentCommand == record)
        if let settlement { records[record].ending.settlement = settlement }
        if let reason { records[record].setReason(reason) }
        finish(record, outcome)
        endTurn(of: activity, now: now)
    }

    /// Supersedes the current command by the waiting one that `commandReplacingCurrent` returns, and begins the
    /// activity's next command. Afterwards the caller must not use `activity`.
    mutating func supersedeCurrentCommandAndEndTurn(
        of activity: ActivityIndex,
        settlement: Settlement?,
        now: Moment
    ) {
        supersedeCurrentCommand(of: activity, settlement: settlement, now: now)
        endTurn(of: activity, now: now)
    }

    /// Supersedes the current command by the waiting one that `commandReplacingCurrent` returns. This may free the slot
    /// of the current command, so the caller must change the activity's phase at once.
    mutating func supersedeCurrentCommand(of activity: ActivityIndex, settlement: Settlement?, now: Moment) {
        guard let replacement = commandReplacingCurrent(of: activity) else {
            preconditionFailure("no waiting command replaces the current one")
        }
        let current = activities[activity].currentCommand
        if let settlement { records[current].ending.settlement = settlement }
        records.passToken(from: current, to: replacement)
        supersede(current, by: replacement, now: now)
        if let head = activities[activity].waitingList.head, head != replacement, records[head].event == .end {
            moveOlderAlert(to: head, of: activity, now: now)
        }
    }

    /// Puts the current command back into the waiting list, or supersedes it if a waiting command replaces it. The
    /// caller then calls `endTurn`.
    ///
    /// In the list the command comes before newer ones, and replaces older commands that the lane has read meanwhile
    /// (`insertReplacingOlder`). Exception: the end of a lifetime comes after all other commands.
    mutating func putBackCurrentCommand(of activity: ActivityIndex, now: Moment) {
        let current = activities[activity].currentCommand
        if isCurrentCommandReplaced(of: activity) {
            countReplacedCommand(of: current)
            return supersedeCurrentCommand(of: activity, settlement: nil, now: now)
        }
        guard !records[current].lifetime.isEnd else { return putBackLifetimeEnd(current, of: activity, now: now) }
        insertReplacingOlder(
            current,
            before: firstWaitingCommand(notBefore: current, of: activity),
            of: activity,
            now: now
        )
        if records[current].event == .end { moveOlderAlert(to: current, of: activity, now: now) }
    }

    /// Ends the turn of the current command: returns its credit and begins the activity's next command. The caller has
    /// already finished the command, replaced it, put it back, or made it wait for a carrier. Afterwards the caller
    /// must not use `activity`, which may be freed.
    mutating func endTurn(of activity: ActivityIndex, now: Moment) {
        let hadCredit = activities[activity].phase.hasCredit
        activities.enter(activity, .idle)
        if hadCredit { returnCredit(of: activity, now: now) }
        beginNextCommand(of: activity, now: now)
    }

    /// Drops a current command that must wait or needs another attempt: its partition was revoked, so the next owner
    /// reads it again. Afterwards the caller must not use `activity`, which may be freed.
    mutating func dropCurrentCommandAndEndTurn(of activity: ActivityIndex, now: Moment) {
        let (record, hadCredit) = (activities[activity].currentCommand, activities[activity].phase.hasCredit)
        // Make the activity idle first, so that the dropped command is not its current command any more. `drop` puts
        // the command's rider back into the waiting list. There the rider's alert may be compared with that of the
        // current command (`isOlderThanAlertUnderWay`), and the dropped command must not count.
        activities.enter(activity, .idle)
        drop(record, now: now)
        if hadCredit { returnCredit(of: activity, now: now) }
        beginNextCommand(of: activity, now: now)
    }
}
