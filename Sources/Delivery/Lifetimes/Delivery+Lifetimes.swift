import LiveActivity

/// Limits how long activities live, if their policy does. A timetable in Redis stores when each activity is
/// due. The worker's `LifetimeKeeper` produces a command that ends a due activity. (R34)
///
/// What must hold:
/// - A record that shows that an activity began, lives or has ended settles only when the timetable has this
///   fact. A record that is read again reports it again, because Redis may have lost it.
/// - The command that ends an activity is made as often as necessary. It is admitted only while the timetable
///   has the life that it names, so a late or repeated command ends no later life.
/// - The command has no state, so it replaces no waiting state and is sent after it.
/// - If the policy starts the activity again, the timetable keeps the start and the newest state. An accepted
///   end changes the entry of the life into an entry that waits for a new start. The start is admitted only
///   while the timetable has this entry, so it never follows an end of the producer.
extension Delivery {
    /// Reports an outcome to the timetable, if it shows that the activity began, lives or has ended.
    mutating func noteLife(of record: UInt32, _ outcome: Outcome) {
        let slot = records.address(of: record)
        guard slot.pointee.isOfLifetime || slot.pointee.kind == .command && isLifetimeLimited(of: slot) else { return }
        if slot.pointee.isLifetimeEnd || isFinalRestart(slot) {
            // No other record says how this life ended, so the life leaves the timetable after the result.
            if endsLife(slot) { records[record].followUps.insert(.endLife) }
            return
        }
        let restarts = policies.restartsAfterLifetime(slot.pointee.policy)
        guard showsLifeOrEnd(slot.pointee.event, outcome, restarts: restarts) else { return }
        records[record].isKeptByTimetable = restarts && slot.pointee.event != .end
        call(.noteLife, record)
    }

    /// Whether an outcome shows that an activity began, lives or has ended. `duplicate` counts too, because a
    /// worker may have died after it settled the record and before it reported to the timetable.
    private func showsLifeOrEnd(_ event: Event, _ outcome: Outcome, restarts: Bool) -> Bool {
        switch outcome {
        case .accepted, .duplicate: true
        case .unchanged: event == .update
        case .unknown: event == .start
        case .held: event == .end
        case .ended: event == .end || event == .update && restarts
        case .superseded, .expired, .invalid, .unregistered, .failed: false
        }
    }

    /// Whether a lifetime's end, or the start after it, removes the life from the timetable. If not, the
    /// keeper makes the command again.
    private func endsLife(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.isLifetimeEnd else { return true }
        return switch slot.pointee.outcome {
        case .accepted, .ended, .failed, .expired: true
        // The life stays if APNs had refused an earlier attempt of this end and its worker died afterwards:
        // then the phone has not shown the end.
        case .duplicate: !slot.pointee.wasNotShown
        case .unregistered: isEndedByItself(slot)
        case .unchanged, .superseded, .held, .invalid, .unknown: false
        }
    }

    /// Whether a start after a lifetime is not made again, because it would have the same outcome, or because
    /// Redis holds the start until a token registers.
    private func isFinalRestart(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        guard slot.pointee.isLifetimeRestart, !slot.pointee.isReadAgain else { return false }
        return switch slot.pointee.outcome {
        case .failed, .expired, .held, .unregistered, .invalid: true
        case .accepted, .unchanged, .duplicate, .superseded, .ended, .unknown: false
        }
    }

    /// Whether the token died after the command that ends its activity was made. An earlier attempt has then
    /// ended the activity, and its answer was lost. If the user had dismissed the activity before, the 410
    /// would have an older time. (Apple, "Handling notification responses from APNs")
    func isEndedByItself(_ slot: UnsafePointer<RecordSlot>) -> Bool {
        slot.pointee.tokenRefusal == .unlessRegisteredSince
            && slot.pointee.invalidAtMilliseconds >= slot.pointee.version.timestamp * 1_000
    }

    /// Whether the command's activity may be in the timetable: by the policy of the command or by the usual
    /// policy of its app. Always true for a start or an end, because an earlier command may have named
    /// another policy. A command whose own policy does not limit the lifetime removes the activity from the
    /// timetable.
    private func isLifetimeLimited(of slot: UnsafePointer<RecordSlot>) -> Bool {
        slot.pointee.event != .update || policies.lifetimeMilliseconds(slot.pointee.policy) > 0
            || usualLifetimeMilliseconds(slot.pointee.application) > 0
    }

    private func usualLifetimeMilliseconds(_ application: UInt16) -> Int64 {
        policies.lifetimeMilliseconds(UInt8(truncatingIfNeeded: configuration.applications[Int(application)].policy))
    }

    /// Returns the event that a record reports to the timetable.
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
        // If a start is read again, nothing says whether APNs accepted it, so only `alive` is reported.
        guard case .alive(let at, _) = note, slot.pointee.isStart, !slot.pointee.isReadAgain else { return note }
        let answered = slot.pointee.answeredMilliseconds
        return .began(atMilliseconds: answered > 0 ? answered : at, lifetimeMilliseconds: lifetime)
    }

    private func lifeNote(ofLifetime slot: UnsafePointer<RecordSlot>, now: Moment) -> LifetimeEvent {
        guard let began = lifetimeIdentifier(of: slot)?.beganMilliseconds else { return .over }
        if slot.pointee.isLifetimeRestart {
            // The entry keeps the time at which the life began. Another record of this start names the same time,
            // so Redis finds the life and decides about that record.
            let lifetime = policies.lifetimeMilliseconds(slot.pointee.policy)
            return isFinalRestart(slot)
                ? .ended(beganMilliseconds: began, restartMilliseconds: 0)
                : .began(atMilliseconds: began, lifetimeMilliseconds: lifetime)
        }
        var restart: Int64 = 0
        switch slot.pointee.outcome {
        case .ended: return .endedByAnother(beganMilliseconds: began)
        case .accepted, .duplicate, .unregistered:
            // The timetable does not keep pushes to audiences, so a new start of a member would show an older
            // state.
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

    /// The time that the commands topic and the deferred topic may need until the command is read again.
    private static let topicsMilliseconds: Int64 = 20_000

    /// Returns the call that checks a command of a lifetime before it enters its activity's waiting list.
    func lifeCheck<Bytes>(of slot: UnsafePointer<RecordSlot>) -> StoreCall<Bytes>.Operation {
        let identifier = lifetimeIdentifier(of: slot)
        // A deferred command is read again within the sum of both times. The lease is twice as long.
        let lease =
            2 * (configuration.deferAfterMilliseconds + configuration.deferredDelayMilliseconds)
            + Self.topicsMilliseconds
        return .checkLife(
            beganMilliseconds: identifier?.beganMilliseconds ?? 0,
            // A start that was tried is already admitted. Its state is not compared, so that no other record
            // of the start is sent.
            state: slot.pointee.attempts == 0 ? identifier?.state : nil,
            leaseMilliseconds: lease
        )
    }

    /// Returns the event that an activity lived at this time. A time in the future proves nothing, so the
    /// present time replaces it.
    private func aliveNote(atMilliseconds reported: Int64, _ lifetime: Int64, now: Moment) -> LifetimeEvent {
        let at = max(0, min(reported, now.wallMilliseconds))
        return lifetime > 0 ? .alive(atMilliseconds: at, lifetimeMilliseconds: lifetime) : .over
    }

    /// Continues a record after the timetable has its event, or Redis refused the event.
    mutating func lifeNoted(_ record: UInt32) {
        let stage = records[record].stage
        acknowledge(record)
        switch stage {
        case .registering: call(.register, record)
        case .unregistering: unregistered(record)
        default: break
        }
    }

    /// Whether a registration proves that its activity is alive, and the usual policy of its app limits the
    /// activity's lifetime.
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

    /// Settles a start that is read again without sending it. Reports to the timetable, which Redis may have
    /// lost, that the activity began.
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

    /// Asks Redis whether the timetable still has the life that a command ends, or after which it starts the
    /// activity again. The command enters its activity's waiting list only after the reply.
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
                // A start or an end of the producer is under way, so the command may mean another life than
                // Redis has. The keeper makes the command again.
                finish(record, .superseded)
            } else if records[record].isLifetimeRestart, !policies.restartsAfterLifetime(records[record].policy) {
                finish(record, .expired)
            } else {
                enqueue(record, of: activity, now: now)
                return endBatch(now: now)
            }
        }
        // Removes an activity that was added for this command only.
        if activities[activity].phase == .idle { begin(activity, now: now) }
    }

    /// Whether a start or an end of the producer is the activity's current command or waits.
    private func hasStartOrEnd(_ activity: UInt32) -> Bool {
        func isStartOrEnd(_ record: UInt32) -> Bool {
            let slot = records.address(of: record)
            return slot.pointee.event != .update && !slot.pointee.isOfLifetime
        }
        let slot = activities.address(of: activity)
        if slot.pointee.current != .max, isStartOrEnd(slot.pointee.current) { return true }
        var waiting = slot.pointee.waiting.head
        while let record = waiting {
            if isStartOrEnd(record) { return true }
            waiting = slot.pointee.waiting.successor(of: record, in: records)
        }
        return false
    }

    /// Merges two commands of which at least one is the end of a lifetime. This end has no state, so it
    /// replaces no state. An update with the same version or an older one is sent before it, even if the
    /// update is read later. A start or an end of the producer replaces it.
    /// - Returns: false if a waiting command superseded the record and its slot is freed.
    mutating func mergeEndOfLifetime(_ record: UInt32, with tail: UInt32, of activity: UInt32, now: Moment) -> Bool {
        guard records[tail].isLifetimeEnd else {
            activities[activity].waiting.append(record, in: &records)
            return true
        }
        if records[record].isLifetimeEnd {
            // One end is enough. The older one stays, because Redis may have admitted it. The result of the
            // other one must not remove the life from the timetable.
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
