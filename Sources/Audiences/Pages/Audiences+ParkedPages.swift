import Delivery
import LiveActivity

/// Reads parked members again, each on a page of its own: members that the previous owner of the partition had parked,
/// and members that were read too long ago.
extension Audiences {
    /// How long a round in the phase `restoring` waits if no more members can be parked now. Then it tries again to
    /// read the members that the partition's previous owner had parked.
    private static var parkedMembersRereadPauseMilliseconds: Int64 { 100 }

    /// Reads the members that the partition's previous owner had parked, one after the other, before anything is sent.
    mutating func readParkedMembersAgain(of round: RoundIndex, now: Moment) {
        guard rounds[round].phase == .restoring, rounds[round].pages.first == .null else { return }
        guard let position = rounds[round].checkpoints.restored.nextParkedPosition else {
            rounds[round].checkpoints.restored.parkedPositions.free()
            rounds[round].checkpoints.restored.parkedPositions = .none
            rounds[round].enter(.running)
            return
        }
        guard hasRoomToPark else {
            return wake(round, at: now.monotonicMilliseconds + Self.parkedMembersRereadPauseMilliseconds)
        }
        guard mayTakePage(for: round) else { return addToPageQueue(round) }
        let page = addPage(round, start: position)
        pages[page].needsOnlyParkedMembers = true
        rounds[round].pages.first = page
        rounds[round].pages.last = page
    }

    /// Parks the members at the page's position again, because the partition's previous owner had parked them. A member
    /// that is not on the page has left.
    mutating func restoreParkedMembers(_ page: PageIndex, of round: RoundIndex, now: Moment) {
        let position = pages[page].startPosition
        for memberIndex in 0..<Int(pages[page].memberCount) where pages[page].position(memberIndex) == position {
            if !parkedMembers.isFull, let pageMember = pages[page].member(memberIndex) {
                let location = MemberOnPage(page: .null, memberIndex: 0, position: position)
                park(pageMember, at: location, of: round, pauseMilliseconds: 0, now: now)
            }
        }
        while rounds[round].checkpoints.restored.nextParkedPosition == position {
            rounds[round].checkpoints.restored.readPositionCount += 1
        }
        rounds[round].pages.first = .null
        rounds[round].pages.last = .null
        freePageAndOfferRoom(page)
        advance(round, now: now)
    }

    /// Reads a parked member again before its push, because the member was read too long ago: by now it may have left,
    /// or may have another token.
    ///
    /// - Returns: false if there is no room for a page now.
    mutating func requestPageOfParkedMember(_ member: ParkedMemberIndex) -> Bool {
        let round = parkedMembers[member].round
        // If there is no room for a page, discard the members that the round has read ahead, which frees their pages.
        // This seldom costs time: a round stops one lap above its lowest parked member, so the discarded members might
        // have to wait for this parked member anyway.
        if !hasRoomForPage(of: round) { readAgainFromPresentPosition(of: round) }
        guard hasRoomForPage(of: round) else { return false }
        defer { offerPageRoom(Int(rounds[round].appIndex)) }
        parkedMembers[member].isUnderWay = true
        // Above 0, this count keeps the round from being freed, so the round still exists when the reply comes.
        rounds[round].members.awaitingStoreCount += 1
        let page = addPage(round, start: parkedMembers[member].position)
        pages[page].parkedMember = member
        return true
    }

    mutating func parkedMemberReceived(_ page: PageIndex, now: Moment) {
        let (round, member) = (pages[page].round, pages[page].parkedMember)
        var isStillMember = false
        for index in 0..<Int(pages[page].memberCount) where pages[page].position(index) == pages[page].startPosition {
            guard let pageMember = pages[page].member(index),
                parkedMembers[member].hasSameIdentifier(as: pageMember)
            else { continue }
            parkedMembers[member].update(from: pageMember, readAtMilliseconds: now.monotonicMilliseconds)
            isStillMember = true
        }
        freePageAndOfferRoom(page)
        rounds[round].members.awaitingStoreCount -= 1
        if isStillMember || rounds[round].phase != .running {
            parkAgain(member, pauseMilliseconds: 0, now: now)
        } else {
            finishParkedMember(member, .unregistered)
        }
        advance(round, now: now)
    }
}
