import Delivery
import LiveActivity
import Numbers

/// Rounds (``RoundSlot``) whose claim is lost: the store does not have this worker's newest claim for the range. There
/// are three cases. In each, the worker claims the range again after a pause, if the round still has versions to send:
/// - The store has another worker's claim. For a while two workers may believe that they own the same partition, and
///   the previous owner's claim may reach the store last. The current owner must get its rounds back. The pause grows
///   with each loss, so that the two workers do not keep taking a round from each other.
/// - The store has an older claim. After a failover, the store may lack only its newest writes. No members are lost.
/// - The store has no claim. It has lost its data, and pages that were read since had no members. So the round also
///   waits until the registrations of all workers have brought the members back, or until a limit. Then it continues
///   from its last checkpoint. Members that it had reached after this checkpoint get the same state once more. (R26)
///
/// A round that begins while members are missing waits too.
///
/// In a cluster, another server may have lost the members while the claim is intact. Then the round reads its pages
/// again (``beginWaitIfMembersMissing(of:isSegmentMissing:now:)``).
extension Audiences {
    /// The pause before a lost round is claimed again, which is shortened by a random part of up to a half. Each
    /// further loss in a row doubles the pause: 0.5 s, 1 s, 2 s, up to 32 s. A round that waits for lost members checks
    /// every 0.5 s whether they are back.
    private static var claimPauseMilliseconds: Int64 { 500 }
    private static var pauseDoublingsMax: UInt8 { 6 }

    /// If a claim was held for longer than this (64 s), its loss counts as the first again (`consecutiveLossCount`).
    /// Two workers that take a round from each other never hold it for longer than the longest pause, 32 s.
    private static var lossCountResetAfterMilliseconds: Int64 { 2 * claimPauseMilliseconds << Int64(pauseDoublingsMax) }

    /// Called when the store does not have this worker's newest claim for the round's range. A round that is running or
    /// restoring will be claimed again after a pause. Any other round is abandoned.
    ///
    /// - Parameter areMembersLost: whether the store has no claim at all, so that members are lost too.
    ///
    /// Known issue (K4): after partitions were added to the fan-out topic, two workers may have versions of the same
    /// range, and claim the range from each other. Phones get the newest state in the end, but the worker that loses
    /// its claim does not finish its command, so the command may have no result.
    mutating func handleLostClaim(_ round: RoundIndex, areMembersLost: Bool, now: Moment) {
        guard rounds[round].phase == .running || rounds[round].phase == .restoring else {
            return abandon(round, now: now)
        }
        if let heldSinceMilliseconds = rounds[round].claim.heldSinceMilliseconds,
            now.monotonicMilliseconds - heldSinceMilliseconds > Self.lossCountResetAfterMilliseconds
        {
            rounds[round].claim.consecutiveLossCount = 0
        }
        let doublingCount = min(rounds[round].claim.consecutiveLossCount, Self.pauseDoublingsMax)
        rounds[round].claim.consecutiveLossCount = doublingCount + 1
        let pauseMilliseconds = random.jitteredMilliseconds(Self.claimPauseMilliseconds << Int64(doublingCount))
        rounds[round].claim.nextClaimAtMilliseconds = now.monotonicMilliseconds + pauseMilliseconds
        if areMembersLost {
            rounds[round].claim.membersLostSinceMilliseconds = now.monotonicMilliseconds
            storeMayHaveLostDataAtMilliseconds = now.monotonicMilliseconds
        }
        releaseParkingPlaces(of: round)
        rounds[round].enter(.awaitingClaim)
        discardAllPages(of: round)
        advance(round, now: now)
    }

    /// Whether the store may lack the members of a round that begins. If the store has a checkpoint of the range and
    /// consists of one server, it has not lost them. The first rule that applies decides; if none applies, false:
    /// 1. False if the round has already waited `memberWaitsMax` times.
    /// 2. True if ``mayStoreLackMembers`` is true. Exception: one server with a checkpoint.
    /// 3. True if the store has no checkpoint, and does not know that the round's newest version was admitted, because
    ///    then it has lost its data since. Checked only before the first wait, and not for starts.
    func mustWaitForMembers(_ reply: Reply?, _ round: RoundIndex) -> Bool {
        guard rounds[round].claim.memberWaitCount < Self.memberWaitsMax else { return false }
        let hasNoCheckpoint = reply?.bytes?.isEmpty ?? true
        if mayStoreLackMembers, hasNoCheckpoint || configuration.hasSeveralStoreServers { return true }
        guard hasNoCheckpoint, !rounds[round].isForStarts, rounds[round].claim.memberWaitCount == 0,
            let newestVersion = newestListedVersion(of: round)
        else { return false }
        return reply?.newestVersion.map { $0 < newestVersion } ?? true
    }

    /// Makes a round that begins wait until a poll of the store's marks (R24) shows that the store has all members
    /// again, or until the longest wait is over. Without its members the round would end at once, and its alert or
    /// start would reach nobody.
    ///
    /// Known issue (K5): if an operator empties a Redis server that keeps running, workers notice the loss up to a
    /// second later (`StoreWatch.pollInterval`). A command that the server admits in this second may end before the
    /// members are back:
    /// - They get no alert of this command.
    /// - They get its state only when they are registered again and the command is read again. If a later start has
    ///   superseded the command by then, they keep their old state until the next command.
    mutating func beginWaitForMembers(_ round: RoundIndex, now: Moment) {
        rounds[round].claim.memberWaitCount += 1
        rounds[round].enter(.awaitingClaim)
        rounds[round].claim.nextClaimAtMilliseconds = now.monotonicMilliseconds
        rounds[round].claim.membersLostSinceMilliseconds = now.monotonicMilliseconds
        advance(round, now: now)
    }

    /// The maximum number of times that a round waits for its members before it begins. After each failed attempt to
    /// connect to a Redis server, the store counts as one that may lack members. So without this limit, one unavailable
    /// server would keep the rounds on all servers waiting.
    private static var memberWaitsMax: UInt8 { 8 }

    /// The longest time that a round waits for its members. Without this limit, a round would wait forever if no poll
    /// of the marks succeeds, for example because Redis' user is not allowed to read the marks. The worker's
    /// `MemberCompleteness` uses the same limit. (R26)
    public static var memberWaitMillisecondsMax: Int64 { 600_000 }

    /// How far a round's wait for its members has come, before the round is claimed again.
    private enum MemberWait {
        /// The store may lack members of the round, so the round waits.
        case underWay
        /// The store has all members of the round, or the shell lets rounds continue without them. So the round may be
        /// claimed again.
        case over
        /// The round has waited ``memberWaitMillisecondsMax``, so it is claimed again without its members.
        case timedOut
    }

    /// Returns how far the round's wait for its members has come. Called when the pause before the next claim is over.
    ///
    /// - Parameter claim: the round's last claim.
    private func memberWait(of claim: RoundClaim, now: Moment) -> MemberWait {
        if now.monotonicMilliseconds - claim.nextClaimAtMilliseconds >= Self.memberWaitMillisecondsMax {
            return .timedOut
        }
        guard let lostSinceMilliseconds = claim.membersLostSinceMilliseconds else {
            // The round has lost its claim, but no members. It still waits while the store lacks any members.
            return mustRoundsWait ? .underWay : .over
        }
        return lostSinceMilliseconds < membersLastCompleteAtMilliseconds ? .over : .underWay
    }

    /// Claims the round again when three things are over: the pause after the lost claim, the wait for lost members,
    /// and the pushes, calls and results of the old claim. Until then, does nothing, or only sets the round's timer.
    ///
    /// A claimed round continues from the store's checkpoint or, if the store has lost it, from the last one that this
    /// worker recorded. (R26)
    mutating func claimAgainIfDue(_ round: RoundIndex, now: Moment) {
        let claim = rounds[round].claim
        guard claim.nextClaimAtMilliseconds <= now.monotonicMilliseconds else {
            return scheduleAdvance(of: round, at: claim.nextClaimAtMilliseconds)
        }
        let wait = memberWait(of: claim, now: now)
        guard wait != .underWay else {
            return scheduleAdvance(of: round, at: now.monotonicMilliseconds + Self.claimPauseMilliseconds)
        }
        guard areAllMemberOutcomesKnown(round), !hasFinishingVersion(round) else { return }
        if wait == .timedOut {
            rounds[round].claim.memberWaitCount = Self.memberWaitsMax
            rounds[round].claim.hasMemberWaitTimedOut = true
        }
        removeParkedMembers(of: round)
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            addFanoutRecordBytes(-rangeVersions[rangeVersion].alternativeBody.count, of: rangeVersion)
            let policyIndex = rangeVersions[rangeVersion].record.policyIndex
            rangeVersions[rangeVersion]
                .forgetProgress(ownAlertAgeSecondsMax: policies[policyIndex].alertAgeSecondsMax)
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        rounds[round].prepareNewClaim(number: random.next())
        storeQueue.append(.claim(round))
    }

    /// Called when a round is abandoned. Notes each version under way as dropped if its record belongs to another
    /// partition than the round. A round has such versions only after partitions were added to the fan-out topic.
    ///
    /// Pushes of these versions may still be in flight, and the core does not wait for them
    /// (``noteDroppedBeforeResponse(_:ofApp:)``). If this lane keeps the record's partition, the lane reads the record
    /// again. A member whose push is in flight now then gets the state twice.
    mutating func noteDroppedVersionsOfOtherPartitions(of round: RoundIndex) {
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            let slot = rangeVersions.mutableAddress(of: rangeVersion)
            if slot.pointee.phase == .underWay, slot.pointee.record.partitionIndex != rounds[round].partitionIndex {
                noteDroppedBeforeResponse(&slot.pointee.record, ofApp: rounds[round].appIndex)
            }
            rangeVersion = slot.pointee.nextInList
        }
    }

    /// Whether a version of the round waits until its counts and its result are acknowledged. Such a version settles
    /// even if another worker has claimed the range since, because its counts and its result stay valid.
    func hasFinishingVersion(_ round: RoundIndex) -> Bool {
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            if rangeVersions[rangeVersion].phase == .finishing { return true }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        return false
    }
}
