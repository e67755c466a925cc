import Delivery
import LiveActivity
import Numbers

/// Members that join an audience and are shown its newest state at once, because the audience's rounds may
/// have passed their position.
///
/// The push has no alert, and priority 5 (10 for an end). The core asks the store for the state only after
/// the store has acknowledged the member's entry. So a command that is admitted later finds the entry. The
/// store does not keep this work. So the registration stays unsettled until the push has its first answer, at
/// most a second; after a crash the registration is read again.
extension Audiences {
    /// How long a registration stays unsettled at most while its member waits for the push.
    private static var settlementDelayMilliseconds: Int64 { 1_000 }
    /// How long the core tries to send the push. Afterwards the member gets no state before the audience's next command
    /// or its own next registration.
    private static var joinerPushMillisecondsMax: Int64 { 60_000 }
    /// A state that is older than this is requested again before it is sent.
    private static var stateMaxAgeMilliseconds: Int64 { 1_000 }

    /// Begins to show an activity the newest of the states of the audiences that it has joined. Ends the change at once
    /// if the member has joined no audience, is a device, has no token, or belongs to an environment without a pool.
    mutating func showNewestStates(_ membership: UInt32, now: Moment) {
        let slot = memberships[membership]
        guard slot.member.kind == .activity, slot.joinsCount > 0, slot.token.count > 0,
            hasPool(slot.environment, appIndex: slot.member.appIndex)
        else { return endMembership(membership) }
        memberships[membership].dueMilliseconds = slot.notifiedMilliseconds + Self.settlementDelayMilliseconds
        scheduleMembership(membership)
        askForNewestStates(membership)
    }

    /// Ends the work for an earlier change of the member, because a later change has come. The member may
    /// have left. If it has not, the later change shows it the newest state.
    mutating func overrideByLaterChange(_ membership: UInt32) {
        memberships[membership].isOverridden = true
        switch memberships[membership].stage {
        case .ready:
            removeFromJoinerQueue(membership)
            endMembership(membership)
        case .backingOff: endMembership(membership)
        case .queued, .notifying, .asking, .underWay: break
        }
    }

    // MARK: - Requests for states

    private mutating func askForNewestStates(_ membership: UInt32) {
        releaseState(of: membership)
        memberships[membership].stage = .asking
        memberships[membership].askedCount = 0
        askNextAudience(membership)
    }

    private mutating func askNextAudience(_ membership: UInt32) {
        let slot = memberships[membership]
        let key = AudienceKey(appIndex: slot.member.appIndex, digest: slot.joinedAudience(slot.askedCount))
        memberships[membership].next = .max
        guard let request = newestStateIndex[key] else {
            let request = newestStateRequests.allocate(NewestStateRequest(key, for: membership))
            newestStateIndex[key] = request
            return storeQueue.append(AudienceTicket(.newestState, index: request))
        }
        memberships[membership].next = newestStateRequests[request].firstLaterMembership
        newestStateRequests[request].firstLaterMembership = membership
    }

    /// - Parameter reply: nil if the store refused the request.
    mutating func newestStateReceived(_ request: UInt32, _ reply: Reply?, now: Moment) {
        let slot = newestStateRequests[request]
        let state = addState(slot.key.digest, reply)
        // The members of this request may ask for this audience again below, so the request is freed or repeated
        // first.
        newestStateRequests[request].firstMembership = slot.firstLaterMembership
        newestStateRequests[request].firstLaterMembership = .max
        if slot.firstLaterMembership == .max {
            newestStateIndex[slot.key] = nil
            newestStateRequests.free(request)
        } else {
            storeQueue.append(AudienceTicket(.newestState, index: request))
        }
        if let state { states[state].holderCount += 1 }
        var membership = slot.firstMembership
        while membership != .max {
            let next = memberships[membership].next
            memberships[membership].next = .max
            memberships[membership].askedCount += 1
            if let state, let version = reply?.newest { offer(state, version, to: membership, now: now) }
            if memberships[membership].askedCount < memberships[membership].joinsCount {
                askNextAudience(membership)
            } else {
                queueJoiner(membership, now: now)
            }
            membership = next
        }
        if let state { releaseHolder(of: state) }
    }

    private mutating func addState(_ audience: AudienceDigest, _ reply: Reply?) -> UInt32? {
        guard let reply, reply.verdict == .send, let stored = reply.bytes,
            let body = JoinerBody.body(of: stored, timestamp: reply.timestamp)
        else { return nil }
        return states.allocate(
            StateSlot(
                audience: audience,
                timestamp: reply.timestamp,
                expiration: reply.expiration,
                isEnd: reply.isEnd,
                body: body
            )
        )
    }

    /// Chooses this state for the member, unless the activity already shows this version or a newer one, or another
    /// audience that the member has joined has a state that is at least as new.
    private mutating func offer(_ state: UInt32, _ version: Version, to membership: UInt32, now: Moment) {
        let slot = memberships[membership]
        if let shownVersion = slot.shownVersion, version <= shownVersion { return }
        memberships[membership].stateMilliseconds = now.monotonicMilliseconds
        if slot.state != .max, states[slot.state].timestamp >= states[state].timestamp { return }
        releaseState(of: membership)
        memberships[membership].state = state
        states[state].holderCount += 1
    }

    mutating func releaseState(of membership: UInt32) {
        let state = memberships[membership].state
        guard state != .max else { return }
        memberships[membership].state = .max
        releaseHolder(of: state)
    }

    private mutating func releaseHolder(of state: UInt32) {
        states[state].holderCount -= 1
        guard states[state].holderCount == 0 else { return }
        states[state].body.free()
        states.free(state)
    }

    // MARK: - Pushes

    private mutating func queueJoiner(_ membership: UInt32, now: Moment) {
        guard memberships[membership].state != .max, !mustGiveUp(membership, at: now.monotonicMilliseconds) else {
            return endMembership(membership)
        }
        memberships[membership].stage = .ready
        let (appIndex, environment) = queueIndices(of: membership)
        let last = queues[appIndex].lastJoiner[environment]
        if last == .max {
            queues[appIndex].firstJoiner[environment] = membership
        } else {
            memberships[last].next = membership
        }
        queues[appIndex].lastJoiner[environment] = membership
    }

    private func queueIndices(of membership: UInt32) -> (appIndex: Int, environment: Int) {
        let slot = memberships[membership]
        return (Int(slot.member.appIndex), Int(slot.environment.rawValue))
    }

    /// Returns the push to the next member in a pool's queue; nil if none can be sent.
    mutating func nextJoinerPush(_ pool: PoolIdentifier, permitsRetry: Bool, now: Moment) -> AudiencePush? {
        let (appIndex, environment) = (Int(pool.appIndex), Int(pool.environment.rawValue))
        while case let membership = queues[appIndex].firstJoiner[environment], membership != .max {
            let slot = memberships[membership]
            queues[appIndex].firstJoiner[environment] = slot.next
            if slot.next == .max { queues[appIndex].lastJoiner[environment] = .max }
            memberships[membership].next = .max
            if slot.stateMilliseconds < now.monotonicMilliseconds - Self.stateMaxAgeMilliseconds {
                askForNewestStates(membership)
            } else if AgeRules.isExpired(states[slot.state].expiration, now: now.wallSeconds) {
                endMembership(membership)
            } else if slot.attempts > 0, !permitsRetry {
                backOff(membership, for: randomness.jittered(configuration.retryBudgetPauseMilliseconds), now: now)
            } else {
                return joinerPush(membership)
            }
        }
        return nil
    }

    private mutating func joinerPush(_ membership: UInt32) -> AudiencePush {
        memberships[membership].stage = .underWay
        let slot = memberships[membership]
        let state = states[slot.state]
        offeredPush = OfferedPush(tag: PushTag(joiner: membership).value, sendPosition: 0)
        return AudiencePush(
            tag: PushTag(joiner: membership).value,
            token: slot.token,
            body: state.body.bytes,
            priority: state.isEnd ? 10 : 5,
            expiration: state.expiration,
            apnsIdentifier: randomness.nextUUID(),
            isRetry: slot.attempts > 0
        )
    }

    /// Makes the member the first of its queue again, because its push found no stream.
    mutating func joinerReturned(_ membership: UInt32) {
        let (appIndex, environment) = queueIndices(of: membership)
        memberships[membership].stage = .ready
        memberships[membership].next = queues[appIndex].firstJoiner[environment]
        queues[appIndex].firstJoiner[environment] = membership
        if queues[appIndex].lastJoiner[environment] == .max {
            queues[appIndex].lastJoiner[environment] = membership
        }
        queues[appIndex].pushesInFlight[environment] -= 1
    }

    mutating func joinerAnswered(_ membership: UInt32, _ result: PushResult, now: Moment) {
        let (appIndex, environment) = queueIndices(of: membership)
        queues[appIndex].pushesInFlight[environment] -= 1
        switch result.disposition {
        case .accepted, .rejected, .channelGone: endMembership(membership)
        case .topicSuspect where result.acceptsOtherTokens: endMembership(membership)
        case .tokenDead: joinerTokenRefused(membership, result, now: now)
        case .tokenSuspect where result.acceptsOtherTokens: joinerTokenRefused(membership, result, now: now)
        case .retryNow, .retryLater, .limited, .ambiguous, .tokenSuspect, .topicSuspect:
            retryJoinerPush(membership, isPermitted: result.isRetryPermitted, now: now)
        }
    }

    private mutating func retryJoinerPush(_ membership: UInt32, isPermitted: Bool, now: Moment) {
        returnMembership(membership)
        let attempts = memberships[membership].attempts < .max ? memberships[membership].attempts + 1 : .max
        memberships[membership].attempts = attempts
        var pause = retryPauseMilliseconds(attempts: attempts)
        if !isPermitted { pause = max(pause, randomness.jittered(configuration.retryBudgetPauseMilliseconds)) }
        backOff(membership, for: pause, now: now)
    }

    private mutating func backOff(_ membership: UInt32, for milliseconds: Int64, now: Moment) {
        releaseState(of: membership)
        memberships[membership].stage = .backingOff
        memberships[membership].dueMilliseconds = now.monotonicMilliseconds + milliseconds
        guard !mustGiveUp(membership, at: memberships[membership].dueMilliseconds) else {
            return endMembership(membership)
        }
        scheduleMembership(membership)
    }

    /// Whether the core gives up the push to this member, for one of three reasons: a later change of the
    /// member has come, the time for the push is over, or APNs delays the push while other members need slots.
    private func mustGiveUp(_ membership: UInt32, at milliseconds: Int64) -> Bool {
        memberships[membership].isOverridden
            || milliseconds > memberships[membership].notifiedMilliseconds + Self.joinerPushMillisecondsMax
            || memberships.count > memberships.limit / 2 && isBlockedByAPNs(membership, at: milliseconds)
    }

    /// Whether the member's push has failed before, or the member's host is unavailable. If more than half of
    /// the slots are in use, the core gives up such a member, so that others can join.
    ///
    /// A member keeps its slot if its push has not failed and its host takes pushes. The round may have passed
    /// its position, so only this push brings it the newest state.
    private func isBlockedByAPNs(_ membership: UInt32, at milliseconds: Int64) -> Bool {
        let (appIndex, environment) = queueIndices(of: membership)
        return memberships[membership].attempts > 0
            || isUnavailable(APNsEnvironment.allCases[environment], appIndex: appIndex, at: milliseconds)
    }

    private mutating func joinerTokenRefused(_ membership: UInt32, _ result: PushResult, now: Moment) {
        let slot = memberships[membership]
        let isRegisteredLater =
            result.invalidAtMilliseconds >= 0 && slot.registeredAtMilliseconds >= result.invalidAtMilliseconds
        // APNs names the time since when a token is dead. A token that was registered later may be valid, so
        // the core tries it again. If the table of refused members is full, the core tries a dead token again
        // too, and APNs refuses it again.
        guard !isRegisteredLater, !refusedMembers.isFull else {
            return retryJoinerPush(membership, isPermitted: result.isRetryPermitted, now: now)
        }
        addRefusedJoiner(slot, of: states[slot.state].audience, result, now: now)
        endMembership(membership)
    }

    // MARK: - Time

    private mutating func scheduleMembership(_ membership: UInt32) {
        let due = memberships[membership].dueMilliseconds
        guard due < memberships[membership].timerMilliseconds else { return }
        memberships[membership].timerMilliseconds = due
        startTimer(.membership, membership, dueMilliseconds: due)
    }

    mutating func membershipTimerFired(_ membership: UInt32, now: Moment) {
        memberships[membership].timerMilliseconds = .max
        if now.monotonicMilliseconds >= memberships[membership].notifiedMilliseconds + Self.settlementDelayMilliseconds
        {
            returnMembership(membership)
        }
        switch memberships[membership].stage {
        case .backingOff where memberships[membership].dueMilliseconds <= now.monotonicMilliseconds:
            askForNewestStates(membership)
        case .ready where mustGiveUp(membership, at: now.monotonicMilliseconds):
            removeFromJoinerQueue(membership)
            return endMembership(membership)
        case .ready, .asking, .underWay:
            // The member waits for its pool, the store or APNs. The core checks the member again when the time
            // for its push has passed.
            memberships[membership].dueMilliseconds =
                memberships[membership].notifiedMilliseconds + Self.joinerPushMillisecondsMax + 1
        case .queued, .notifying, .backingOff: break
        }
        if memberships[membership].dueMilliseconds > now.monotonicMilliseconds { scheduleMembership(membership) }
    }

    private mutating func removeFromJoinerQueue(_ membership: UInt32) {
        let (appIndex, environment) = queueIndices(of: membership)
        var predecessor = UInt32.max
        var current = queues[appIndex].firstJoiner[environment]
        while current != membership, current != .max { (predecessor, current) = (current, memberships[current].next) }
        precondition(current == membership, "a member that is ready is in its pool's queue")
        let next = memberships[membership].next
        if predecessor == .max {
            queues[appIndex].firstJoiner[environment] = next
        } else {
            memberships[predecessor].next = next
        }
        if next == .max { queues[appIndex].lastJoiner[environment] = predecessor }
    }
}
