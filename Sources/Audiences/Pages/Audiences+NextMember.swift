import Delivery

/// Where a round (``RoundSlot``) finds a member: the page, the member's index on the page, and the member's position.
struct MemberCoordinates {
    var page: PageIndex
    var memberIndex: Int
    var position: UInt64
}

/// The order in which the members of a round's pages have their turns.
extension Audiences {
    /// Moves the round's current page (``RoundPages/current``) to the page of the member that has its turn next, and
    /// returns this member. Returns nil if all members below the position `endPosition` have had their turn, or if the
    /// next one has not been read yet. Even then, the current page moves past pages whose members have had their turn.
    ///
    /// In a member's turn, the shell takes the push to the member, or the core produces the member's start. Some
    /// members get neither, for example if the version (``RangeVersionSlot``) has expired.
    mutating func moveToNextMember(of round: RoundIndex, endPosition: UInt64) -> MemberCoordinates? {
        var page = rounds[round].pages.current == .null ? rounds[round].pages.first : rounds[round].pages.current
        while page != .null, pages[page].phase == .ready {
            rounds[round].pages.current = page
            if pages[page].nextMemberIndex < pages[page].memberCount {
                let memberIndex = Int(pages[page].nextMemberIndex)
                let position = pages[page].position(memberIndex)
                return position < endPosition
                    ? MemberCoordinates(page: page, memberIndex: memberIndex, position: position) : nil
            }
            guard !needsUnrequestedPage(after: page, endPosition: endPosition) else { return nil }
            page = pages[page].nextInList
        }
        return nil
    }

    /// Ends the turn of the member that ``moveToNextMember(of:endPosition:)`` has returned: notes its version and its
    /// progress, for example a push in flight, or an outcome without a push. The next member then has its turn.
    mutating func advancePast(_ next: MemberCoordinates, progress: MemberProgress, _ rangeVersion: RangeVersionIndex) {
        pages[next.page].setRangeVersion(next.memberIndex, rangeVersion)
        pages[next.page].setProgress(next.memberIndex, progress)
        pages[next.page].nextMemberIndex += 1
        rounds[pages[next.page].round].progress.sendPosition = next.position + 1
    }
}
