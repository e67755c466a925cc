import LiveActivity

/// Says whether the next command of an activity must wait, and until when.
///
/// If a quick function returns false, there is no wait of its kind. If it returns true, there may be one, and the
/// caller must ask an exact function. A command that waits for a carrier of its alert delays no other command. So only
/// `earliestWaitEndMilliseconds` and `pausedPhaseEndMilliseconds` take its wait into account.
///
///     in the extension of `ActivitySlot`
///     Is there perhaps a wait of the next command?        mayHaveToWait                  quick
///     Is there perhaps a wait because of a deferral?      mayHaveDeferralWait            quick
///     Is the next command delayed?                        isNextCommandDelayed           exact
///     Is a deferred command expected back?                expectsDeferredCommand         exact
///     When does the activity's first wait end?            earliestWaitEndMilliseconds    exact
///
///     in the extension of `Delivery`
///     Must it wait because of a deferral?                 mustWaitForDeferral            exact
///     Does a deferred start come before this command?     isStartExpected                exact
///     Is a wait longer than `deferredDelayMilliseconds`?  exceedsDeferredDelay           exact
///     Is the activity's delay or pause longer than that?  isDelayOrPauseLong             exact
///     When does the activity's phase `paused` end?        pausedPhaseEndMilliseconds     exact
extension Delivery {
    /// Whether the next command must wait because of a deferral. Either a deferred command must first come back from
    /// the deferred topic, or the next command has come back from it and still pauses. The delay of the next command
    /// does not count here (`isNextCommandDelayed`).
    func mustWaitForDeferral(of activity: ActivityIndex, now: Moment) -> Bool {
        let slot = activities.address(of: activity)
        guard let head = slot.pointee.waitingList.head else { return false }
        let isStart = records[head].isStart
        if records[head].lifetime.isEnd {
            // The end of a lifetime is sent after all states, also after those that are deferred.
            if slot.pointee.expectsDeferredCommand(now: now) { return true }
        } else if !isStart, isStartExpected(before: head, of: activity, now: now) {
            return true
        }
        guard slot.pointee.deferralWait.isOngoing(now: now) else { return false }
        if slot.pointee.deferralWait.isForPause {
            return records[head].deferral.remainingPauseMilliseconds(now: now) > 0
        }
        guard !isStart else { return false }
        // While the pool is blocked, a newer state waits until the deferred one is back. Then it replaces the deferred
        // one and carries its alert. Without this wait, the newer state would be deferred too: in an outage, the
        // deferred topic would get a copy of each state.
        if pools.isBlocked(pools.poolKey(of: slot.pointee.appIndex, slot.pointee.poolKind)) { return true }
        // While the pool works, a state waits only for the alert of a deferred command, and only if the state has no
        // alert or an older one. Without this wait, the phone would show the state without ringing.
        guard let deferredAlert = slot.pointee.deferralWait.alertVersion else { return false }
        return records.alertVersion(of: head).map { $0 < deferredAlert } ?? true
    }

    /// Whether the lane expects a start back from the deferred topic that comes before this update or end.
    func isStartExpected(before record: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        activities[activity].deferredStartWait
            .isExpected(before: records[record].version, isEnd: records[record].event == .end, now: now)
    }

    /// Whether a wait of this length is so long that an overdue command (`isOverdue`) is deferred, and does not wait in
    /// the lane.
    @inline(__always)
    func exceedsDeferredDelay(_ milliseconds: Int64) -> Bool {
        milliseconds > configuration.reloadable.deferredDelayMilliseconds
    }

    /// Whether the activity's delay, or the pause of its next command, is longer than `deferredDelayMilliseconds`.
    @inline(__always)
    private func isDelayOrPauseLong(of activity: ActivityIndex, now: Moment) -> Bool {
        let slot = activities.address(of: activity)
        if exceedsDeferredDelay(slot.pointee.earliestBeginAtMilliseconds - now.monotonicMilliseconds) { return true }
        guard slot.pointee.deferralWait.isForPause, let head = slot.pointee.waitingList.head else { return false }
        return exceedsDeferredDelay(records[head].deferral.remainingPauseMilliseconds(now: now))
    }

    /// Returns when the phase `paused` of an activity must end, a monotonic time; nil: the activity has no wait. A long
    /// wait has several such phases (`pauseOrFree`).
    @inline(__always)
    func pausedPhaseEndMilliseconds(of activity: ActivityIndex, now: Moment) -> Int64? {
        let slot = activities.address(of: activity)
        let earliestBeginAtMilliseconds = slot.pointee.earliestBeginAtMilliseconds
        // The fast path: nearly always the activity has a short delay or no wait at all.
        guard slot.pointee.commandAwaitingCarrier.isNone, !slot.pointee.mayHaveDeferralWait,
            !exceedsDeferredDelay(earliestBeginAtMilliseconds - now.monotonicMilliseconds)
        else { return pausedPhaseEndOnSlowPathMilliseconds(of: activity, now: now) }
        return earliestBeginAtMilliseconds > now.monotonicMilliseconds ? earliestBeginAtMilliseconds : nil
    }

    /// Does the work of `pausedPhaseEndMilliseconds` for a wait for a carrier, a wait because of a deferral, and a long
    /// delay. A long delay or pause gets several phases of half of `deferAfterMilliseconds`, so that commands are
    /// deferred soon after they become overdue. Not inlined, because these waits are rare.
    @inline(never)
    private func pausedPhaseEndOnSlowPathMilliseconds(of activity: ActivityIndex, now: Moment) -> Int64? {
        guard let endMilliseconds = activities[activity].earliestWaitEndMilliseconds(now: now) else { return nil }
        guard isDelayOrPauseLong(of: activity, now: now) else { return endMilliseconds }
        return min(endMilliseconds, now.monotonicMilliseconds + configuration.reloadable.deferAfterMilliseconds / 2)
    }
}

extension ActivitySlot {
    @inline(__always)
    func isNextCommandDelayed(now: Moment) -> Bool { earliestBeginAtMilliseconds > now.monotonicMilliseconds }

    /// A quick test: whether the next command may have to wait because of its delay or of a deferral. If true, the
    /// caller must ask `isNextCommandDelayed` and `mustWaitForDeferral`.
    @inline(__always)
    func mayHaveToWait(now: Moment) -> Bool { isNextCommandDelayed(now: now) || mayHaveDeferralWait }

    /// A quick test: whether a wait because of a deferral is set. That wait may be over already.
    @inline(__always) var mayHaveDeferralWait: Bool { deferralWait.hasEndTime || deferredStartWait.hasEndTime }

    /// Whether the lane expects a command of this activity back from the deferred topic.
    func expectsDeferredCommand(now: Moment) -> Bool {
        deferralWait.isOngoing(now: now) && !deferralWait.isForPause || deferredStartWait.isOngoing(now: now)
    }

    /// Returns when the first of the activity's waits ends, a monotonic time; nil: the activity has no wait. The waits
    /// are:
    /// - the delay of its next command (`earliestBeginAtMilliseconds`)
    /// - the wait of an older command for a newer one that carries its alert (`commandAwaitingCarrier`)
    /// - the wait until a deferred command comes back from the deferred topic (`deferralWait`, `deferredStartWait`)
    /// - the pause of a command that has come back from the deferred topic (`deferralWait`)
    @inline(__always)
    func earliestWaitEndMilliseconds(now: Moment) -> Int64? {
        var endMilliseconds = isNextCommandDelayed(now: now) ? earliestBeginAtMilliseconds : .max
        if !commandAwaitingCarrier.isNone {
            endMilliseconds = min(endMilliseconds, commandAwaitingCarrier.untilMilliseconds)
        }
        if deferralWait.isOngoing(now: now) { endMilliseconds = min(endMilliseconds, deferralWait.untilMilliseconds) }
        if deferredStartWait.isOngoing(now: now) {
            endMilliseconds = min(endMilliseconds, deferredStartWait.untilMilliseconds)
        }
        return endMilliseconds == .max ? nil : endMilliseconds
    }
}
