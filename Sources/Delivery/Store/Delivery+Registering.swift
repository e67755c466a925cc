import LiveActivity

/// Registrations of tokens, and the commands that were held for a token.
///
/// A command may bring a token as well. The admission registers that token whatever the outcome, but only a registration returns a held
/// command. When such a command ends unsent, its record therefore registers the token again before it is settled.
///
/// Several starts may be held for a device's token. Each registration returns the oldest. When that start is finished, the same record
/// registers the token again, until no held start is left.
extension Delivery {
    /// The most results of one record: more than the starts that are held for one token.
    static var resultsMax: UInt8 { 16 }

    /// Decides, by the outcome of a record that brought a token, whether a command may still be held for the token.
    mutating func noteToken(of record: UInt32, _ outcome: Outcome) {
        let slot = records.mutableAddress(of: record)
        guard slot.pointee.resultsBefore < Self.resultsMax - 1 else { return }
        switch outcome {
        // Starts of other activities may be held for the token of a device.
        case .accepted, .unchanged, .failed, .unknown:
            if slot.pointee.isStart { slot.pointee.followUps.insert(.registerToken) }
        case .superseded, .duplicate, .ended, .expired: slot.pointee.followUps.insert(.registerToken)
        // Redis knows something newer of the token.
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

    /// A token was registered. A command that was held for it continues in the registration's record and is settled with it.
    mutating func registered(_ record: UInt32, _ reply: Reply, now: Moment) {
        if records[record].stage == .current {
            return registeredOvertaken(record, overtakenByHeld: reply.heldCommand != nil, now: now)
        }
        if changesAudiences(record, reply, now: now) { return }
        guard reply.verdict == .registered, let held = reply.heldCommand else { return settleWithoutResult(record) }
        // The partition's next owner registers the token again. That may be this lane, so the held command must not wait here as well.
        if isRevoked(record) { return drop(record, now: now) }
        do throws(Fault) {
            let command = try Command.decodeHeld(held)
            let slot = records[record]
            records.enter(.received, record)
            // The registration may be read once more; what was held for it has its outcome still before it.
            records[record].isReadAgain = false
            // The command was accepted once: if its policy is no longer configured, its app's policy applies.
            records[record].policy =
                policy(of: command, of: slot.application, in: held)
                ?? UInt8(truncatingIfNeeded: configuration.applications[Int(slot.application)].policy)
            fill(record, with: command, from: held, trace: slot.bytes(slot.trace))
            records.setBody(of: record, to: command, from: held)
            if command.alertVersion.timestamp > 0 { records[record].foreignAlert = command.alertVersion }
            takeAlert(of: slot, to: record, now: now)
            if command.event == .start {
                // The same token releases the other starts that are held for the device.
                records[record].isHeldStart = true
                records.setAddress(of: record, to: slot.registration)
            }
            records.free(contentOf: slot)
            // The token is in Redis, and the admission returns it.
            records[record].suppliesToken = false
            enqueue(record, now: now)
            endBatch(now: now)
        } catch {
            // Causeway writes only valid commands, so something else wrote this one. The registration itself is valid.
            settleWithoutResult(record)
        }
    }

    /// An overtaken command with an alert had its token registered. If a held command overtook it, that command carries the alert: it is
    /// asked for again when this command is finished. Otherwise some lane will read the command that overtook it.
    mutating func registeredOvertaken(_ record: UInt32, overtakenByHeld: Bool, now: Moment) {
        let activity = activity(ofCurrent: record, in: .registering)
        if overtakenByHeld {
            finish(record, .superseded)
            return endTurn(activity, now: now)
        }
        records[record].suppliesToken = false
        awaitCarrier(of: activity, now: now)
    }

    /// A held command without an alert takes over that of the older command which brought the token, if it fits.
    private mutating func takeAlert(of older: RecordSlot, to record: UInt32, now: Moment) {
        let slot = records.mutableAddress(of: record)
        guard !older.layout.alert.isAbsent, !older.isExpired(now: now), !slot.pointee.isStart,
            !slot.pointee.hasAlert, older.version < slot.pointee.version,
            slot.pointee.hasRoom(forAlertBytes: Int(older.layout.alert.count))
        else { return }
        records.write(older.alert, of: older.foreignAlert ?? older.version, intoBodyOf: record)
        slot.pointee.priority = max(slot.pointee.priority, older.priority)
        countAlertCarried()
    }
}

extension RecordSlot {
    /// Takes over the body of an overtaken command, whose alert was not sent.
    /// - Returns: false for any other command, whose body is no longer needed.
    fileprivate mutating func carryUnsentAlert(of slot: RecordSlot) -> Bool {
        guard slot.event != .start, slot.outcome == .superseded else { return false }
        (expiration, priority) = (slot.expiration, slot.priority)
        (body, layout) = (slot.body, slot.layout)
        return true
    }
}
