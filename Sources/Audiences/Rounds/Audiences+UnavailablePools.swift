import Delivery
import LiveActivity

/// Rounds (``RoundSlot``) whose app has no available pool, perhaps for hours, for example because APNs' host does not
/// respond. The records of these rounds must not fill the memory: a record ends when it expires, or when newer versions
/// replace it.
///
/// Known issue (K20): the newest version of a range may stay for hours, and its partition then stops when the ledger is
/// full. If the version stays only for a few parked members, the core gives up these members before the ledger is full
/// (``mustGiveUpDelayedMembers(of:now:)``).
extension Audiences {
    /// If a round has sent nothing for this long and its pools are unavailable, a newer version closes the older ones.
    private static var closeOlderVersionsAfterMilliseconds: Int64 { 10_000 }

    /// Called before a newer version takes over at `startPosition`. Notes the time `now`, unless the newest version so
    /// far begins there too: then the round has sent nothing since, and the noted time stays.
    mutating func noteTakeover(of round: RoundIndex, at startPosition: UInt64, now: Moment) {
        let newest = rounds[round].versions.last
        let hasMoved = newest == .null || rangeVersions[newest].startPosition != startPosition
        guard hasMoved || rounds[round].progress.firstTakeoverAtMilliseconds == nil else { return }
        rounds[round].progress.firstTakeoverAtMilliseconds = now.monotonicMilliseconds
    }

    /// Closes the older versions of a round, so that their records settle, if the round has sent nothing for
    /// `closeOlderVersionsAfterMilliseconds` and its pools are unavailable. When a pool is available again, the newest
    /// version reaches the remaining members. Called when this version has begun at the round's current position.
    ///
    /// One older version may stay open: the one whose alert the newest version carries. Its record must stay unsettled,
    /// so that a new owner can read the alert again.
    mutating func closeOlderVersionsIfPoolsUnavailable(of round: RoundIndex, now: Moment) {
        guard let firstTakeoverAtMilliseconds = rounds[round].progress.firstTakeoverAtMilliseconds,
            firstTakeoverAtMilliseconds <= now.monotonicMilliseconds - Self.closeOlderVersionsAfterMilliseconds,
            APNsEnvironment.allCases.allSatisfy({ isPoolUnavailable($0, of: round) })
        else { return }
        let newest = rounds[round].versions.last
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != newest {
            if rangeVersions[rangeVersion].phase == .underWay, !isAlertCarried(of: rangeVersion, by: newest) {
                closeVersion(rangeVersion, of: round)
            }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
    }

    /// If the newest version has expired, gives the outcome `expired` to the members that were read and have not had
    /// their turn. Nothing is sent, so this works also while APNs' host is unavailable. Does nothing for a round of
    /// starts.
    mutating func expireUnsentMembers(of round: RoundIndex, now: Moment) {
        let newest = rounds[round].versions.last
        guard newest != .null, !rounds[round].isForStarts, isExpired(newest, now: now) else { return }
        let endPosition = readingEndPosition(of: round)
        while let next = moveToNextMember(of: round, endPosition: endPosition) {
            let isActivity = pages[next.page].member(next.memberIndex)?.kind == .activity
            let progress = isActivity ? MemberProgress.done(.expired) : .notAddressed
            advancePast(next, progress: progress, rangeVersion(at: next.position, of: round))
        }
    }

    // MARK: - The room that parked members take

    /// The time after which a round checks again whether it must give up its parked members for lack of room.
    private static var giveUpCheckIntervalMilliseconds: Int64 { 10_000 }
    /// How long the push to a parked member of an unavailable pool must have been due before the member may be given
    /// up. In this time, a lane that has just started can connect.
    private static var giveUpAfterDueMilliseconds: Int64 { 60_000 }
    /// A parked member may be given up after this many failed attempts, even if its pool works. The pauses between the
    /// attempts are some minutes together.
    private static var giveUpAttemptsMin: UInt8 { 20 }

    /// Whether a round must give up the parked members that APNs delays (``isDelayedByAPNs(_:now:)``). Otherwise one
    /// member whose pool has a wrong key could stop a partition for hours, for all apps (R22). All of this must be
    /// true:
    /// - The newest version is so old that APNs would no longer store a push that was sent at its admission.
    /// - All members have had their turn, and APNs has accepted the newest version for more of them than are parked. So
    ///   an outage of APNs does not take the newest state from most members.
    /// - A version of the round holds back its partition (``holdsBackHalfOfLedger(_:)``).
    func mustGiveUpDelayedMembers(of round: RoundIndex, now: Moment) -> Bool {
        let newest = rounds[round].versions.last
        guard newest != .null, storedUntilSeconds(newest) < now.wallSeconds, hasReachedAllMembers(round),
            rangeVersions[newest].counts[.delivered] > rounds[round].members.parkedCount
        else { return false }
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            if holdsBackHalfOfLedger(rangeVersion) { return true }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        return false
    }

    /// Whether a parked member's pool is unavailable and its push has been due for long, or whether its push has failed
    /// often.
    func isDelayedByAPNs(_ member: ParkedMember, now: Moment) -> Bool {
        if member.failedAttemptCount >= Self.giveUpAttemptsMin { return true }
        return isPoolUnavailable(member.environment, of: member.round)
            && member.dueMilliseconds <= now.monotonicMilliseconds - Self.giveUpAfterDueMilliseconds
    }

    /// Returns when a round with parked members checks next whether it must give them up (monotonic milliseconds); nil
    /// if the round has no parked members or no version.
    func giveUpCheckDueMilliseconds(_ round: RoundIndex, now: Moment) -> Int64? {
        let newest = rounds[round].versions.last
        guard newest != .null, rounds[round].members.firstParked != .null else { return nil }
        let waitMilliseconds = (storedUntilSeconds(newest) + 1) * 1_000 - now.wallMilliseconds
        return now.monotonicMilliseconds + max(waitMilliseconds, Self.giveUpCheckIntervalMilliseconds)
    }

    /// Returns the time until which APNs would store a push of this version if the push had been sent at the version's
    /// admission (UNIX seconds). The stale date does not count.
    private func storedUntilSeconds(_ rangeVersion: RangeVersionIndex) -> Int64 {
        let record = rangeVersions.address(of: rangeVersion).pointee.record
        return sentExpirationSeconds(
            event: record.event,
            ownExpirationSeconds: record.ownExpirationSeconds,
            staleDateSeconds: -1,
            policy: record.policyIndex,
            from: max(0, record.instruction.admittedAtMilliseconds / 1_000)
        )
    }
}
