public import Delivery
import LiveActivity
import Numbers

/// The push that the shell got last. If no stream is free for it, the shell gives it back.
struct OfferedPush: BitwiseCopyable {
    var tag: UInt64 = 0
    /// The round's `sendPosition` before this push. It is restored if the shell gives the push back.
    var previousSendPosition: UInt64 = 0
}

/// Chooses the next push of a pool: a broadcast, or a push to a member.
extension Audiences {
    /// A round with this many parked members or more sends pushes only to them, because its checkpoint names each of
    /// them and must not exceed ``AudienceLimits/checkpointBytesMax``. The number may still grow, because a push in
    /// flight may end with a parked member.
    static var parkedMembersPerRoundThreshold: UInt32 { 256 }
    /// A pool for which the lane has requested no push for this long counts as unavailable: the lane requests pushes in
    /// each turn for every pool that is not full. The pool's members are then parked, so that a round can reach the
    /// members of the app's other pool.
    private static var unavailableAfterMilliseconds: Int64 { 1_000 }

    /// If a member was read longer ago than this, it is read again before its push: by now it may have left, or
    /// have another token.
    static var memberReadAgeMillisecondsMax: Int64 { 1_000 }

    /// Returns how many of a pool's streams may be used for audiences: all, or nine tenths while single
    /// commands wait for a stream. (R22)
    public static func pushesInFlightMax(streams: Int, areSingleCommandsWaiting: Bool) -> Int {
        areSingleCommandsWaiting ? max(1, streams * 9 / 10) : streams
    }

    /// Returns how many pushes of audiences (to members and channels) a pool has in flight. Pushes of single commands
    /// are not counted.
    public func pushesInFlight(of pool: PoolIdentifier) -> Int {
        appQueues[Int(pool.appIndex)].pushesInFlight[Int(pool.environment.rawValue)]
    }

    /// Returns the next push of a pool; nil if there is none now. The caller must send it now, or give it back with
    /// ``pushNotSent(_:)``. There is none if `pushesInFlightMax` is reached, or if each round's next member needs the
    /// app's other pool.
    ///
    /// - Parameters:
    ///   - permitsRetry: whether the pool may retry pushes now. First attempts are always permitted.
    ///   - pushesInFlightMax: the value of ``pushesInFlightMax(streams:areSingleCommandsWaiting:)``.
    public mutating func takeNextPush(
        _ pool: PoolIdentifier,
        permitsRetry: Bool = true,
        pushesInFlightMax: Int,
        now: Moment
    ) -> AudiencePush? {
        let appIndex = Int(pool.appIndex)
        let environment = Int(pool.environment.rawValue)
        appQueues[appIndex].lastAskedForPushAtMilliseconds[environment] = now.monotonicMilliseconds
        guard appQueues[appIndex].pushesInFlight[environment] < pushesInFlightMax else { return nil }
        if appQueues[appIndex].firstReadyChannel[environment] != .null,
            let push = nextBroadcast(pool, permitsRetry: permitsRetry, now: now)
        {
            appQueues[appIndex].pushesInFlight[environment] += 1
            return push
        }
        if let push = offerNextJoinerPush(pool, permitsRetry: permitsRetry, now: now) {
            appQueues[appIndex].pushesInFlight[environment] += 1
            return push
        }
        var blockedRoundCount = 0
        while blockedRoundCount < appQueues[appIndex].roundCount {
            let round = appQueues[appIndex].firstRound
            switch offerNextPush(of: round, pool.environment, permitsRetry: permitsRetry, now: now) {
            case .push(let push):
                appQueues[appIndex].pushesInFlight[environment] += 1
                rounds[round].members.inFlightCount += 1
                rounds[round].queuePlaces.mustQueueAtFront = false
                countConsecutivePush(appIndex)
                return push
            case .blocked:
                moveFirstRoundToEnd(appIndex)
                blockedRoundCount += 1
            case .nothing: dequeueFirstRound(appIndex)
            }
        }
        return nil
    }

    private enum Offer {
        case push(AudiencePush)
        /// The round has no push now but may have one later. It needs the other pool, a retry that this pool does not
        /// permit now, or room to park a member or to read one again.
        case blocked
        case nothing
    }

    private mutating func offerNextPush(
        of round: RoundIndex,
        _ environment: APNsEnvironment,
        permitsRetry: Bool,
        now: Moment
    ) -> Offer {
        guard rounds[round].phase == .running, rounds[round].versions.newest != .null, !awaitsNewerVersion(round) else {
            return .nothing
        }
        while rounds[round].members.parkedDueMilliseconds[Int(environment.rawValue)] <= now.monotonicMilliseconds,
            let member = nextDueParkedMember(of: round, environment, permitsRetry: permitsRetry, now: now)
        {
            guard
                parkedMembers[member].readAtMilliseconds < now.monotonicMilliseconds - Self.memberReadAgeMillisecondsMax
            else {
                return .push(offerPushToParkedMember(member, now: now))
            }
            guard requestPageOfParkedMember(member) else { return .blocked }
        }
        // A parked member may be due but get no push now: it needs the other pool, or this pool permits no retries now.
        // The round then stays in its queue, even if its pages offer nothing.
        let hasDueParkedMember =
            rounds[round].members.parkedDueMilliseconds[0] <= now.monotonicMilliseconds
            || rounds[round].members.parkedDueMilliseconds[1] <= now.monotonicMilliseconds
        // Each push in flight may end with a parked member. So offer a member only if there is room to park
        // one more.
        guard hasRoomToPark else { return .blocked }
        guard rounds[round].members.parkedCount < Self.parkedMembersPerRoundThreshold else {
            return hasDueParkedMember ? .blocked : .nothing
        }
        let offer = offerFromPages(of: round, environment, now: now)
        if case .push = offer { return offer }
        freeDonePages(of: round, now: now)
        recordCheckpointIfDue(round, now: now)
        if case .nothing = offer, hasDueParkedMember { return .blocked }
        return offer
    }

    /// The core keeps room to park this many more members, because it parks all members at one position together.
    /// Members are at one position if the hashes of their ids are equal.
    private static var membersPerPositionMax: Int { 8 }

    /// Whether one more member could be parked even if all pushes in flight end with a parked member.
    var hasRoomToPark: Bool {
        let pushesInFlight = appQueues.reduce(0) { $0 + $1.pushesInFlight[0] + $1.pushesInFlight[1] }
        return parkedMembers.count + pushesInFlight + Self.membersPerPositionMax < parkedMembers.limit
    }

    private mutating func offerFromPages(of round: RoundIndex, _ environment: APNsEnvironment, now: Moment) -> Offer {
        let end = readingEndPosition(of: round)
        while let next = nextMember(of: round, end: end) {
            let lowestParkedPosition = rounds[round].members.lowestParkedPosition
            guard
                lowestParkedPosition == .max
                    || next.position < lowestParkedPosition + rounds[round].progress.positionsPerLap
            else {
                return .nothing
            }
            guard isPageFresh(next.page, now: now) else {
                rounds[round].queuePlaces.mustQueueAtFront = true
                refreshPages(of: round)
                return .nothing
            }
            let rangeVersion = rangeVersion(at: next.position, of: round)
            guard let content = pages[next.page].member(next.member), content.kind == .activity else {
                advancePast(next, progress: MemberProgress.notAddressed.rawValue, rangeVersion)
                continue
            }
            if isExpired(rangeVersion, now: now) {
                advancePast(next, progress: MemberProgress.done(.expired), rangeVersion)
                continue
            }
            guard hasPool(content.environment, appIndex: rounds[round].appIndex) else {
                advancePast(next, progress: MemberProgress.done(.failed), rangeVersion)
                continue
            }
            guard content.environment == environment else {
                guard isPoolUnavailable(content.environment, of: round, now: now) else { return .blocked }
                guard rounds[round].members.parkedCount < Self.parkedMembersPerRoundThreshold else { return .nothing }
                park(
                    content,
                    at: next.position,
                    of: round,
                    page: next.page,
                    member: next.member,
                    pauseMilliseconds: 0,
                    now: now
                )
                advancePast(next, progress: MemberProgress.parked.rawValue, rangeVersion)
                continue
            }
            return .push(offerPush(content, next, rangeVersion, now: now))
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

    func isPoolUnavailable(_ environment: APNsEnvironment, of round: RoundIndex, now: Moment) -> Bool {
        isPoolUnavailable(environment, appIndex: Int(rounds[round].appIndex), at: now.monotonicMilliseconds)
    }

    /// Whether an app's pool has asked for no push for more than a second, or has never asked for one.
    func isPoolUnavailable(_ environment: APNsEnvironment, appIndex: Int, at milliseconds: Int64) -> Bool {
        appQueues[appIndex].lastAskedForPushAtMilliseconds[Int(environment.rawValue)] < milliseconds
            - Self.unavailableAfterMilliseconds
    }

    /// Moves the round past a member and returns the push to the member. The shell sends the push, or gives it back
    /// with ``pushNotSent(_:)``.
    private mutating func offerPush(
        _ content: PageMember,
        _ next: NextMember,
        _ rangeVersion: RangeVersionIndex,
        now: Moment
    ) -> AudiencePush {
        let round = pages[next.page].round
        let tag = PushTag(page: next.page, member: next.member).rawValue
        offeredPush = OfferedPush(tag: tag, previousSendPosition: rounds[round].progress.sendPosition)
        let progress = content.environment == .sandbox ? MemberProgress.inFlightToSandbox : .inFlight
        advancePast(next, progress: progress.rawValue, rangeVersion)
        pages[next.page].unfinishedMemberCount += 1
        let digitCount = content.writeToken(to: pushAddressBuffer)
        return makePush(
            tag: tag,
            digitCount: digitCount,
            allowsFrequentUpdates: content.allowsFrequentUpdates,
            rangeVersion: rangeVersion,
            at: next.position,
            isRetry: false,
            now: now
        )
    }

    /// Like ``offerPush(_:_:_:now:)``, for a member that the round has passed before.
    private mutating func offerPushToParkedMember(_ member: ParkedMemberIndex, now: Moment) -> AudiencePush {
        let slot = parkedMembers[member]
        let rangeVersion = rounds[slot.round].versions.newest
        offeredPush = OfferedPush(
            tag: PushTag(parkedMember: member).rawValue,
            previousSendPosition: rounds[slot.round].progress.sendPosition
        )
        parkedMembers[member].isUnderWay = true
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
        let body = body(of: rangeVersion, at: position, now: now)
        let slot = rangeVersions.address(of: rangeVersion)
        let grant = slot.pointee.record.instruction.grant
        return AudiencePush(
            tag: tag,
            address: UnsafeRawBufferPointer(rebasing: pushAddressBuffer[..<digitCount]),
            body: body,
            priority: allowsFrequentUpdates ? grant.frequentUpdatesPriority : grant.priority,
            expirationSeconds: sentExpirationSeconds(of: slot.pointee.record, from: now.wallSeconds),
            apnsIdentifier: randomness.nextUUID(),
            isRetry: isRetry
        )
    }

    /// Takes back the push that ``takeNextPush(_:permitsRetry:pushesInFlightMax:now:)`` returned last, because no
    /// stream was free. The core offers it again later.
    public mutating func pushNotSent(_ push: AudiencePush) {
        precondition(offeredPush.tag == push.tag, "only the push that was offered last can be returned")
        offeredPush.tag = 0
        let tag = PushTag(rawValue: push.tag)
        guard !tag.isJoiner else { return joinerPushNotSent(tag.joiner) }
        guard !tag.isBroadcast else { return broadcastPushNotSent(tag.broadcast) }
        let round: RoundIndex
        let environment: APNsEnvironment
        if tag.isParked {
            round = parkedMembers[tag.parkedMember].round
            environment = parkedMembers[tag.parkedMember].environment
            parkedMembers[tag.parkedMember].isUnderWay = false
            parkedMembers[tag.parkedMember].rangeVersion = .null
            let dueMilliseconds = parkedMembers[tag.parkedMember].dueMilliseconds
            let earliestDueMilliseconds = rounds[round].members.parkedDueMilliseconds[Int(environment.rawValue)]
            rounds[round].members.parkedDueMilliseconds[Int(environment.rawValue)] = min(
                earliestDueMilliseconds,
                dueMilliseconds
            )
        } else {
            round = pages[tag.page].round
            environment = pages[tag.page].member(tag.member)?.environment ?? .production
            pages[tag.page].nextMemberIndex -= 1
            pages[tag.page].unfinishedMemberCount -= 1
            pages[tag.page].setProgress(tag.member, MemberProgress.unsent.rawValue)
            rounds[round].progress.sendPosition = offeredPush.previousSendPosition
        }
        decrementPushesInFlight(round, environment)
        enqueueRound(round)
    }

    mutating func decrementPushesInFlight(_ round: RoundIndex, _ environment: APNsEnvironment) {
        appQueues[Int(rounds[round].appIndex)].pushesInFlight[Int(environment.rawValue)] -= 1
        rounds[round].members.inFlightCount -= 1
    }
}
