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
        guard let next = moveToNextMemberIfHalted(round),
            discardDueMilliseconds(of: next.page) <= now.monotonicMilliseconds
        else { return }
        discardUnsentMembers(of: round)
    }

    /// Returns the first member that a halted running round has read and not sent to, after moving the round's current
    /// page to it. Returns nil if the round is not halted, or has no such members.
    mutating func moveToNextMemberIfHalted(_ round: RoundIndex) -> MemberCoordinates? {
        guard rounds[round].phase == .running, isHalted(round) else { return nil }
        return moveToNextMember(of: round, endPosition: readingEndPosition(of: round))
    }

    /// Returns when a halted round must discard the members of a page that it has not sent to: when they have become so
    /// old that they would have to be read again before their pushes (monotonic milliseconds).
    func discardDueMilliseconds(of page: PageIndex) -> Int64 {
        pages[page].readAtMilliseconds + Self.memberReadAgeMillisecondsMax + 1
    }
}
