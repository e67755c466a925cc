import LiveActivity

/// Alerts that newer states carry. If a newer state replaces a command whose alert was not sent, the newer
/// state carries the alert. The older command, the rider, settles together with its carrier.
///
/// What must hold:
/// - A record has one rider at most: the newest alert wins. A command whose alert a newer alert replaces settles at once.
/// - A rider is finished with its carrier, as `superseded`. If its carrier is dropped, or expires before Redis has seen it, the
///   rider waits for its own turn again.
/// - A carried alert is written into the carrier's body only when the carrier's turn comes, because most
///   carriers are replaced before. The carrier then also gets the alert's priority.
/// - A body is changed only while its record waits or is being admitted, never while APNs may be reading it.
/// - In a lane no alert rings after a newer one. So waiting states lose alerts that are not newer than the
///   one that APNs has just accepted. An alert is not carried if a newer alert is already under way.
/// - If a newer state was admitted in Redis and then expires, the alert that it carried is lost: a phone may have displayed the
///   newer state, so the older one is not sent after it (simulation `repeats`, seeds 6049 and 7212).
extension Delivery {
    /// Replaces an older unsent command by a newer one, which carries the alert that the older one has or
    /// carries. The command that brought the carried alert is finished with the newer one. Any other replaced
    /// command is finished now.
    /// - Returns: false if the older command's slot is freed.
    @discardableResult
    mutating func supersede(_ older: UInt32, by newer: UInt32, as outcome: Outcome = .superseded, now: Moment) -> Bool {
        let source = records.alertSource(of: older)
        let rides = mayBeCarried(source, on: newer, now: now) && makeRoom(for: source, in: newer)
        if rides {
            _ = records.removeRider(of: older)
            replaceRider(of: newer, by: newer)
            records.setRider(of: newer, to: source)
            activities[records[newer].activity].lastRider = source
            countAlertCarried()
            guard source != older else { return true }
        }
        // The older command is not settled in Redis now, because Redis would count its alert as sent or
        // replaced. If the newer command is dropped, the older record is read again with its alert
        // (simulation `pace`, seeds 7411 and 16144).
        if records[newer].hasAlert, !records[older].isStart { records[older].settlement = nil }
        return endSuperseded(older, by: newer, outcome)
    }

    /// Whether an alert fits into the newer command's body. If not, the alert is dropped, never the state,
    /// and the result of the alert's own command says so.
    private mutating func makeRoom(for source: UInt32, in newer: UInt32) -> Bool {
        let alertBytes = Int(records[source].layout.alert.count)
        guard !records[newer].hasRoom(forAlertBytes: alertBytes) else { return true }
        records[source].setReason("alertDidNotFit")
        return false
    }

    /// Whether the newer command may carry this alert. The newer command keeps the alert that it has or
    /// carries, unless this one is newer.
    private func mayBeCarried(_ source: UInt32, on newer: UInt32, now: Moment) -> Bool {
        guard let alert = records.alertVersion(of: source), !records[newer].isStart,
            records.isNewer(newer, than: source), !records[source].isExpired(now: now),
            !isOlderThanAlertUnderWay(alert, of: source)
        else { return false }
        guard let carried = records.alertVersion(of: newer) else { return true }
        return carried < alert
    }

    /// Whether the current command has a newer alert, after which this alert must not ring. An alert that
    /// came from Redis alone does not count, because its own record may be read again (simulation `repeats`,
    /// seeds 21365 and 30787).
    private func isOlderThanAlertUnderWay(_ alert: Version, of source: UInt32) -> Bool {
        let current = activities[records[source].activity].current
        guard current != .max, current != source, let underWay = records.alertVersion(of: current),
            !records[current].hasAlertFromRedisOnly
        else { return false }
        return alert < underWay
    }

    /// Removes alerts from waiting states if APNs has just accepted the same alert or a newer one. Such a
    /// state was read late. Redis would answer `superseded` for it. But if a newer state was read first, that
    /// state would carry the alert, and the phone would ring twice or out of order.
    mutating func dropAlertsNotNewer(than current: UInt32, of activity: UInt32) {
        guard let sent = records.alertVersion(of: current) else { return }
        while let head = activities[activity].waiting.head {
            guard let waiting = records.alertVersion(of: head), waiting <= sent,
                records.mayReplace(head, by: current)
            else { return }
            guard records.isNewer(current, than: head) else {
                // The state is sent without the alert, unless its body has the alert already.
                if records[head].digest == nil { finishRider(of: head) }
                return
            }
            countCoalesced(of: head)
            _ = activities[activity].waiting.popFirst(in: &records)
            // The current command does not count this one: its partition may be revoked, and then it cannot
            // keep the offset back.
            finish(head, .superseded)
        }
    }

    /// Gives the command that is being admitted the alert of the command that the store holds, if the alert
    /// fits. The held command stays in Redis until the carrier is known to have been sent.
    mutating func carryHeldAlert(of reply: Reply, on record: UInt32, now: Moment) {
        let slot = records.mutableAddress(of: record)
        slot.pointee.heldAlert = .takenOver
        guard let heldCommand = reply.heldCommand else { return }
        do throws(Fault) {
            let held = try Command.decodeWrittenByCauseway(heldCommand)
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
            // Causeway writes only valid commands, so something else wrote this one. The state is admitted
            // without its alert.
        }
    }

    /// Removes a carried alert from the current command, because APNs has accepted this alert or a newer one:
    /// from another worker, or before this lane read the record again.
    mutating func leaveOutAnsweredAlert(of record: UInt32) {
        finishRider(of: record)
        records.removeAlert(fromBodyOf: record)
    }

    /// Ends the rider of a command whose carried alert a newer one replaces.
    mutating func replaceRider(of carrier: UInt32, by newer: UInt32) {
        guard let rider = records.removeRider(of: carrier) else { return }
        _ = endSuperseded(rider, by: newer, .superseded)
    }

    mutating func finishRider(of carrier: UInt32) {
        guard let rider = records.removeRider(of: carrier) else { return }
        finish(rider, .superseded)
    }

    /// Queues a rider again, because its carrier was dropped or has expired. If the rider's partition is
    /// revoked too, the rider is dropped.
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

    /// Makes a current command with an alert wait for a carrier. Another worker has admitted a newer command
    /// and not settled it. The offset of the newer command is not committed, so this lane will read it too,
    /// and it will carry the alert.
    ///
    /// A known gap: if the other worker is alive and sends the newer command with an alert of its own, the
    /// older alert may ring after it. Redis does not know which states have alerts of their own (simulation
    /// `pace`, seeds 30112 and 103247).
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
                untilMilliseconds: now.monotonicMilliseconds + configuration.riderWaitMilliseconds
            )
        }
        endTurn(activity, now: now)
    }

    /// Makes a command that was just read carry the alert of the rider that waits for a carrier. If the
    /// command was read late, it may already be the rider of another command. Then its carrier takes the
    /// newer of the two alerts.
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
