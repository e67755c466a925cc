import Delivery

/// The member of a round that is handed out next.
struct MemberTurn {
    var page: UInt32
    var member: Int
    var position: UInt64
}

/// The order in which the members of a round's pages are handed out.
extension Audiences {
    /// The first member that was not handed out. Nil if it has not been read yet, or if its position is `end` or higher.
    mutating func nextTurn(of round: UInt32, end: UInt64) -> MemberTurn? {
        var page = rounds[round].sendPage == .max ? rounds[round].firstPage : rounds[round].sendPage
        while page != .max, pages[page].phase == .ready {
            rounds[round].sendPage = page
            if pages[page].sendIndex < pages[page].memberCount {
                let member = Int(pages[page].sendIndex)
                let position = pages[page].position(member)
                return position < end ? MemberTurn(page: page, member: member, position: position) : nil
            }
            guard !isContinued(page, end: end) else { return nil }
            page = pages[page].next
        }
        return nil
    }

    /// Ends a turn.
    mutating func advancePast(_ turn: MemberTurn, _ state: UInt8, _ version: UInt32) {
        pages[turn.page].setVersion(turn.member, version)
        pages[turn.page].setState(turn.member, state)
        pages[turn.page].sendIndex += 1
        rounds[pages[turn.page].round].sendPosition = turn.position + 1
    }
}
