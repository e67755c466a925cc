import LiveActivity

/// Alerts that newer states carry (design §3, rule 5): an alert that has not been sent is carried by the newer state that replaces its
/// command, and its command, the rider, settles with that one.
///
/// What must hold:
/// - a record has one rider at the most: the command whose alert it carries; a rider has none and waits in no list;
/// - a rider is finished with its carrier, as `superseded`, or waits for its own turn again when its carrier is dropped or expires;
/// - a carried alert is put into the body when the carrier's turn comes, since most carriers are replaced before; only then does the
///   carrier take the alert's priority, since it may lose the rider until then;
/// - a body is changed only while its record waits or is being admitted, never when APNs may be reading it.
extension Delivery {
    /// A newer command replaces an older one that was not sent. The newer one carries the older one's alert, or the alert that the older
    /// one carries. The command whose alert is carried gets its outcome later, the other one now.
    ///
    /// - Returns: false if the older one's slot is freed.
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
        // If it were settled now, its alert would count as sent or replaced, though the newer command may still be dropped.
        if records[newer].hasAlert, records[older].event != .start { records[older].settlement = nil }
        return endSuperseded(older, by: newer, outcome)
    }

    /// Whether an alert fits into the newer command's body; if not, its own command's result says so.
    private mutating func makeRoom(for source: UInt32, in newer: UInt32) -> Bool {
        guard !hasRoom(forAlertOf: Int(records[source].layout.alert.count), in: newer) else { return true }
        records[source].setReason("alertDidNotFit")
        return false
    }

    /// The newest alert takes precedence: the newer command keeps its own, and one that it carries and that is not older than this.
    private func mayRide(_ source: UInt32, on newer: UInt32, now: Moment) -> Bool {
        guard let alert = records.alertVersion(of: source), records[newer].event != .start,
            records[source].version < records[newer].version, !isExpired(source, now: now),
            !isOlderThanAlertUnderWay(alert, of: source)
        else { return false }
        guard let carried = records.alertVersion(of: newer) else { return true }
        return carried < alert
    }

    /// Whether the current command has a newer alert, after which this one must not be shown.
    private func isOlderThanAlertUnderWay(_ alert: Version, of source: UInt32) -> Bool {
        let current = activities[records[source].activity].current
        guard current != .max, current != source, let underWay = records.alertVersion(of: current),
            // An alert that came out of Redis is on its way with this command only, and may be needed again.
            records[current].rider != .max || records[current].foreignAlert == nil
        else { return false }
        return alert < underWay
    }

    /// APNs accepted the current command with its alert. The same alert, or an older one, may wait behind it: that of a state which came
    /// late, for example one that was held and whose alert the current command was given as well. Redis would answer `superseded` for
    /// that state; but a newer state that comes before its turn would carry its alert, and the phone would show it twice, or out of order.
    mutating func dropAlertsNotNewer(than current: UInt32, of activity: UInt32) {
        guard let sent = records.alertVersion(of: current) else { return }
        while !activities[activity].waiting.isEmpty {
            let head = activities[activity].waiting.first
            guard let waiting = records.alertVersion(of: head), waiting <= sent,
                replaces(records[current].event, records[head].event)
            else { return }
            guard records[head].version < records[current].version else {
                // It is sent without the alert, unless that is in its body already.
                if records[head].digest == nil { finishRider(of: head) }
                return
            }
            countCoalesced(of: head)
            _ = activities[activity].waiting.popFirst(in: &records)
            // Not counted: the current one may be of an assignment that is over, and would then not hold back its offset.
            finish(head, .superseded)
        }
    }

    /// Whether a body can be sent with an alert of so many bytes, in place of the one that it has.
    func hasRoom(forAlertOf count: Int, in record: UInt32) -> Bool {
        let slot = records.address(of: record)
        return Body.count(slot.pointee.body.bytes, slot.pointee.layout, carryingAlertOf: count) <= Limits.bodyBytes
    }

    /// The command that the store holds carries an alert: the one that is being admitted takes it over if it fits.
    mutating func carryHeldAlert(of reply: StoreReply<UnsafeRawBufferPointer>, on record: UInt32) {
        records[record].heldAlert = .takenOver
        guard let heldCommand = reply.heldCommand else { return }
        do throws(Fault) {
            let held = try Command.decode(heldCommand)
            guard held.hasAlert, !records[record].hasAlert else { return }
            let alert = held.alert.bytes(in: heldCommand)
            guard hasRoom(forAlertOf: alert.count, in: record) else {
                records[record].heldAlert = .doesNotFit
                return
            }
            records.write(alert, of: held.version, intoBodyOf: record)
            records[record].digest = Body.digest(records[record].body.bytes, records[record].layout)
            records[record].priority = max(records[record].priority, held.priority != 0 ? held.priority : 10)
            countAlertCarried()
        } catch {
            // Causeway writes only valid commands, so something else wrote this one; the state is admitted without its alert.
        }
    }

    /// A newer alert replaces the one that a command carries.
    mutating func replaceRider(of carrier: UInt32, by newer: UInt32) {
        guard let rider = records.removeRider(of: carrier) else { return }
        _ = endSuperseded(rider, by: newer, .superseded)
    }

    mutating func finishRider(of carrier: UInt32) {
        guard let rider = records.removeRider(of: carrier) else { return }
        finish(rider, .superseded)
    }

    /// The carrier is dropped or has expired: its rider waits for its own turn again, unless its partition is revoked too.
    mutating func returnRider(of carrier: UInt32, now: Moment) {
        guard let rider = records.removeRider(of: carrier) else { return }
        if isRevoked(rider) { return drop(rider, now: now) }
        records[rider].settlement = nil
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
