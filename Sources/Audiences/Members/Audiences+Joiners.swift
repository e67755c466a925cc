import Delivery
import LiveActivity
import Numbers

/// Members that join an audience and are shown its newest state at once, because the audience's rounds (``RoundSlot``)
/// may have passed their position.
///
/// The push has no alert, and priority 5 (10 for an end). The core asks the store for the state only after the store
/// has acknowledged the member's entry. So the member misses no state: the rounds of all later commands find the entry.
///
/// The store does not know that the push must still be sent. So the registration stays unsettled until APNs first
/// responds to the push, but at most for `settlementDelayMillisecondsMax`. After a crash in this time, the registration
/// is read again, and the push is sent. While APNs accepts no push, the core tries again until the state expires. (R18)
///
/// Known issue (K24): after the registration has settled, the push is lost if the process ends, if the registration's
/// partition moves (`Audiences+MovedJoiners`), if too many members wait, or if APNs calls the token dead too often
/// (``handleRefusedJoinerToken(_:_:now:)``).
extension Audiences {
    /// The longest time that a registration stays unsettled while its member waits for the push. It is short, so that
    /// the partition's committed offset does not wait for APNs while APNs is unavailable. (R10)
    private static var settlementDelayMillisecondsMax: Int64 { 1_000 }
    /// How often the core checks whether it must give up a push that waits.
    private static var joinerCheckIntervalMilliseconds: Int64 { 10_000 }
    /// If the store last replied longer ago than this, the states are requested again before one of them is sent.
    /// Otherwise a member that has waited long for its pool could get an old state (R20).
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
            slot.allNotifiedAtMilliseconds + Self.settlementDelayMillisecondsMax
        startMembershipChangeTimer(change)
        requestNewestStates(change)
    }

    /// Marks the change as overridden, because a later change of the same member has come. The later change shows the
    /// member the newest state, if this is necessary. If this change only waits, for a push or for the end of a pause,
    /// it ends at once. Otherwise it ends later: after its audiences are notified, its states are requested, or APNs
    /// has responded to its push.
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

    // MARK: - Requests for states

    private mutating func requestNewestStates(_ change: MembershipChangeIndex) {
        releaseState(of: change)
        membershipChanges[change].enter(.requestingStates)
        membershipChanges[change].answeredStateRequestCount = 0
        requestStateOfNextAudience(change)
    }

    /// Makes the member wait for the newest state of its next joined audience. If a call for this state is already
    /// under way, another call follows its reply, because the first call may have read the state before the member
    /// joined.
    private mutating func requestStateOfNextAudience(_ change: MembershipChangeIndex) {
        let slot = membershipChanges[change]
        let key = AudienceKey(
            appIndex: slot.member.appIndex,
            digest: slot.joinedAudience(slot.answeredStateRequestCount)
        )
        guard let request = newestStateRequestsByKey[key] else {
            let request = newestStateRequests.allocate(NewestStateRequest(key))
            newestStateRequestsByKey[key] = request
            newestStateRequests[request].changes.prepend(change, in: &membershipChanges)
            return storeQueue.append(.readNewestState(request))
        }
        newestStateRequests[request].changesForNextRequest.prepend(change, in: &membershipChanges)
    }

    /// Gives an audience's newest state to the members that wait for it. Each member then requests the state of the
    /// next audience that it has joined. After the last audience, the member joins its pool's queue. If there is no
    /// room for the state, the members request their states again after a pause.
    ///
    /// - Parameter reply: nil if the store refused the request.
    mutating func handleNewestStateReply(_ request: NewestStateRequestIndex, _ reply: Reply?, now: Moment) {
        let slot = newestStateRequests[request]
        let hasRoom = newestStateBytes < configuration.newestStateBytesMax
        let state = hasRoom ? addNewestState(slot.key.digest, reply) : nil
        // Queue another call for the changes that came after this one was queued: for them, the reply may be too old.
        // If there are no such changes, free the request's slot. Do this before the loop below, because the loop may
        // request the state of the same audience again.
        newestStateRequests[request].changes = slot.changesForNextRequest
        newestStateRequests[request].changesForNextRequest = LinkedList()
        if slot.changesForNextRequest.isEmpty {
            newestStateRequestsByKey[slot.key] = nil
            newestStateRequests.free(request)
        } else {
            storeQueue.append(.readNewestState(request))
        }
        if let state { newestStates[state].referenceCount += 1 }
        var changes = slot.changes
        while let change = changes.popFirst(in: &membershipChanges) {
            guard hasRoom || reply?.verdict != .send else {
                backOffForLackOfBytes(change, now: now)
                continue
            }
            membershipChanges[change].answeredStateRequestCount += 1
            if let state, let version = reply?.newestVersion {
                chooseStateIfNewer(state, version, to: change)
            }
            if membershipChanges[change].answeredStateRequestCount < membershipChanges[change].joinedAudienceCount {
                requestStateOfNextAudience(change)
            } else {
                queueJoiner(change, now: now)
            }
        }
        if let state { releaseReference(of: state) }
    }

    /// Keeps the state that a reply has brought, for all members that wait for it; nil if the reply has no usable
    /// state.
    private mutating func addNewestState(_ audience: AudienceDigest, _ reply: Reply?) -> NewestStateIndex? {
        guard let reply, reply.verdict == .send, let version = reply.newestVersion, let stored = reply.bytes,
            let body = JoinerBody.body(of: stored, timestamp: reply.timestamp)
        else { return nil }
        newestStateBytes += body.count
        return newestStates.allocate(NewestStateSlot(audience, reply, version, body))
    }

    /// Chooses this state for the member, except in two cases:
    /// - The activity already shows this version or a newer one.
    /// - Another state, of another joined audience, was chosen before and is at least as new.
    private mutating func chooseStateIfNewer(
        _ state: NewestStateIndex,
        _ version: Version,
        to change: MembershipChangeIndex
    ) {
        let slot = membershipChanges[change]
        // The registration says which version the activity shows, with its sequence. So compare whole versions.
        if let shownVersion = slot.shownVersion, version <= shownVersion { return }
        // The two states belong to different audiences, and a sequence only orders the states of one. So compare
        // `aps.timestamp`. If the two are equal, the state that was chosen first stays.
        if slot.newestState != .null, newestStates[slot.newestState].timestamp >= newestStates[state].timestamp {
            return
        }
        releaseState(of: change)
        membershipChanges[change].newestState = state
        membershipChanges[change].stateExpirationSeconds = newestStates[state].expirationSeconds
        newestStates[state].referenceCount += 1
    }

    /// Notes that the member no longer uses its chosen state. Frees the state if no other member uses it.
    mutating func releaseState(of change: MembershipChangeIndex) {
        let state = membershipChanges[change].newestState
        guard state != .null else { return }
        membershipChanges[change].newestState = .null
        releaseReference(of: state)
    }

    private mutating func releaseReference(of state: NewestStateIndex) {
        newestStates[state].referenceCount -= 1
        guard newestStates[state].referenceCount == 0 else { return }
        newestStateBytes -= newestStates[state].body.count
        newestStates[state].body.free()
        newestStates.free(state)
    }

    // MARK: - Pushes to joiners

    /// Puts a member into its pool's queue of joiners, when all its requests for states are answered. Exceptions:
    /// - If no state was chosen, if the state is too old, or if the core must give up the push, ends the membership
    ///   change.
    /// - If APNs delays the push, and the states of all members use more than half of their bytes, the member backs off
    ///   for lack of bytes.
    private mutating func queueJoiner(_ change: MembershipChangeIndex, now: Moment) {
        let stateExpirationSeconds = membershipChanges[change].stateExpirationSeconds
        guard membershipChanges[change].newestState != .null, !mustGiveUp(change, now: now),
            !AgeRules.isExpired(stateExpirationSeconds, nowSeconds: now.wallSeconds)
        else { return endMembershipChange(change) }
        guard newestStateBytes <= configuration.newestStateBytesMax / 2 || !isPushDelayedByAPNs(change) else {
            return backOffForLackOfBytes(change, now: now)
        }
        membershipChanges[change].enter(.awaitingPush)
        // Count the age of the states from the last reply, even if an earlier reply brought the chosen state. Otherwise
        // a member of many audiences could find this state too old at once (`stateAgeMillisecondsMax`), and would
        // request all states again and again.
        membershipChanges[change].lastStateReplyAtMilliseconds = now.monotonicMilliseconds
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        guard isPoolUnavailable(environment, appIndex: appIndex) else {
            return apps[appIndex].queuedJoiners[environment].append(change, in: &membershipChanges)
        }
        // An unavailable pool probes with its first member. A probe may have made this member request its states, so
        // this member goes first.
        apps[appIndex].queuedJoiners[environment].prepend(change, in: &membershipChanges)
    }

    private func appAndEnvironment(
        ofJoiner change: MembershipChangeIndex
    ) -> (appIndex: Int, environment: APNsEnvironment) {
        let slot = membershipChanges[change]
        return (Int(slot.member.appIndex), slot.environment)
    }

    /// Returns the push to the next member in a pool's queue of joiners; nil if none can be sent. After an outage, all
    /// states are too old, but a probe needs only one. So for a probe, requests the states of at most one member. (R4)
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
            apnsIdentifier: random.nextUUID(),
            isRetry: slot.failedAttemptCount > 0
        )
    }

    /// Makes the member the first of its pool's queue again, because no stream was free for its push. The push was
    /// counted as in flight when it was taken (`Audiences+Pushes`), and is counted no longer.
    mutating func joinerPushNotSent(_ change: MembershipChangeIndex) {
        let (appIndex, environment) = appAndEnvironment(ofJoiner: change)
        membershipChanges[change].enter(.awaitingPush)
        apps[appIndex].queuedJoiners[environment].prepend(change, in: &membershipChanges)
        apps[appIndex].inFlightPushCounts[environment] -= 1
    }

    /// Ends the membership change if APNs has accepted the push or refused it for good. Otherwise tries the push again
    /// after a pause; a refusal of the token may end the change too (``handleRefusedJoinerToken(_:_:now:)``).
    mutating func joinerResponseReceived(_ change: MembershipChangeIndex, _ result: PushResult, now: Moment) {
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

    /// Makes a member back off after a failed attempt, to try its push again. Its registration may now settle, although
    /// the push is not sent yet (K24). Ends the membership change instead if the core must give up the push.
    mutating func retryJoinerPush(_ change: MembershipChangeIndex, needsLongPause: Bool, now: Moment) {
        queueMemberToSettle(of: change)
        let failedAttemptCount =
            membershipChanges[change].failedAttemptCount < .max
            ? membershipChanges[change].failedAttemptCount + 1 : .max
        membershipChanges[change].failedAttemptCount = failedAttemptCount
        var pauseMilliseconds = randomRetryPauseMilliseconds(failedAttemptCount: failedAttemptCount)
        if needsLongPause { extendToLongRetryPause(&pauseMilliseconds) }
        backOff(change, for: pauseMilliseconds, now: now)
    }

    /// Makes a member wait before it requests the newest states again. Ends the membership change instead if the core
    /// must give up the push.
    private mutating func backOff(_ change: MembershipChangeIndex, for milliseconds: Int64, now: Moment) {
        releaseState(of: change)
        membershipChanges[change].enter(.backingOff)
        membershipChanges[change].nextCheckAtMilliseconds = now.monotonicMilliseconds + milliseconds
        guard !mustGiveUp(change, now: now) else { return endMembershipChange(change) }
        startMembershipChangeTimer(change)
    }

    /// Makes a member wait because there are too few bytes for its state. If APNs delays its push, the pause is long,
    /// so that the members of a long outage do not request their states again and again.
    private mutating func backOffForLackOfBytes(_ change: MembershipChangeIndex, now: Moment) {
        var pauseMilliseconds = randomRetryPauseMilliseconds(failedAttemptCount: 1)
        if isPushDelayedByAPNs(change) { extendToLongRetryPause(&pauseMilliseconds) }
        backOff(change, for: pauseMilliseconds, now: now)
    }

    /// Whether the core gives up the push to this member, because at least one of these is true:
    /// - A later change of the member has come.
    /// - The partition of its registration has moved, and the push may wait no longer (`waitEndMilliseconds`).
    /// - APNs delays the push, and slots are scarce.
    private func mustGiveUp(_ change: MembershipChangeIndex, now: Moment) -> Bool {
        let slot = membershipChanges[change]
        return slot.isOverriddenByLaterChange || slot.waitEndMilliseconds < now.monotonicMilliseconds
            || areChangeSlotsScarce(forApp: Int(slot.member.appIndex)) && isPushDelayedByAPNs(change)
    }

    /// Whether more than half of the slots for changes are in use, and the app uses more than its equal part of this
    /// half. So during an outage of this app, the members of other apps wait on. (R22)
    private func areChangeSlotsScarce(forApp appIndex: Int) -> Bool {
        let slotsMax = membershipChanges.limit / 2
        return membershipChanges.count > slotsMax
            && apps[appIndex].membershipChangeSlotCount > slotsMax / apps.count
    }

    /// Whether the member's push has failed before, or the member's pool is unavailable. If slots are scarce, the core
    /// gives up such a push, so that other members can join. A push that is not delayed is never given up for lack of
    /// slots: a round may have passed the member's position, and then only this push brings the newest state.
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
    mutating func membershipChangeTimerFired(_ change: MembershipChangeIndex, now: Moment) {
        membershipChanges[change].timerDueMilliseconds = .max
        if now.monotonicMilliseconds >= membershipChanges[change].allNotifiedAtMilliseconds
            + Self.settlementDelayMillisecondsMax
        {
            queueMemberToSettle(of: change)
        }
        let nextCheckAtMilliseconds = now.monotonicMilliseconds + Self.joinerCheckIntervalMilliseconds
        switch membershipChanges[change].phase {
        case .backingOff where membershipChanges[change].nextCheckAtMilliseconds <= now.monotonicMilliseconds:
            requestNewestStates(change)
            membershipChanges[change].nextCheckAtMilliseconds = nextCheckAtMilliseconds
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
            membershipChanges[change].nextCheckAtMilliseconds = nextCheckAtMilliseconds
        case .requestingStates, .underWay:
            // The store or APNs makes the member continue, without a timer.
            membershipChanges[change].nextCheckAtMilliseconds = nextCheckAtMilliseconds
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
