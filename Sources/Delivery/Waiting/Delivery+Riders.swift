import LiveActivity

/// Alerts that newer states carry (design §3, rule 5). If a newer state replaces a command whose alert was not sent, the newer state
/// carries the alert, and the older command, the rider, settles with it.
///
/// What must hold:
/// - a rider is finished with its carrier, as `superseded`, or waits for its own turn again when its carrier is dropped or expires;
/// - a carried alert enters the body, and its priority the carrier, when the carrier's turn comes: most carriers are replaced before;
/// - a body is changed only while its record waits or is being admitted, never while APNs may be reading it.
extension Delivery {
    /// A newer command replaces an older one that was not sent, and carries the alert that the older one has or carries. The command
    /// whose alert is carried gets its outcome later, the other one now.
    /// - Returns: false if the older one's slot is freed.
    @discardableResult
    mutating func supersede(_ older: UInt32, by newer: UInt32, as outcome: Outcome = .superseded, now: Moment) -> Bool {
        let source = records.alertSource(of: older)
        let rides = mayRide(source, on: newer, now: now) && makeRoom(for: source, in: newer)
        if rides {
            _ = records.removeRider(of: older)
            replaceRider(of: newer, by: newer)
            records.setRider(of: newer, to: source)
            activities[records[newer].activity].lastRider = source
            countAlertCarried()
            guard source != older else { return true }
        }
        // If it were settled now, its alert would count as sent or replaced, though the newer command may still be dropped.
        if records[newer].hasAlert, !records[older].isStart { records[older].settlement = nil }
        return endSuperseded(older, by: newer, outcome)
    }

    /// Whether an alert fits into the newer command's body; if not, its own command's result says so.
    private mutating func makeRoom(for source: UInt32, in newer: UInt32) -> Bool {
        let alertBytes = Int(records[source].layout.alert.count)
        guard !records[newer].hasRoom(forAlertBytes: alertBytes) else { return true }
        records[source].setReason("alertDidNotFit")
        return false
    }

    /// The newest alert takes precedence: the newer command keeps the alert that it has or carries, unless that one is older.
    private func mayRide(_ source: UInt32, on newer: UInt32, now: Moment) -> Bool {
        guard let alert = records.alertVersion(of: source), !records[newer].isStart,
            records.isNewer(newer, than: source), !records[source].isExpired(now: now),
            !isOlderThanAlertUnderWay(alert, of: source)
        else { return false }
        guard let carried = records.alertVersion(of: newer) else { return true }
        return carried < alert
    }

    /// Whether the current command has a newer alert, after which this one must not be shown.
    private func isOlderThanAlertUnderWay(_ alert: Version, of source: UInt32) -> Bool {
        let current = activities[records[source].activity].current
        guard current != .max, current != source, let underWay = records.alertVersion(of: current),
            !records[current].hasForeignAlertOnly
        else { return false }
        return alert < underWay
    }

    /// APNs accepted the current command with its alert. A state that came late may wait behind it with the same alert or an older one.
    /// Redis would answer `superseded` for that state. But a newer state that comes first would carry its alert, and the phone would show
    /// the alert twice or out of order.
    mutating func dropAlertsNotNewer(than current: UInt32, of activity: UInt32) {
        guard let sent = records.alertVersion(of: current) else { return }
        while let head = activities[activity].waiting.head {
            guard let waiting = records.alertVersion(of: head), waiting <= sent,
                records.mayReplace(head, by: current)
            else { return }
            guard records.isNewer(current, than: head) else {
                // It is sent without the alert, unless its body has the alert already.
                if records[head].digest == nil { finishRider(of: head) }
                return
            }
            countCoalesced(of: head)
            _ = activities[activity].waiting.popFirst(in: &records)
            // Not counted: the current one may belong to an assignment that is over, and would then not hold back the offset.
            finish(head, .superseded)
        }
    }

    /// The command that the store holds carries an alert: the one that is being admitted takes it over if it fits.
    mutating func carryHeldAlert(of reply: Reply, on record: UInt32, now: Moment) {
        let slot = records.mutableAddress(of: record)
        slot.pointee.heldAlert = .takenOver
        guard let heldCommand = reply.heldCommand else { return }
        do throws(Fault) {
            let held = try Command.decodeHeld(heldCommand)
            guard held.hasAlert, !slot.pointee.hasAlert else { return }
            let version = held.alertVersion.timestamp > 0 ? held.alertVersion : held.version
            guard !isAlertOld(version, on: record, now: now) else { return slot.pointee.noteExpiredAlert() }
            let alert = held.alert.bytes(in: heldCommand)
            guard slot.pointee.hasRoom(forAlertBytes: alert.count) else {
                slot.pointee.heldAlert = .doesNotFit
                return
            }
            records.write(alert, of: version, intoBodyOf: record)
            slot.pointee.setDigest()
            slot.pointee.priority = max(slot.pointee.priority, held.priority != 0 ? held.priority : 10)
            countAlertCarried()
        } catch {
            // Causeway writes only valid commands, so something else wrote this one; the state is admitted without its alert.
        }
    }

    /// APNs has accepted the alert that the current command carries, or a newer one, for another worker or before this one read its record
    /// again: the state goes without it.
    mutating func leaveOutAnsweredAlert(of record: UInt32) {
        finishRider(of: record)
        records.removeAlert(fromBodyOf: record)
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
        if records.isOvertaken(rider, by: head) {
            supersede(rider, by: head, now: now)
        } else {
            activities[activity].waiting.prepend(rider, in: &records)
        }
    }

    // MARK: - Riders that wait for their carrier

    /// The current command has an alert and was overtaken by a command that another worker admitted but did not settle. That command is not
    /// committed, so this lane will read it too.
    mutating func awaitCarrier(of activity: UInt32, now: Moment) {
        let record = activities[activity].current
        guard records[record].hasAlert, !records[record].isStart else {
            finish(record, .superseded)
            return endTurn(activity, now: now)
        }
        if isRevoked(record) { return dropCurrent(of: activity, now: now) }
        let other = activities[activity].riderAwaitingCarrier.record
        if other != .max, !records.isNewer(record, than: other) {
            finish(record, records.areSameVersion(record, other) ? .duplicate : .superseded)
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

    /// A command has come to an activity of which a rider waits for its carrier. A late command may ride itself by now: its carrier then
    /// takes the newer of the two alerts.
    mutating func carryAwaitingRider(on record: UInt32, of activity: UInt32, now: Moment) {
        let rider = activities[activity].riderAwaitingCarrier.record
        guard rider != .max, !records[record].stage.awaitsAcknowledgements,
            records.isNewer(record, than: rider)
        else { return }
        _ = activities[activity].riderAwaitingCarrier.take()
        let carrier = records[record].riderLink.carrier
        supersede(rider, by: carrier == .max ? record : carrier, now: now)
    }

    mutating func finishOverdueRider(of activity: UInt32, now: Moment) {
        guard activities[activity].riderAwaitingCarrier.isOverdue(now: now) else { return }
        finish(activities[activity].riderAwaitingCarrier.take(), .superseded)
    }
}
