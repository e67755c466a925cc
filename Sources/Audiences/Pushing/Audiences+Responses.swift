public import Delivery
import LiveActivity
import Numbers

/// Decides what APNs' response to a push means for the member.
extension Audiences {
    /// Whether a response with this tag belongs to a push of this core.
    public static func isOwnPush(tag: UInt64) -> Bool { tag & PushTag.audiencesCoreBit != 0 }

    /// How many retries of a push to a member may follow without a pause, if the response (`retrySoon`) and the pool
    /// permit it. Every other retry comes after a pause. (R21)
    private static var immediateRetriesMax: UInt8 { 2 }

    /// Takes APNs' response to a push, or the report that no response will come. A member fails only for a reason of
    /// its own push. (R18)
    public mutating func handlePushResponse(tag rawTag: UInt64, _ result: PushResult, now: Moment) {
        let tag = PushTag(rawValue: rawTag)
        guard !tag.isJoiner else { return handleJoinerResponse(tag.joiner, result, now: now) }
        guard !tag.isBroadcast else { return handleBroadcastResponse(tag.broadcast, result, now: now) }
        let round = tag.isParked ? parkedMembers[tag.parkedMember].round : pages[tag.page].round
        guard let push = MemberPush(tag, pages: pages, parkedMembers: parkedMembers) else {
            preconditionFailure("the push of a response belongs to a member")
        }
        decrementInFlightPushCounts(tag, of: round, push.environment)
        noteResponseTimes(of: push.rangeVersion, result)
        guard rounds[round].phase != .abandoned else { return dropMemberOfAbandonedRound(tag, of: round, now: now) }
        switch result.disposition {
        case .accepted: finishMember(tag, .delivered, now: now)
        case .tokenDead: handleRefusedToken(tag, push, result, now: now)
        // Trust the refusal of a token or topic only if the pool's breaker is closed, and APNs has accepted a push to a
        // device since the previous such refusal. Otherwise the environment or the topic may be wrong for all tokens,
        // and the core sends the push again later.
        case .tokenSuspect where result.isTokenRefusalTrusted: handleRefusedToken(tag, push, result, now: now)
        case .topicSuspect where result.isTokenRefusalTrusted: recordRefusal(tag, push, .failed, result, now: now)
        case .rejected, .channelGone: recordRefusal(tag, push, .failed, result, now: now)
        case .retrySoon, .retryLater, .throttled, .ambiguous, .tokenSuspect, .topicSuspect:
            retryMember(tag, push, result, now: now)
        }
    }

    /// The data of a push that the core needs to handle the response. They come from the page or parked member that the
    /// push's tag names.
    struct MemberPush {
        let position: UInt64
        let rangeVersion: RangeVersionIndex
        let environment: APNsEnvironment
        let failedAttemptCount: UInt8

        /// Nil if the tag names a member on a page to which no push is in flight.
        init?(_ tag: PushTag, pages: borrowing Slab<PageSlot>, parkedMembers: borrowing Slab<ParkedMember>) {
            if tag.isParked {
                let slot = parkedMembers.address(of: tag.parkedMember)
                position = slot.pointee.position
                rangeVersion = slot.pointee.rangeVersion
                environment = slot.pointee.environment
                failedAttemptCount = slot.pointee.failedAttemptCount
            } else {
                let page = pages.address(of: tag.page)
                switch page.pointee.progress(tag.memberIndex) {
                case .inFlight: environment = .production
                case .inFlightToSandbox: environment = .sandbox
                case .unsent, .parked, .refused, .notAddressed, .done: return nil
                }
                position = page.pointee.position(tag.memberIndex)
                rangeVersion = page.pointee.rangeVersion(tag.memberIndex)
                failedAttemptCount = 0
            }
        }
    }

    private mutating func noteResponseTimes(of rangeVersion: RangeVersionIndex, _ result: PushResult) {
        let slot = rangeVersions.mutableAddress(of: rangeVersion)
        guard result.status != 0 else { return }
        if slot.pointee.times.firstResponseAtMilliseconds < 0 {
            slot.pointee.times.firstResponseAtMilliseconds = result.responseAtWallMilliseconds
        }
        slot.pointee.times.lastResponseAtMilliseconds = max(
            slot.pointee.times.lastResponseAtMilliseconds,
            result.responseAtWallMilliseconds
        )
    }

    /// Gives a member its outcome, whether the member is on a page or parked. Then the round advances; for a member on
    /// a page, only if ``advanceIfNoMemberIsUnderWay(on:now:)`` lets it.
    mutating func finishMember(_ tag: PushTag, _ outcome: MemberOutcome, now: Moment) {
        if tag.isParked {
            let round = parkedMembers[tag.parkedMember].round
            finishParkedMember(tag.parkedMember, outcome)
            freeDonePages(of: round, now: now)
            return advance(round, now: now)
        }
        let page = pages.mutableAddress(of: tag.page)
        page.pointee.setProgress(tag.memberIndex, .done(outcome))
        page.pointee.underWayMemberCount -= 1
        advanceIfNoMemberIsUnderWay(on: tag.page, now: now)
    }

    /// Called when the work on a member of the page has ended: the member is finished or parked. If no other member of
    /// the page is under way, frees a discarded page, and advances the round. A running round advances only if the page
    /// is its first one.
    private mutating func advanceIfNoMemberIsUnderWay(on page: PageIndex, now: Moment) {
        let slot = pages.address(of: page)
        guard slot.pointee.underWayMemberCount == 0 else { return }
        let round = slot.pointee.round
        if slot.pointee.phase == .discarded { freePageAndOfferRoom(page) }
        guard rounds[round].pages.first == page || rounds[round].phase != .running else { return }
        freeDonePages(of: round, now: now)
        advance(round, now: now)
    }

    /// Ends the work on a member of an abandoned round, when its push or start has ended. Frees the member's page and
    /// the round if nothing else needs them. The outcome is not recorded, because another worker may own the range.
    mutating func dropMemberOfAbandonedRound(_ tag: PushTag, of round: RoundIndex, now: Moment) {
        if tag.isParked {
            parkedMembers[tag.parkedMember].isBeingHandled = false
        } else {
            pages[tag.page].underWayMemberCount -= 1
            if pages[tag.page].underWayMemberCount == 0 { freePageAndOfferRoom(tag.page) }
        }
        freeIfFinished(round, now: now)
    }

    /// Whether a member needs no retry after its push failed for a temporary reason, because the newest version reaches
    /// the member in its next turn. False if the member must get a carried alert earlier
    /// (``needsCarriedAlert(_:wasThrottled:of:now:)``).
    func isRetryReplacedByNewestVersion(_ position: UInt64, wasThrottled: Bool, of round: RoundIndex, now: Moment)
        -> Bool
    {
        let newest = rounds[round].versions.last
        guard newest != .null, position < rangeVersions[newest].startPosition else { return false }
        return !needsCarriedAlert(position, wasThrottled: wasThrottled, of: round, now: now)
    }

    /// Sends the push to a member again later: parks the member, with a pause that fits the failure. If the newest
    /// version replaces the retry, ends the member as `superseded`.
    private mutating func retryMember(_ tag: PushTag, _ push: MemberPush, _ result: PushResult, now: Moment) {
        let round = tag.isParked ? parkedMembers[tag.parkedMember].round : pages[tag.page].round
        let wasThrottled = result.disposition == .throttled
        if isRetryReplacedByNewestVersion(push.position, wasThrottled: wasThrottled, of: round, now: now) {
            return finishMember(tag, .superseded, now: now)
        }
        let failedAttemptCount = push.failedAttemptCount < .max ? push.failedAttemptCount + 1 : .max
        var pauseMilliseconds = chooseRetryPauseMilliseconds(failedAttemptCount: failedAttemptCount)
        if result.disposition == .retrySoon, failedAttemptCount <= Self.immediateRetriesMax, result.isRetryPermitted {
            pauseMilliseconds = 0
        }
        if wasThrottled { extendToLongRetryPause(&pauseMilliseconds) }
        if !result.isRetryPermitted { extendToLongRetryPause(&pauseMilliseconds) }
        if tag.isParked {
            parkedMembers[tag.parkedMember].failedAttemptCount = failedAttemptCount
            parkedMembers[tag.parkedMember].wasThrottled = wasThrottled
            parkAgain(tag.parkedMember, pauseMilliseconds: pauseMilliseconds, now: now)
        } else if let member = pages[tag.page].member(tag.memberIndex) {
            park(
                member,
                at: MemberCoordinates(page: tag.page, memberIndex: tag.memberIndex, position: push.position),
                of: round,
                failedAttemptCount: failedAttemptCount,
                wasThrottled: wasThrottled,
                pauseMilliseconds: pauseMilliseconds,
                now: now
            )
            pages[tag.page].setProgress(tag.memberIndex, .parked)
            pages[tag.page].underWayMemberCount -= 1
            advanceIfNoMemberIsUnderWay(on: tag.page, now: now)
        }
        advance(round, now: now)
    }

    /// Extends a pause to `longRetryPauseMilliseconds`, from which a random part of up to a half is removed. A longer
    /// pause stays as it is.
    mutating func extendToLongRetryPause(_ pauseMilliseconds: inout Int64) {
        let jitteredMilliseconds = random.jitteredMilliseconds(configuration.longRetryPauseMilliseconds)
        pauseMilliseconds = max(pauseMilliseconds, jitteredMilliseconds)
    }

    /// Returns when the member registered its token, UNIX milliseconds; nil if the member's entry cannot be read. This
    /// is the time of the last change in the entry, because no member of a page has left.
    func findRegistrationTime(of tag: PushTag) -> Int64? {
        tag.isParked
            ? parkedMembers[tag.parkedMember].registeredAtWallMilliseconds
            : pages[tag.page].member(tag.memberIndex)?.changedAtMilliseconds
    }

    /// Whether a refused token may be valid: APNs says when the token died, and the member registered the token at that
    /// time or later. APNs perhaps does not know this registration yet. (R17)
    func mayTokenBeValid(_ result: PushResult, _ registeredAtWallMilliseconds: Int64, now: Moment) -> Bool {
        guard let invalidAtWallMilliseconds = result.invalidAtWallMilliseconds else { return false }
        return RegistrationTime.isRegistered(
            registeredAtWallMilliseconds,
            sinceInvalidAt: invalidAtWallMilliseconds,
            nowMilliseconds: now.wallMilliseconds
        )
    }

    /// Handles the refusal of a dead token: the member leaves the audience, and the refusal is recorded. Exception: the
    /// token may be valid (``mayTokenBeValid(_:_:now:)``), so the core sends the push again later.
    private mutating func handleRefusedToken(_ tag: PushTag, _ push: MemberPush, _ result: PushResult, now: Moment) {
        if let registeredAtWallMilliseconds = findRegistrationTime(of: tag),
            mayTokenBeValid(result, registeredAtWallMilliseconds, now: now)
        {
            return retryMember(tag, push, result, now: now)
        }
        recordRefusal(tag, push, .unregistered, result, now: now)
    }

    /// Records a permanent refusal of a push, before the member gets its outcome (``RefusedMemberSlot``). If the table
    /// of refused members is full, sends the push again later.
    private mutating func recordRefusal(
        _ tag: PushTag,
        _ push: MemberPush,
        _ outcome: MemberOutcome,
        _ result: PushResult,
        now: Moment
    ) {
        // Without a slot, the refusal cannot be recorded. When the push is sent again, APNs refuses it again.
        guard !refusedMembers.isFull else { return retryMember(tag, push, result, now: now) }
        addRefusedMember(tag, push, outcome, result)
    }
}
