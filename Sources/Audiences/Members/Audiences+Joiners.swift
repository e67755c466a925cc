import Delivery
import LiveActivity
import Numbers

/// Joiners: activities that have joined an audience and are shown its newest state at once, because the audience's
/// rounds (``RoundSlot``) may have passed their position. A joiner is named by its membership change
/// (``MembershipChangeSlot``).
///
/// The push has no alert, and priority 5 (10 for an end). The core requests the state only after the store has
/// acknowledged the joiner's entry. So the joiner misses no state: the rounds of all later commands find the entry.
/// While APNs accepts no push, the core tries again until the state expires. (R18)
///
/// Known issue (K24): the registration settles after APNs' first response to the push, or after
/// `settlementDelayMillisecondsMax`. Then the push is lost if the process ends, if the registration's partition moves
/// (`Audiences+MovedJoiners`), if too many joiners wait, or if APNs calls the token dead too often
/// (``handleRefusedJoinerToken(_:_:now:)``).
extension Audiences {
    /// The longest time that a registration stays unsettled while its joiner waits for the push. It is short, so that
    /// the partition's committed offset does not wait for APNs while APNs is unavailable. (R10)
    private static var settlementDelayMillisecondsMax: Int64 { 1_000 }
    /// The time between two checks whether the core must give up a push that waits.
    private static var joinerCheckIntervalMilliseconds: Int64 { 10_000 }
    /// If the store last replied to a joiner's requests longer ago than this, the joiner's states are requested again
    /// before one of them is sent. Otherwise a joiner that has waited long for its pool could get an old state (R20).
    private static var stateAgeMillisecondsMax: Int64 { 1_000 }

    /// Begins to show an activity the newest state of the audience that it has joined; if it has joined several, the
    /// newest of their states. Ends the membership change at once if there is nothing to show: the member has joined no
    /// audience, is a device, has no token, or belongs to an environment without a pool.
    mutating func beginShowingNewestState(_ change: MembershipChangeIndex, now: Moment) {
        let slot = membershipChanges[change]
        guard slot.member.kind == .activity, slot.joinedAudienceCount > 0, slot.token.count > 0,
            hasPool(slot.environment, appIndex: slot.member.appIndex)
        else { return endMembershipChange(change) }
        membershipChanges[change].nextCheckAtMilliseconds =
            slot.allAudiencesNotifiedAtMilliseconds + Self.settlementDelayMillisecondsMax
        startMembershipChangeTimer(change)
        requestNewestStates(change)
    }

    /// Marks the change as overridden: a later change of the same member has come, and shows the member the newest
    /// state if this is necessary. If this change only waits for a push or for the end of a pause, it ends at once;
    /// otherwise when its calls and its push under way have ended.
    mutating func overrideByLaterChange(_ change: MembershipChangeIndex) {
        membershipChanges[change].isOverriddenByLaterChange = true
        switch membershipChanges[change].phase {
        case .awaitingPush:
            removeFromJoinerQueue(change)
            endMembershipChange(change)
        case .backingOff: endMembershipChange(change)
        case .queued, .notifying, .requestingStates, .underWay: break
        }
    }

    // MARK: - Pushes to joiners

    /// Puts a joiner into its pool's queue, when all its requests for states are answered. Exceptions:
    /// - If no state was chosen, if the state is too old, or if the core must give up the push, ends the membership
    ///   change.
    /// - If APNs delays the push, and the states for joiners take more than half of their room
    ///   (``AudiencesConfiguration/newestStateBytesMax``), the joiner backs off.
    mutating func queueJoiner(_ change: MembershipChangeIndex, now: Moment) {
        let stateExpirationSeconds = membershipChanges[change].stateExpirationSeconds
        guard membershipChanges[change].newestState != .null, !mustGiveUp(change, now: now),
            !AgeRules.isExpired(stateExpirationSeconds, nowSeconds: now.wallSeconds)
        else { return endMembershipChange(change) }
        guard newestStateBytes <= configuration.newestStateBytesMax / 2 || !isPushDelayedByAPNs(change) else {
            return backOffForLackOfBytes(change, now: now)
        }
        membershipChanges[change].enter(.awaitingPush)
        // Count the age of the states from the last reply, even if an earlier reply brought the chosen state. Otherwise
        // a joiner of many audiences could find this state too old at once (`stateAgeMillisecondsMax`), and would
        // request all states again and again.
        membershipChanges[change].lastStateReplyAtMilliseconds = now.monotonicMilliseconds
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        guard isPoolUnavailable(environment, appIndex: appIndex) else {
            return apps[appIndex].queuedJoiners[environment].append(change, in: &membershipChanges)
        }
        // An unavailable pool probes with its first joiner. A probe may have made this joiner request its states, so
        // this joiner goes first.
        apps[appIndex].queuedJoiners[environment].prepend(change, in: &membershipChanges)
    }

    private func appAndEnvironment(
        ofJoiner change: MembershipChangeIndex
    ) -> (appIndex: Int, environment: APNsEnvironment) {
        let slot = membershipChanges[change]
        return (Int(slot.member.appIndex), slot.environment)
    }

    /// Returns the push to the next joiner in a pool's queue; nil if none can be sent. Removes the joiners before it
    /// from the queue: one whose states are too old requests them again, one whose state has expired ends its change,
    /// and one that may not be retried now backs off.
    ///
    /// After an outage all states are too old, but a probe needs only one. So for a probe, requests the states of at
    /// most one joiner. (R4)
    mutating func takeNextJoinerPush(
        _ pool: PoolTarget,
        permitsRetry: Bool,
        isProbing: Bool,
        now: Moment
    ) -> AudiencePush? {
        let (appIndex, environment) = (Int(pool.appIndex), pool.environment)
        while let change = apps[appIndex].queuedJoiners[environment].popFirst(in: &membershipChanges) {
            let slot = membershipChanges[change]
            if slot.lastStateReplyAtMilliseconds < now.monotonicMilliseconds - Self.stateAgeMillisecondsMax {
                requestNewestStates(change)
                if isProbing { return nil }
            } else if AgeRules.isExpired(newestStates[slot.newestState].expirationSeconds, nowSeconds: now.wallSeconds)
            {
                endMembershipChange(change)
            } else if slot.failedAttemptCount > 0, !permitsRetry {
                backOff(
                    change,
                    for: random.jitteredMilliseconds(configuration.longRetryPauseMilliseconds),
                    now: now
                )
            } else {
                return offerJoinerPush(change, now: now)
            }
        }
        return nil
    }

    /// Offers the push to a joiner. Redis keeps neither the policy nor the stale date of the state's command. So if the
    /// command names no expiration, the app's default policy says how long APNs stores the push.
    private mutating func offerJoinerPush(_ change: MembershipChangeIndex, now: Moment) -> AudiencePush {
        membershipChanges[change].enter(.underWay)
        let slot = membershipChanges[change]
        let state = newestStates[slot.newestState]
        offeredPush = OfferedPush(tag: PushTag(joiner: change).rawValue, previousSendPosition: 0)
        return AudiencePush(
            tag: PushTag(joiner: change).rawValue,
            address: slot.token,
            body: state.body.bytes,
            priority: state.isEnd ? PushPriority.high : PushPriority.low,
            expirationSeconds: sentExpirationSeconds(
                event: state.isEnd ? .end : .update,
                ownExpirationSeconds: state.ownExpirationSeconds,
                staleDateSeconds: -1,
                policy: defaultPolicyIndex(of: slot.member.appIndex),
                from: now.wallSeconds
            ),
            apnsId: random.nextUUID(),
            isRetry: slot.failedAttemptCount > 0
        )
    }

    /// Makes the joiner the first of its pool's queue again, because no stream was free for its push. The push was
    /// counted as in flight when it was taken (`Audiences+Pushes`), and is counted no longer.
    mutating func putBackJoinerPush(_ change: MembershipChangeIndex) {
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        membershipChanges[change].enter(.awaitingPush)
        apps[appIndex].queuedJoiners[environment].prepend(change, in: &membershipChanges)
        apps[appIndex].inFlightPushCounts[environment] -= 1
    }

    /// Ends the membership change if APNs has accepted the push or refused it for good. Otherwise tries the push again
    /// after a pause; a refusal of the token may end the change too (``handleRefusedJoinerToken(_:_:now:)``).
    mutating func handleJoinerResponse(_ change: MembershipChangeIndex, _ result: PushResult, now: Moment) {
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        apps[appIndex].inFlightPushCounts[environment] -= 1
        switch result.disposition {
        case .accepted, .rejected, .channelGone: endMembershipChange(change)
        case .topicSuspect where result.isTokenRefusalTrusted: endMembershipChange(change)
        case .tokenDead: handleRefusedJoinerToken(change, result, now: now)
        case .tokenSuspect where result.isTokenRefusalTrusted: handleRefusedJoinerToken(change, result, now: now)
        case .throttled: retryJoinerPush(change, needsLongPause: true, now: now)
        case .retrySoon, .retryLater, .ambiguous, .tokenSuspect, .topicSuspect:
            retryJoinerPush(change, needsLongPause: !result.isRetryPermitted, now: now)
        }
    }

    /// Makes a joiner back off after a failed attempt, to try its push again. Its registration may now settle, although
    /// the push is not sent yet (K24). Ends the membership change instead if the core must give up the push.
    mutating func retryJoinerPush(_ change: MembershipChangeIndex, needsLongPause: Bool, now: Moment) {
        queueMemberToSettle(of: change)
        let failedAttemptCount =
            membershipChanges[change].failedAttemptCount < .max
            ? membershipChanges[change].failedAttemptCount + 1 : .max
        membershipChanges[change].failedAttemptCount = failedAttemptCount
        var pauseMilliseconds = chooseRetryPauseMilliseconds(failedAttemptCount: failedAttemptCount)
        if needsLongPause { extendToLongRetryPause(&pauseMilliseconds) }
        backOff(change, for: pauseMilliseconds, now: now)
    }

    /// Makes a joiner wait before it requests the newest states again. Ends the membership change instead if the core
    /// must give up the push.
    private mutating func backOff(_ change: MembershipChangeIndex, for milliseconds: Int64, now: Moment) {
        releaseState(of: change)
        membershipChanges[change].enter(.backingOff)
        membershipChanges[change].nextCheckAtMilliseconds = now.monotonicMilliseconds + milliseconds
        guard !mustGiveUp(change, now: now) else { return endMembershipChange(change) }
        startMembershipChangeTimer(change)
    }

    /// Makes a joiner wait because there is too little room for its state. If APNs delays its push, the pause is long,
    /// so that the joiners of a long outage do not request their states again and again.
    mutating func backOffForLackOfBytes(_ change: MembershipChangeIndex, now: Moment) {
        var pauseMilliseconds = chooseRetryPauseMilliseconds(failedAttemptCount: 1)
        if isPushDelayedByAPNs(change) { extendToLongRetryPause(&pauseMilliseconds) }
        backOff(change, for: pauseMilliseconds, now: now)
    }

    /// Whether the core gives up the push to this joiner, because at least one of these is true:
    /// - A later change of the same member has come.
    /// - The partition of its registration has moved, and the push may wait no longer
    ///   (`partitionMoveWaitEndMilliseconds`).
    /// - APNs delays the push, and slots are scarce.
    private func mustGiveUp(_ change: MembershipChangeIndex, now: Moment) -> Bool {
        let slot = membershipChanges[change]
        return slot.isOverriddenByLaterChange || slot.partitionMoveWaitEndMilliseconds < now.monotonicMilliseconds
            || areChangeSlotsScarce(forApp: Int(slot.member.appIndex)) && isPushDelayedByAPNs(change)
    }

    /// Whether more than half of the slots for changes are in use, and the app uses more than its equal part of a half.
    /// So an outage of one app does not end the waits of other apps' joiners. (R22)
    private func areChangeSlotsScarce(forApp appIndex: Int) -> Bool {
        let scarceAboveCount = membershipChanges.limit / 2
        return membershipChanges.count > scarceAboveCount
            && apps[appIndex].membershipChangeSlotCount > scarceAboveCount / apps.count
    }

    /// Whether the joiner's push has failed before, or the joiner's pool is unavailable. If slots are scarce, the core
    /// gives up only such a push. Any other must be sent: a round may have passed the joiner's position, and then only
    /// this push brings the newest state.
    private func isPushDelayedByAPNs(_ change: MembershipChangeIndex) -> Bool {
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        return membershipChanges[change].failedAttemptCount > 0
            || isPoolUnavailable(environment, appIndex: appIndex)
    }

    // MARK: - Timers of joiners

    private mutating func startMembershipChangeTimer(_ change: MembershipChangeIndex) {
        let dueMilliseconds = membershipChanges[change].nextCheckAtMilliseconds
        guard dueMilliseconds < membershipChanges[change].timerDueMilliseconds else { return }
        membershipChanges[change].timerDueMilliseconds = dueMilliseconds
        startTimer(.membershipChange(change), dueMilliseconds: dueMilliseconds)
    }

    /// Called when the timer of a membership change fires. Lets the registration settle after
    /// `settlementDelayMillisecondsMax`, requests the states again after a pause, and ends the change if its push must
    /// be given up or its state has expired.
    mutating func handleMembershipChangeTimer(_ change: MembershipChangeIndex, now: Moment) {
        membershipChanges[change].timerDueMilliseconds = .max
        if now.monotonicMilliseconds >= membershipChanges[change].allAudiencesNotifiedAtMilliseconds
            + Self.settlementDelayMillisecondsMax
        {
            queueMemberToSettle(of: change)
        }
        let routineCheckAtMilliseconds = now.monotonicMilliseconds + Self.joinerCheckIntervalMilliseconds
        switch membershipChanges[change].phase {
        case .backingOff where membershipChanges[change].nextCheckAtMilliseconds <= now.monotonicMilliseconds:
            requestNewestStates(change)
            membershipChanges[change].nextCheckAtMilliseconds = routineCheckAtMilliseconds
        case .awaitingPush:
            let stateExpirationSeconds = membershipChanges[change].stateExpirationSeconds
            guard !mustGiveUp(change, now: now),
                !AgeRules.isExpired(stateExpirationSeconds, nowSeconds: now.wallSeconds)
            else {
                removeFromJoinerQueue(change)
                return endMembershipChange(change)
            }
            // The pool may accept nothing for hours, so keep no bytes for the state. Before the push, the states are
            // requested again.
            releaseState(of: change)
            membershipChanges[change].lastStateReplyAtMilliseconds = .min
            membershipChanges[change].nextCheckAtMilliseconds = routineCheckAtMilliseconds
        case .requestingStates, .underWay:
            // The store or APNs makes the joiner continue, without a timer.
            membershipChanges[change].nextCheckAtMilliseconds = routineCheckAtMilliseconds
        case .queued, .notifying, .backingOff: break
        }
        if membershipChanges[change].nextCheckAtMilliseconds > now.monotonicMilliseconds {
            startMembershipChangeTimer(change)
        }
    }

    private mutating func removeFromJoinerQueue(_ change: MembershipChangeIndex) {
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        apps[appIndex].queuedJoiners[environment].remove(change, in: &membershipChanges)
    }
}
