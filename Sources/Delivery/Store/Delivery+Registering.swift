import LiveActivity

/// Registrations of tokens, and the commands that were held for a token.
///
/// A command may also bring a token. Its admission registers that token whatever the outcome is, but Redis
/// returns a held command only to a registration. So when a command that brought a token ends unsent, its
/// record registers the token again before it is settled.
///
/// Several starts may be held for a device's token, one for each activity. Each registration returns the
/// oldest. When that start is finished and no longer held, the same record registers the token again, until
/// no held start is left. So each start draws on the device's budget in its own turn.
///
/// A stale registration registers no token. Redis still returns the command that is held for the known token,
/// because the known token's own registration may be settled already. Otherwise a start that waited for its
/// device's budget is lost when the registration's partition moves (simulation `pace`, seed 390).
extension Delivery {
    /// The maximum number of results of one record: more than the starts that are held for one token.
    static var resultsMax: UInt8 { 16 }

    /// Decides from the outcome of a record that brought a token whether commands may still be held for the
    /// token.
    mutating func noteToken(of record: UInt32, _ outcome: Outcome) {
        let slot = records.mutableAddress(of: record)
        guard slot.pointee.resultsBefore < Self.resultsMax - 1 else { return }
        switch outcome {
        // Register the token of a start: starts of other activities may be held for the device's token.
        case .accepted, .unchanged, .failed, .unknown:
            if slot.pointee.isStart { slot.pointee.followUps.insert(.registerToken) }
        case .superseded, .duplicate, .ended, .expired: slot.pointee.followUps.insert(.registerToken)
        // The token is dead or not known, or the record is faulty.
        case .held, .invalid, .unregistered: return
        }
    }

    /// Turns a record that has its outcome into the registration of its token.
    mutating func registerToken(of record: UInt32) {
        records.enter(.registering, record)
        let slot = records[record]
        var registration = RecordSlot(registeringTokenOf: slot)
        if !registration.carryUnsentAlert(of: slot) { records.release(slot.body) }
        records[record] = registration
        call(.register, record)
    }

    /// Handles the reply to a registration. A command that was held for the token continues in the
    /// registration's record and is settled with it.
    mutating func registered(_ record: UInt32, _ reply: Reply, now: Moment) {
        if records[record].stage == .current {
            return registeredOvertaken(record, overtakenByHeld: reply.heldCommand != nil, now: now)
        }
        if changesAudiences(record, reply, now: now) { return }
        guard reply.verdict == .registered, let held = reply.heldCommand else { return settleWithoutResult(record) }
        // The partition's next owner registers the token again and gets the held command. That owner may be
        // this lane, so it must not keep the command twice (simulation `plain`, seed 5889).
        if isRevoked(record) { return drop(record, now: now) }
        do throws(Fault) {
            let command = try Command.decodeWrittenByCauseway(held)
            let slot = records[record]
            records.enter(.received, record)
            // Even if the registration is read again, the held command has no outcome yet, so it is sent
            // normally.
            records[record].isReadAgain = false
            // The command was accepted once. If its policy is no longer configured, its app's policy applies.
            records[record].policy =
                policy(of: command, of: slot.application, in: held)
                ?? UInt8(truncatingIfNeeded: configuration.applications[Int(slot.application)].policy)
            fill(record, with: command, from: held, trace: slot.bytes(slot.trace))
            records.setBody(of: record, to: command, from: held)
            if command.alertVersion.timestamp > 0 { records[record].olderAlertVersion = command.alertVersion }
            takeAlert(of: slot, to: record, now: now)
            if command.event == .start {
                // Marks the start, because its token must be registered again to release the device's other
                // held starts.
                records[record].isHeldStart = true
                records.setAddress(of: record, to: slot.registration)
            }
            records.free(contentOf: slot)
            // Redis has the token, and the admission returns it.
            records[record].hasOwnToken = false
            enqueue(record, now: now)
            endBatch(now: now)
        } catch {
            // Causeway writes only valid commands, so something else wrote this one. The registration itself
            // is valid.
            settleWithoutResult(record)
        }
    }

    /// Continues a command with an alert that another worker's newer command superseded, after its token was
    /// registered. If the newer command was held, it carries the alert: it is requested again when this
    /// command is finished. Otherwise a lane will read the newer command.
    mutating func registeredOvertaken(_ record: UInt32, overtakenByHeld: Bool, now: Moment) {
        let activity = activity(ofCurrent: record, in: .registering)
        if overtakenByHeld {
            finish(record, .superseded)
            return endTurn(activity, now: now)
        }
        records[record].hasOwnToken = false
        awaitCarrier(of: activity, now: now)
    }

    /// Gives a held command without an alert the alert of the older command that brought the token, if the
    /// alert fits.
    private mutating func takeAlert(of older: RecordSlot, to record: UInt32, now: Moment) {
        let slot = records.mutableAddress(of: record)
        guard !older.layout.alert.isAbsent, !older.isExpired(now: now), !slot.pointee.isStart,
            !slot.pointee.hasAlert, older.version < slot.pointee.version,
            slot.pointee.hasRoom(forAlertBytes: Int(older.layout.alert.count))
        else { return }
        records.write(older.alert, of: older.olderAlertVersion ?? older.version, intoBodyOf: record)
        slot.pointee.priority = max(slot.pointee.priority, older.priority)
        countAlertCarried()
    }
}

extension RecordSlot {
    /// Takes over the body of a superseded command whose alert was not sent.
    /// - Returns: false for any other command, whose body is not needed any more.
    fileprivate mutating func carryUnsentAlert(of slot: RecordSlot) -> Bool {
        guard slot.event != .start, slot.outcome == .superseded else { return false }
        (expiration, priority) = (slot.expiration, slot.priority)
        (body, layout) = (slot.body, slot.layout)
        return true
    }
}
