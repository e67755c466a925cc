import Delivery

extension Audiences {
    /// Makes ``advance(now:)`` check a slot at `dueMilliseconds` (monotonic). The caller must also store this time in
    /// the slot: an entry whose time is not the slot's is stale.
    ///
    /// The queue's limit is twice the number of slots. So in a full queue, at least half of the entries are stale or
    /// repeated. Their removal costs a constant time for each call on average.
    mutating func startTimer(_ owner: TimerQueue.Owner, _ index: UInt32, dueMilliseconds: Int64) {
        if timers.isFull { removeStaleTimers() }
        timers.append(TimerQueue.Entry(dueMilliseconds: dueMilliseconds, owner: owner, index: index))
    }

    /// Whether the slot's timer still has the time of this entry. If not, the entry is stale.
    func isCurrent(_ entry: TimerQueue.Entry) -> Bool {
        let (index, dueMilliseconds) = (entry.index, entry.dueMilliseconds)
        return switch entry.owner {
        case .audience: audiences.isInUse(index) && audiences[index].pausedUntilMilliseconds == dueMilliseconds
        case .round: rounds.isInUse(index) && rounds[index].timerDueMilliseconds == dueMilliseconds
        case .membershipChange:
            membershipChanges.isInUse(index) && membershipChanges[index].timerDueMilliseconds == dueMilliseconds
        case .channel: channels.isInUse(index) && channels[index].timerDueMilliseconds == dueMilliseconds
        case .channelWait:
            commands.isInUse(index) && commands[index].stage == .awaitingChannel
                && commands[index].channelWaitEndMilliseconds == dueMilliseconds
        }
    }

    private mutating func removeStaleTimers() {
        // A slot may have two entries with the same time, if its time was changed and later set back. Keep one of
        // them.
        var slots: Set<UInt64> = []
        for entry in timers.removeAll() where isCurrent(entry) && slots.insert(entry.slotKey).inserted {
            timers.append(entry)
        }
    }
}
