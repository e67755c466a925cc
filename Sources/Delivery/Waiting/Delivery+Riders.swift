import LiveActivity

/// The alert that rides on (design §3, rule 5): an alert that has not been sent is carried by the newer state that replaces it, and its
/// command settles with that one.
///
/// What must hold:
/// - a record has one rider at the most: the command whose alert it carries; a rider has none and waits in no list;
/// - a rider is finished with its carrier, as `superseded`, or gets its own turn back when its carrier is let go without having been sent;
/// - a carried alert is put into the body when the carrier's turn has come, since most carriers are replaced before; only then is the
///   carrier as urgent as the alert, which it may have to give back until then;
/// - a body is changed only while its record waits or is being admitted, never when APNs may be reading it.
extension Delivery {
    /// A newer command takes the place of an older one that no phone has been told of. The older one's alert, or the one that it carries,
    /// rides on with the newer; what rides gets its outcome later, everything else now.
    ///
    /// - Returns: false if the older one is gone.
    @discardableResult
    mutating func supersede(
        _ older: UInt32,
        by newer: UInt32,
        as outcome: Outcome = .superseded,
        now: Moment
    ) -> Bool {
        let isCarrier = records[older].rider != .max
        let source = isCarrier ? records[older].rider : older
        let rides = mayRide(source, on: newer, now: now) && makeRoom(for: source, in: newer)
        if rides {
            records[newer].digest = nil
            _ = records.removeRider(of: older)
            replaceRider(of: newer, by: newer)
            records.setRider(of: newer, to: source)
            activities[records[newer].activity].lastRider = source
            countAlertCarried()
            guard isCarrier else { return true }
        }
        // Were it settled now, the alert that the newer command has would count as done with, though that may yet be let go.
        if records[newer].hasAlert, records[older].event != .start { records[older].settlement = .none }
        return giveWay(older, to: newer, outcome)
    }

    /// Whether an alert fits into the newer command's body; its own command says so where it does not.
    private mutating func makeRoom(for source: UInt32, in newer: UInt32) -> Bool {
        guard !hasRoom(forAlertOf: Int(records[source].layout.alert.count), in: newer) else { return true }
        records[source].setReason("alertDidNotFit")
        return false
    }

    /// The newest alert wins: one that is the newer command's own stays, and so does a carried one that is not older than this.
    private func mayRide(_ source: UInt32, on newer: UInt32, now: Moment) -> Bool {
        guard let alert = alertVersion(of: source), records[newer].event != .start,
            records[source].version < records[newer].version, !isExpired(source, now: now),
            !isOlderThanAlertUnderWay(alert, of: source)
        else { return false }
        guard let carried = alertVersion(of: newer) else { return true }
        return carried < alert
    }

    /// Whether the command that is under way has a newer alert, after which no phone may be alerted by this one.
    private func isOlderThanAlertUnderWay(_ alert: Version, of source: UInt32) -> Bool {
        let current = activities[records[source].activity].current
        guard current != .max, current != source, let underWay = alertVersion(of: current),
            // What came from elsewhere is on its way with this command only, and may be needed again.
            records[current].rider != .max || records[current].foreignAlert == nil
        else { return false }
        return alert < underWay
    }

    /// Whose alert a state has: its own, a rider's, or of a command that is gone from here and left it in the body. nil: it has none. What
    /// was held with an alert, which may have been another's, is taken for the one that brought it: Redis does not know better.
    private func alertVersion(of record: UInt32) -> Version? {
        let slot = records.address(of: record)
        guard slot.pointee.event != .start else { return nil }
        if slot.pointee.rider != .max { return alertVersion(of: slot.pointee.rider) }
        return slot.pointee.layout.alert.isAbsent ? nil : slot.pointee.foreignAlert ?? slot.pointee.version
    }

    /// APNs took the current command, and an alert with it. The same alert, or an older one, may wait behind it: that of a state which came
    /// late (it was held, for one, and its alert was given to the current command as well). In Redis that state would be superseded; but a
    /// newer one that came before its turn would carry the alert, and phones would be alerted by it once more, or after the newer one.
    mutating func dropAlertsNotNewer(than current: UInt32, of activity: UInt32) {
        guard let sent = alertVersion(of: current) else { return }
        while !activities[activity].waiting.isEmpty {
            let head = activities[activity].waiting.first
            guard let waiting = alertVersion(of: head), waiting <= sent,
                replaces(records[current].event, records[head].event)
            else { return }
            guard records[head].version < records[current].version else {
                // It goes without the alert, unless that is in its body already.
                if records[head].digest == nil { finishRider(of: head) }
                return
            }
            countCoalesced(of: head)
            _ = activities[activity].waiting.popFirst(in: &records)
            // Not counted: the current one may be of an assignment that is over, and then holds nothing back.
            finish(head, .superseded)
        }
    }

    /// Whether a body can be sent with an alert of so many bytes, in place of the one that it has.
    func hasRoom(forAlertOf count: Int, in record: UInt32) -> Bool {
        let slot = records.address(of: record)
        return Body.count(slot.pointee.body.bytes, slot.pointee.layout, carryingAlertOf: count) <= Limits.bodyBytes
    }

    /// Makes the body of a command whose turn has come what is admitted: with the alert that it carries, and with a digest.
    mutating func completeBody(of record: UInt32) {
        guard records[record].digest == nil else { return }
        let rider = records[record].rider
        if rider != .max, let version = alertVersion(of: rider) {
            records.write(records[rider].alert, of: version, intoBodyOf: record)
            records[record].priority = max(records[record].priority, records[rider].priority)
        }
        records[record].digest = Body.digest(records[record].body.bytes, records[record].layout)
    }

    /// The command that Redis holds carries an alert: the one that is being admitted takes it over, and is admitted with it, or without
    /// it where it does not fit.
    mutating func carryHeldAlert(of reply: ScriptReply, on record: UInt32) {
        records[record].heldAlert = .takenOver
        do throws(Fault) {
            let held = try Command.decode(reply.heldCommand)
            guard held.hasAlert, !records[record].hasAlert else { return }
            let alert = held.alert.bytes(in: reply.heldCommand)
            guard hasRoom(forAlertOf: alert.count, in: record) else {
                records[record].heldAlert = .doesNotFit
                return
            }
            records.write(alert, of: held.version, intoBodyOf: record)
            records[record].digest = Body.digest(records[record].body.bytes, records[record].layout)
            records[record].priority = max(records[record].priority, held.priority != 0 ? held.priority : 10)
            countAlertCarried()
        } catch {
            // Only a hand other than ours can have put it there; the state itself goes on.
        }
    }

    /// A newer alert takes the place of the one that a command carries.
    mutating func replaceRider(of carrier: UInt32, by newer: UInt32) {
        guard let rider = records.removeRider(of: carrier) else { return }
        _ = giveWay(rider, to: newer, .superseded)
    }

    mutating func finishRider(of carrier: UInt32) {
        guard let rider = records.removeRider(of: carrier) else { return }
        finish(rider, .superseded)
    }

    /// Its carrier is let go, or is past its expiration: the rider's own turn comes again, unless its partition goes away too.
    mutating func returnRider(of carrier: UInt32, now: Moment) {
        guard let rider = records.removeRider(of: carrier) else { return }
        if isRevoked(rider) { return abandon(rider, now: now) }
        records[rider].settlement = .none
        let activity = records[rider].activity
        let head = activities[activity].waiting.first
        let isOvertaken =
            head != .max && replaces(records[head].event, records[rider].event)
            && records[head].version > records[rider].version
        if isOvertaken {
            supersede(rider, by: head, now: now)
        } else {
            activities[activity].waiting.prepend(rider, in: &records)
        }
    }

    // MARK: - Riders that wait for their carrier

    /// The current command has an alert and was overtaken by one that another worker admitted and did not settle. That one will be read
    /// here too, since nobody has committed it.
    mutating func awaitCarrier(of activity: UInt32, now: Moment) {
        let record = activities[activity].current
        guard records[record].hasAlert, records[record].event != .start else {
            finish(record, .superseded)
            return endTurn(activity, now: now)
        }
        if isRevoked(record) { return dropCurrent(of: activity, now: now) }
        let other = activities[activity].riderAwaitingCarrier.record
        if other != .max, records[other].version >= records[record].version {
            finish(record, records[other].version == records[record].version ? .duplicate : .superseded)
        } else {
            if other != .max { finish(other, .superseded) }
            records.enter(.awaitingCarrier, record)
            activities[activity].riderAwaitingCarrier = RiderAwaitingCarrier(
                record: record,
                untilMilliseconds: now.monotonicMilliseconds + configuration.riderPatienceMilliseconds
            )
        }
        endTurn(activity, now: now)
    }

    /// A command has come to an activity of which a rider waits for its carrier.
    mutating func carryAwaitingRider(on record: UInt32, of activity: UInt32, now: Moment) {
        let rider = activities[activity].riderAwaitingCarrier.record
        guard rider != .max, !records[record].stage.awaitsAcknowledgements,
            records[record].version > records[rider].version
        else {
            return
        }
        supersede(activities[activity].riderAwaitingCarrier.take(), by: record, now: now)
    }

    mutating func finishOverdueRider(of activity: UInt32, now: Moment) {
        guard activities[activity].riderAwaitingCarrier.isOverdue(now: now) else { return }
        finish(activities[activity].riderAwaitingCarrier.take(), .superseded)
    }
}
