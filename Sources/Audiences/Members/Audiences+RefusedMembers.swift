public import Delivery
public import LiveActivity

/// Members whose push APNs refused permanently. Kafka gets a result for each such push of a command. A push to a member
/// that has just joined belongs to no command, and has no result. A member whose token is dead leaves its audience.
///
/// About a refusal, the core writes records to Kafka. If the token is dead, it then also calls the audience store, and
/// for an activity the activity store. A member of a round gets its outcome only when all these records and calls are
/// acknowledged or permanently refused.
///
/// The calls begin only when Kafka has the records. If the worker dies earlier, the next owner still finds the member
/// in its audience, and APNs refuses its token again. But if the calls came first and then the worker died, Redis would
/// have neither the member nor its token, and Kafka would never get the result and the invalidation. (R17)
extension Audiences {
    /// Begins to record that APNs has refused the push to a member of a round: queues the member's result and, if the
    /// token is dead, its invalidation. There must be room in `refusedMembers`.
    mutating func addRefusedMember(
        _ tag: PushTag,
        _ push: MemberPush,
        _ outcome: MemberOutcome,
        _ result: PushResult
    ) {
        let round = tag.isParked ? parkedMembers[tag.parkedMember].round : pages[tag.page].round
        let isDead = outcome == .unregistered
        let kind = subjectKind(of: tag)
        let (appIndex, audience) = (rounds[round].appIndex, rounds[round].digest)
        let registeredAtWallMilliseconds = findRegistrationTime(of: tag) ?? 0
        let refusedMember = refusedMembers.allocate(
            RefusedMemberSlot(
                tag: tag.rawValue,
                round: round,
                rangeVersion: push.rangeVersion,
                appIndex: appIndex,
                audience: audience,
                outcome: outcome,
                environment: push.environment,
                kind: kind,
                httpStatus: result.status,
                attemptCount: UInt16(push.failedAttemptCount) + 1,
                invalidAtWallMilliseconds: result.invalidAtWallMilliseconds,
                sentAtWallMilliseconds: result.sentAtWallMilliseconds,
                responseAtWallMilliseconds: result.responseAtWallMilliseconds,
                registeredAtWallMilliseconds: registeredAtWallMilliseconds
            )
        )
        keepCopies(for: refusedMember, tag, reason: result.reason)
        rounds[round].members.refusedOrReadAgainCount += 1
        if !tag.isParked { pages[tag.page].setProgress(tag.memberIndex, .refused) }
        queueRecord(.memberResult(refusedMember), about: refusedMember)
        if isDead { queueRecord(.invalidation(refusedMember), about: refusedMember) }
    }

    /// Queues the calls about a dead token: the removal of the member from the audience, and for an activity the
    /// retirement of the token.
    private mutating func queueDeadTokenCalls(about refusedMember: RefusedMemberIndex) {
        refusedMembers[refusedMember].needsDeadTokenCalls = false
        refusedMembers[refusedMember].unacknowledgedCount += 1
        storeQueue.append(.removeMember(refusedMember))
        guard refusedMembers[refusedMember].kind == .activity else { return }
        refusedMembers[refusedMember].unacknowledgedCount += 1
        activityStoreQueue.append(refusedMember)
    }

    private mutating func queueRecord(_ record: OutgoingAudienceRecord, about refusedMember: RefusedMemberIndex) {
        refusedMembers[refusedMember].unacknowledgedCount += 1
        outgoingRecords.append(record)
    }

    /// How often APNs may call a joiner's token dead although it may be valid. The pauses after the refusals are some
    /// minutes together, and by then APNs would know a new registration. So the token is dead, and the core gives up
    /// the push. Perhaps the app's server registers stored tokens again, with the current time.
    private static var deadTokenRefusalsMax: UInt8 { 12 }

    /// Records that the token of a joiner is dead, and ends the membership change. Sends the push again later in two
    /// cases:
    /// - The token may be valid (``mayTokenBeValid(_:_:now:)``). After ``deadTokenRefusalsMax`` such refusals the
    ///   change ends, and nothing is recorded (K24).
    /// - The refusal cannot be recorded, because the table of refused members is full.
    mutating func handleRefusedJoinerToken(_ change: MembershipChangeIndex, _ result: PushResult, now: Moment) {
        let slot = membershipChanges[change]
        let isPossiblyValid = mayTokenBeValid(result, slot.registeredAtWallMilliseconds, now: now)
        if isPossiblyValid {
            membershipChanges[change].deadTokenRefusalCount += 1
            guard membershipChanges[change].deadTokenRefusalCount < Self.deadTokenRefusalsMax else {
                return endMembershipChange(change)
            }
        }
        guard !isPossiblyValid, !refusedMembers.isFull else {
            return retryJoinerPush(change, needsLongPause: !result.isRetryPermitted, now: now)
        }
        addRefusedJoiner(slot, of: newestStates[slot.newestState].audience, result)
        endMembershipChange(change)
    }

    private mutating func addRefusedJoiner(
        _ slot: MembershipChangeSlot,
        of audience: AudienceDigest,
        _ result: PushResult
    ) {
        let refusedMember = refusedMembers.allocate(
            RefusedMemberSlot(
                tag: 0,
                round: .null,
                rangeVersion: .null,
                appIndex: slot.member.appIndex,
                audience: audience,
                outcome: .unregistered,
                environment: slot.environment,
                kind: .activity,
                httpStatus: result.status,
                attemptCount: UInt16(slot.failedAttemptCount) + 1,
                invalidAtWallMilliseconds: result.invalidAtWallMilliseconds,
                sentAtWallMilliseconds: result.sentAtWallMilliseconds,
                responseAtWallMilliseconds: result.responseAtWallMilliseconds,
                registeredAtWallMilliseconds: slot.registeredAtWallMilliseconds
            )
        )
        refusedMembers[refusedMember]
            .keepCopies(
                identifier: { buffer in
                    buffer.copyMemory(from: slot.identifier)
                    return slot.identifier.count
                },
                token: { buffer in
                    buffer.copyMemory(from: slot.token)
                    return slot.token.count
                },
                reason: result.reason
            )
        queueRecord(.invalidation(refusedMember), about: refusedMember)
    }

    private func subjectKind(of tag: PushTag) -> StoreSubjectKind {
        tag.isParked ? parkedMembers[tag.parkedMember].kind : pages[tag.page].member(tag.memberIndex)?.kind ?? .activity
    }

    private mutating func keepCopies(
        for refusedMember: RefusedMemberIndex,
        _ tag: PushTag,
        reason: UnsafeRawBufferPointer
    ) {
        if tag.isParked {
            let slot = parkedMembers[tag.parkedMember]
            refusedMembers[refusedMember]
                .keepCopies(
                    identifier: { buffer in
                        slot.withIdentifier {
                            buffer.copyMemory(from: $0)
                            return $0.count
                        }
                    },
                    token: { slot.writeToken(to: $0) },
                    reason: reason
                )
        } else if let member = pages[tag.page].member(tag.memberIndex) {
            refusedMembers[refusedMember]
                .keepCopies(
                    identifier: { member.writeIdentifier(to: $0) },
                    token: { member.writeToken(to: $0) },
                    reason: reason
                )
        }
    }

    /// Called when one call or record about a refused member is acknowledged or permanently refused:
    /// - After the last record, queues the calls about the token if the token is dead.
    /// - When nothing more is awaited, frees the slot. A member of a round then gets its outcome, unless the round is
    ///   abandoned.
    mutating func callOrRecordAcknowledged(about refusedMember: RefusedMemberIndex, now: Moment) {
        refusedMembers[refusedMember].unacknowledgedCount -= 1
        guard refusedMembers[refusedMember].unacknowledgedCount == 0 else { return }
        guard !refusedMembers[refusedMember].needsDeadTokenCalls else {
            return queueDeadTokenCalls(about: refusedMember)
        }
        let (rawTag, round, outcome) = (
            refusedMembers[refusedMember].tag, refusedMembers[refusedMember].round,
            refusedMembers[refusedMember].outcome
        )
        refusedMembers.free(refusedMember)
        // A refused member that has just joined belongs to no round.
        guard round != .null else { return }
        rounds[round].members.refusedOrReadAgainCount -= 1
        let tag = PushTag(rawValue: rawTag)
        if rounds[round].phase == .abandoned {
            if !tag.isParked {
                pages[tag.page].underWayMemberCount -= 1
                if pages[tag.page].underWayMemberCount == 0 { freePageAndOfferRoom(tag.page) }
            }
            return freeIfFinished(round, now: now)
        }
        finishMember(tag, outcome, now: now)
    }

    // MARK: - Retirement of the token in the activity's value in Redis

    /// Calls `body` with the next call for the activity store, and returns what `body` returns; nil if there is no call
    /// now. The call retires a dead token in the activity's value in Redis, because single commands take the token from
    /// there.
    public mutating func withNextActivityStoreCall<Result>(
        now: Moment,
        _ body: (StoreCall<UnsafeRawBufferPointer>) -> Result
    ) -> Result? {
        guard let refusedMember = activityStoreQueue.next(now: now) else { return nil }
        let slot = refusedMembers[refusedMember]
        let app = bundleIds[slot.appIndex]
        return slot.withIdentifierTokenAndReason { identifier, token, _ in
            let retirement = TokenRetirement(
                token: token,
                environment: slot.environment,
                invalidAtMilliseconds: slot.invalidAtWallMilliseconds
            )
            return body(
                StoreCall(
                    tag: PushTag.audiencesCoreBit | UInt64(refusedMember.rawValue),
                    subject: StoreSubject(app: app, kind: .activity, identifier: identifier),
                    operation: .retire(version: Version.zero, retirement)
                )
            )
        }
    }

    /// Whether this core made the call with this tag to the activity store. False if `Delivery` made the call: both
    /// cores use this store.
    public static func isOwnActivityStoreCall(tag: UInt64) -> Bool { tag & PushTag.audiencesCoreBit != 0 }

    public mutating func removeNextActivityStoreCall() {
        precondition(activityStoreQueue.popFirst() != nil, "no call waits")
    }

    /// Lets the next call wait for up to a second, because its Redis server is unavailable and other servers may work.
    public mutating func delayNextActivityStoreCallForUnavailableServer(now: Moment) {
        guard let refusedMember = activityStoreQueue.popFirst() else { preconditionFailure("no call waits") }
        activityStoreQueue.setAside(refusedMember, now: now)
    }

    /// Removes the next call, because it exceeds the store's limits. The refused member continues as if the store had
    /// replied.
    public mutating func refuseNextActivityStoreCall(now: Moment) {
        guard let refusedMember = activityStoreQueue.popFirst() else { preconditionFailure("no call waits") }
        callOrRecordAcknowledged(about: refusedMember, now: now)
    }

    public mutating func handleActivityStoreReply(tag: UInt64, now: Moment) {
        callOrRecordAcknowledged(about: refusedMember(ofActivityStoreCall: tag), now: now)
    }

    private func refusedMember(ofActivityStoreCall tag: UInt64) -> RefusedMemberIndex {
        RefusedMemberIndex(rawValue: UInt32(truncatingIfNeeded: tag))
    }

    public mutating func handleActivityStoreFailure(tag: UInt64, _ failure: StoreFailure, now: Moment) {
        let refusedMember = refusedMember(ofActivityStoreCall: tag)
        switch failure {
        case .retriableAtOnce: activityStoreQueue.append(refusedMember)
        case .serverRefusesMostCalls:
            activityStoreQueue.pause(now: now)
            activityStoreQueue.append(refusedMember)
        case .retriableAfterPause: activityStoreQueue.setAside(refusedMember, now: now)
        case .refused: callOrRecordAcknowledged(about: refusedMember, now: now)
        }
    }
}
