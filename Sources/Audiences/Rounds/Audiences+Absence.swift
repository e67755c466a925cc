import Delivery
import LiveActivity

/// Rounds of an app whose host is away, for hours perhaps: they must not hold what newer versions have replaced, nor what has expired.
extension Audiences {
    /// After so long without a push the host counts as away for good.
    private static var standstillMilliseconds: Int64 { 10_000 }

    /// A newer version is about to take over.
    mutating func noteStandstill(of round: UInt32, at start: UInt64, now: Moment) {
        let newest = rounds[round].newest
        let hasMoved = newest == .max || versions[newest].start != start
        guard hasMoved || rounds[round].standstillMilliseconds == .max else { return }
        rounds[round].standstillMilliseconds = now.monotonicMilliseconds
    }

    /// A newer version has taken over where versions have waited for the host: their records settle, and the newer one reaches their members.
    /// The version whose alert goes on stays, until that alert is too old.
    mutating func closeStranded(of round: UInt32, now: Moment) {
        guard rounds[round].standstillMilliseconds <= now.monotonicMilliseconds - Self.standstillMilliseconds,
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

    /// The members that are read and not sent to when the newest version is over: they need no host.
    mutating func expireUnsent(of round: UInt32, now: Moment) {
        let newest = rounds[round].newest
        guard newest != .max, !rounds[round].startsDevices, isExpired(newest, now: now) else { return }
        let end = readEnd(of: round)
        var page = rounds[round].sendPage == .max ? rounds[round].firstPage : rounds[round].sendPage
        while page != .max, pages[page].phase == .ready {
            rounds[round].sendPage = page
            while pages[page].sendIndex < pages[page].memberCount {
                let member = Int(pages[page].sendIndex)
                let position = pages[page].position(member)
                guard position < end else { return }
                let isMember = pages[page].member(member)?.kind == .activity
                let state = isMember ? MemberState.done(.expired) : MemberState.passedOver.rawValue
                pass(page, state, version(at: position, of: round), position)
            }
            guard !isContinued(page, end: end) else { return }
            page = pages[page].next
        }
    }
}
