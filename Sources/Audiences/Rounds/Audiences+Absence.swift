import Delivery
import LiveActivity

/// Rounds of an app whose host is away, perhaps for hours. They must not hold records that newer versions have replaced, nor expired
/// ones.
extension Audiences {
    /// After this time without a push, the host counts as away.
    private static var notMovedSinceMilliseconds: Int64 { 10_000 }

    /// Called before a newer version takes over at a position: notes since when the round has not moved.
    mutating func noteStandstill(of round: UInt32, at start: UInt64, now: Moment) {
        let newest = rounds[round].newest
        let hasMoved = newest == .max || versions[newest].start != start
        guard hasMoved || rounds[round].notMovedSinceMilliseconds == .max else { return }
        rounds[round].notMovedSinceMilliseconds = now.monotonicMilliseconds
    }

    /// A newer version has taken over a round whose versions wait for an absent host. It closes the older versions, so that their records
    /// settle, and reaches their members itself.
    ///
    /// Only the version whose alert the newest one carries stays open, until that alert is too old. So a range holds its newest version,
    /// and at most one older version for its alert.
    mutating func closeOlderWhileAway(of round: UInt32, now: Moment) {
        guard rounds[round].notMovedSinceMilliseconds <= now.monotonicMilliseconds - Self.notMovedSinceMilliseconds,
            DeviceEnvironment.allCases.allSatisfy({ isAway($0, of: round, now: now) })
        else { return }
        let newest = rounds[round].newest
        var version = rounds[round].oldest
        while version != newest {
            if versions[version].stage == .underWay, !isAlertCarried(of: version, by: newest) {
                closeEarly(version, of: round)
            }
            version = versions[version].next
        }
    }

    /// When the newest version is expired, ends the members that were read and have not been sent to. This needs no host.
    mutating func expireUnsent(of round: UInt32, now: Moment) {
        let newest = rounds[round].newest
        guard newest != .max, !rounds[round].startsDevices, isExpired(newest, now: now) else { return }
        let end = readEnd(of: round)
        while let next = nextMember(of: round, end: end) {
            let isMember = pages[next.page].member(next.member)?.kind == .activity
            let state = isMember ? MemberState.done(.expired) : MemberState.passedOver.rawValue
            advancePast(next, state, version(at: next.position, of: round))
        }
    }
}
