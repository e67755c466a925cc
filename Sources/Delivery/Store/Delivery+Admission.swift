import LiveActivity
import Numbers

/// Handles Redis' replies to the calls of current commands: for a token, for an admission, and for a hold.
extension Delivery {
    private static var unexpectedReplyReason: StaticString { "unexpected reply of the admit script" }

    /// Handles the reply about a start's push-to-start token: asks for the admission, waits for the budget, or holds
    /// the start. A start that does not wait for the budget is superseded instead if a waiting command replaces it.
    mutating func handleStartTokenReply(_ record: RecordIndex, _ reply: Reply, now: Moment) {
        let activity = activityOfCurrentCommand(record, in: .takingStartToken)
        switch StartTokenVerdict(reply.verdict) {
        case .tokenFound:
            records.setRegistration(of: record, to: reply.registration)
            records[record].start.draw = .drawn(identifier: reply.drawIdentifier)
            if isCurrentCommandReplaced(of: activity) {
                return supersedeCurrentCommandAndEndTurn(of: activity, settlement: nil, now: now)
            }
            activities.enter(activity, .admitting)
            queueStoreCall(.admit, record)
        case .wait: waitForStartBudget(record, of: activity, waitMilliseconds: reply.waitMilliseconds, now: now)
        case .noToken:
            if isCurrentCommandReplaced(of: activity) {
                return supersedeCurrentCommandAndEndTurn(of: activity, settlement: nil, now: now)
            }
            hold(record, of: activity)
        case nil:
            finishAndEndTurn(record, .failed, settlement: nil, reason: Self.unexpectedReplyReason, now: now)
        }
    }

    /// Whether an older start, which waits in the lane or is expected from the deferred topic, will open the activity
    /// for this command. The lane may have read that start while Redis decided. Never true for the end of a lifetime.
    private func mustAwaitOlderStart(_ record: RecordIndex, of activity: ActivityIndex, now: Moment) -> Bool {
        guard !records[record].lifetime.isEnd else { return false }
        if isStartExpected(before: record, of: activity, now: now) { return true }
        let list = activities.address(of: activity).pointee.waitingList
        var nextCandidate = list.head
        while let candidate = nextCandidate, comesBefore(candidate, record) {
            if records[candidate].isStart { return true }
            nextCandidate = list.successor(of: candidate, in: records)
        }
        return false
    }

    /// Puts a start back into the waiting list until its device's budget may allow it, and ends the turn.
    private mutating func waitForStartBudget(
        _ record: RecordIndex,
        of activity: ActivityIndex,
        waitMilliseconds: Int64,
        now: Moment
    ) {
        countStartBudgetWait(of: record)
        let policy = policies[records[record].policyIndex]
        let pauseMilliseconds = records[record]
            .beginStartBudgetWait(waitMilliseconds: waitMilliseconds, by: policy, now: now)
        activities[activity].delayNextCommand(until: now.monotonicMilliseconds + pauseMilliseconds)
        putBackCurrentCommand(of: activity, now: now)
        endTurn(of: activity, now: now)
    }

    /// Does what Redis decided about the current command: for example, sends it, holds it, or gives it an outcome.
    mutating func handleAdmissionReply(_ record: RecordIndex, _ reply: Reply, now: Moment) {
        let activity = activityOfCurrentCommand(record, in: .admitting)
        // After a response to an earlier push, the time of the earlier admission stays: a result must not show an
        // admission that is later than APNs' response.
        if records[record].times.responseAtWallMilliseconds == nil {
            records[record].times.admittedAtWallMilliseconds = now.wallMilliseconds
        }
        switch AdmissionVerdict(reply.verdict) {
        case .send: makeReadyToSend(record, of: activity, reply, now: now)
        case .wait:
            let waitMillisecondsMax = policies[records[record].policyIndex].pace.throttledSpacingMillisecondsMax
            activities[activity]
                .delayNextCommand(
                    until: now.monotonicMilliseconds + max(1, min(reply.waitMilliseconds, waitMillisecondsMax))
                )
            putBackCurrentCommand(of: activity, now: now)
            endTurn(of: activity, now: now)
        case .noToken: handleMissingToken(of: record, of: activity, now: now)
        case .alertHeld where records[record].alert.heldStatus == .notReported:
            carryHeldAlert(of: reply, on: record, now: now)
            queueStoreCall(.admit, record)
        case .alertAlreadyAccepted where records[record].carriedAlertVersion != nil:
            removeAcceptedAlert(of: record)
            queueStoreCall(.admit, record)
        case .alertAwaitsCarrier: handleAlertWithoutCarrier(of: record, of: activity, now: now)
        case .departures where membershipChanges.contains(ChangingMember(record, records[record], .activity)):
            membershipChanges.setNextStep(.admit, of: ChangingMember(record, records[record], .activity))
        case .held: finishAndEndTurn(record, .held, settlement: nil, now: now)
        case .unchanged: finishAndEndTurn(record, .unchanged, settlement: nil, now: now)
        case .ended:
            guard mustAwaitOlderStart(record, of: activity, now: now) else {
                return finishAndEndTurn(record, .ended, settlement: nil, now: now)
            }
            putBackCurrentCommand(of: activity, now: now)
            endTurn(of: activity, now: now)
        case .activityOver:
            finishAndEndTurn(record, .ended, settlement: nil, reason: "activityOver8Hours", now: now)
        case .expired: finishAndEndTurn(record, .expired, settlement: nil, reason: "activityUnknown", now: now)
        case .duplicate:
            records[record].lifetime.isUnshownDuplicate = reply.isUnshownDuplicate
            finishAndEndTurn(record, .duplicate, settlement: nil, now: now)
        case .superseded:
            // Settle a start whose push was attempted, so that its other records are finished as `duplicate`. The start
            // is superseded now because its activity has ended, or because an attempt began the activity, which has
            // registered a token.
            let isAttemptedStart = records[record].isStart && records[record].push.attemptCount > 0
            finishAndEndTurn(record, .superseded, settlement: isAttemptedStart ? .notShown : nil, now: now)
        case .unknown:
            // Redis admitted another record of this start, and nothing says whether the start was sent. Settle the
            // start as `unknown`, so that its other records are finished as `duplicate`.
            finishAndEndTurn(record, .unknown, settlement: .unknown, now: now)
        // `alertHeld`, `alertAlreadyAccepted` and `departures` come here only if the condition of their own case above
        // is false.
        case .alertHeld, .alertAlreadyAccepted, .departures, nil:
            finishAndEndTurn(record, .failed, settlement: nil, reason: Self.unexpectedReplyReason, now: now)
        }
    }

    /// Asks Redis to hold a command that has no token. Exceptions: a command that a waiting one replaces is superseded,
    /// and the end of a lifetime is finished as `expired`.
    private mutating func handleMissingToken(of record: RecordIndex, of activity: ActivityIndex, now: Moment) {
        if records[record].lifetime.isEnd {
            // The end of a lifetime is not held. Otherwise the token of a later life would release the end, which would
            // then end that life.
            finishAndEndTurn(record, .expired, settlement: nil, reason: "activityUnknown", now: now)
        } else if isCurrentCommandReplaced(of: activity) {
            supersedeCurrentCommandAndEndTurn(of: activity, settlement: nil, now: now)
        } else {
            hold(record, of: activity)
        }
    }

    /// Makes a command wait for the newer one that will carry its alert: Redis knows the newer one, and this lane has
    /// not read it yet. There are two exceptions:
    /// - A command that a waiting command replaces is superseded now.
    /// - A command that brought a token first registers the token.
    private mutating func handleAlertWithoutCarrier(of record: RecordIndex, of activity: ActivityIndex, now: Moment) {
        if isCurrentCommandReplaced(of: activity) {
            supersedeCurrentCommandAndEndTurn(of: activity, settlement: nil, now: now)
        } else if records[record].token.mustBeRegistered {
            // Perhaps Redis holds the newer command, and only the registration of a token releases it. So register the
            // token that the current command brought.
            activities.enter(activity, .registeringToken)
            queueStoreCall(.registerToken, record)
        } else {
            awaitCarrierOrFinish(of: activity, now: now)
        }
    }

    /// Queues an admitted push for a stream. If the push's pool has no free credit, the command waits instead, and is
    /// admitted again. The command fails if its app has no pool for the token, or if the reply has no token or no valid
    /// timestamp.
    private mutating func makeReadyToSend(
        _ record: RecordIndex,
        of activity: ActivityIndex,
        _ reply: Reply,
        now: Moment
    ) {
        let slot = records.mutableAddress(of: record)
        let isStart = slot.pointee.isStart
        if isStart {
            activities[activity].deferredStartWait.endWait(upTo: slot.pointee.version)
            slot.pointee.start.previousClaim = nil
            slot.pointee.push.priorityDecision = PriorityDecision(priority: slot.pointee.priority)
        } else {
            records.setRegistration(of: record, to: reply.registration)
            slot.pointee.setPriorityDecision(from: reply)
        }
        let policy = policies[slot.pointee.policyIndex]
        let pool = slot.pointee.pool
        let hasPool = pools.hasPool(pool)
        if hasPool, !moveCredit(of: activity, to: pool, now: now) {
            // The token in Redis' reply belongs to another pool than the lane assumed, and the token's pool has no free
            // credit. Let the command wait for a credit. It is then admitted again.
            putBackCurrentCommand(of: activity, now: now)
            return endTurn(of: activity, now: now)
        }
        activities[activity].delayNextCommand(until: now.monotonicMilliseconds + policy.pace.spacingMilliseconds)
        let isTimestampValid = (Limits.timestampMin...Limits.timestampMax).contains(reply.timestamp)
        guard hasPool, slot.pointee.token.byteCount > 0, isTimestampValid else {
            let reason = hasPool ? Self.unexpectedReplyReason : "no key for this environment"
            return finishAndEndTurn(record, .failed, settlement: .notShown, reason: reason, now: now)
        }
        slot.pointee.push.sentTimestamp = reply.timestamp
        slot.pointee.deferral.mayBeDeferredAtNextReview = false
        records.setTimestamp(reply.timestamp, inBodyOf: record)
        // A start that is tried again without a deferral keeps its `apns-id`: Redis allowed only one start (R16).
        if !isStart || slot.pointee.push.attemptCount == 0 { slot.pointee.push.apnsId = random.nextUUID() }
        activities.enter(activity, .ready)
        pools.appendReadyPush(record, to: PoolKey(pool), now: now)
    }

    /// Asks Redis to hold the current command until a token registers.
    ///
    /// If Redis' reply is lost, the call is made again. If a registration has released the command meanwhile, Redis
    /// replies `held` to the repeated call and not `retry`, so that only the record of the registration sends the
    /// command.
    mutating func hold(_ record: RecordIndex, of activity: ActivityIndex) {
        // Redis must hold the timestamp of the command's own version. An earlier admission may have raised the
        // timestamp in the body.
        records.setTimestamp(records[record].version.timestamp, inBodyOf: record)
        writeDefaultIdentifierIfMissing(of: record)
        activities.enter(activity, .requestingHold)
        queueStoreCall(.hold, record)
    }

    /// Handles the reply to a hold: finishes the command, usually as `held`. If a token has registered meanwhile, asks
    /// Redis again: for the token of a start, or for the admission of an update or end.
    mutating func handleHoldReply(_ record: RecordIndex, _ reply: Reply, now: Moment) {
        let activity = activityOfCurrentCommand(record, in: .requestingHold)
        switch HoldVerdict(reply.verdict) {
        case .held: finishAndEndTurn(record, .held, settlement: nil, now: now)
        case .superseded: finishAndEndTurn(record, .superseded, settlement: nil, now: now)
        case .full: finishAndEndTurn(record, .failed, settlement: nil, reason: "heldStartsFull", now: now)
        // Another record of the same command was settled between the admission and the hold.
        case .duplicate: finishAndEndTurn(record, .duplicate, settlement: nil, now: now)
        case .retry:
            // Redis registered a token between the admission and the hold, so the command can be sent after all.
            let isStart = records[record].isStart
            activities.enter(activity, isStart ? .takingStartToken : .admitting)
            queueStoreCall(isStart ? .takeStartToken : .admit, record)
        case nil:
            finishAndEndTurn(record, .failed, settlement: nil, reason: Self.unexpectedReplyReason, now: now)
        }
    }
}
