import LiveActivity

/// Tokens that are registered, and what was held for them.
///
/// A token also comes with a command. The admission registers it, whatever becomes of the command; but what is held for it comes back with
/// a registration only. A command that goes no further is therefore followed, when its outcome is acknowledged, by the registration of
/// its token, in the same record, which is not settled before.
///
/// Several starts may be held for a device's token. A registration brings the oldest; when that one is done with, the same record
/// registers the token again, which brings the next, until nothing comes.
extension Delivery {
    /// Results that one record may have: more than starts that are held for one token.
    static var resultsMax: UInt8 { 16 }

    /// What a record that brought a token comes to is known: whether something may still be held for the token.
    mutating func noteToken(of record: UInt32, _ outcome: Outcome) {
        guard records[record].resultsBefore + 1 < Self.resultsMax else { return }
        switch outcome {
        // For the token of a device other activities' starts may be held.
        case .accepted, .unchanged, .failed, .unknown:
            if records[record].event == .start { records[record].followUps.insert(.registerToken) }
        case .superseded, .duplicate, .ended, .expired: records[record].followUps.insert(.registerToken)
        // Redis has a later word on the token.
        case .held, .invalid, .unregistered: return
        }
    }

    /// A record that has its outcome becomes the registration of the token that came with it.
    mutating func registerToken(of record: UInt32) {
        records.enter(.registering, record)
        let slot = records[record]
        var registration = RecordSlot(registeringTokenOf: slot)
        if !registration.carryUnsentAlert(of: slot) { records.release(slot.body) }
        records[record] = registration
        call(.register, record)
    }

    /// A token registered. What was held for it goes on as if it had come with the registration's record, which is settled with it.
    mutating func registered(_ record: UInt32, _ reply: StoreReply<UnsafeRawBufferPointer>, now: Moment) {
        if records[record].stage == .current {
            return registeredOvertaken(record, overtakenByHeld: reply.heldCommand != nil, now: now)
        }
        guard reply.verdict == .registered, let held = reply.heldCommand else { return settleWithoutResult(record) }
        // Left to the next owner, who may be this lane: what waits here must not be taken for what comes then.
        if isRevoked(record) { return drop(record, now: now) }
        do throws(Fault) {
            let command = try Command.decode(held)
            let slot = records[record]
            records.enter(.received, record)
            // A policy that is not configured any more is no reason to lose a state that was accepted once.
            records[record].policy =
                policy(of: command, of: slot.application, in: held)
                ?? UInt8(truncatingIfNeeded: configuration.applications[Int(slot.application)].policy)
            fill(record, with: command, from: held, trace: slot.bytes(slot.trace))
            records.setBody(of: record, to: command, from: held)
            takeAlert(of: slot, to: record, now: now)
            if command.event == .start { keepToken(of: slot, for: record) }
            records.free(contentOf: slot)
            // The token that was held for is in Redis: the admission names it.
            records[record].suppliesToken = false
            enqueue(record, now: now)
            endBatch(now: now)
        } catch {
            // Only a hand other than ours can have put it there; the registration itself stands.
            settleWithoutResult(record)
        }
    }

    /// The token by which a start was set free, for those that are held beside it.
    private mutating func keepToken(of registration: RecordSlot, for record: UInt32) {
        records[record].isHeldStart = true
        records.setToken(of: record, registration.tokenBytes)
        records[record].environment = registration.environment
        records[record].registeredAtMilliseconds = registration.registeredAtMilliseconds
    }

    /// The token of a command is registered that has an alert and was overtaken. If it was by what is held, that one carries the alert:
    /// it is asked for once more when this command has its outcome. Else a lane will read what it was overtaken by.
    mutating func registeredOvertaken(_ record: UInt32, overtakenByHeld: Bool, now: Moment) {
        let activity = records[record].activity
        precondition(activities[activity].phase == .registering && activities[activity].current == record)
        if overtakenByHeld {
            finish(record, .superseded)
            return endTurn(activity, now: now)
        }
        records[record].suppliesToken = false
        awaitCarrier(of: activity, now: now)
    }

    /// What was held takes over the alert of the older command that brought the token, if it has none and room for it.
    private mutating func takeAlert(of older: RecordSlot, to record: UInt32, now: Moment) {
        let isGood = older.expiration < 0 || older.expiration >= now.wallSeconds
        guard !older.layout.alert.isAbsent, isGood, records[record].event != .start, !records[record].hasAlert,
            older.version < records[record].version,
            hasRoom(forAlertOf: Int(older.layout.alert.count), in: record)
        else { return }
        records.write(older.alert, of: older.foreignAlert ?? older.version, intoBodyOf: record)
        records[record].priority = max(records[record].priority, older.priority)
        countAlertCarried()
    }
}

extension RecordSlot {
    /// Of a command that was overtaken, whose alert nobody has been told of: of any other it is done with.
    /// - Returns: whether it has taken the body over.
    fileprivate mutating func carryUnsentAlert(of slot: RecordSlot) -> Bool {
        guard slot.event != .start, slot.outcome == .superseded else { return false }
        (expiration, priority) = (slot.expiration, slot.priority)
        (body, layout) = (slot.body, slot.layout)
        return true
    }
}
