import Delivery
import LiveActivity

/// Rounds (``RoundSlot``) whose app has no available pool, perhaps for hours, for example because APNs' host does not
/// respond. Their records must not fill the memory: they end when they expire, or when newer versions replace them.
///
/// Known issue (K20): the newest version of a range may stay for hours, and its partition then stops when the ledger is
/// full.
extension Audiences {
    /// If a round has sent nothing for this long and its pools are unavailable, a newer version closes the older ones.
    private static var closeOlderVersionsAfterMilliseconds: Int64 { 10_000 }

    /// Notes when a version first took over at `startPosition`. Called before a newer version begins there. If the
    /// previous version began there too, the round has sent nothing since, and the noted time stays. Otherwise the
    /// noted time becomes `now`.
    mutating func noteTakeover(of round: RoundIndex, at startPosition: UInt64, now: Moment) {
        let newest = rounds[round].versions.last
        let hasMoved = newest == .null || rangeVersions[newest].startPosition != startPosition
        guard hasMoved || rounds[round].progress.firstTakeoverAtMilliseconds == nil else { return }
        rounds[round].progress.firstTakeoverAtMilliseconds = now.monotonicMilliseconds
    }

    /// Closes the older versions of a round, so that their records settle, if the round has sent nothing for
    /// `closeOlderVersionsAfterMilliseconds` and its pools are unavailable. Called when a newer version has begun at
    /// the round's current position. When a pool is available again, the newest version reaches the remaining members.
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
            rangeVersion = rangeVersions[rangeVersion].nextVersion
        }
    }

    /// If the newest version has expired, gives the outcome `expired` to the members that were read and have not had
    /// their turn. Nothing is sent, so this works also while APNs' host is unavailable.
    mutating func expireUnsentMembers(of round: RoundIndex, now: Moment) {
        let newest = rounds[round].versions.last
        guard newest != .null, !rounds[round].isForStarts, isExpired(newest, now: now) else { return }
        let end = readingEndPosition(of: round)
        while let next = nextMember(of: round, end: end) {
            let isMember = pages[next.page].member(next.memberIndex)?.kind == .activity
            let progress = isMember ? MemberProgress.done(.expired) : .notAddressed
            advancePast(next, progress: progress, rangeVersion(at: next.position, of: round))
        }
    }
}
