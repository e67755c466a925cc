import LiveActivity

/// Queues store calls and handles their replies. Calls leave from the front of the queue. If a call fails for a
/// temporary reason, it joins the end of the queue again, at once or after a pause. So a later call may overtake it.
/// There are two exceptions:
/// - A failed refund is not repeated, because Redis may have carried it out (R15).
/// - A command that asks for a token or an admission may return its credit and wait instead (`mayWaitWithoutCredit`).
extension Delivery {
    typealias Reply = StoreReply<UnsafeRawBufferPointer>

    /// Removes the call that `withNextStoreCall` passed to the shell, because the shell has sent it.
    public mutating func removeNextStoreCall() {
        guard let ticket = storeQueue.popFirst() else { preconditionFailure("no call waits") }
        if ticket.purpose == .registerToken { registrationCallsUnderWayCount += 1 }
    }

    /// Removes the next call and handles it as refused, because it exceeds Redis' limits. A repeated call would exceed
    /// them too.
    public mutating func refuseNextStoreCall(_ reason: StaticString, now: Moment) {
        guard let ticket = storeQueue.popFirst() else { preconditionFailure("no call waits") }
        handleRefusedCall(ticket, reason: reason.bytes, now: now)
    }

    /// How long a command waits without a credit if its Redis server is unavailable, or refuses the call for a
    /// temporary reason. Meanwhile commands of other servers can use the credit.
    private static var redisServerPauseMilliseconds: Int64 { 1_000 }

    /// Lets the next call wait for up to a second, because its Redis server is unavailable and other servers may work.
    /// So each iteration of the lane tries a call only once, even if many calls wait for this server.
    ///
    /// A command that asks for a token or an admission usually returns its credit and waits instead
    /// (`mayWaitWithoutCredit`). Otherwise the commands of the unavailable server would soon have all credits of their
    /// pool.
    public mutating func delayNextStoreCallForUnavailableServer(now: Moment) {
        guard let ticket = storeQueue.popFirst() else { preconditionFailure("no call waits") }
        if mayWaitWithoutCredit(ticket) {
            beginRedisServerPause(ticket, now: now)
        } else {
            storeQueue.setAside(ticket, now: now)
        }
    }

    /// Makes the command of a call give up its credit and wait, if other commands wait for a credit: their Redis
    /// servers may work. Called when a Redis server has refused the call for a temporary reason.
    ///
    /// - Returns: false if the command keeps its credit. The caller must then queue the call again.
    private mutating func giveUpCreditIfOthersWait(_ ticket: StoreTicket, now: Moment) -> Bool {
        guard mayWaitWithoutCredit(ticket) else { return false }
        let slot = activities.address(of: records[ticket.record].activity)
        let poolKey = PoolKey(appIndex: slot.pointee.appIndex, kind: slot.pointee.poolKindOfCredit)
        guard pools.activitiesAwaitingCreditCount(of: poolKey) > 0 else { return false }
        beginRedisServerPause(ticket, now: now)
        return true
    }

    /// Makes the command of a call return its credit and wait, usually in its activity's waiting list.
    ///
    /// But a start that asks for its admission stays the current command, also during a revocation: an earlier call may
    /// have admitted it for this lane's claim. From the waiting list, this lane would drop it unsent, and the next
    /// owner would report it as `unknown`.
    private mutating func beginRedisServerPause(_ ticket: StoreTicket, now: Moment) {
        let activity = records[ticket.record].activity
        let pauseEndMilliseconds = now.monotonicMilliseconds + Self.redisServerPauseMilliseconds
        recordsAwaitingStoreCount -= 1
        acknowledge(ticket.record)
        if ticket.purpose == .admit, records[ticket.record].isStart {
            activities[activity].poolKind = PoolKey(records[ticket.record].pool).kind
            activities.enter(activity, .awaitingService, untilMilliseconds: pauseEndMilliseconds)
            return returnCredit(of: activity, now: now)
        }
        activities[activity].delayNextCommand(until: pauseEndMilliseconds)
        putBackCurrentCommand(of: activity, now: now)
        endTurn(of: activity, now: now)
    }

    private func mayWaitWithoutCredit(_ ticket: StoreTicket) -> Bool {
        switch ticket.purpose {
        case .takeStartToken, .admit: true
        case .recordStart, .hold, .registerToken, .unregisterActivity, .unregisterDevice, .settle, .settleStart,
            .throttle, .refundStart, .retireToken, .confirmActivityDepartures, .confirmDeviceDepartures,
            .reportLifetimeEvent, .checkLifetime:
            false
        }
    }

    /// Lets the next call wait for up to a second, because too few replicas acknowledge its writes now. The call's
    /// command keeps its credit. Meanwhile other calls can be made.
    public mutating func delayNextStoreCallForMissingReplicas(now: Moment) {
        guard let ticket = storeQueue.popFirst() else { preconditionFailure("no call waits") }
        storeQueue.setAside(ticket, now: now)
    }

    /// Handles a call that got no reply, or that Redis refused. `failure` says whether and when the call is made again.
    ///
    /// - Parameter reason: why the call failed. A command that fails with its call has this reason in its result.
    public mutating func handleStoreFailure(
        tag: UInt64,
        _ failure: StoreFailure,
        reason: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        let ticket = decodeTicket(tag)
        if ticket.purpose == .registerToken { registrationCallsUnderWayCount -= 1 }
        switch failure {
        case .retriableAtOnce: repeatCall(ticket)
        case .serverRefusesMostCalls:
            storeQueue.pause(now: now)
            if !giveUpCreditIfOthersWait(ticket, now: now) { repeatCall(ticket) }
        case .retriableAfterPause:
            if !endCallIfRefund(ticket), !giveUpCreditIfOthersWait(ticket, now: now) {
                storeQueue.setAside(ticket, now: now)
            }
        case .refused:
            handleRefusedCall(ticket, reason: reason, now: now)
            storeOutageWatch.noteResponse(awaitsMore: awaitsStoreReply, now: now)
        }
    }

    /// Supersedes the command of the next call and ends its turn, if a waiting command replaces it. The call is then
    /// never made. So after an outage, Redis is asked only about the newest commands. Does nothing if the call asks for
    /// neither a token nor an admission.
    ///
    /// - Returns: false if the call must be made.
    mutating func supersedeCommandIfReplacedBeforeCall(_ ticket: StoreTicket, now: Moment) -> Bool {
        guard ticket.purpose == .admit || ticket.purpose == .takeStartToken else { return false }
        let record = ticket.record
        let activity = records[record].activity
        guard isCurrentCommandReplaced(of: activity) else { return false }
        guard storeQueue.popFirst() == ticket else { preconditionFailure("another call waits") }
        recordsAwaitingStoreCount -= 1
        acknowledge(record)
        let isAttemptedStart = records[record].isStart && records[record].push.attemptCount > 0
        supersedeCurrentCommandAndEndTurn(of: activity, settlement: isAttemptedStart ? .notShown : nil, now: now)
        return true
    }

    private func decodeTicket(_ tag: UInt64) -> StoreTicket {
        guard let ticket = StoreTicket(tag: tag) else { preconditionFailure("the tag of a call that was not made") }
        return ticket
    }

    /// Queues a failed call again. A refund is not repeated.
    private mutating func repeatCall(_ ticket: StoreTicket) {
        if !endCallIfRefund(ticket) { storeQueue.append(ticket) }
    }

    /// If the call is a refund, ends it, so that it is not repeated, and returns true. Otherwise returns false. The
    /// failed call may have refunded the draw. After a second refund, the device could get one start too many, which is
    /// worse than one too few. (R15)
    private mutating func endCallIfRefund(_ ticket: StoreTicket) -> Bool {
        guard ticket.purpose == .refundStart else { return false }
        acknowledge(ticket.record)
        return true
    }

    /// Handles a call that Redis refused for a reason that a repeat does not remove. What follows depends on the call:
    /// - If the call asked for a token, an admission or a hold, the command fails with `reason`.
    /// - If the call was `checkLifetime`, the command is finished as `superseded`.
    /// - Any other record continues without what the call should have written, such as an outcome, a token or a longer
    ///   spacing.
    private mutating func handleRefusedCall(_ ticket: StoreTicket, reason: UnsafeRawBufferPointer, now: Moment) {
        let record = ticket.record
        if ticket.purpose == .reportLifetimeEvent { return continueAfterLifetimeEvent(record) }
        if ticket.purpose.isAwaited { recordsAwaitingStoreCount -= 1 }
        acknowledge(record)
        switch ticket.purpose {
        case .takeStartToken, .admit, .hold:
            records[record].setReason(reason)
            finishAndEndTurn(record, .failed, settlement: nil, now: now)
        case .registerToken where records[record].stage == .current:
            continueAfterTokenRegistration(record, isNewerCommandHeld: false, now: now)
        case .registerToken: settleWithoutResult(record)
        case .unregisterActivity, .unregisterDevice: continueUnregistrationIfAcknowledged(record)
        case .throttle: retryAfterThrottling(record, now: now)
        case .confirmActivityDepartures, .confirmDeviceDepartures: endMembershipChange(ticket, now: now)
        case .checkLifetime: continueAfterLifetimeCheck(record, isPermitted: false, now: now)
        case .recordStart, .settle, .settleStart, .refundStart, .retireToken, .reportLifetimeEvent: break
        }
    }

    /// Handles a reply. The call is acknowledged first, because what follows may free the record's slot.
    public mutating func handleStoreReply(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>, now: Moment) {
        let ticket = decodeTicket(tag)
        let record = ticket.record
        if ticket.purpose == .registerToken { registrationCallsUnderWayCount -= 1 }
        if ticket.purpose.isAwaited { recordsAwaitingStoreCount -= 1 }
        storeOutageWatch.noteResponse(awaitsMore: awaitsStoreReply, now: now)
        if ticket.purpose == .reportLifetimeEvent { return continueAfterLifetimeEvent(record) }
        if let departures = reply.departures {
            records[record].lifetime.hasLeftAudiences = true
            beginDepartureChange(ticket, departures)
        }
        acknowledge(record)
        switch ticket.purpose {
        case .takeStartToken: handleStartTokenReply(record, reply, now: now)
        case .admit: handleAdmissionReply(record, reply, now: now)
        case .hold: handleHoldReply(record, reply, now: now)
        case .registerToken: handleRegistrationReply(record, reply, now: now)
        case .unregisterActivity, .unregisterDevice: continueUnregistrationIfAcknowledged(record)
        case .throttle: retryAfterThrottling(record, now: now)
        case .confirmActivityDepartures, .confirmDeviceDepartures: endMembershipChange(ticket, now: now)
        case .checkLifetime: continueAfterLifetimeCheck(record, isPermitted: reply.verdict == .retry, now: now)
        case .recordStart, .settle, .settleStart, .refundStart, .retireToken, .reportLifetimeEvent: break
        }
    }

    /// Queues a tombstone's calls for the app in its slot: `unregisterActivity`, `unregisterDevice` and, if a policy
    /// limits lifetimes, `reportLifetimeEvent`. If an attributes type is selected (`selectAttributesType`), queues only
    /// `unregisterDevice`.
    ///
    /// An old tombstone makes no call `unregisterActivity`: if Redis does not know the activity, this call would store
    /// a value for it. The other two calls store nothing in this case.
    mutating func queueUnregistration(_ tombstone: RecordIndex) {
        let isForAttributesType = records[tombstone].texts.attributesType.count > 0
        let isTooOld = records.address(of: tombstone).pointee.isTooOldToUnregister(isPushToStart: false)
        if !isForAttributesType, !isTooOld { queueStoreCall(.unregisterActivity, tombstone) }
        queueStoreCall(.unregisterDevice, tombstone)
        if !isForAttributesType, policies.limitsLifetimes {
            noteReportThatMayRefuseRestart(of: tombstone)
            queueStoreCall(.reportLifetimeEvent, tombstone)
        }
    }

    /// If a tombstone's key names an attributes type of a device (`DeviceRegistrationKey`), selects this type for the
    /// tombstone's next calls.
    ///
    /// - Returns: false, without a change, if the key names no type, or if the type is selected already.
    mutating func selectAttributesType(ofTombstone tombstone: RecordIndex) -> Bool {
        let slot = records.mutableAddress(of: tombstone)
        let key = slot.pointee.texts.subject
        guard slot.pointee.texts.attributesType.count == 0,
            let parts = DeviceRegistrationKey.split(slot.pointee.bytes(key))
        else { return false }
        let typeByteCount = UInt32(parts.attributesType.count)
        slot.pointee.texts.device = BlockRange(offset: key.offset, count: UInt32(parts.device.count))
        slot.pointee.texts.attributesType = BlockRange(
            offset: key.offset + key.count - typeByteCount,
            count: typeByteCount
        )
        return true
    }

    /// Continues with a tombstone when its calls for one app have replies, and all audiences in the replies are
    /// notified: queues its calls for the next app. After the last app, the calls for the attributes type that the key
    /// may name follow, again for one app after another. At the end, settles the tombstone.
    ///
    /// With the calls for all apps at once, the tombstones of a lane with many apps would need millions of places in
    /// the queue, and admissions would wait behind all these calls. (R4)
    ///
    /// Because the apps follow one after another, a later record may reach Redis before the tombstone's calls for the
    /// last apps. For tokens this makes no difference, because Redis compares the times of the tombstone and of the
    /// registration. In the timetable the last report counts.
    mutating func continueUnregistrationIfAcknowledged(_ tombstone: RecordIndex) {
        guard records[tombstone].ending.isAcknowledged else { return }
        var nextAppIndex = records[tombstone].appIndex + 1
        if Int(nextAppIndex) == configuration.apps.count {
            guard selectAttributesType(ofTombstone: tombstone) else { return settleWithoutResult(tombstone) }
            nextAppIndex = 0
        }
        records[tombstone].appIndex = nextAppIndex
        queueUnregistration(tombstone)
    }

    /// Queues a call about a record. The record then awaits the reply as an acknowledgement.
    mutating func queueStoreCall(_ purpose: StoreTicket.Purpose, _ record: RecordIndex, appIndex: UInt16? = nil) {
        records[record].ending.expectAcknowledgement()
        if purpose.isAwaited { recordsAwaitingStoreCount += 1 }
        storeQueue.append(StoreTicket(purpose, appIndex: appIndex ?? records[record].appIndex, record: record))
    }
}
