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
///    this end removes the entry. So the new start never follows an end of the producer. Exception: the new start was
///    held for a token. It then has no entry any more, and yields only to an end that is in the lane.
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
        let isUpdateOfLife = slot.pointee.event == .update && !mayHaveComeAfterEnd(slot, outcome)
        if !slot.pointee.lifetime.isRestart, !isUpdateOfLife {
            noteReportThatMayRefuseRestart(of: record)
        }
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
        if slot.pointee.event == .update, mayHaveComeAfterEnd(slot, slot.pointee.ending.outcome) {
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
        // A restart names the state that it brings. If the timetable has a newer state, Redis refuses the restart, and
        // the keeper makes another one with that state. But a restart whose push was attempted names the highest
        // version: the activity may have begun, and another restart could begin a second activity. (Without a version,
        // Redis would take the restart for an end.)
        var stateVersion = identifier?.stateVersion
        if stateVersion != nil, slot.pointee.push.attemptCount > 0 {
            stateVersion = Version(timestamp: Limits.timestampMax, sequence: .max)
        }
        return .checkLifetime(
            beganAtMilliseconds: identifier?.beganAtMilliseconds ?? 0,
            stateVersion: stateVersion,
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
        records.enter(record, .finished)
        if mustRecordVersion { queueStoreCall(.recordStart, record) }
        if isLifetimeLimited { queueStoreCall(.reportLifetimeEvent, record) }
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

extension Command {
    /// Whether the command ends an activity because its lifetime is over, or starts it again.
    @inline(__always)
    package func isLifetimeCommand(in value: UnsafeRawBufferPointer) -> Bool {
        event != .update && !isForAudienceOrChannel && !identifier.isAbsent
            && LifetimeCommandIdentifier(identifier.range.bytes(in: value)) != nil
    }
}
