import LiveActivity

/// Lets newer states carry alerts. If a newer state replaces a command whose alert was not accepted, the newer
/// state carries the alert if it can. The older command, the rider, is then finished together with its carrier.
///
/// What must hold:
/// - A record has one rider at most, the one with the newest alert. If a newer alert replaces a rider's alert, the
///   rider ends at once.
/// - A rider is finished with its carrier, as `superseded`. If the carrier is dropped, or expires before
///   Redis has seen it, the rider waits for its own turn again, or a waiting command replaces it.
/// - A carried alert is written into the carrier's body only when the body is needed, usually when the carrier's turn
///   comes, because most carriers are replaced earlier. The carrier then also gets the alert's priority.
/// - A body is never changed while its push is in flight, because a connection to APNs may be reading the bytes.
/// - In a lane no alert rings after a newer one, except in the rare cases that the comments below name. When APNs has
///   accepted an alert, waiting states lose the same alert and older ones. An alert is not carried while a newer alert
///   is under way.
/// - If a newer state was admitted in Redis and then expires, the alert that it carried is lost. A phone may
///   have displayed the newer state, so the rider's older state is not sent after it (simulation `repeats`,
///   seeds 6049 and 7212).
extension Delivery {
    /// Replaces the command `older`, which APNs has not accepted, by `newer`.
    ///
    /// An alert waits with `older`: its own, or the one that it carries for its rider. If `newer` can carry this alert
    /// (`mayCarryAlert`, `checkRoom`), the command that brought the alert becomes the rider of `newer`, and is finished
    /// together with `newer`. A replaced command that does not become a rider is finished or counted now.
    ///
    /// - Returns: whether the older command's slot is still in use. A caller that does not use the older command
    ///   afterwards may ignore this.
    @discardableResult
    mutating func supersede(_ older: RecordIndex, by newer: RecordIndex, now: Moment) -> Bool {
        let source = records.alertSource(of: older)
        let isAlertCarried = mayCarryAlert(source, on: newer, now: now) && checkRoom(forAlertOf: source, in: newer)
        if isAlertCarried {
            _ = records.removeRider(of: older)
            endSupersededRider(of: newer, by: newer)
            records.setRider(of: newer, to: source)
            activities[records[newer].activity].lastRider = source
            countCarriedAlert()
            guard source != older else { return true }
        }
        // Redis must not settle the older command now, because Redis would then count the command's alert as sent or
        // replaced. If the newer command is dropped, the older record may be read again, and its alert may still ring
        // (simulation `pace`, seeds 7411 and 16144).
        if records[newer].hasAlert, !records[older].isStart { records[older].ending.settlement = nil }
        return endSupersededCommand(older, by: newer)
    }

    /// Whether the alert of `source` fits into the newer command's body. If it does not, the alert is lost, the newer
    /// state is sent without it, and the result of `source` says so.
    private mutating func checkRoom(forAlertOf source: RecordIndex, in newer: RecordIndex) -> Bool {
        let alertBytes = Int(records[source].layout.alert.count)
        guard !records[newer].hasRoom(forAlertBytes: alertBytes) else { return true }
        records[source].setReason("alertDidNotFit")
        return false
    }

    /// Whether the newer command may carry the alert of `source`. If the newer command already has or carries
    /// an alert, only a newer alert replaces it.
    private func mayCarryAlert(_ source: RecordIndex, on newer: RecordIndex, now: Moment) -> Bool {
        guard let alert = records.alertVersion(of: source), !records[newer].isStart, !records[source].lifetime.isEnd,
            records.isNewer(newer, than: source), !records[source].isExpired(now: now),
            !isOlderThanAlertUnderWay(alert, of: source)
        else { return false }
        guard let alertOfNewer = records.alertVersion(of: newer) else { return true }
        return alertOfNewer < alert
    }

    /// Whether the activity's current command has a newer alert, so that `alert` must not ring after the newer one.
    ///
    /// False if the newer alert came from Redis, and no record in this lane brought it (`hasAlertFromRedisOnly`). If
    /// the current command were dropped, the newer alert would leave this lane, and `alert` would still be needed
    /// (simulation `repeats`, seeds 21365 and 30787).
    private func isOlderThanAlertUnderWay(_ alert: Version, of source: RecordIndex) -> Bool {
        let current = activities[records[source].activity].currentCommand
        // While the current command is being replaced, its slot may already be free.
        guard current != .null, current != source, records.isInUse(current),
            let currentAlert = records.alertVersion(of: current), !records[current].hasAlertFromRedisOnly
        else { return false }
        return alert < currentAlert
    }

    /// Moves an alert to a waiting end, if the alert belongs to the life that ends. Before this call, a newer command
    /// behind the end in the waiting list may carry this alert. The first command behind the end that has a rider is
    /// examined. If this rider is older than the end, the rider moves from that command to the end.
    mutating func moveOlderAlert(to end: RecordIndex, of activity: ActivityIndex, now: Moment) {
        let list = activities.address(of: activity).pointee.waitingList
        var waiting = list.successor(of: end, in: records)
        while let candidate = waiting {
            let source = records.alertSource(of: candidate)
            guard source == candidate else {
                // Move the rider only if `candidate` has no digest, and is newer than the end. With a digest, the alert
                // is already written into the candidate's body (`completeBody`). A candidate that is not newer may be a
                // second record of the same end (simulation `repeats`, seed 138).
                guard records[candidate].digest == nil, records.isNewer(candidate, than: end),
                    mayCarryAlert(source, on: end, now: now)
                else { return }
                _ = records.removeRider(of: candidate)
                supersede(source, by: end, now: now)
                return
            }
            waiting = list.successor(of: candidate, in: records)
        }
    }

    /// Called when APNs has accepted the current command. If the command has an alert, removes this alert, and older
    /// ones, from the first waiting states. Otherwise the phone would ring twice for one alert, or would ring for an
    /// older alert after a newer one.
    ///
    /// A state that is older than the current command is finished, because Redis would supersede it. A newer state is
    /// sent without the alert that it carries.
    mutating func dropAlertsNotNewer(than current: RecordIndex, of activity: ActivityIndex) {
        guard let acceptedAlert = records.alertVersion(of: current) else { return }
        while let head = activities[activity].waitingList.head {
            guard let waitingAlert = records.alertVersion(of: head), waitingAlert <= acceptedAlert,
                records.mayReplace(head, by: current)
            else { return }
            guard records.isNewer(current, than: head) else {
                // The waiting state is newer than the current command, so it is sent. Its rider ends here, and the
                // state does not get the rider's alert. But if the state has a digest, the alert is already written
                // into its body (`completeBody`). Then `removeAcceptedAlert` removes the alert after the state's next
                // admission.
                if records[head].digest == nil { finishRider(of: head) }
                return
            }
            countCoalescedCommand(of: head)
            _ = activities[activity].waitingList.popFirst(in: &records)
            // The older state gets a result of its own, because the current command must not count it. A command may
            // count others only while its own offset is not committed. That is not certain here: the current command's
            // partition may be revoked.
            finish(head, .superseded)
        }
    }

    /// Gives the current command the alert of the command that Redis holds, if the current command has none, and the
    /// held alert fits and is not too old. Redis keeps the held command until the current command is settled.
    mutating func carryHeldAlert(of reply: Reply, on record: RecordIndex, now: Moment) {
        let slot = records.mutableAddress(of: record)
        slot.pointee.alert.heldStatus = .examined
        guard let heldCommand = reply.heldCommand else { return }
        do throws(Fault) {
            let command = try Command.decodeWrittenByCauseway(heldCommand)
            guard command.hasAlert, !slot.pointee.hasAlert else { return }
            let version = command.alertVersion.timestamp > 0 ? command.alertVersion : command.version
            guard !isAlertTooOld(version, on: record, now: now) else { return slot.pointee.setAlertExpired() }
            let alert = command.alert.bytes(in: heldCommand)
            guard slot.pointee.hasRoom(forAlertBytes: alert.count) else {
                slot.pointee.alert.heldStatus = .doesNotFit
                return
            }
            records.write(alert, of: version, intoBodyOf: record)
            slot.pointee.setDigest()
            slot.pointee.priority = max(slot.pointee.priority, command.priority != 0 ? command.priority : 10)
            countCarriedAlert()
        } catch {
            // The held command is not valid. Causeway writes only valid commands, so another program wrote it. The
            // current command is admitted without an alert from the held command.
        }
    }

    /// Removes the carried alert from the current command, because APNs has accepted this alert or a newer
    /// one: another worker sent that alert, or this lane sent it and reads the record again.
    mutating func removeAcceptedAlert(of record: RecordIndex) {
        finishRider(of: record)
        records.removeAlert(fromBodyOf: record)
    }

    /// Ends the rider of `carrier`, because the alert of `newer` replaces the alert that the rider brought.
    mutating func endSupersededRider(of carrier: RecordIndex, by newer: RecordIndex) {
        guard let rider = records.removeRider(of: carrier) else { return }
        _ = endSupersededCommand(rider, by: newer)
    }

    mutating func finishRider(of carrier: RecordIndex) {
        guard let rider = records.removeRider(of: carrier) else { return }
        finish(rider, .superseded)
    }

    /// Queues the rider of a carrier again, because the carrier was dropped or has expired. If a waiting command
    /// replaces the rider, the rider ends or rides on that command instead. If the rider's own partition is revoked,
    /// the rider is dropped.
    mutating func requeueRider(of carrier: RecordIndex, now: Moment) {
        guard let rider = records.removeRider(of: carrier) else { return }
        if isPartitionRevokedOrRevoking(rider) { return drop(rider, now: now) }
        records[rider].ending.settlement = nil
        requeue(rider: rider, now: now)
    }

    // MARK: - Riders that wait for their carrier

    /// Called when Redis has a newer command than the current one, and the newer one is not settled. A current command
    /// with an alert waits for a carrier. A start, or a command without an alert, ends as `superseded`.
    ///
    /// Usually another worker admitted the newer command, so its offset is not committed. If this lane reads the newer
    /// command too, that command carries the alert if it can.
    ///
    /// A known gap: the other worker may still live and send the newer command with an alert of its own. The older
    /// alert may then ring after the newer one, because Redis does not know which states have alerts of their own
    /// (simulation `pace`, seeds 30112 and 103247).
    mutating func awaitCarrier(of activity: ActivityIndex, now: Moment) {
        let record = activities[activity].currentCommand
        guard records[record].hasAlert, !records[record].isStart else {
            finish(record, .superseded)
            return endCurrentCommand(activity, now: now)
        }
        if isPartitionRevokedOrRevoking(record) { return dropCurrentCommand(of: activity, now: now) }
        let waitingRider = activities[activity].riderAwaitingCarrier.record
        if waitingRider != .null, !records.isNewer(record, than: waitingRider) {
            finish(record, records.areSameVersion(record, waitingRider) ? .duplicate : .superseded)
        } else {
            if waitingRider != .null { finish(waitingRider, .superseded) }
            records.enter(.awaitingCarrier, record)
            activities[activity].riderAwaitingCarrier = RiderAwaitingCarrier(
                record: record,
                untilMilliseconds: now.monotonicMilliseconds + configuration.riderWaitMilliseconds
            )
        }
        endCurrentCommand(activity, now: now)
    }

    /// Called when the lane has read the command `record`. If an older command waits for a carrier, `record` carries
    /// its alert. If `record` is already a rider itself, its carrier gets the newer alert: that of `record` or that of
    /// the older command.
    mutating func carryAwaitingRider(on record: RecordIndex, of activity: ActivityIndex, now: Moment) {
        let rider = activities[activity].riderAwaitingCarrier.record
        guard rider != .null, !records[record].stage.awaitsAcknowledgements,
            records.isNewer(record, than: rider)
        else { return }
        _ = activities[activity].riderAwaitingCarrier.removeRecord()
        let carrier = records[record].riderLink.carrier
        supersede(rider, by: carrier == .null ? record : carrier, now: now)
    }

    mutating func finishOverdueRider(of activity: ActivityIndex, now: Moment) {
        guard activities[activity].riderAwaitingCarrier.isOverdue(now: now) else { return }
        finish(activities[activity].riderAwaitingCarrier.removeRecord(), .superseded)
    }
}
