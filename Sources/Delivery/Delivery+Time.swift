/// Tells the core that time has passed. The shell calls ``endBatch(now:)`` and then ``advance(now:)`` after each batch
/// of records. It also calls `advance` at ``nextDueMilliseconds``.
extension Delivery {
    /// Ends a batch of `receive` calls. Each activity that got a command in the batch, and has no current command, now
    /// begins its next command or waits. `receive` itself begins no command, so that newer states of the batch first
    /// replace older ones.
    public mutating func endBatch(now: Moment) {
        while let activity = activities.popActivityQueuedToBegin() { beginNextCommand(of: activity, now: now) }
    }

    /// Advances the core to the time `now`. Each activity whose wait is over begins its next command or retries its
    /// current one. Also does all other work that is due, for example ends pauses and reviews the commands that wait
    /// for pools.
    public mutating func advance(now: Moment) {
        storeQueue.endPausesIfDue(now: now)
        outgoingRecords.endPausesIfDue(now: now)
        advanceReadAhead(now: now)
        updateHandoverWait()
        // This due time only wakes the lane, so clear it when it has passed. `checkReadAheadEnd` does the work when the
        // shell next asks for a store call or a push, and sets a new due time if the lane must read ahead further.
        if readAheadCheckDueMilliseconds <= now.monotonicMilliseconds { readAheadCheckDueMilliseconds = .max }
        if awaitsStoreReply { storeOutageWatch.beginWaitIfNone(now: now) }
        deallocateUnusedBlocks(now: now)
        reviewPoolQueues(now: now)
        activities.fireTimers(now: now)
        while let activity = activities.popDueActivity() {
            if activities[activity].phase == .paused {
                activities.enter(activity, .idle)
                beginNextCommand(of: activity, now: now)
            } else {
                precondition(activities[activity].phase.isAwaitingRetry, "a timer fired in a phase that has none")
                retryCurrentCommand(of: activity, now: now)
            }
        }
    }

    /// The monotonic time at which the shell must call `advance` next; nil if nothing waits for a time. After that
    /// call, the shell takes the store calls, pushes and outgoing records from the core's queues.
    public var nextDueMilliseconds: Int64? {
        var dueMilliseconds = activities.nextTimerDueMilliseconds ?? .max
        dueMilliseconds = min(dueMilliseconds, storeQueue.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, outgoingRecords.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, poolReviewDueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, pools.recoveryReportDueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, readAhead.readAheadEndMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, readAheadCheckDueMilliseconds)
        return dueMilliseconds == .max ? nil : dueMilliseconds
    }
}
