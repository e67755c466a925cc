import LiveActivity

/// Lets newer states carry alerts. A newer state may replace a command before APNs has accepted the command's alert.
/// The newer state then carries the alert if it can (`mayCarryAlert`, `hasRoom`): it is the *carrier*, and the older
/// command its *rider*. For example, version 7 replaces version 6, which has an alert. Then one push has the state of 7
/// and the alert of 6.
///
/// The stages (`RecordStage`) of a command with an alert:
///
///     received, waiting, current ─► riding    a newer state replaces the command and carries its alert
///     current ─► awaitingCarrier              Redis has a newer command, which this lane has not read yet
///     current ─► riding                       as before, but the end of a lifetime waits, which carries the alert
///     deferring ─► riding                     Kafka took no deferred record, and a newer state waits in the lane
///     awaitingCarrier ─► riding               the lane has read a newer command, and that one carries the alert
///     riding ─► riding                        another command carries the alert now, usually a still newer state
///     riding ─► waiting                       the carrier was dropped, or expired in the waiting list
///     riding ─► finished                      the carrier is finished in any other way, or is deferred
///     riding ─► finished                      a newer alert replaces this alert, or the alert must not ring any more
///     awaitingCarrier ─► finished             no command carries the alert, or none was read in time
///     riding, awaitingCarrier ─► dropped      the command's own partition is revoked
///
/// What must hold:
/// - A record has one rider at most, the one with the newest alert. The rider is finished as `superseded` with its
///   carrier at the latest, unless it is dropped or goes back to the waiting list.
/// - A body is never changed while its push is in flight: a connection to APNs may be reading the bytes.
/// - Within a lane, no alert rings after a newer one (`isOlderThanAlertUnderWay`, `removeWaitingAlerts`). The comments
///   of `isOlderThanAlertUnderWay` and `awaitCarrierOrFinish` describe the two rare exceptions.
extension Delivery {
    /// Supersedes the command `replaced`, which APNs has not accepted, by the command `replacement`. The steps:
    /// 1. The alert of `replaced`, its own or its rider's, moves to `replacement` if that is allowed (`mayCarryAlert`).
    ///    If the body of `replacement` has no room for the alert (`hasRoom`), the alert is lost.
    /// 2. If the own alert of `replaced` has moved, `replaced` becomes the rider of `replacement`, and is finished
    ///    later.
    /// 3. Otherwise `replaced` is finished now: it gets a result, or `replacement` counts it. If its rider's alert has
    ///    moved, the rider becomes the rider of `replacement`. If not, the rider is finished too.
    ///
    /// - Returns: whether the slot of `replaced` is still in use. It is freed in step 3 if `replacement` counts
    ///   `replaced`, so a caller that uses `replaced` afterwards must check this.
    @discardableResult
    mutating func supersede(_ replaced: RecordIndex, by replacement: RecordIndex, now: Moment) -> SlotStatus {
        let alertSource = records.alertSource(of: replaced)
        if mayCarryAlert(alertSource, on: replacement, now: now) {
            if hasRoom(forAlertOf: alertSource, in: replacement) {
                moveAlert(of: alertSource, from: replaced, to: replacement)
                if alertSource == replaced { return .inUse }
            } else {
                // The alert is lost. The result of the command that brought the alert says so.
                records[alertSource].setReason("alertDidNotFit")
            }
        }
        keepUnsettledInRedis(replaced, ifAlertIsOn: replacement)
        return finishSuperseded(replaced, countedBy: replacement)
    }

    /// Removes the settlement of `replaced` if `replacement` has or carries an alert, so that Redis does not settle
    /// `replaced`. (A start keeps its settlement.) If Redis settled `replaced`, an unsent alert of `replaced` or of its
    /// rider could be lost:
    /// 1. Redis settles `replaced`, and counts its alert as sent or replaced.
    /// 2. `replacement` is dropped, because its partition is revoked.
    /// 3. The next owner reads `replaced` again, but Redis replies that `replaced` is settled.
    @inline(__always)
    private mutating func keepUnsettledInRedis(_ replaced: RecordIndex, ifAlertIsOn replacement: RecordIndex) {
        if records[replacement].hasAlert, !records[replaced].isStart { records[replaced].ending.settlement = nil }
    }

    /// Moves an alert from `replaced` to `carrier`: makes `alertSource` the rider of `carrier`. `alertSource` is
    /// `replaced` itself, or the rider of `replaced`. If `carrier` already has a rider, that rider is finished.
    @inline(__always)
    private mutating func moveAlert(of alertSource: RecordIndex, from replaced: RecordIndex, to carrier: RecordIndex) {
        records.unlinkRider(of: replaced)
        // If `carrier` has a rider already, that rider's alert is older. So finish that rider. `carrier` itself counts
        // it, because no other command replaces `carrier` here.
        finishRider(of: carrier, countedBy: carrier)
        records.setRider(of: carrier, to: alertSource)
        // A hint for prefetching: the next merge of this activity probably reads the slot of `alertSource`.
        activities[records[carrier].activity].riderToPrefetch = alertSource
        countCarriedAlert()
    }

    /// Counts an alert that moved to a newer state. Called wherever one moves: from a replaced command (`moveAlert`),
    /// from the command that Redis holds (`carryHeldAlert`), and to a held command that a token released (`copyAlert`).
    @inline(__always)
    mutating func countCarriedAlert() { carriedAlertCount &+= 1 }

    private func hasRoom(forAlertOf alertSource: RecordIndex, in carrier: RecordIndex) -> Bool {
        records[carrier].hasRoom(forAlertBytes: Int(records[alertSource].bodyLayout.alert.count))
    }

    /// Whether `carrier` may carry the alert of `alertSource`. Does not check whether the body of `carrier` has room
    /// for it (`hasRoom`).
    private func mayCarryAlert(_ alertSource: RecordIndex, on carrier: RecordIndex, now: Moment) -> Bool {
        // `alertVersion` is nil if `alertSource` has no alert, and for a start: no other command carries a start's
        // alert.
        guard let alertVersion = records.alertVersion(of: alertSource) else { return false }
        // A start carries no alert: it begins a new life, and the alert belongs to an earlier one.
        guard !records[carrier].isStart else { return false }
        // The end of a lifetime does not pass on its alert, which belongs to the life that ends. `carrier` may be of a
        // later life.
        guard !records[alertSource].lifetime.isEnd else { return false }
        // The alert must belong to a command that is older than `carrier`. A command that `carrier` replaces is not
        // always older (`isReplaced`).
        guard records.isNewer(carrier, than: alertSource) else { return false }
        // The alert of an expired command must not ring.
        guard !records[alertSource].isExpired(now: now) else { return false }
        // The alert must not ring after a newer one.
        guard !isOlderThanAlertUnderWay(alertVersion, of: alertSource) else { return false }
        // If `carrier` already has an alert, or carries one, only a newer alert replaces it.
        guard let carrierAlertVersion = records.alertVersion(of: carrier) else { return true }
        return carrierAlertVersion < alertVersion
    }

    /// Whether the alert of `alertSource` must not ring, because the activity's current command has a newer alert. A
    /// newer alert that the current command got from Redis does not count (`hasAlertFromRedisOnly`): if the current
    /// command is dropped, the lane loses it.
    private func isOlderThanAlertUnderWay(_ alertVersion: Version, of alertSource: RecordIndex) -> Bool {
        let current = activities[records[alertSource].activity].currentCommand
        // This function also runs while the current command is being replaced. The current command's slot may then be
        // free already.
        guard current != .null, current != alertSource, records.isInUse(current),
            let currentAlertVersion = records.alertVersion(of: current), !records[current].hasAlertFromRedisOnly
        else { return false }
        return alertVersion < currentAlertVersion
    }

    /// Moves an alert to an end from the newer command that has carried it until now: the first carrier behind
    /// `endCommand` in the waiting list. Does so only if the command that brought the alert, the rider, is older than
    /// the end: the alert then belongs to the life that the end closes. Does nothing if the end may not carry the
    /// alert.
    mutating func moveOlderAlert(to endCommand: RecordIndex, of activity: ActivityIndex, now: Moment) {
        guard let carrier = firstCarrier(behind: endCommand, of: activity) else { return }
        let rider = records.alertSource(of: carrier)
        // The alert stays with its carrier if it is already in the carrier's body. It also stays if the carrier is not
        // newer than the end: the carrier may be a second record of the same end.
        guard !records[carrier].isBodyComplete, records.isNewer(carrier, than: endCommand),
            mayCarryAlert(rider, on: endCommand, now: now)
        else { return }
        records.unlinkRider(of: carrier)
        supersede(rider, by: endCommand, now: now)
    }

    /// Returns the first command with a rider behind `endCommand` in the waiting list; nil if there is none.
    private func firstCarrier(behind endCommand: RecordIndex, of activity: ActivityIndex) -> RecordIndex? {
        let list = activities.address(of: activity).pointee.waitingList
        var carrier = list.successor(of: endCommand, in: records)
        while let candidate = carrier, records[candidate].rider == .null {
            carrier = list.successor(of: candidate, in: records)
        }
        return carrier
    }

    /// Removes the alert that APNs has accepted with the current command, and older alerts, from the first commands of
    /// the waiting list. Otherwise the phone would ring twice for one alert, or for an older alert after a newer one.
    ///
    /// - A waiting state that is older than the current command is finished, because Redis would supersede it.
    /// - A newer waiting state is still sent, but without the alert that it carries. If the alert is not in the state's
    ///   body yet, the state's rider is finished now. Otherwise the alert is removed at the state's next admission
    ///   (`removeAcceptedAlert`).
    mutating func removeWaitingAlerts(upToAlertOf current: RecordIndex, of activity: ActivityIndex) {
        guard let acceptedAlertVersion = records.alertVersion(of: current) else { return }
        while let head = activities[activity].waitingList.head {
            guard let waitingAlertVersion = records.alertVersion(of: head), waitingAlertVersion <= acceptedAlertVersion,
                records.eventsAllowReplacing(head, by: current)
            else { return }
            guard records.isNewer(current, than: head) else {
                // If the body already has the alert, the state's next admission removes it (`removeAcceptedAlert`).
                if !records[head].isBodyComplete { finishRiderWithOwnResult(of: head) }
                return
            }
            countReplacedCommand(of: head)
            _ = activities[activity].waitingList.popFirst(in: &records)
            // Give the older state a result, and do not let the current command count it. That count could be lost: the
            // current command's partition may be revoked, that partition's next owner may already have committed the
            // offset of the current command, and this worker may then crash.
            finish(head, .superseded)
        }
    }

    /// Lets the current command carry the alert of the older command that Redis holds, and notes in `heldStatus` what
    /// became of that alert. The alert does not move if any of these is true:
    /// - The current command has an alert.
    /// - The held alert is too old, or the current command's body has no room for it.
    /// - The held command has expired or is not valid.
    /// - The current command is reread, and the alert probably rang before Redis lost data (R25).
    ///
    /// Known issue (K18): if the token came with a reread command, the alert may move to a new command and ring twice.
    mutating func carryHeldAlert(of reply: Reply, on record: RecordIndex, now: Moment) {
        let slot = records.mutableAddress(of: record)
        slot.pointee.alert.heldStatus = .movedOrNotNeeded
        guard let heldCommand = reply.heldCommand else { return }
        do throws(Fault) {
            let command = try Command.decodeWrittenByCauseway(heldCommand)
            guard command.hasAlert, !slot.pointee.hasAlert else { return }
            if slot.pointee.isReread,
                command.mayAlertHaveBeenReleasedBeforeLoss(byRegistrationAt: reply.registeredAtMilliseconds)
            {
                return
            }
            let alertVersion = command.alertVersion
            guard !isAlertTooOld(alertVersion, on: record, now: now) else {
                return slot.pointee.noteAlertRemovedByAge()
            }
            // The alert of an expired command must not ring.
            guard !AgeRules.isExpired(command.expirationSeconds, nowSeconds: now.wallSeconds) else { return }
            let alert = command.alert.bytes(in: heldCommand)
            guard slot.pointee.hasRoom(forAlertBytes: alert.count) else {
                slot.pointee.alert.heldStatus = .doesNotFit
                return
            }
            records.write(alert, of: alertVersion, intoBodyOf: record)
            slot.pointee.setDigestFromBody()
            slot.pointee.priority = max(slot.pointee.priority, Self.priority(of: command, hasAlert: true))
            countCarriedAlert()
        } catch {
            // The held command is not valid, so its alert is lost. Another program wrote it, or a newer release of
            // Causeway.
            heldCommandFault = error
        }
    }

    /// Removes the carried alert from the current command, and finishes the rider that brought it. Called when Redis
    /// says that APNs has accepted this alert or a newer one. Either another worker sent it, or this lane: with another
    /// command, or before it read the records again.
    mutating func removeAcceptedAlert(of record: RecordIndex) {
        finishRiderWithOwnResult(of: record)
        records.removeAlert(fromBodyOf: record)
    }

    /// Finishes the rider of `carrier`, if it has one, as superseded, because `countingCommand` has or carries a newer
    /// alert. The rider gets a result, or `countingCommand` counts it (`finishSuperseded`).
    mutating func finishRider(of carrier: RecordIndex, countedBy countingCommand: RecordIndex) {
        guard let rider = records.removeRider(of: carrier) else { return }
        _ = finishSuperseded(rider, countedBy: countingCommand)
    }

    /// Finishes the rider of `carrier`, if it has one, as superseded, because the carrier ends or must not carry the
    /// alert any more. No command counts the rider, so it gets a result of its own. (A reread rider gets none, unless
    /// it counts commands.)
    mutating func finishRiderWithOwnResult(of carrier: RecordIndex) {
        guard let rider = records.removeRider(of: carrier) else { return }
        finish(rider, .superseded)
    }

    /// Puts the rider of `carrier` back into the waiting list, because the carrier was dropped, or has expired in the
    /// waiting list. A waiting command may then supersede it. A rider whose own partition is revoked is dropped.
    ///
    /// If a carrier expires as the current command instead, its rider is finished, and the alert is lost. A phone may
    /// have displayed the carrier's state, so the rider's older state must not follow.
    mutating func requeueRider(of carrier: RecordIndex, now: Moment) {
        guard let rider = records.removeRider(of: carrier) else { return }
        if isPartitionRevoked(rider) { return drop(rider, now: now) }
        // The rider waits for another admission, which decides again how Redis settles it.
        records[rider].ending.settlement = nil
        enqueueFormerRider(rider, now: now)
    }

    // MARK: - Commands that wait for a carrier

    /// Makes the current command wait for a carrier of its alert, and ends its turn. Called when Redis has a newer
    /// command that is not settled. An older command that already waits for a carrier is finished as `superseded`.
    /// Exceptions:
    /// - A start, a command without an alert, and a command that is older than the one that already waits are finished
    ///   as `superseded`. A command with the same version as the one that waits is finished as `duplicate`.
    /// - A command whose partition is revoked is dropped.
    /// - If the end of a lifetime waits, it is probably the newer command. So it supersedes this command now, and
    ///   carries the alert. If the command waited longer, a restart could show an older state.
    ///
    /// Usually another worker admitted the newer command and has not committed its offset. So this lane may read the
    /// newer command too, and that command then carries the alert.
    ///
    /// Known issue (K1): an older alert may ring after a newer one. The newer command may have an alert of its own,
    /// which the other worker sends. Redis does not know this, so it does not stop the older alert.
    mutating func awaitCarrierOrFinish(of activity: ActivityIndex, now: Moment) {
        let record = activities[activity].currentCommand
        records[record].lifetime.mayHaveComeAfterEnd = true
        guard records[record].hasAlert, !records[record].isStart else {
            finish(record, .superseded)
            return endTurn(of: activity, now: now)
        }
        if isPartitionRevoked(record) { return dropCurrentCommandAndEndTurn(of: activity, now: now) }
        if let tail = activities[activity].waitingList.tail, records[tail].lifetime.isEnd,
            records.isNewer(tail, than: record)
        {
            supersede(record, by: tail, now: now)
            return endTurn(of: activity, now: now)
        }
        let commandAwaitingCarrier = activities[activity].commandAwaitingCarrier.record
        if commandAwaitingCarrier != .null, !records.isNewer(record, than: commandAwaitingCarrier) {
            finish(record, records.areSameVersion(record, commandAwaitingCarrier) ? .duplicate : .superseded)
        } else {
            if commandAwaitingCarrier != .null { finish(commandAwaitingCarrier, .superseded) }
            records.enter(record, .awaitingCarrier)
            activities[activity].commandAwaitingCarrier = CommandAwaitingCarrier(
                record: record,
                untilMilliseconds: now.monotonicMilliseconds + configuration.carrierWaitMillisecondsMax
            )
        }
        endTurn(of: activity, now: now)
    }

    /// If an older command waits for a carrier (`commandAwaitingCarrier`), lets `record` supersede it and carry its
    /// alert if possible. Called after `merge` has placed `record`. If `merge` has made `record` a rider, its carrier
    /// supersedes the older command instead, and keeps the newer of the two alerts.
    mutating func supersedeCommandAwaitingCarrier(of activity: ActivityIndex, by record: RecordIndex, now: Moment) {
        let older = activities[activity].commandAwaitingCarrier.record
        // If `merge` has finished `record`, for example as a duplicate, `record` cannot carry an alert.
        guard older != .null, !records[record].stage.awaitsAcknowledgements,
            records.isNewer(record, than: older)
        else { return }
        _ = activities[activity].commandAwaitingCarrier.removeRecord()
        let carrier = records[record].riderLink.carrier
        supersede(older, by: carrier == .null ? record : carrier, now: now)
    }

    /// Finishes the command whose alert waits for a carrier, if it has waited for `carrierWaitMillisecondsMax`. The
    /// alert is lost.
    mutating func finishCommandAwaitingCarrierIfWaitIsOver(of activity: ActivityIndex, now: Moment) {
        guard activities[activity].commandAwaitingCarrier.isWaitOver(now: now) else { return }
        finish(activities[activity].commandAwaitingCarrier.removeRecord(), .superseded)
    }
}
