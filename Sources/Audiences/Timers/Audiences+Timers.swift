import Delivery

extension Audiences {
    /// Makes ``advance(now:)`` check a slot at `dueMilliseconds` (monotonic). The caller must also write this time into
    /// the slot: a timer is obsolete if its slot has another time.
    ///
    /// If the queue is full, first removes obsolete timers, and all but one of several equal timers. The limit of the
    /// queue is twice the number of slots, so at least half of the timers go.
    mutating func startTimer(_ owner: TimerQueue.Owner, dueMilliseconds: Int64) {
        if timers.isFull { removeObsoleteTimers() }
        timers.append(TimerQueue.Timer(dueMilliseconds: dueMilliseconds, owner: owner))
    }

    /// Whether the timer's slot still has the time of this timer. If not, the timer is obsolete.
    func isCurrent(_ timer: TimerQueue.Timer) -> Bool {
        let dueMilliseconds = timer.dueMilliseconds
        return switch timer.owner {
        case .audience(let audience):
            audiences.isInUse(audience) && audiences[audience].pausedUntilMilliseconds == dueMilliseconds
        case .round(let round): rounds.isInUse(round) && rounds[round].timerDueMilliseconds == dueMilliseconds
        case .membershipChange(let change):
            membershipChanges.isInUse(change) && membershipChanges[change].timerDueMilliseconds == dueMilliseconds
        case .channel(let channel):
            channels.isInUse(channel) && channels[channel].timerDueMilliseconds == dueMilliseconds
        case .channelWait(let command):
            commands.isInUse(command) && commands[command].phase == .awaitingChannel
                && commands[command].channelWaitEndMilliseconds == dueMilliseconds
        }
    }

    private mutating func removeObsoleteTimers() {
        // A slot whose time was changed and later set back has two timers with the same time. Keep one of them.
        var owners: Set<TimerQueue.Owner> = []
        for timer in timers.takeAll() where isCurrent(timer) && owners.insert(timer.owner).inserted {
            timers.append(timer)
        }
    }
}
