import LiveActivity

/// Ends activities at the lifetime that their policy sets. A timetable in Redis stores when each activity is due, and
/// the worker's `LifetimeKeeper` produces a command that ends a due activity, or starts it again. (R34, R35)
///
/// What must hold:
/// - If a record shows that an activity began, lives or has ended, the record settles only when the timetable has this
///   fact, or Redis has permanently refused the report. A reread record reports the fact again, because Redis may have
///   lost it.
/// - The keeper may produce several commands that end the same life. Each names this life, and Redis permits it
///   (`checkLifetime`) only while the timetable has the life. So none of the commands ends a later life.
/// - The command that ends an activity has no state. So it replaces no waiting state, and is sent after all waiting
///   states.
///
/// If the policy starts the activity again, the timetable keeps the activity's start and newest state. Then:
/// 1. A command of the keeper ends the life.
/// 2. The life's entry in the timetable becomes an entry that waits for a new start. Exception: if the activity was a
///    member of an audience, it is not started again.
/// 3. Redis permits the new start only while the timetable has this entry. If the producer sends an end, the report of
///    this end removes the entry. So the new start never follows an end of the producer.
extension Delivery {
    /// Reports to the timetable if an outcome shows that the activity began, lives or has ended. Usually the report is
    /// made at once. For the end of a lifetime, and for a restart that must not be made again, it is made after the
    /// result is acknowledged (`FollowUps.reportLifetimeEvent`).
    mutating func reportLifetimeEvent(of record: RecordIndex, _ outcome: Outcome) {
        let slot = records.address(of: record)
        guard slot.pointee.isLifetimeCommand || slot.pointee.kind == .command && mayBeInTimetable(of: slot) else {
            return
        }
        if slot.pointee.lifetime.isEnd || mustNotRepeatRestart(slot) {
            // The report may remove the life from the timetable, so it is made after the acknowledgement of the result.
            // If the worker dies before this acknowledgement, the next owner reads the record again, and the record
            // must still find the life.
            if mustReportAfterResult(slot) { records[record].ending.followUps.insert(.reportLifetimeEvent) }
            return
        }
        let restartsActivity = policies.restartsAfterLifetime(slot.pointee.policyIndex)
        guard showsLifeOrEnd(slot, outcome, restartsActivity: restartsActivity) else { return }
        records[record].lifetime.mustKeepCommandInTimetable = restartsActivity && slot.pointee.event != .end
        queueStoreCall(.reportLifetimeEvent, record)
    }

    /// Whether the timetable may have an entry of the command's activity, so that the outcome must be reported. A start
    /// or an end is always reported: an earlier command of the activity may have named a policy that limits the
    /// lifetime. An update is reported if its policy or the app's default policy limits the lifetime.
    private func mayBeInTimetable(of slot: UnsafePointer<RecordSlot>) -> Bool {
        slot.pointee.event != .update || policies.lifetimeMilliseconds(slot.pointee.policyIndex) > 0
            || defaultLifetimeMilliseconds(slot.pointee.appIndex) > 0
    }

    /// Returns the lifetime in the app's default policy; 0: without limit.
    private func defaultLifetimeMilliseconds(_ appIndex: UInt16) -> Int64 {
        policies.lifetimeMilliseconds(
            UInt8(truncatingIfNeeded: configuration.reloadable.apps[Int(appIndex)].defaultPolicyIndex)
        )
    }

    /// Returns the event that a record reports to the timetable.
    func lifetimeEvent(of slot: UnsafePointer<RecordSlot>, now: Moment) -> LifetimeEvent {
        if slot.pointee.kind == .registration {
            return aliveEvent(
                atWallMilliseconds: slot.pointee.token.registeredAtWallMilliseconds,
                defaultLifetimeMilliseconds(slot.pointee.appIndex),
                now: now
            )
        }
        if slot.pointee.isLifetimeCommand { return lifetimeEvent(ofLifetimeCommand: slot, now: now) }
        // A tombstone unregisters the activity. Without a token, no push can end the activity any more.
        guard slot.pointee.kind == .command else { return .endedOrUnlimited }
        if slot.pointee.event == .update, slot.pointee.ending.outcome.effects.contains(.activityHadEnded) {
            return .updatedAfterEnd
        }
        guard slot.pointee.event != .end else { return .endedOrUnlimited }
        let lifetimeMilliseconds = policies.lifetimeMilliseconds(slot.pointee.policyIndex)
        let event = aliveEvent(
            atWallMilliseconds: slot.pointee.version.timestamp * 1_000,
            lifetimeMilliseconds,
            now: now
        )
        // A reread start reports `alive`, which replaces no life that a start began. `began` could replace the life
        // that the phone shows, although APNs may never have accepted the reread start.
        guard case .alive(let aliveAtWallMilliseconds, _) = event, slot.pointee.isStart, !slot.pointee.isReread else {
            return event
        }
        // The life begins with APNs' response to the start. If the record has no response, for example because its
        // outcome is `duplicate`, the life begins at the command's timestamp.
        return .began(
            atMilliseconds: slot.pointee.times.responseAtWallMilliseconds ?? aliveAtWallMilliseconds,
            lifetimeMilliseconds: lifetimeMilliseconds
        )
    }

    /// The longest time, as assumed, that a command is on its way through the commands topic and, if it is deferred,
    /// through the deferred topic. The delay of deferred commands (`deferredDelayMilliseconds`) is not included.
    private static let topicTransitMillisecondsMax: Int64 = 20_000

    /// Returns the call that asks Redis whether a lifetime command is still permitted. This call is made before the
    /// command enters its activity's waiting list.
    func makeLifetimeCheck<Bytes>(of slot: UnsafePointer<RecordSlot>) -> StoreCall<Bytes>.Operation {
        let identifier = lifetimeCommandIdentifier(of: slot)
        // During this delay the keeper does not claim the activity again, so it makes no second command while this one
        // is worked on. A deferred command usually comes back within `deferAfterMilliseconds` plus
        // `deferredDelayMilliseconds` after its receipt. The factor 2 is a reserve.
        let claimDelayMilliseconds =
            2 * (configuration.reloadable.deferAfterMilliseconds + configuration.reloadable.deferredDelayMilliseconds)
            + Self.topicTransitMillisecondsMax
        return .checkLifetime(
            beganAtMilliseconds: identifier?.beganAtMilliseconds ?? 0,
            // A restart names the state that it brings. If the timetable has a newer state, Redis refuses the restart,
            // and the keeper makes another one with that state. But a restart whose push was attempted names no state:
            // the activity may have begun, and another restart could begin a second activity.
            stateVersion: slot.pointee.push.attemptCount == 0 ? identifier?.stateVersion : nil,
            claimDelayMilliseconds: claimDelayMilliseconds
        )
    }

    /// Returns an event which says that the activity was alive at the reported time. A reported time in the future
    /// counts as now. If `lifetimeMilliseconds` is 0 (no limit), the event removes the activity from the timetable
    /// instead.
    private func aliveEvent(
        atWallMilliseconds reportedAtWallMilliseconds: Int64,
        _ lifetimeMilliseconds: Int64,
        now: Moment
    ) -> LifetimeEvent {
        let aliveAtWallMilliseconds = max(0, min(reportedAtWallMilliseconds, now.wallMilliseconds))
        return lifetimeMilliseconds > 0
            ? .alive(atMilliseconds: aliveAtWallMilliseconds, lifetimeMilliseconds: lifetimeMilliseconds)
            : .endedOrUnlimited
    }

    /// Continues a record when its lifetime event is in the timetable, or when Redis has refused the event.
    mutating func continueAfterLifetimeEvent(_ record: RecordIndex) {
        let stage = records[record].stage
        acknowledge(record)
        switch stage {
        case .awaitingRedis: queueStoreCall(.registerToken, record)
        case .unregistering: continueUnregistrationIfAcknowledged(record)
        default: break
        }
    }

    /// Whether a registration must report to the timetable that its activity is alive. True if it names an activity and
    /// no device, the default policy of its app limits the lifetime, and it has not expired
    /// (`AgeRules.isRegistrationExpired`).
    func mustReportLife(ofRegistration record: RecordIndex, now: Moment) -> Bool {
        let slot = records.address(of: record)
        return policies.limitsLifetimes && slot.pointee.texts.device.count == 0
            && defaultLifetimeMilliseconds(slot.pointee.appIndex) > 0
            && !AgeRules.isRegistrationExpired(
                registeredAtWallMilliseconds: slot.pointee.token.registeredAtWallMilliseconds,
                isPushToStart: false,
                nowWallMilliseconds: now.wallMilliseconds
            )
    }

    /// Settles a reread start, which is not sent. Tells Redis the start's version (R25): the end of an earlier life may
    /// be reread too, and must not end the newer life. If the start's policy limits the lifetime, also reports to the
    /// timetable that the activity was alive, because Redis may have lost this fact.
    ///
    /// Known issue (K25): the start is not sent even if it was held for a token and Redis has lost it.
    ///
    /// Redis does not get the version of three kinds of starts:
    /// - A start to an audience or channel, which needs no action here.
    /// - A start that is too old. Its activity is over, so Redis must call its updates `expired`.
    /// - A restart after a lifetime. Any end that the producer sent ends that life too (R13).
    ///
    /// - Parameter isSlotFilled: whether the slot already has the texts and the body of the command.
    mutating func settleRereadStart(
        _ record: RecordIndex,
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        isSlotFilled: Bool = false,
        now: Moment
    ) {
        guard !command.isForAudienceOrChannel else { return settleWithoutAction(record) }
        let isTooOld = AgeRules.isStateTooOld(
            timestamp: command.version.timestamp,
            isEnd: false,
            nowSeconds: now.wallSeconds
        )
        let mustRecordVersion = !isTooOld && !command.isLifetimeCommand(in: value)
        let isLifetimeLimited =
            policies.limitsLifetimes && policies.lifetimeMilliseconds(records[record].policyIndex) > 0
        guard mustRecordVersion || isLifetimeLimited else { return settleWithoutAction(record) }
        if !isSlotFilled {
            fillSlot(record, with: command, from: value, trace: UnsafeRawBufferPointer(start: nil, count: 0))
            records[record].token.mustBeRegistered = false
        }
        if isLifetimeLimited, policies.restartsAfterLifetime(records[record].policyIndex), command.fitsBodyLimit {
            if !isSlotFilled {
                records.setBody(of: record, to: command, from: value, apsDictionaryNumber: apsCache.apsDictionaryNumber)
            }
            records[record].lifetime.mustKeepCommandInTimetable = true
        }
        records.enter(.finished, record)
        if mustRecordVersion { queueStoreCall(.recordStart, record) }
        if isLifetimeLimited { queueStoreCall(.reportLifetimeEvent, record) }
    }

    /// Asks Redis whether a lifetime command is still permitted. Redis permits an end if the timetable has the life
    /// that the command ends. Redis permits a restart if the timetable has the entry that waits for this restart, and
    /// no state newer than the one that the command brings. The command enters its activity's waiting list only after
    /// the reply (`continueAfterLifetimeCheck`).
    mutating func beginLifetimeCommand(
        _ record: RecordIndex,
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        deferral: Deferral?,
        now: Moment
    ) {
        fillSlot(record, with: command, from: value, trace: trace)
        records.setBody(of: record, to: command, from: value, apsDictionaryNumber: apsCache.apsDictionaryNumber)
        if let deferral { restore(deferral, to: record, of: nil, now: now) }
        records.enter(.awaitingRedis, record)
        queueStoreCall(.checkLifetime, record)
    }

    /// Handles the reply to `checkLifetime`: adds the lifetime command to its activity's waiting list, finishes it or
    /// drops it.
    ///
    /// - Parameter isPermitted: false if Redis did not permit the command, for example because the life has ended, or
    ///   refused the call.
    mutating func continueAfterLifetimeCheck(_ record: RecordIndex, isPermitted: Bool, now: Moment) {
        if isPermitted, !isPartitionRevoked(record), mayHaveUnreadDeferredCommands(before: record, now: now) {
            return repeatLifetimeCheckAfterPause(record, now: now)
        }
        let activity = findOrAddActivity(of: record)
        if isPartitionRevoked(record) {
            drop(record, now: now)
        } else {
            records.enter(.received, record)
            if !isPermitted || mustYieldToProducer(record, of: activity, now: now) {
                // Redis did not permit the command, or a start or end of the producer comes first and may change the
                // life. If the timetable still has the life, the keeper makes another command.
                finish(record, .superseded)
            } else if records[record].lifetime.isRestart, !policies.restartsAfterLifetime(records[record].policyIndex) {
                finish(record, .expired)
            } else {
                enqueue(record, of: activity, now: now)
                return endBatch(now: now)
            }
        }
        // If this command was the activity's only one, the activity is idle, and `beginNextCommand` frees it.
        // Exception: if the command came from the deferred topic with a pause (`restore`), the activity waits until the
        // end of this pause.
        if activities[activity].phase == .idle { beginNextCommand(of: activity, now: now) }
    }

    /// Makes the call `checkLifetime` again after a pause. The commands that previous owners deferred, and that are not
    /// read yet, may bring a newer state, which must be sent before the end of a lifetime.
    private mutating func repeatLifetimeCheckAfterPause(_ record: RecordIndex, now: Moment) {
        let ticket = StoreTicket(.checkLifetime, appIndex: records[record].appIndex, record: record)
        records[record].ending.expectAcknowledgement()
        recordsAwaitingStoreCount += 1
        storeQueue.setAside(ticket, now: now)
    }

    /// Notes that an update has got the outcome `ended`, and that its state is reported to the timetable. If a restart
    /// waits in the lane, Redis permitted it before this report, so the restart may show an older state. Redis must be
    /// asked about it again (`checkRestartAgain`).
    mutating func noteUpdateAfterEnd(of activity: ActivityIndex) {
        let list = activities.address(of: activity).pointee.waitingList
        var nextCandidate = list.head
        while let candidate = nextCandidate {
            nextCandidate = list.successor(of: candidate, in: records)
            if records[candidate].isUnsentRestart { records[candidate].lifetime.mustBeCheckedAgain = true }
        }
    }

    /// Asks Redis again about a restart whose turn has come, if an update has ended since the first reply
    /// (`noteUpdateAfterEnd`). If the update's state is newer than the restart's, Redis does not permit this restart,
    /// and the keeper makes another one with the newer state.
    ///
    /// - Returns: whether the restart has left the waiting list. The activity is still idle.
    mutating func checkRestartAgain(_ head: RecordIndex, of activity: ActivityIndex) -> Bool {
        guard records[head].lifetime.mustBeCheckedAgain, records[head].isUnsentRestart else { return false }
        records[head].lifetime.mustBeCheckedAgain = false
        activities[activity].waitingList.remove(head, in: &records)
        records.enter(.awaitingRedis, head)
        queueStoreCall(.checkLifetime, head)
        return true
    }

    /// Whether a start or an end that the producer sent takes precedence over this lifetime command.
    private func mustYieldToProducer(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        // A deferred start is older than this end. If the end were sent first, it would supersede the start. A restart
        // does not look for deferred starts: the deferred start may be this restart.
        if records[record].lifetime.isEnd, activities[activity].deferredStartWait.isOngoing(now: now) { return true }
        return hasProducerStartOrEnd(of: activity)
    }

    /// Whether the activity's current command, or a waiting one, is a start or an end that the producer sent.
    private func hasProducerStartOrEnd(of activity: ActivityIndex) -> Bool {
        func isStartOrEnd(_ record: RecordIndex) -> Bool {
            let slot = records.address(of: record)
            return slot.pointee.event != .update && !slot.pointee.isLifetimeCommand
        }
        let slot = activities.address(of: activity)
        if slot.pointee.currentCommand != .null, isStartOrEnd(slot.pointee.currentCommand) { return true }
        var waitingRecord = slot.pointee.waitingList.head
        while let record = waitingRecord {
            if isStartOrEnd(record) { return true }
            waitingRecord = slot.pointee.waitingList.successor(of: record, in: records)
        }
        return false
    }

    /// Merges a command into the waiting list if the command, the last waiting one (`tail`) or both are ends of
    /// lifetimes. Such an end has no state, so it replaces no state, and is always the last in the list. Returns
    /// whether the command's slot is still in use.
    ///
    ///     beside the end of a lifetime                     what happens
    ///     a start, or an end that the producer sent        it replaces the end of the lifetime
    ///     an update that is not newer                      it is put before the end of the lifetime
    ///     a newer update that was read before the end      it stays before the end of the lifetime
    ///     a newer update that was read after the end       it gets the outcome `ended`
    ///     another end of a lifetime                        the older of the two stays
    mutating func mergeInvolvingLifetimeEnd(
        _ record: RecordIndex,
        with tail: RecordIndex,
        of activity: ActivityIndex,
        now: Moment
    )
        -> SlotStatus
    {
        guard records[tail].lifetime.isEnd else {
            // The producer's starts and ends take precedence over this end of a lifetime. `continueAfterLifetimeCheck`
            // has looked for them. But another one may have come since then, while the lane tried to defer this end
            // and Kafka refused the deferred record.
            if mustYieldToProducer(record, of: activity, now: now) {
                finish(record, .superseded)
            } else {
                activities[activity].waitingList.append(record, in: &records)
            }
            return .inUse
        }
        if records[record].lifetime.isEnd {
            // One end is enough. The older one stays, because Redis may have admitted it. The newer one is
            // `superseded`, an outcome that does not remove the life from the timetable.
            if records.isNewer(tail, than: record) {
                activities[activity].waitingList.replaceLast(by: record, in: &records)
                finish(tail, .superseded)
            } else {
                finish(record, .superseded)
            }
            return .inUse
        }
        let isUpdate = records[record].event == .update
        guard !isUpdate || !records.isNewer(record, than: tail) else {
            records.passToken(from: record, to: tail)
            finish(record, .ended)
            return .inUse
        }
        activities[activity].waitingList.remove(tail, in: &records)
        if isUpdate {
            let slotStatus = merge(record, into: activity, now: now)
            activities[activity].waitingList.putBackLast(tail, in: &records)
            return slotStatus
        }
        countReplacedCommand(of: tail)
        supersede(tail, by: record, now: now)
        return merge(record, into: activity, now: now)
    }

    /// Puts the current command, which is the end of a lifetime, behind all waiting commands. If another end of a
    /// lifetime already waits there, keeps only the older of the two ends.
    mutating func putBackLifetimeEnd(_ end: RecordIndex, of activity: ActivityIndex, now: Moment) {
        guard let tail = activities[activity].waitingList.tail, records[tail].lifetime.isEnd else {
            return activities[activity].waitingList.append(end, in: &records)
        }
        _ = mergeInvolvingLifetimeEnd(end, with: tail, of: activity, now: now)
    }
}

extension RecordSlot {
    /// Whether the record is a restart that Redis may still refuse: it has drawn from no budget, so it was never
    /// admitted or sent, and it was not held. (The timetable has no entry of a held restart any more.)
    var isUnsentRestart: Bool {
        lifetime.isRestart && needsStartToken && !start.isHeld && push.attemptCount == 0
    }
}

extension Command {
    /// Whether the command ends an activity because its lifetime is over, or starts it again.
    @inline(__always)
    package func isLifetimeCommand(in value: UnsafeRawBufferPointer) -> Bool {
        event != .update && !isForAudienceOrChannel && !identifier.isAbsent
            && LifetimeCommandIdentifier(identifier.range.bytes(in: value)) != nil
    }
}
