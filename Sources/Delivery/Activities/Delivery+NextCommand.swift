import LiveActivity

/// Begins an activity's next command, makes the activity wait, or frees its slot.
extension Delivery {
    /// Begins the next command of an idle activity, or makes the activity wait. First removes commands that must not be
    /// sent, and defers commands that would wait too long. An activity that has no command and no wait is freed, so the
    /// caller must not use `activity` afterwards: a use of a freed slot traps.
    mutating func beginNextCommand(of activity: ActivityIndex, now: Moment) {
        precondition(activities[activity].phase == .idle)
        finishCommandAwaitingCarrierIfWaitIsOver(of: activity, now: now)
        removeUnsendableCommands(of: activity, now: now)
        guard !activities[activity].waitingList.isEmpty else { return pauseOrFree(activity, now: now) }
        if activities[activity].mayHaveToWait(now: now) {
            // First defer the commands that would wait too long in the lane. Then the activity waits or is freed in
            // three cases: no command is left, the delay is not over, or the next command must wait because of a
            // deferral.
            deferOverdueCommands(of: activity, now: now)
            let mustWait =
                activities[activity].waitingList.isEmpty || activities[activity].isNextCommandDelayed(now: now)
                || mustWaitForDeferral(of: activity, now: now)
            if mustWait { return pauseOrFree(activity, now: now) }
        }
        if readAhead.phase == .readingAhead { return activities.enter(activity, .awaitingReadAhead) }
        let head = activities[activity].waitingList.headOrNull
        if records[head].isStart, checkRestartAgain(head, of: activity, now: now) {
            return beginNextCommand(of: activity, now: now)
        }
        setPoolKindFromToken(of: activity)
        guard takeCreditOrWait(for: activity, now: now) else { return }
        guard let record = activities[activity].waitingList.popFirst(in: &records) else {
            preconditionFailure("a waiting list lost its first command")
        }
        records.enter(record, .current)
        removeAlertIfOld(of: record, now: now)
        records.completeBodyWithRiderAlert(of: record)
        if records[record].needsStartToken {
            activities.beginCommand(record, of: activity, in: .takingStartToken)
            queueStoreCall(.takeStartToken, record)
        } else {
            activities.beginCommand(record, of: activity, in: .admitting)
            queueStoreCall(.admit, record)
        }
    }

    /// If the activity's next command brings a token, sets the activity's pool to that of the token's environment.
    @inline(__always)
    private mutating func setPoolKindFromToken(of activity: ActivityIndex) {
        let head = activities[activity].waitingList.headOrNull
        guard records[head].token.mustBeRegistered else { return }
        activities[activity].poolKind = PoolKey.Kind(records[head].token.environment)
    }

    /// Removes the commands at the front of the waiting list that must not be sent: finishes expired ones, and drops
    /// those whose partition is revoked. Stops at the first command that may be sent.
    mutating func removeUnsendableCommands(of activity: ActivityIndex, now: Moment) {
        while let record = activities[activity].waitingList.head {
            let isRevoked = isPartitionRevoked(record)
            guard isRevoked || records[record].isExpired(now: now) else { return }
            _ = activities[activity].waitingList.popFirst(in: &records)
            if isRevoked { drop(record, now: now) } else { expire(record, now: now) }
        }
    }

    /// Finishes a waiting command as expired. Its rider, if it has one, goes back to the waiting list for a turn of its
    /// own.
    private mutating func expire(_ record: RecordIndex, now: Moment) {
        if case .awaitingBudget = records[record].start.draw { records[record].setReason("startBudget") }
        requeueRider(of: record, now: now)
        // Redis still holds an update or end that a token released, and each further registration would release it
        // again. So settle such a command. Do not settle any other command: Redis would then remove an older held
        // command, whose alert may still ring.
        if !records[record].isStart, wasReleasedByToken(record) { records[record].ending.settlement = .notShown }
        finish(record, .expired)
    }

    /// Whether Redis held the command, and a token released it. The token came with the command's record: a
    /// registration, or a command that had a result of its own before.
    private func wasReleasedByToken(_ record: RecordIndex) -> Bool {
        records[record].source.topic == .registrations || records[record].ending.earlierResultCount > 0
    }

    /// Makes the activity pause until the first of its waits ends, or frees an activity that has no wait or may not
    /// keep its slot. A long wait is divided into several pauses, because overdue commands are deferred only when a
    /// pause ends (`deferOverdueCommands`). With one long pause, they would be deferred long after they became overdue.
    private mutating func pauseOrFree(_ activity: ActivityIndex, now: Moment) {
        guard let endMilliseconds = pausedPhaseEndMilliseconds(of: activity, now: now),
            mayKeepSlot(activity, now: now)
        else { return activities.free(activity) }
        activities.enter(activity, .paused, untilMilliseconds: endMilliseconds)
    }

    /// Whether an activity that would pause may keep its slot. It must give up its slot if the lane has more activities
    /// than it can have records. There are two exceptions:
    /// - The activity has a command.
    /// - The activity expects a deferred command. This wait began while the lane was within the limit
    ///   (`noteExpectedDeferredCommand`).
    ///
    /// So activities without a command never take more slots than the lane can have records. Without this limit, an app
    /// with a long spacing could take all slots of the lane. (R4, R22) Little is lost with a slot: Redis checks the
    /// spacing again at the next admission.
    private func mayKeepSlot(_ activity: ActivityIndex, now: Moment) -> Bool {
        if activities.count <= records.limit { return true }
        let slot = activities.address(of: activity)
        return !slot.pointee.waitingList.isEmpty || !slot.pointee.commandAwaitingCarrier.isNone
            || slot.pointee.expectsDeferredCommand(now: now)
    }
}
