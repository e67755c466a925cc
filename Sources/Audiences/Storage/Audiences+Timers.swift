import Delivery

extension Audiences {
    /// Checks the slot at this monotonic time. An earlier call for the slot no longer counts.
    ///
    /// At least half of a full queue is stale, because its limit is twice the number of slots. So the removal of
    /// stale entries costs a constant time for each call.
    mutating func startTimer(_ owner: TimerQueue.Owner, _ index: UInt32, dueMilliseconds: Int64) {
        if timers.isFull { removeStaleTimers() }
        timers.append(TimerQueue.Entry(dueMilliseconds: dueMilliseconds, owner: owner, index: index))
    }

    /// Whether the entry has the present time of its slot.
    func isCurrent(_ entry: TimerQueue.Entry) -> Bool {
        let (index, due) = (entry.index, entry.dueMilliseconds)
        return switch entry.owner {
        case .audience: audiences.isInUse(index) && audiences[index].pausedUntilMilliseconds == due
        case .round: rounds.isInUse(index) && rounds[index].timerMilliseconds == due
        case .membership: memberships.isInUse(index) && memberships[index].timerMilliseconds == due
        case .channel: channels.isInUse(index) && channels[index].timerMilliseconds == due
        case .channelWait:
            commands.isInUse(index) && commands[index].stage == .awaitingChannel
                && commands[index].channelDueMilliseconds == due
        }
    }

    private mutating func removeStaleTimers() {
        // A slot may have the same time twice, if another time replaced it in between.
        var slots: Set<UInt64> = []
        for entry in timers.removeAll() where isCurrent(entry) && slots.insert(entry.slot).inserted {
            timers.append(entry)
        }
    }
}
