import LiveActivity

/// Commands that wait for their activity's turn, and how newer ones replace them.
///
/// An activity's waiting list holds what cannot be merged any further: states merge into the newest, but a start is never merged with
/// what follows it, and what follows an end belongs to the activity's next life. Redis has the last word on all of it when the command
/// is admitted; merging here only spares it the calls.
extension Delivery {
    /// Puts a command into its activity's list, or finishes it (or what it replaces) at once.
    ///
    /// - Parameter activity: the activity of `expect`; nil: it was not looked for yet.
    mutating func enqueue(_ record: UInt32, of activity: UInt32? = nil, now: Moment) {
        let activity = activity ?? activityOf(record)
        records[record].activity = activity
        let rider = activities[activity].riderToBe
        if rider != .max, records[rider].version == records[record].version {
            countCoalesced(of: record)
            passToken(from: record, to: rider)
            finish(record, .duplicate)
        } else {
            let isThere = merge(record, into: activity, now: now)
            if isThere { board(record, of: activity, now: now) }
        }
        wake(activity, now: now)
    }

    private mutating func activityOf(_ record: UInt32) -> UInt32 {
        let identifier = records[record].bytes(records[record].subject)
        return activityOf(records[record].application, identifier)
    }

    /// Finds the activity of a command that is about to be laid out, and has what waits there fetched into the cache meanwhile.
    /// - Returns: nil if its id has yet to be unescaped.
    mutating func expect(_ command: Command, of application: UInt16, in value: UnsafeRawBufferPointer) -> UInt32? {
        guard !command.activity.isEscaped else { return nil }
        let activity = activityOf(application, command.activity.range.bytes(in: value))
        records.prefetch(activities[activity].tail)
        records.prefetch(activities[activity].lastRider)
        return activity
    }

    private mutating func activityOf(_ application: UInt16, _ identifier: UnsafeRawBufferPointer) -> UInt32 {
        let hash = activityHash(seed: activitySeed, application: application, identifier: identifier)
        let known = table.find(hash) { index in
            activities[index].application == application && isEqual(activities[index].identifier, identifier)
        }
        if let known { return known }
        let block = arena.allocate(identifier.count)
        if let base = identifier.baseAddress { block.base.copyMemory(from: base, byteCount: identifier.count) }
        let index = activities.allocate(
            ActivitySlot(
                hash: hash,
                application: application,
                phase: .resting,
                identifierBlock: block,
                identifierCount: identifier.count
            )
        )
        table.insert(hash, index: index)
        return index
    }

    /// - Returns: false if the record gave way to one that waits already, and is gone.
    private mutating func merge(_ record: UInt32, into activity: UInt32, now: Moment) -> Bool {
        let tail = activities[activity].tail
        guard tail != .max else {
            append(record, to: activity)
            return true
        }
        let (version, olderVersion) = (records[record].version, records[tail].version)
        let (event, olderEvent) = (records[record].event, records[tail].event)
        if version == olderVersion {
            finish(record, asTwinOf: tail)
        } else if version < olderVersion {
            return mergeLate(record, behind: tail, of: activity, now: now)
        } else if olderEvent == .end, event != .start {
            passToken(from: record, to: tail)
            finish(record, .ended)
        } else if replaces(event, olderEvent) {
            countCoalesced(of: record)
            passToken(from: tail, to: record)
            removeTail(of: activity)
            append(record, to: activity)
            supersede(tail, by: record, now: now)
        } else {
            append(record, to: activity)
        }
        return true
    }

    /// A version below one that waits is superseded. Not so an end, for an update never supersedes it (design §3, rule 6); nor a start
    /// that was held until now, for without it there is nothing to update: it goes first, and Redis decides.
    private mutating func mergeLate(
        _ record: UInt32,
        behind tail: UInt32,
        of activity: UInt32,
        now: Moment
    ) -> Bool {
        switch (records[record].event, records[tail].event) {
        case (.end, .update):
            countCoalesced(of: record)
            passToken(from: tail, to: record)
            removeTail(of: activity)
            append(record, to: activity)
            supersede(tail, by: record, as: .ended, now: now)
        case (.start, .update), (.start, .end):
            let head = activities[activity].head
            if records[head].version == records[record].version {
                // It was held, and comes with another registration.
                finish(record, asTwinOf: head)
                return true
            }
            guard records[head].event != .start else { fallthrough }
            prepend(record, to: activity)
        default:
            countCoalesced(of: record)
            passToken(from: record, to: tail)
            return supersede(record, by: tail, now: now)
        }
        return true
    }

    /// Another record of a command that waits: Redis is told of the one that waits.
    private mutating func finish(_ record: UInt32, asTwinOf waiting: UInt32) {
        countCoalesced(of: record)
        records[record].isInTwoHands = true
        passToken(from: record, to: waiting)
        finish(record, .duplicate)
    }

    /// A command that is let go before Redis has seen it leaves the token that it brought to the one that stays, unless that one
    /// brings a later one or is for another address: a token that came with a command counts as registered whatever becomes of it.
    mutating func passToken(from leaving: UInt32, to staying: UInt32) {
        guard records[leaving].suppliesToken else { return }
        let (from, to) = (records[leaving], records[staying])
        guard (from.event == .start) == (to.event == .start),
            isEqual(from.bytes(from.device), to.bytes(to.device)),
            isEqual(from.bytes(from.attributesType), to.bytes(to.attributesType))
        else { return }
        records[leaving].suppliesToken = false
        if to.suppliesToken, to.registeredAtMilliseconds >= from.registeredAtMilliseconds { return }
        records[staying].suppliesToken = true
        setToken(of: staying, from.tokenBytes)
        records[staying].environment = from.environment
        records[staying].registeredAtMilliseconds = from.registeredAtMilliseconds
    }

    /// Whether a newer command makes an older one, which nobody has sent, needless.
    func replaces(_ newer: Event, _ older: Event) -> Bool {
        switch (older, newer) {
        case (.update, .update), (.update, .end), (.start, .start), (.end, .end): true
        case (.update, .start), (.start, .update), (.start, .end), (.end, _): false
        }
    }

    /// Whether a newer state waits that makes the activity's current command needless.
    func isOvertaken(_ activity: UInt32) -> Bool {
        let slot = activities[activity]
        guard slot.current != .max, slot.head != .max else { return false }
        return replaces(records[slot.head].event, records[slot.current].event)
            && records[slot.head].version > records[slot.current].version
    }

    private mutating func append(_ record: UInt32, to activity: UInt32) {
        records[record].next = .max
        let tail = activities[activity].tail
        if tail == .max {
            activities[activity].head = record
        } else {
            records[tail].next = record
        }
        activities[activity].tail = record
    }

    mutating func prepend(_ record: UInt32, to activity: UInt32) {
        records[record].next = activities[activity].head
        activities[activity].head = record
        if activities[activity].tail == .max { activities[activity].tail = record }
    }

    /// The list is a few commands long at the most: a start and a state for each life of the activity that waits.
    private mutating func removeTail(of activity: UInt32) {
        let tail = activities[activity].tail
        let head = activities[activity].head
        if head == tail {
            activities[activity].head = .max
            activities[activity].tail = .max
            return
        }
        var previous = head
        while records[previous].next != tail { previous = records[previous].next }
        records[previous].next = .max
        activities[activity].tail = previous
    }

    mutating func popWaiting(of activity: UInt32) -> UInt32? {
        let head = activities[activity].head
        guard head != .max else { return nil }
        activities[activity].head = records[head].next
        if activities[activity].head == .max { activities[activity].tail = .max }
        records[head].next = .max
        return head
    }

    /// Puts the current command back before all that waits, unless something waits that replaces it.
    mutating func putBackCurrent(of activity: UInt32, now: Moment) {
        let current = activities[activity].current
        if isOvertaken(activity) {
            countCoalesced(of: current)
            passToken(from: current, to: activities[activity].head)
            supersede(current, by: activities[activity].head, now: now)
        } else {
            replaceOlder(than: current, of: activity, now: now)
            prepend(current, to: activity)
        }
        activities[activity].current = .max
    }

    /// What came late, while a newer state was under way, would be put behind it and never be sent.
    private mutating func replaceOlder(than current: UInt32, of activity: UInt32, now: Moment) {
        while activities[activity].head != .max {
            let head = activities[activity].head
            let isReplaced =
                replaces(records[current].event, records[head].event)
                && records[head].version < records[current].version
            guard isReplaced else { return }
            countCoalesced(of: head)
            _ = popWaiting(of: activity)
            passToken(from: head, to: current)
            supersede(head, by: current, now: now)
        }
    }

    /// Takes a command that waits out of its list (its partition goes away).
    mutating func removeWaiting(_ record: UInt32, of activity: UInt32) {
        let next = records[record].next
        if activities[activity].head == record {
            activities[activity].head = next
            if next == .max { activities[activity].tail = .max }
            return
        }
        var previous = activities[activity].head
        while records[previous].next != record { previous = records[previous].next }
        records[previous].next = next
        if next == .max { activities[activity].tail = previous }
    }

    private mutating func wake(_ activity: UInt32, now: Moment) {
        switch activities[activity].phase {
        case .resting:
            guard activities[activity].restsUntilMilliseconds <= now.monotonicMilliseconds else { return }
            // The timer, if there is one, is a rider's, for which a state may have come now.
            wheel.clear(activity)
            activities[activity].phase = .awakened
            awakened.append(activity)
        case .backingOff:
            guard isOvertaken(activity) else { return }
            abandonRetry(of: activity, now: now)
        case .awakened, .parked, .eligible, .addressing, .admitting, .holding, .ready, .inFlight, .limiting:
            return
        }
    }
}
