import LiveActivity

/// The lifetime that a policy sets for its activities. A timetable in Redis says when each of them is due; the worker's
/// `LifetimeKeeper` produces a command that ends what is due. (R34)
///
/// What must hold:
/// - A record that shows that an activity began, lives or has ended settles only when the timetable knows it. Records that are
///   read again tell it again.
/// - The command that ends an activity is made as often as necessary. It is admitted only while the timetable has the life that
///   it names, so a late or repeated one ends no later life.
/// - The command has no state, so it replaces none: it goes behind the state that waits.
/// - If the policy starts the activity again, the timetable keeps the start and the newest state. The end turns the life into one that
///   waits for a new start. The start is admitted only while the timetable has that, so it follows no end of the producer.
extension Delivery {
    /// Tells the timetable what an outcome says of the activity's life.
    mutating func noteLife(of record: UInt32, _ outcome: Outcome) {
        let slot = records.address(of: record)
        guard slot.pointee.isOfLifetime || slot.pointee.kind == .command && isLifetimeLimited(of: slot) else { return }
        if slot.pointee.isLifetimeEnd || isFinalRestart(slot) {
            // Nothing else says what became of the life, so it leaves the timetable after the result.
            if endsLife(slot) { records[record].followUps.insert(.endLife) }
            return
        }
        let restarts = policies.restartsAfterLifetime(slot.pointee.policy)
        guard tells(slot.pointee.event, outcome, restarts: restarts) else { return }
        records[record].isKeptByTimetable = restarts && slot.pointee.event != .end
        call(.noteLife, record)
    }

    /// Whether an outcome says that an activity began, lives or has ended. `duplicate` does: the record may have been settled before the
    /// timetable had its note.
    private func tells(_ event: Event, _ outcome: Outcome, restarts: Bool) -> Bool {
        switch outcome {
        case .accepted, .duplicate: true
        case .unchanged: event == .update
        case .unknown: event == .start
        case .held: event == .end
        case .ended: event == .end || event == .update && restarts
        case .superseded, .expired, .invalid, .unregistered, .failed: false
        }
    }

    /// Whether the outcome of an end of a lifetime, or of the start after it, says what becomes of the life. Otherwise the keeper makes
    /// the command again.
    private func endsLife(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.isLifetimeEnd else { return true }
        return switch slot.pointee.outcome {
        case .accepted, .ended, .failed, .expired: true
        // A worker died after it had settled an end that was refused, perhaps because the user had dismissed the activity.
        case .duplicate: !slot.pointee.wasNotShown
        case .unregistered: isEndedByItself(slot)
        case .unchanged, .superseded, .held, .invalid, .unknown: false
        }
    }

    /// Whether a start after a lifetime is not made again: it would have the same outcome, or Redis holds the start until a token is
    /// registered.
    private func isFinalRestart(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.isLifetimeRestart, !slot.pointee.isReadAgain else { return false }
        return switch slot.pointee.outcome {
        case .failed, .expired, .held, .unregistered, .invalid: true
        case .accepted, .unchanged, .duplicate, .superseded, .ended, .unknown: false
        }
    }

    /// Whether a token has died since the command was made that ends its activity. Then an earlier attempt has ended the activity, and
    /// its answer was lost. An activity that its user dismissed before has an older time. (Apple, "Handling notification responses from
    /// APNs": the time of a 410)
    func isEndedByItself(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        slot.pointee.tokenRefusal == .unlessRegisteredSince
            && slot.pointee.invalidAtMilliseconds >= slot.pointee.version.timestamp * 1_000
    }

    /// Whether the command's activity may be in a timetable: by the policy of the command or by the usual policy of its app. A command
    /// whose own policy does not limit the lifetime takes its activity out. An end or a start always does, since an earlier command may
    /// have named another policy.
    private func isLifetimeLimited(of slot: UnsafePointer<RecordSlot>) -> Bool {
        slot.pointee.event != .update || policies.lifetimeMilliseconds(slot.pointee.policy) > 0
            || usualLifetimeMilliseconds(slot.pointee.application) > 0
    }

    private func usualLifetimeMilliseconds(_ application: UInt16) -> Int64 {
        policies.lifetimeMilliseconds(UInt8(truncatingIfNeeded: configuration.applications[Int(application)].policy))
    }

    /// What a record tells the timetable.
    func lifeNote(of slot: UnsafePointer<RecordSlot>, now: Moment) -> LifetimeEvent {
        if slot.pointee.kind == .registration {
            return aliveNote(
                atMilliseconds: slot.pointee.registeredAtMilliseconds,
                usualLifetimeMilliseconds(slot.pointee.application),
                now: now
            )
        }
        if slot.pointee.isOfLifetime { return lifeNote(ofLifetime: slot, now: now) }
        guard slot.pointee.kind == .command else { return .over }
        if slot.pointee.event == .update, slot.pointee.outcome == .ended { return .missed }
        guard slot.pointee.event != .end else { return .over }
        let lifetime = policies.lifetimeMilliseconds(slot.pointee.policy)
        let note = aliveNote(atMilliseconds: slot.pointee.version.timestamp * 1_000, lifetime, now: now)
        // Whether a start that is read again was accepted is not known.
        guard case .alive(let at, _) = note, slot.pointee.isStart, !slot.pointee.isReadAgain else { return note }
        let answered = slot.pointee.answeredMilliseconds
        return .began(atMilliseconds: answered > 0 ? answered : at, lifetimeMilliseconds: lifetime)
    }

    private func lifeNote(ofLifetime slot: UnsafePointer<RecordSlot>, now: Moment) -> LifetimeEvent {
        guard let began = lifetimeIdentifier(of: slot)?.beganMilliseconds else { return .over }
        if slot.pointee.isLifetimeRestart {
            // The life keeps its number, so another record of this start finds it, and Redis decides what becomes of that record.
            let lifetime = policies.lifetimeMilliseconds(slot.pointee.policy)
            return isFinalRestart(slot)
                ? .ended(beganMilliseconds: began, restartMilliseconds: 0)
                : .began(atMilliseconds: began, lifetimeMilliseconds: lifetime)
        }
        var restart: Int64 = 0
        switch slot.pointee.outcome {
        case .ended: return .endedByAnother(beganMilliseconds: began)
        case .accepted, .duplicate, .unregistered:
            // Pushes to an audience are not kept, so a start of its member would show an older state.
            guard !slot.pointee.hasLeftAudiences else { break }
            // The start must be newer than the end.
            restart = max(now.wallMilliseconds, (slot.pointee.version.timestamp + 1) * 1_000)
        case .unchanged, .superseded, .held, .expired, .invalid, .failed, .unknown: break
        }
        return .ended(beganMilliseconds: began, restartMilliseconds: restart)
    }

    private func lifetimeIdentifier(of slot: UnsafePointer<RecordSlot>) -> LifetimeIdentifier? {
        LifetimeIdentifier(slot.pointee.bytes(slot.pointee.commandIdentifier))
    }

    /// The time for the commands and deferred topics to bring a command to its next reading.
    private static let topicsMilliseconds: Int64 = 20_000

    /// What is asked before a command of a lifetime enters its activity's list.
    func lifeCheck<Bytes>(of slot: UnsafePointer<RecordSlot>) -> StoreCall<Bytes>.Operation {
        let identifier = lifetimeIdentifier(of: slot)
        // A command that is deferred is read again within both times.
        let lease =
            2 * (configuration.deferAfterMilliseconds + configuration.deferredDelayMilliseconds)
            + Self.topicsMilliseconds
        return .checkLife(
            beganMilliseconds: identifier?.beganMilliseconds ?? 0,
            // Redis has admitted a start that was tried, so no other record of the start may be sent.
            state: slot.pointee.attempts == 0 ? identifier?.state : nil,
            leaseMilliseconds: lease
        )
    }

    /// A time in the future is no evidence, so the present one counts instead.
    private func aliveNote(atMilliseconds told: Int64, _ lifetime: Int64, now: Moment) -> LifetimeEvent {
        let at = max(0, min(told, now.wallMilliseconds))
        return lifetime > 0 ? .alive(atMilliseconds: at, lifetimeMilliseconds: lifetime) : .over
    }

    /// The timetable has what the record told it, or Redis refuses to note it.
    mutating func lifeNoted(_ record: UInt32) {
        let stage = records[record].stage
        acknowledge(record)
        switch stage {
        case .registering: call(.register, record)
        case .unregistering: unregistered(record)
        default: break
        }
    }

    /// Whether a registration proves that its activity is alive, and the usual policy of its app limits the activity's lifetime.
    func notesLife(ofRegistration record: UInt32, now: Moment) -> Bool {
        let slot = records.address(of: record)
        return policies.hasLifetimes && slot.pointee.device.count == 0
            && usualLifetimeMilliseconds(slot.pointee.application) > 0
            && !AgeRules.isRegistrationOver(
                registeredAtMilliseconds: slot.pointee.registeredAtMilliseconds,
                isPushToStart: false,
                nowMilliseconds: now.wallMilliseconds
            )
    }

    /// Passes over a start that is read again, but tells the timetable, which may have been lost, that the activity began.
    mutating func settleStartReadAgain(_ record: UInt32, _ command: Command, from value: UnsafeRawBufferPointer) {
        guard policies.hasLifetimes, command.audience.isAbsent, command.channel.isAbsent,
            policies.lifetimeMilliseconds(records[record].policy) > 0
        else { return settleWithoutAction(record) }
        fill(record, with: command, from: value, trace: UnsafeRawBufferPointer(start: nil, count: 0))
        records[record].hasOwnToken = false
        if policies.restartsAfterLifetime(records[record].policy), command.fits {
            records.setBody(of: record, to: command, from: value, dictionary: lastAps.dictionary)
            records[record].isKeptByTimetable = true
        }
        records.enter(.finished, record)
        call(.noteLife, record)
    }

    /// Asks whether the life that a command ends, or after which it starts the activity again, is still in the timetable, before the
    /// command enters its activity's list.
    mutating func beginOfLifetime(
        _ record: UInt32,
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        deferral: Deferral?,
        now: Moment
    ) {
        fill(record, with: command, from: value, trace: trace)
        records.setBody(of: record, to: command, from: value, dictionary: lastAps.dictionary)
        if let deferral { restore(deferral, to: record, of: nil, now: now) }
        records.enter(.registering, record)
        call(.checkLife, record)
    }

    mutating func lifeChecked(_ record: UInt32, isOver: Bool, now: Moment) {
        let activity = activityOf(record)
        if isRevoked(record) {
            drop(record, now: now)
        } else {
            records.enter(.received, record)
            if isOver || hasStartOrEnd(activity) {
                // Behind a start or an end of the producer, the life that Redis has is not the one that the command means. The keeper
                // makes the command again.
                finish(record, .superseded)
            } else if records[record].isLifetimeRestart, !policies.restartsAfterLifetime(records[record].policy) {
                finish(record, .expired)
            } else {
                enqueue(record, of: activity, now: now)
                return endBatch(now: now)
            }
        }
        // An activity that was made for this command is removed.
        if activities[activity].phase == .idle { begin(activity, now: now) }
    }

    /// Whether a start or an end of the producer is worked on, or waits for its turn.
    private func hasStartOrEnd(_ activity: UInt32) -> Bool {
        func isIt(_ record: UInt32) -> Bool {
            let slot = records.address(of: record)
            return slot.pointee.event != .update && !slot.pointee.isOfLifetime
        }
        let slot = activities.address(of: activity)
        if slot.pointee.current != .max, isIt(slot.pointee.current) { return true }
        var waiting = slot.pointee.waiting.head
        while let record = waiting {
            if isIt(record) { return true }
            waiting = slot.pointee.waiting.successor(of: record, in: records)
        }
        return false
    }

    /// Merges two commands, if one or both end the activity because its lifetime is over. Such an end has no state, so it replaces no state.
    /// An update with its version or an older one is sent before it, also if it comes later. A start or an end of the producer replaces it.
    /// - Returns: whether the record is in the list.
    mutating func mergeEndOfLifetime(_ record: UInt32, with tail: UInt32, of activity: UInt32, now: Moment) -> Bool {
        guard records[tail].isLifetimeEnd else {
            activities[activity].waiting.append(record, in: &records)
            return true
        }
        if records[record].isLifetimeEnd {
            // One of them is enough: the older one, which Redis may have admitted. The other one's result must not take the life out of
            // the timetable.
            if records.isNewer(tail, than: record) {
                activities[activity].waiting.replaceLast(by: record, in: &records)
                finish(tail, .superseded)
            } else {
                finish(record, .superseded)
            }
            return true
        }
        let isUpdate = records[record].event == .update
        guard !isUpdate || !records.isNewer(record, than: tail) else {
            records.passToken(from: record, to: tail)
            finish(record, .ended)
            return true
        }
        activities[activity].waiting.remove(tail, in: &records)
        if isUpdate {
            let isThere = merge(record, into: activity, now: now)
            activities[activity].waiting.putBackLast(tail, in: &records)
            return isThere
        }
        countCoalesced(of: tail)
        let isThere = merge(record, into: activity, now: now)
        supersede(tail, by: record, now: now)
        return isThere
    }
}

extension Command {
    /// Whether the command ends an activity because its lifetime is over, or starts it again.
    @inline(__always)
    func isOfLifetime(in record: UnsafeRawBufferPointer) -> Bool {
        event != .update && audience.isAbsent && channel.isAbsent && !identifier.isAbsent
            && LifetimeIdentifier(identifier.range.bytes(in: record)) != nil
    }
}
