import Delivery

extension Audiences {
    /// Makes ``advance(now:)`` check a slot at `dueMilliseconds` (monotonic). The caller must also store this time in
    /// the slot: an entry whose time is not the slot's is stale.
    ///
    /// The queue's limit is twice the number of slots. So in a full queue, at least half of the entries are stale or
    /// repeated. Their removal costs a constant time for each call on average.
    mutating func startTimer(_ owner: TimerQueue.Owner, dueMilliseconds: Int64) {
        if timers.isFull { removeStaleTimers() }
        timers.append(TimerQueue.Entry(dueMilliseconds: dueMilliseconds, owner: owner))
    }

    /// Whether the slot's timer still has the time of this entry. If not, the entry is stale.
    func isCurrent(_ entry: TimerQueue.Entry) -> Bool {
        let dueMilliseconds = entry.dueMilliseconds
        return switch entry.owner {
        case .audience(let audience):
            audiences.isInUse(audience) && audiences[audience].pausedUntilMilliseconds == dueMilliseconds
        case .round(let round): rounds.isInUse(round) && rounds[round].timerDueMilliseconds == dueMilliseconds
        case .membershipChange(let change):
            membershipChanges.isInUse(change) && membershipChanges[change].timerDueMilliseconds == dueMilliseconds
        case .channel(let channel):
            channels.isInUse(channel) && channels[channel].timerDueMilliseconds == dueMilliseconds
        case .channelWait(let command):
            commands.isInUse(command) && commands[command].stage == .awaitingChannel
                && commands[command].channelWaitEndMilliseconds == dueMilliseconds
        }
    }

    private mutating func removeStaleTimers() {
        // A slot may have two entries with the same time, if its time was changed and later set back. Keep one of
        // them.
        var owners: Set<TimerQueue.Owner> = []
        for entry in timers.removeAll() where isCurrent(entry) && owners.insert(entry.owner).inserted {
            timers.append(entry)
        }
    }
}
