import LiveActivity

/// Asks Redis whether a lifetime command is still permitted, before the command enters its activity's waiting list. A
/// restart is checked again if a report to the timetable may have changed the reply since then. (R35)
extension Delivery {
    /// Asks Redis whether a lifetime command is still permitted. Redis permits an end if the timetable has the life
    /// that the command ends. Redis permits a restart if the timetable has the entry that waits for this restart, and
    /// no state newer than the one that the command brings. It also permits a restart that has already begun its life:
    /// at its admission, the record turns out to be a duplicate. The command enters its activity's waiting list only
    /// after the reply (`continueAfterLifetimeCheck`). Exception: a restart that was held (`continueHeldRestart`).
    mutating func beginLifetimeCommand(
        _ record: RecordIndex,
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        deferral: Deferral?,
        now: Moment
    ) {
        fillSlot(record, with: command, from: value, trace: trace)
        records.setBody(of: record, to: command, from: value, apsDictionaryNumber: apsCache.apsDictionaryNumber)
        if let deferral { restore(deferral, to: record, of: nil, now: now) }
        if records[record].lifetime.isRestart, records[record].start.isHeld {
            return continueHeldRestart(record, now: now)
        }
        records.enter(record, .awaitingRedis)
        queueLifetimeCheck(of: record)
    }

    /// Continues a restart that Redis held, and that comes back from the deferred topic. The timetable has no entry of
    /// such a restart any more, so Redis would refuse it. So the restart joins the waiting list without a check, unless
    /// a start or an end of the producer takes precedence.
    private mutating func continueHeldRestart(_ record: RecordIndex, now: Moment) {
        let activity = findOrAddActivity(of: record)
        if mustYieldToProducer(record, of: activity, now: now) {
            finish(record, .superseded)
        } else {
            enqueue(record, of: activity, now: now)
        }
    }

    /// Handles the reply to `checkLifetime`: adds the lifetime command to its activity's waiting list, finishes it,
    /// drops it, defers it, or makes the call again, at once or after a pause.
    ///
    /// - Parameter isPermitted: false if Redis did not permit the command, for example because the life has ended, or
    ///   refused the call.
    mutating func continueAfterLifetimeCheck(_ record: RecordIndex, isPermitted: Bool, now: Moment) {
        if isPermitted, !isPartitionRevoked(record) {
            if mayHaveUnreadDeferredCommands(before: record, now: now) {
                return isOverdue(record, now: now)
                    ? deferLifetimeCommand(record, now: now) : repeatLifetimeCheckAfterPause(record, now: now)
            }
            if records[record].isUnsentRestart, mayBeRefusedNow(record) { return queueLifetimeCheck(of: record) }
        }
        let activity = findOrAddActivity(of: record)
        let (isRevoked, mustYield) = (isPartitionRevoked(record), mustYieldToProducer(record, of: activity, now: now))
        // The restart joins the list, or will not come at all, so newer commands no longer wait for it. Exception: if
        // Redis refused the restart, they go on waiting for a limited time, because usually the keeper makes another
        // restart at once, with a newer state.
        if records[record].lifetime.isRestart, isPermitted || isRevoked || mustYield {
            activities[activity].deferredStartWait.endWait(upTo: records[record].version)
        }
        if isRevoked {
            drop(record, now: now)
        } else {
            records.enter(record, .received)
            if !isPermitted || mustYield {
                // Redis did not permit the command, or a start or end of the producer comes first and may change the
                // life. If the timetable still has the life, the keeper makes another command.
                finish(record, .superseded)
            } else if records[record].lifetime.isRestart, !policies.restartsAfterLifetime(records[record].policyIndex) {
                finish(record, .expired)
            } else {
                enqueue(record, of: activity, now: now)
                return endBatch(now: now)
            }
        }
        // The command may be what a paused activity waited for.
        if activities[activity].phase == .paused { activities.enter(activity, .idle) }
        // If this command was the activity's only one, the activity is idle, and `beginNextCommand` frees it.
        // Exception: if the command came from the deferred topic with a pause (`restore`), the activity waits until the
        // end of this pause.
        if activities[activity].phase == .idle { beginNextCommand(of: activity, now: now) }
    }

    /// Defers a lifetime command that has waited for long until the lane has read what previous owners deferred. If the
    /// command stayed in the lane, its partition's ledger could become full, and its offset would be unsettled.
    private mutating func deferLifetimeCommand(_ record: RecordIndex, now: Moment) {
        let activity = findOrAddActivity(of: record)
        records[record].activity = activity
        deferCommand(record, .pace, now: now)
        if activities[activity].phase == .idle { beginNextCommand(of: activity, now: now) }
    }

    /// Makes the call `checkLifetime` again after a pause. The commands that previous owners deferred, and that are not
    /// read yet, may bring a newer state, which must be sent before the end of a lifetime, or shown by a restart.
    private mutating func repeatLifetimeCheckAfterPause(_ record: RecordIndex, now: Moment) {
        let ticket = StoreTicket(.checkLifetime, appIndex: records[record].appIndex, record: record)
        records[record].ending.expectAcknowledgement()
        recordsAwaitingStoreCount += 1
        storeQueue.setAside(ticket, isAnswered: true, now: now)
    }

    /// Notes that a report of this activity to the timetable is queued which may refuse a restart, or bring the state
    /// that the restart must show (``LifetimeReportCounts``).
    mutating func noteReportThatMayRefuseRestart(of record: RecordIndex) {
        lifetimeReportCounts.noteReport(ofActivity: activityHash(of: record))
    }

    /// Whether such a report of the restart's activity may have been queued since Redis was last asked about the
    /// restart.
    private func mayBeRefusedNow(_ restart: RecordIndex) -> Bool {
        records[restart].lifetime.reportCountAtCheck
            != lifetimeReportCounts.reportCount(ofActivity: activityHash(of: restart))
    }

    private func activityHash(of record: RecordIndex) -> UInt64 {
        let slot = records.address(of: record)
        return activities.hash(of: slot.pointee.appIndex, slot.pointee.bytes(slot.pointee.texts.subject))
    }

    /// Queues the call `checkLifetime`. Redis works on it after all reports of the activity that are queued already: a
    /// timetable's calls go to one server, in order. (Exception: a report that Redis has refused for a temporary reason
    /// comes later.)
    private mutating func queueLifetimeCheck(of record: RecordIndex) {
        records[record].lifetime.reportCountAtCheck =
            lifetimeReportCounts.reportCount(ofActivity: activityHash(of: record))
        queueStoreCall(.checkLifetime, record)
    }

    /// Asks Redis again about a restart whose turn has come, if Redis may refuse it now. For example, an update got the
    /// outcome `ended` while the restart waited. If its state is newer than the restart's, Redis refuses this restart,
    /// and the keeper makes another one with the newer state.
    ///
    /// Until Redis replies, newer updates and ends wait for the restart as for a deferred start: Redis would reply
    /// `ended` to such an update, and its alert would be lost.
    ///
    /// - Returns: whether the restart has left the waiting list. The activity is still idle.
    mutating func checkRestartAgain(_ head: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        guard records[head].isUnsentRestart, mayBeRefusedNow(head) else { return false }
        activities[activity].waitingList.remove(head, in: &records)
        noteExpectedDeferredCommand(head, now: now)
        records.enter(head, .awaitingRedis)
        queueLifetimeCheck(of: head)
        return true
    }

    /// Whether a start or an end that the producer sent takes precedence over this lifetime command.
    func mustYieldToProducer(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        // A deferred start is older than this end. If the end were sent first, it would supersede the start. A restart
        // does not look for deferred starts: the deferred start may be this restart.
        if records[record].lifetime.isEnd, activities[activity].deferredStartWait.isOngoing(now: now) { return true }
        return hasProducerStartOrEnd(of: activity)
    }

    /// Whether the activity's current command, or a waiting one, is a start or an end that the producer sent.
    private func hasProducerStartOrEnd(of activity: ActivityIndex) -> Bool {
        func isStartOrEnd(_ record: RecordIndex) -> Bool {
            let slot = records.address(of: record)
            return slot.pointee.event != .update && !slot.pointee.isLifetimeCommand
        }
        let slot = activities.address(of: activity)
        if slot.pointee.currentCommand != .null, isStartOrEnd(slot.pointee.currentCommand) { return true }
        var waitingRecord = slot.pointee.waitingList.head
        while let record = waitingRecord {
            if isStartOrEnd(record) { return true }
            waitingRecord = slot.pointee.waitingList.successor(of: record, in: records)
        }
        return false
    }
}

extension RecordSlot {
    /// Whether the record is a restart that Redis may still refuse: it has no draw on a budget now, its push was never
    /// attempted, and it was not held. (The timetable has no entry of a held restart any more.)
    var isUnsentRestart: Bool {
        lifetime.isRestart && needsStartToken && !start.isHeld && push.attemptCount == 0
    }
}
