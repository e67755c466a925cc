import Delivery

/// Halted rounds: rounds (``RoundSlot``) with so many parked members that they send pushes only to them.
extension Audiences {
    /// Whether the round has ``AudiencesConfiguration/parkedCountThatHaltsRound`` parked members or more.
    func isHalted(_ round: RoundIndex) -> Bool {
        rounds[round].members.parkedCount >= configuration.parkedCountThatHaltsRound
    }

    /// Discards the members that a halted round has read and not sent to, if they were read too long ago. Otherwise the
    /// round would keep their pages as long as it is halted, perhaps for hours, and the app's other rounds would have
    /// no room for pages.
    ///
    /// Newer pages stay. A round is often halted only for a moment, and would have to read the same pages again.
    mutating func discardOldUnsentMembersIfHalted(_ round: RoundIndex, now: Moment) {
        guard let dueMilliseconds = pageDiscardDueMilliseconds(round),
            dueMilliseconds <= now.monotonicMilliseconds
        else { return }
        discardUnsentMembers(of: round)
    }

    /// Returns when a halted running round must discard members that it has read and not sent to: when the first of
    /// them has become so old that it would have to be read again before its push (monotonic milliseconds). Nil if the
    /// round is not halted, or has no such members.
    mutating func pageDiscardDueMilliseconds(_ round: RoundIndex) -> Int64? {
        guard rounds[round].phase == .running, isHalted(round),
            let next = findNextMember(of: round, endPosition: readingEndPosition(of: round))
        else { return nil }
        return pages[next.page].readAtMilliseconds + Self.memberReadAgeMillisecondsMax + 1
    }
}
