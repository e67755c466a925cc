import Delivery

extension Audiences {
    /// Lets ``advance(now:)`` check the slot at this monotonic time. The caller must also store the time in the
    /// slot: an entry with another time is stale.
    ///
    /// The queue's limit is twice the number of slots. So at least half of a full queue is stale or double, and the
    /// removal of these entries costs a constant time for each call on average.
    mutating func startTimer(_ owner: TimerQueue.Owner, _ index: UInt32, dueMilliseconds: Int64) {
        if timers.isFull { removeStaleTimers() }
        timers.append(TimerQueue.Entry(dueMilliseconds: dueMilliseconds, owner: owner, index: index))
    }

    /// Whether the slot's timer still has the time of this entry. If not, the entry is stale.
    func isCurrent(_ entry: TimerQueue.Entry) -> Bool {
        let (index, dueMilliseconds) = (entry.index, entry.dueMilliseconds)
        return switch entry.owner {
        case .audience: audiences.isInUse(index) && audiences[index].pausedUntilMilliseconds == dueMilliseconds
        case .round: rounds.isInUse(index) && rounds[index].timerMilliseconds == dueMilliseconds
        case .membershipChange:
            membershipChanges.isInUse(index) && membershipChanges[index].timerMilliseconds == dueMilliseconds
        case .channel: channels.isInUse(index) && channels[index].timerMilliseconds == dueMilliseconds
        case .channelWait:
            commands.isInUse(index) && commands[index].stage == .awaitingChannel
                && commands[index].channelWaitEndMilliseconds == dueMilliseconds
        }
    }

    private mutating func removeStaleTimers() {
        // A slot may have two entries with the same time, if its timer had another time in between. Keep one of
        // them.
        var slots: Set<UInt64> = []
        for entry in timers.removeAll() where isCurrent(entry) && slots.insert(entry.slotKey).inserted {
            timers.append(entry)
        }
    }
}
