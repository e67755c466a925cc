import Delivery
import LiveActivity

/// Rounds whose app has no available pool, perhaps for hours, for example because APNs' host does not respond. The core
/// must not keep records of such a round that have expired or that newer versions have replaced.
extension Audiences {
    /// If a round has sent nothing for this long and its pools are unavailable, its older versions are closed.
    private static var stalledMillisecondsMax: Int64 { 10_000 }

    /// Notes since when the round sends nothing. The core calls this before a newer version begins at `startPosition`.
    /// If the previous version began there too, the round has sent nothing since then, and the noted time stays.
    mutating func noteStallBegin(of round: RoundIndex, at startPosition: UInt64, now: Moment) {
        let newest = rounds[round].versions.newest
        let hasMoved = newest == .null || rangeVersions[newest].startPosition != startPosition
        guard hasMoved || rounds[round].progress.stalledSinceMilliseconds == nil else { return }
        rounds[round].progress.stalledSinceMilliseconds = now.monotonicMilliseconds
    }

    /// If a round's pools are unavailable, closes its older versions, because a newer version has begun at the round's
    /// present position. The records of the older versions then settle. The newer version reaches their remaining
    /// members when a pool is available again.
    ///
    /// The older version whose alert the newest version carries stays open, so that its record stays unsettled.
    mutating func closeOlderVersionsIfPoolsUnavailable(of round: RoundIndex, now: Moment) {
        guard let stalledSinceMilliseconds = rounds[round].progress.stalledSinceMilliseconds,
            stalledSinceMilliseconds <= now.monotonicMilliseconds - Self.stalledMillisecondsMax,
            APNsEnvironment.allCases.allSatisfy({ isPoolUnavailable($0, of: round, now: now) })
        else { return }
        let newest = rounds[round].versions.newest
        var rangeVersion = rounds[round].versions.oldest
        while rangeVersion != newest {
            if rangeVersions[rangeVersion].stage == .underWay, !isAlertCarried(of: rangeVersion, by: newest) {
                closeVersion(rangeVersion, of: round)
            }
            rangeVersion = rangeVersions[rangeVersion].nextVersion
        }
    }

    /// If the newest version is expired, gives the outcome `expired` to the members that were read and got no push.
    /// This sends nothing, so it works while APNs' host is unavailable.
    mutating func expireUnsentMembers(of round: RoundIndex, now: Moment) {
        let newest = rounds[round].versions.newest
        guard newest != .null, !rounds[round].isForStarts, isExpired(newest, now: now) else { return }
        let end = readingEndPosition(of: round)
        while let next = nextMember(of: round, end: end) {
            let isMember = pages[next.page].member(next.member)?.kind == .activity
            let progress = isMember ? MemberProgress.done(.expired) : MemberProgress.notAddressed.rawValue
            advancePast(next, progress: progress, rangeVersion(at: next.position, of: round))
        }
    }
}
