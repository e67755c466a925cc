import LiveActivity

/// Commands that wait for their activity's turn, and how newer commands replace them.
///
/// An activity's waiting list holds what cannot be merged any further: states merge into the newest, but a start is never merged with
/// what follows it, and what follows an end belongs to the activity's next life. Redis decides when the command is admitted; merging
/// only saves calls.
extension Delivery {
    /// Puts a command into its activity's list, or finishes it, or the command that it replaces, at once.
    ///
    /// - Parameter activity: of `findActivity`; nil: it was not looked for yet.
    mutating func enqueue(_ record: UInt32, of activity: UInt32? = nil, now: Moment) {
        let activity = activity ?? activityOf(record)
        records[record].activity = activity
        let rider = activities[activity].riderAwaitingCarrier.record
        if rider != .max, records[rider].version == records[record].version {
            countCoalesced(of: record)
            records.passToken(from: record, to: rider)
            finish(record, .duplicate)
        } else {
            let isThere = merge(record, into: activity, now: now)
            if isThere { carryAwaitingRider(on: record, of: activity, now: now) }
        }
        wake(activity, now: now)
    }

    private mutating func activityOf(_ record: UInt32) -> UInt32 {
        let identifier = records[record].bytes(records[record].subject)
        return activities.find(records[record].application, identifier)
    }

    /// The activity of a command that was decoded and has no slot filled yet: what waits there is fetched into the processor's cache.
    /// - Returns: nil if its id must be unescaped first.
    mutating func findActivity(of command: Command, of application: UInt16, in value: UnsafeRawBufferPointer) -> UInt32?
    {
        guard !command.activity.isEscaped else { return nil }
        let activity = activities.find(application, command.activity.range.bytes(in: value))
        records.prefetch(activities[activity].waiting.last)
        records.prefetch(activities[activity].lastRider)
        return activity
    }

    /// - Returns: false if the record was superseded by one that waits already, and its slot is freed.
    private mutating func merge(_ record: UInt32, into activity: UInt32, now: Moment) -> Bool {
        let tail = activities[activity].waiting.last
        guard tail != .max else {
            activities[activity].waiting.append(record, in: &records)
            return true
        }
        let (version, olderVersion) = (records[record].version, records[tail].version)
        let (event, olderEvent) = (records[record].event, records[tail].event)
        if version == olderVersion {
            finish(record, asDuplicateOf: tail)
        } else if version < olderVersion {
            return mergeLate(record, behind: tail, of: activity, now: now)
        } else if olderEvent == .end, event != .start {
            records.passToken(from: record, to: tail)
            finish(record, .ended)
        } else if replaces(event, olderEvent) {
            countCoalesced(of: record)
            records.passToken(from: tail, to: record)
            activities[activity].waiting.replaceLast(by: record, in: &records)
            supersede(tail, by: record, now: now)
        } else {
            activities[activity].waiting.append(record, in: &records)
        }
        return true
    }

    /// A version below one that waits is superseded. Not an end, since an update never supersedes an end (design §3, rule 6); and not a
    /// start that was held until now, since without it there is nothing to update: it takes precedence, and Redis decides.
    private mutating func mergeLate(
        _ record: UInt32,
        behind tail: UInt32,
        of activity: UInt32,
        now: Moment
    ) -> Bool {
        switch (records[record].event, records[tail].event) {
        case (.end, .update):
            countCoalesced(of: record)
            records.passToken(from: tail, to: record)
            activities[activity].waiting.replaceLast(by: record, in: &records)
            supersede(tail, by: record, as: .ended, now: now)
        case (.start, .update), (.start, .end):
            let head = activities[activity].waiting.first
            if records[head].version == records[record].version {
                // It was held, and another registration released it as well.
                finish(record, asDuplicateOf: head)
                return true
            }
            guard records[head].event != .start else { fallthrough }
            activities[activity].waiting.prepend(record, in: &records)
        default:
            countCoalesced(of: record)
            records.passToken(from: record, to: tail)
            return supersede(record, by: tail, now: now)
        }
        return true
    }

    /// Another record of a command that waits: of a start that was held, Redis is told by the one that waits.
    private mutating func finish(_ record: UInt32, asDuplicateOf waiting: UInt32) {
        countCoalesced(of: record)
        records.passToken(from: record, to: waiting)
        finish(record, .duplicate)
        records[record].followUps.remove(.leaveDevice)
    }

    /// Whether a newer command replaces an older one that was not sent.
    func replaces(_ newer: Event, _ older: Event) -> Bool {
        switch (older, newer) {
        case (.update, .update), (.update, .end), (.start, .start), (.end, .end): true
        case (.update, .start), (.start, .update), (.start, .end), (.end, _): false
        }
    }

    /// Whether a newer state waits that replaces the activity's current command.
    func isOvertaken(_ activity: UInt32) -> Bool {
        let (current, first) = (activities[activity].current, activities[activity].waiting.first)
        guard current != .max, first != .max else { return false }
        return replaces(records[first].event, records[current].event)
            && records[first].version > records[current].version
    }

    /// Puts the current command back before all that waits, unless something waits that replaces it. `endTurn` follows.
    mutating func putBackCurrent(of activity: UInt32, now: Moment) {
        let current = activities[activity].current
        if isOvertaken(activity) {
            countCoalesced(of: current)
            records.passToken(from: current, to: activities[activity].waiting.first)
            supersede(current, by: activities[activity].waiting.first, now: now)
        } else {
            replaceOlder(than: current, of: activity, now: now)
            activities[activity].waiting.prepend(current, in: &records)
        }
    }

    /// An older state that came while a newer one was under way would wait behind it and never be sent.
    private mutating func replaceOlder(than current: UInt32, of activity: UInt32, now: Moment) {
        while !activities[activity].waiting.isEmpty {
            let head = activities[activity].waiting.first
            let isReplaced =
                replaces(records[current].event, records[head].event)
                && records[head].version < records[current].version
            guard isReplaced else { return }
            countCoalesced(of: head)
            _ = activities[activity].waiting.popFirst(in: &records)
            records.passToken(from: head, to: current)
            supersede(head, by: current, now: now)
        }
    }

    /// A command has been added to an activity's list. If the activity may begin it, it does so at the end of the batch.
    private mutating func wake(_ activity: UInt32, now: Moment) {
        switch activities[activity].phase {
        case .idle, .resting:
            // If a timer is set, it limits the wait of a rider, which may have got its carrier now.
            guard activities[activity].restsUntilMilliseconds <= now.monotonicMilliseconds else { return }
            activities.enter(.awakened, activity)
        case .backingOff, .awaitingRetryBudget:
            guard isOvertaken(activity) else { return }
            replaceRetry(of: activity, now: now)
        case .awakened, .parked, .eligible, .addressing, .admitting, .registering, .holding, .ready, .inFlight,
            .limiting:
            return
        }
    }
}
