public import Delivery
import LiveActivity
import Numbers

/// The push that the shell got last. The shell gives it back if no stream is free for it.
struct OfferedPush: BitwiseCopyable {
    /// The tag of the push. 0: the core has offered no push yet, or the shell has given back the last one.
    var tag: UInt64 = 0
    /// The round's ``RoundProgress/sendPosition`` before this push. It is restored if the shell gives the push back.
    var previousSendPosition: UInt64 = 0
}

/// Chooses the next push of a pool: a broadcast, or a push to a member. A round pushes to a member only when its push
/// of the previous lap to this member is over. So a member's pushes leave in the order of their versions. (R28)
extension Audiences {
    /// A pool that has had no room for a push for this long counts as unavailable: it has as many pushes in flight as
    /// it may have, for example 0 of 0 without a connection. The members of an unavailable pool are parked, so that a
    /// round can reach the members of the app's other pool.
    private static var poolUnavailableAfterMilliseconds: Int64 { 1_000 }

    /// A member that was read longer ago than this is read again before its push, because by now the member may have
    /// left the audience, or have another token.
    static var memberReadAgeMillisecondsMax: Int64 { 1_000 }

    /// Returns how many of a pool's streams audiences may use: nine tenths, but at least one, while single commands
    /// wait for a stream; otherwise all. (R22)
    public static func pushesInFlightMax(streamCount: Int, areSingleCommandsWaiting: Bool) -> Int {
        areSingleCommandsWaiting ? max(1, streamCount * 9 / 10) : streamCount
    }

    /// Returns how many pushes to members and channels a pool with this traffic has in flight. Pushes of single
    /// commands are not counted.
    public func inFlightPushCount(of pool: PoolTarget, traffic: PoolTraffic = .everything) -> Int {
        let appIndex = Int(pool.appIndex)
        let memberPushCount = traffic.hasDevicePushes ? apps[appIndex].inFlightPushCounts[pool.environment] : 0
        let broadcastCount = traffic.hasBroadcasts ? apps[appIndex].inFlightBroadcastCounts[pool.environment] : 0
        return memberPushCount + broadcastCount
    }

    /// Returns the next push of a pool, which the caller must send now or give back with ``putBackPush(_:)``. Nil if
    /// there is none now, for example because `pushesInFlightMax` is reached, or because each round's next member needs
    /// the app's other pool.
    ///
    /// - Parameters:
    ///   - traffic: what the pool sends, or the part of it that may be its next probe (``ProbeOrder``).
    ///   - permitsRetry: whether the pool may retry pushes now. First attempts are always permitted.
    ///   - pushesInFlightMax: the value of ``pushesInFlightMax(streamCount:areSingleCommandsWaiting:)``.
    ///   - isProbing: whether the pool's breaker is open, so that the push is a probe. A probe does not make the pool
    ///     available: a probing pool takes about one push a second, and would hold up a round at each member.
    public mutating func takeNextPush(
        _ pool: PoolTarget,
        traffic: PoolTraffic = .everything,
        permitsRetry: Bool = true,
        pushesInFlightMax: Int,
        isProbing: Bool = false,
        now: Moment
    ) -> AudiencePush? {
        let appIndex = Int(pool.appIndex)
        let environment = pool.environment
        guard inFlightPushCount(of: pool, traffic: traffic) < pushesInFlightMax else { return nil }
        if traffic.hasDevicePushes, !isProbing {
            apps[appIndex].lastHadRoomForPushAtMilliseconds[environment] = now.monotonicMilliseconds
        }
        if traffic.hasBroadcasts, !apps[appIndex].readyChannels[environment].isEmpty,
            let push = takeNextBroadcast(pool, permitsRetry: permitsRetry, now: now)
        {
            apps[appIndex].inFlightBroadcastCounts[environment] += 1
            return push
        }
        guard traffic.hasDevicePushes else { return nil }
        if let push = takeNextJoinerPush(pool, permitsRetry: permitsRetry, isProbing: isProbing, now: now) {
            apps[appIndex].inFlightPushCounts[environment] += 1
            return push
        }
        var blockedRoundCount = 0
        while blockedRoundCount < apps[appIndex].sendQueueRoundCount {
            let round = apps[appIndex].firstRoundInSendQueue
            switch offerNextPush(of: round, pool.environment, permitsRetry: permitsRetry, now: now) {
            case .push(let push):
                apps[appIndex].inFlightPushCounts[environment] += 1
                rounds[round].members.inFlightCount += 1
                if !PushTag(rawValue: push.tag).isParked { changeParkablePushCount(by: 1, of: round) }
                rounds[round].queuePlaces.mustQueueAtFront = false
                countPushAndEndTurnIfDue(appIndex)
                return push
            case .blocked:
                rounds[round].queuePlaces.mustQueueAtFront = mayAwaitPageOfParkedMember(round)
                moveFirstToEndOfSendQueue(appIndex)
                blockedRoundCount += 1
            case .nothing:
                if mayAwaitPageOfParkedMember(round) { rounds[round].queuePlaces.mustQueueAtFront = true }
                removeFromSendQueue(round)
            }
        }
        return nil
    }

    /// What one round offers to a pool that has room for a push.
    private enum RoundOffer {
        case push(AudiencePush)
        /// The round has no push now, but stays in its queue. It waits for the app's other pool, for the permission to
        /// retry a push, or for room to park a member or to read one again.
        case blocked
        /// The round has no push, and leaves its queue.
        case nothing
    }

    /// Returns the round's next push for a pool: to a parked member if one is due, else to the next member of its
    /// pages.
    private mutating func offerNextPush(
        of round: RoundIndex,
        _ environment: APNsEnvironment,
        permitsRetry: Bool,
        now: Moment
    ) -> RoundOffer {
        guard rounds[round].phase == .running, rounds[round].versions.last != .null, !awaitsNewerVersion(round) else {
            return .nothing
        }
        while rounds[round].members.earliestParkedDueMilliseconds[environment] <= now.monotonicMilliseconds,
            let member = findDueParkedMemberOrNoteDueTime(of: round, environment, permitsRetry: permitsRetry, now: now)
        {
            guard
                parkedMembers[member].readAtMilliseconds < now.monotonicMilliseconds - Self.memberReadAgeMillisecondsMax
            else {
                return .push(offerPushToParkedMember(member, now: now))
            }
            guard requestPageOfParkedMember(member) else { return .blocked }
        }
        // A due parked member may belong to the other pool, or this pool permits no retries now. Because of such a
        // member, the round stays in its queue, even if it has no push for the members of its pages.
        let hasDueParkedMember =
            rounds[round].members.earliestParkedDueMilliseconds.production <= now.monotonicMilliseconds
            || rounds[round].members.earliestParkedDueMilliseconds.sandbox <= now.monotonicMilliseconds
        guard !isHalted(round) else {
            // `findDueParkedMemberOrNoteDueTime` may have noted that the next attempt is due later than the round's
            // timer. So set the timer again.
            queueDueCheckpointAndSetTimer(round, now: now)
            return hasDueParkedMember ? .blocked : .nothing
        }
        let offer = offerNextPushFromPages(of: round, environment, now: now)
        if case .push = offer { return offer }
        freeDonePages(of: round, now: now)
        queueDueCheckpointAndSetTimer(round, now: now)
        if case .nothing = offer, hasDueParkedMember { return .blocked }
        return offer
    }

    /// Returns what the round's pages offer. On the way, moves past members that get no push, for example devices, and
    /// parks members whose pool is unavailable.
    /// - `.push`: to the next member.
    /// - `.blocked`: the next member has the app's other pool, which is available, or no place is free to park it.
    /// - `.nothing`: no member is next in the pages, their page is too old and must be read again, or the round has
    ///   been halted meanwhile.
    private mutating func offerNextPushFromPages(
        of round: RoundIndex,
        _ environment: APNsEnvironment,
        now: Moment
    ) -> RoundOffer {
        let endPosition = readingEndPosition(of: round)
        while let next = moveToNextMember(of: round, endPosition: endPosition) {
            guard isPageFresh(next.page, now: now) else {
                rounds[round].queuePlaces.mustQueueAtFront = true
                discardUnsentMembers(of: round)
                return .nothing
            }
            let rangeVersion = rangeVersion(at: next.position, of: round)
            guard let pageMember = pages[next.page].member(next.memberIndex), pageMember.kind == .activity else {
                advancePast(next, progress: .notAddressed, rangeVersion)
                continue
            }
            if isExpired(rangeVersion, now: now) {
                advancePast(next, progress: .done(.expired), rangeVersion)
                continue
            }
            guard hasPool(pageMember.environment, appIndex: rounds[round].appIndex) else {
                advancePast(next, progress: .done(.failed), rangeVersion)
                continue
            }
            // The code below parks this member, or offers a push that may end with a parked member. So there must be a
            // free place.
            guard mayParkMember(of: round) else { return .blocked }
            guard pageMember.environment == environment else {
                guard isPoolUnavailable(pageMember.environment, of: round) else { return .blocked }
                guard !isHalted(round) else { return .nothing }
                park(
                    pageMember,
                    at: next,
                    of: round,
                    pauseMilliseconds: 0,
                    now: now
                )
                advancePast(next, progress: .parked, rangeVersion)
                continue
            }
            return .push(offerPushToPageMember(pageMember, next, rangeVersion, now: now))
        }
        return .nothing
    }

    func hasPool(_ environment: APNsEnvironment, appIndex: UInt16) -> Bool {
        let app = configuration.apps[Int(appIndex)]
        return environment == .production ? app.hasProductionPool : app.hasSandboxPool
    }

    func isPageFresh(_ page: PageIndex, now: Moment) -> Bool {
        pages[page].readAtMilliseconds >= now.monotonicMilliseconds - Self.memberReadAgeMillisecondsMax
    }

    func isPoolUnavailable(_ environment: APNsEnvironment, of round: RoundIndex) -> Bool {
        isPoolUnavailable(environment, appIndex: Int(rounds[round].appIndex))
    }

    /// Whether an app's pool counts as unavailable: it had no room for a push during the last
    /// `poolUnavailableAfterMilliseconds` before the lane's previous iteration.
    func isPoolUnavailable(_ environment: APNsEnvironment, appIndex: Int) -> Bool {
        apps[appIndex].lastHadRoomForPushAtMilliseconds[environment] < previouslyAdvancedAtMilliseconds
            - Self.poolUnavailableAfterMilliseconds
    }

    /// Returns the push to a member, and moves the round past the member. If the shell cannot send the push,
    /// ``putBackPush(_:)`` moves the round back.
    private mutating func offerPushToPageMember(
        _ pageMember: PageMember,
        _ next: MemberCoordinates,
        _ rangeVersion: RangeVersionIndex,
        now: Moment
    ) -> AudiencePush {
        let round = pages[next.page].round
        let tag = PushTag(page: next.page, memberIndex: next.memberIndex).rawValue
        offeredPush = OfferedPush(tag: tag, previousSendPosition: rounds[round].progress.sendPosition)
        let progress = pageMember.environment == .sandbox ? MemberProgress.inFlightToSandbox : .inFlight
        advancePast(next, progress: progress, rangeVersion)
        pages[next.page].underWayMemberCount += 1
        let digitCount = pageMember.writeToken(to: pushAddressBuffer)
        return makePush(
            tag: tag,
            digitCount: digitCount,
            allowsFrequentUpdates: pageMember.allowsFrequentUpdates,
            rangeVersion: rangeVersion,
            at: next.position,
            isRetry: false,
            now: now
        )
    }

    /// Returns the push to a parked member. The round's position does not change, because the round has passed this
    /// member before.
    private mutating func offerPushToParkedMember(_ member: ParkedMemberIndex, now: Moment) -> AudiencePush {
        let slot = parkedMembers[member]
        let rangeVersion = rounds[slot.round].versions.last
        offeredPush = OfferedPush(
            tag: PushTag(parkedMember: member).rawValue,
            previousSendPosition: rounds[slot.round].progress.sendPosition
        )
        parkedMembers[member].isBeingHandled = true
        parkedMembers[member].rangeVersion = rangeVersion
        let digitCount = slot.writeToken(to: pushAddressBuffer)
        return makePush(
            tag: PushTag(parkedMember: member).rawValue,
            digitCount: digitCount,
            allowsFrequentUpdates: slot.allowsFrequentUpdates,
            rangeVersion: rangeVersion,
            at: slot.position,
            isRetry: slot.failedAttemptCount > 0,
            now: now
        )
    }

    private mutating func makePush(
        tag: UInt64,
        digitCount: Int,
        allowsFrequentUpdates: Bool,
        rangeVersion: RangeVersionIndex,
        at position: UInt64,
        isRetry: Bool,
        now: Moment
    ) -> AudiencePush {
        let body = makeBody(of: rangeVersion, at: position, now: now)
        let slot = rangeVersions.address(of: rangeVersion)
        let grant = slot.pointee.record.instruction.grant
        return AudiencePush(
            tag: tag,
            address: UnsafeRawBufferPointer(rebasing: pushAddressBuffer[..<digitCount]),
            body: body,
            priority: allowsFrequentUpdates ? grant.frequentUpdatesPriority : grant.priority,
            expirationSeconds: sentExpirationSeconds(of: slot.pointee.record, from: now.wallSeconds),
            apnsId: random.nextUUID(),
            isRetry: isRetry
        )
    }

    /// Takes back the push that ``takeNextPush(_:traffic:permitsRetry:pushesInFlightMax:isProbing:now:)`` returned
    /// last, because no stream was free. The core offers it again later.
    public mutating func putBackPush(_ push: AudiencePush) {
        precondition(offeredPush.tag == push.tag, "only the push that was offered last can be returned")
        offeredPush.tag = 0
        let tag = PushTag(rawValue: push.tag)
        guard !tag.isJoiner else { return putBackJoinerPush(tag.joiner) }
        guard !tag.isBroadcast else { return putBackBroadcast(tag.broadcast) }
        let round: RoundIndex
        let environment: APNsEnvironment
        if tag.isParked {
            round = parkedMembers[tag.parkedMember].round
            environment = parkedMembers[tag.parkedMember].environment
            parkedMembers[tag.parkedMember].isBeingHandled = false
            parkedMembers[tag.parkedMember].rangeVersion = .null
            let dueMilliseconds = parkedMembers[tag.parkedMember].dueMilliseconds
            let earliestDueMilliseconds = rounds[round].members.earliestParkedDueMilliseconds[environment]
            rounds[round].members.earliestParkedDueMilliseconds[environment] = min(
                earliestDueMilliseconds,
                dueMilliseconds
            )
        } else {
            round = pages[tag.page].round
            environment = pages[tag.page].member(tag.memberIndex)?.environment ?? .production
            pages[tag.page].nextMemberIndex -= 1
            pages[tag.page].underWayMemberCount -= 1
            pages[tag.page].setProgress(tag.memberIndex, .unsent)
            rounds[round].progress.sendPosition = offeredPush.previousSendPosition
        }
        decrementInFlightPushCounts(tag, of: round, environment)
        addToSendQueue(round)
    }

    mutating func decrementInFlightPushCounts(_ tag: PushTag, of round: RoundIndex, _ environment: APNsEnvironment) {
        apps[Int(rounds[round].appIndex)].inFlightPushCounts[environment] -= 1
        rounds[round].members.inFlightCount -= 1
        if !tag.isParked { changeParkablePushCount(by: -1, of: round) }
    }

    /// Adds `change`, which may be negative, to the numbers of pushes that may end with a parked member.
    private mutating func changeParkablePushCount(by change: Int, of round: RoundIndex) {
        parkablePushCount += change
        apps[Int(rounds[round].appIndex)].parkablePushCount += change
    }
}
